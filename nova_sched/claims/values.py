# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""The values that pass through a claim store: placements and their outcomes, nodes, groups, small
tables, and the claims that a message means."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from nova_sched import errors
from nova_sched.claim import Claim
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import Report

Rows = Mapping[str, Mapping[str, int]]  # amounts by resource class, by consumer
NAMELESS = ''  # the row of the unclaimed usage that is not known by consumer


def sums(rows):
    """The sums of amounts by resource class, over rows by consumer or in a list."""
    totals: dict[str, int] = {}
    for amounts in rows.values() if isinstance(rows, Mapping) else rows:
        for name, amount in amounts.items():
            totals[name] = totals.get(name, 0) + amount
    return totals


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroupPolicy:
    """A server group's hard policy: `affinity`; or `anti-affinity`, with ``most`` members on a
    node.

    ``left`` are UUIDs of claims that do not count for it: their members have left these nodes,
    and have other claims.
    """

    group_uuid: str
    kind: str
    most: int = 1
    left: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group: its owner and its definition.

    ``generation`` is the generation of its definition. ``serial`` rises with each change of its
    definition or of its members' placement. ``definition`` is text that no store parses. It is
    None where the caller did not request it. In a placement, None keeps the stored definition.
    ``deleted``: the record stays until the last claim of a member ends. Times are seconds since
    the epoch. With ``expires_s`` None, the record never expires. ``members``: the number of
    members in its definition.
    """

    uuid: str
    project_id: str | None = None
    user_id: str | None = None
    name: str | None = None
    generation: int = 1
    serial: int = 0
    definition: str | None = None
    created_s: float = 0.0
    updated_s: float = 0.0
    expires_s: float | None = None
    deleted: bool = False
    members: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """A failure domain that is exclusive to group ``top_group``: its level and its name."""

    level: str
    name: str
    top_group: str


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedDomain:
    """Keeps all claims without its ``token`` off ``nodes``: the UUIDs of all nodes of one domain.

    A token belongs to one policy in one domain, so an exclusive domain ends with the last claim in
    it. A store that has a ``locator`` reads the nodes of ``domain`` in its own transaction. Then
    ``nodes`` count only if the store does not know the domain, or the nodes' own reports of their
    domains.
    """

    token: str
    nodes: frozenset[str]
    domain: Domain | None = None


class NodeLocator(Protocol):
    """Finds the domains of a node. A store calls it in its transactions and knows no topology
    itself."""

    def told(self, report: Report) -> dict[str, str]:
        """Return the node's own report of its domains, by level."""

    def domains(
        self,
        host: str,
        nodename: str,
        facts: Mapping[str, str],
        aggregates: Sequence[HostAggregate],
    ) -> dict[str, str]:
        """Return the name of the node's domain at each level.

        ``aggregates`` are the aggregates of its host.
        """

    def host_of(self, level: str, name: str) -> str | None:
        """Return the host that has all nodes of a domain; None if they may be on any hosts."""


@dataclasses.dataclass(frozen=True, slots=True)
class GroupGuard:
    """The conditions that a placement has from groups, and what it changes of them.

    ``policies`` are the policies of the server groups of the claims' consumers. They are validated
    against the nodes of all claims of the members.

    For groups: ``planned_releases`` are those of the placement's releases that must still exist
    and be planned, or it loses. With ``serial``, a record changes together with the claims. The
    stored record must be at this serial (0: no record yet) and moves to the next one. It becomes
    ``record``. Without ``record``, it is the record of the claims' group, and only its serial
    changes. ``closed_domains`` are the exclusive domains that the placement closes. It loses if
    one of these would then contain an outsider: a claim without its token, or an instance without
    a claim. CPUs and devices that come from a claim in ``planned_releases`` are still there: their
    node needs no generation. ``limits`` are those of the project of ``record``, by resource, on
    what claims.plan_quota counts. The placement loses if it would add to a resource and exceed its
    limit.
    """

    policies: tuple[ServerGroupPolicy, ...] = ()
    planned_releases: tuple[tuple[str, str], ...] = ()
    record: GroupRecord | None = None
    serial: int | None = None
    closed_domains: tuple[ClosedDomain, ...] = ()
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Claims that are made together or not at all, and (consumer, node) claims that they end.

    Amounts are validated against the node's free capacity. CPUs, pages and devices were picked one
    by one, so they are valid only while no other claim takes any on the node. ``generations`` are
    the generations at which they were picked, for each node of a claim with a hardware allocation.
    ``replaces`` are the names (Claim.name) of the pending claims and open resizes that the
    scheduler knows of. The placement loses if it would end or replace another one, or if one that
    it repeats, with its UUID, has ended; it ends no confirmed claim. It also loses if one of its
    claims enters a node and does not have exactly the tokens of exclusive domains that the node
    carries.

    ``runs`` are the confirmed claims that the scheduler knows of its consumers: (UUID, number) ->
    node UUID. The placement loses if others are confirmed, or one of them is not, or has another
    number: its consumer may have moved since. None: they are not compared.
    """

    claims: tuple[Claim, ...]
    releases: tuple[tuple[str, str], ...] = ()
    generations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    replaces: frozenset[str] = frozenset()
    guard: GroupGuard | None = None
    runs: Mapping[tuple[str, int], str] | None = None

    @property
    def record_uuid(self):
        """UUID of the record whose serial the placement names; None without a serial.

        Raises ValueError if the record cannot be determined.
        """
        guard = self.guard
        if guard is None or guard.serial is None:
            return None
        if guard.record is not None:
            return guard.record.uuid
        groups = {claim.top_group for claim in self.claims if claim.top_group}
        if len(groups) != 1 or guard.serial == 0:
            raise ValueError('a serial without a record is for claims of one group that has one')
        return groups.pop()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeFacts:
    """All data that a store has of a node.

    The usage of the node is the sum of its claims and of its ``unclaimed`` rows. These are of the
    instances that it runs without a claim, by consumer; a row is empty where only the sum of all
    is known. The row NAMELESS has what is not known by consumer. ``foreign_instances`` is the
    number of unclaimed instances.
    """

    report: Report
    generation: int
    claims: tuple[Claim, ...] = ()
    unclaimed: Rows = dataclasses.field(default_factory=dict)
    foreign_instances: int = 0
    seen_s: float = 0.0
    fences: frozenset[str] = frozenset()  # tokens
    # the report was older than the stored one and changed nothing
    stale: bool = False
    ended: tuple[Claim, ...] = ()  # claims that the report has ended

    @property
    def foreign(self):
        """Unclaimed usage by resource class."""
        return sums(self.unclaimed)


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementOutcome:
    """The result of a placement.

    For a placement that won: ``claims`` are its claims as the store has them now. ``generations``
    gives each node's generation before and after, except for nodes whose tokens the batch changed.
    ``tokens`` has the current tokens of those nodes; their other data must be read again.

    For a placement that lost, the data are from after the batch: ``used`` and ``gone`` from its
    transaction, ``fresh`` and ``record`` from a later read. ``used`` is the usage by resource
    class that its nodes were validated against. ``gone`` are the nodes that were removed.
    ``fresh`` has the NodeFacts of its nodes, of the nodes of its planned releases and closed
    domains, of the nodes with members of its server groups, and of the nodes where a consumer is
    confirmed by a claim that ``runs`` does not name. It is empty if a plain placement lost only
    because its amounts did not fit: ``used`` says so, and reading all claims of full nodes takes
    longer than the commit. If the serial differed, ``record`` is the whole stored record, and
    ``record_gone`` is true if there is none. ``exceeded``: the quota that it would exceed; nothing
    else was wrong.
    """

    won: bool
    claims: tuple[Claim, ...] = ()
    generations: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    used: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    fresh: tuple[NodeFacts, ...] = ()
    tokens: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    record: GroupRecord | None = None
    record_gone: bool = False
    exceeded: errors.QuotaExceeded | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceFacts:
    """An operator's settings of a host's compute service."""

    host: str
    disabled: bool | None = False
    disabled_reason: str | None = None
    forced_down: bool | None = False
    seen_s: float = 0.0

    def after(self, before: 'ServiceFacts') -> 'ServiceFacts':
        """Return all settings after this change; a None in it leaves the earlier value."""
        disabled, reason = self.disabled, self.disabled_reason
        if disabled is None:
            disabled, reason = before.disabled, before.disabled_reason
        forced_down = before.forced_down if self.forced_down is None else self.forced_down
        return ServiceFacts(self.host, disabled, reason, forced_down, self.seen_s)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The differences that a store has found. A small table is None if it has not changed.

    ``seen`` has the time of each node's last heartbeat. ``odd`` are nodes that this release
    cannot read: why, by UUID.
    """

    nodes: tuple[NodeFacts, ...] = ()
    odd: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    seen: Mapping[str, float] = dataclasses.field(default_factory=dict)
    services: tuple[ServiceFacts, ...] | None = None
    aggregates: tuple[HostAggregate, ...] | None = None
    instances: Mapping[str, frozenset[str]] | None = None


class ClaimSelector(NamedTuple):
    """The claim that a message means: the one with this name (Claim.name); None: any.

    ``row``: only if it is still exactly as it was read. ``unconfirmed``: only if it is not
    confirmed.
    """

    claim_uuid: str | None = None
    row: Claim | None = None
    unconfirmed: bool = False

    def covers(self, claim):
        return (
            self.claim_uuid in (None, claim.name)
            and self.row in (None, claim)
            and not (self.unconfirmed and claim.is_confirmed)
        )


class ClaimEdit(NamedTuple):
    """The result of a change of claims: those that it ``changed``, as they were, and all claims of
    their consumers after it, as its transaction saw them, oldest first."""

    changed: list[Claim]
    claims: list[Claim]

    @property
    def ended(self) -> list[Claim]:
        remaining = {claim.key for claim in self.claims}
        return [claim for claim in self.changed if claim.key not in remaining]


ANY = ClaimSelector()

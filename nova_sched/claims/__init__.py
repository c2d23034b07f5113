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
"""Durable claims: the interface of every claim store, and the values that pass through it.

A claim store validates placements: it makes their claims durable or reports that they lost. It
never retries; the engine decides again. This package is all that the engine knows of claims and of
other data that outlives the process.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from nova_sched.claims.order import ANY, Meant
from nova_sched.objects.claim import Claim
from nova_sched.state.aggregates import Aggregate
from nova_sched.state.report import Report


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A server group's hard policy: `affinity`; or `anti-affinity`, with ``most`` members on a
    node."""

    group_uuid: str
    kind: str
    most: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A top group: its owner and its definition.

    ``generation`` is the generation of its definition. ``serial`` rises with each change of its
    definition or of its members' placement. ``definition`` is text that no store parses. It is
    None where the caller did not request it. In a placement, None keeps the stored definition.
    ``deleted``: the record stays until the last claim of a member ends. Times are seconds since
    the epoch. With ``expires_s`` None, the record never expires.
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


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """A failure domain that is exclusive to top group ``top_group``: its level and its name."""

    level: str
    name: str
    top_group: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fence:
    """Keeps all claims without its ``token`` off ``nodes``: the UUIDs of all nodes of one domain.

    A token belongs to one policy in one domain, so an exclusive domain ends with the last claim in
    it. A store that has a ``locator`` reads the nodes of ``domain`` in its own transaction. Then
    ``nodes`` count only if the store does not know the domain, or the nodes' own reports of their
    domains.
    """

    token: str
    nodes: frozenset[str]
    domain: Domain | None = None


class Locator(Protocol):
    """Returns the domains of a node. A store calls it in its transactions and knows no topology
    itself."""

    def told(self, report: Report) -> dict[str, str]:
        """Returns the node's own report of its domains, by level."""

    def domains(
        self, host: str, nodename: str, told: Mapping[str, str], aggregates: Sequence[Aggregate]
    ) -> dict[str, str]:
        """Returns the name of the node's domain at each level.

        ``aggregates`` are the aggregates of its host.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Claims that are made together or not at all, and (consumer, node) claims that they end.

    Amounts are validated against the node's free capacity. CPUs, pages and devices were picked one
    by one, so they are valid only while no other claim takes any on the node. ``generations`` are
    the generations at which they were picked, for each node of a claim with a hardware allocation.
    ``policies`` are the policies of the server groups of the claims' consumers. They are validated
    against the nodes of all claims of the members. ``replaces`` are the UUIDs of the pending
    claims that the consumers are known to have. The placement loses if there is another one.

    For top groups: ``takes`` are those of the releases that must still exist and be planned, or
    the placement loses. With ``serial``, a record changes together with the claims. The stored
    record must be at this serial (0: no record yet) and moves to the next one. It becomes
    ``record``. Without ``record``, it is the record of the claims' top group, and only its serial
    changes. ``fences`` are the exclusive domains that the placement closes. A placement loses if
    one of these would then contain an outsider: a claim without its token, or an instance without
    a claim. It also loses if one of its claims enters a node and does not have exactly the tokens
    that the node carries. CPUs and devices that come from a claim in ``takes`` are still there:
    their node needs no generation.

    ``new``: its consumers have no claim yet. It loses if one of them has a confirmed claim on a
    node other than the claimed one. A claim that is confirmed on the claimed node stays as it is
    and is not resized. ``unplaced``: the same, but it loses wherever a confirmed claim is.
    """

    claims: tuple[Claim, ...]
    releases: tuple[tuple[str, str], ...] = ()
    generations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    replaces: frozenset[str] = frozenset()
    takes: tuple[tuple[str, str], ...] = ()
    record: Record | None = None
    serial: int | None = None
    fences: tuple[Fence, ...] = ()
    new: bool = False
    unplaced: bool = False

    @property
    def concerns_groups(self):
        """Whether the placement names the policy of a server group, or a group's record or
        domains."""
        return self.serial is not None or bool(self.policies or self.fences)

    @property
    def guarded_by(self):
        """UUID of the record whose serial the placement names; None without a serial.

        Raises ValueError if the record cannot be determined.
        """
        if self.serial is None:
            return None
        if self.record is not None:
            return self.record.uuid
        groups = {claim.top_group for claim in self.claims if claim.top_group}
        if len(groups) != 1 or self.serial == 0:
            raise ValueError(
                'a serial without a record is for claims of one top group that has one'
            )
        return groups.pop()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeFacts:
    """All data that a store has of a node."""

    report: Report
    generation: int
    claims: tuple[Claim, ...] = ()
    foreign: Mapping[str, int] = dataclasses.field(default_factory=dict)
    foreign_instances: int = 0
    seen_s: float = 0.0
    fences: frozenset[str] = frozenset()  # tokens
    # the report that these are the answer to was older, and has changed nothing
    stale: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a placement.

    For a placement that won: ``claims`` are its claims as the store has them now. ``generations``
    gives each node's generation before and after, except for nodes whose tokens the batch changed.
    ``fences`` has the current tokens of those nodes; their other data must be read again.

    For a placement that lost, everything is as after the whole batch. ``used`` is the usage by
    resource class that its nodes were validated against. ``gone`` are the nodes that were removed.
    ``fresh`` has the NodeFacts of its nodes, of the nodes of its takes and fences, of the nodes
    with members of its server groups, and of the nodes where a consumer of a ``new`` placement is
    confirmed. If the serial differed, ``record`` is the whole stored record, and ``record_gone``
    is true if there is none.
    """

    won: bool
    claims: tuple[Claim, ...] = ()
    generations: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    used: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    fresh: tuple[NodeFacts, ...] = ()
    fences: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    record: Record | None = None
    record_gone: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceFacts:
    """An operator's settings of a host's compute service."""

    host: str
    disabled: bool | None = False
    disabled_reason: str | None = None
    forced_down: bool | None = False
    seen_s: float = 0.0

    def after(self, before: 'ServiceFacts | None') -> 'ServiceFacts':
        """Returns all settings after this change; a None in it leaves the earlier value."""
        before = before or ServiceFacts(self.host)
        disabled, reason = self.disabled, self.disabled_reason
        if disabled is None:
            disabled, reason = before.disabled, before.disabled_reason
        forced_down = before.forced_down if self.forced_down is None else self.forced_down
        return ServiceFacts(self.host, disabled, reason, forced_down, self.seen_s)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The changes in a store: None where nothing changed, or the whole list."""

    nodes: tuple[NodeFacts, ...] = ()
    gone: tuple[str, ...] = ()
    seen: Mapping[str, float] = dataclasses.field(default_factory=dict)
    services: tuple[ServiceFacts, ...] | None = None
    aggregates: tuple[Aggregate, ...] | None = None
    instances: Mapping[str, frozenset[str]] | None = None


class ClaimStore(abc.ABC):
    """The claim store. Each method is one transaction.

    Times are seconds since the epoch by the store's clock, which all processes that share the
    store have in common. It is the clock of the database, or the function ``clock``, if that is
    set (for simulated time).

    Every method raises StoreUnavailable when the store does not answer, and StoreBusy when another
    transaction conflicts. Then the call may be repeated unchanged: work that was done already is
    not done twice. StoreFull is final: nothing was done.

    With a ``locator``, each node carries the tokens of all exclusive domains that it is in. This
    holds from the transaction that closes the domain, or that brings the node into it by a report
    or an aggregate.
    """

    clock: Callable[[], float] | None = None
    locator: Locator | None = None

    @abc.abstractmethod
    def now_s(self) -> float:
        """The time by the store's clock."""

    @abc.abstractmethod
    def commit(self, placements: Sequence[Placement]) -> list[Outcome]:
        """Make the placements durable, each validated after those before it.

        A placement whose claims were made already (by their UUIDs) wins. A consumer has at most
        one claim that is not confirmed: an older one ends. On a node where the consumer is
        confirmed already, its claim is resized. A release there ends only the resize.
        """

    @abc.abstractmethod
    def report(self, reports: Sequence[Report], now_s: float | None = None) -> list[NodeFacts]:
        """Apply nodes' reports: settle their claims and compute the unclaimed usage.

        ``now_s`` replaces the store's clock. A report that is older than the last applied one
        changes nothing, and its NodeFacts are ``stale``: see state.report.ReportOrder.
        """

    @abc.abstractmethod
    def confirm(self, consumers: Sequence[str], node_uuids: Sequence[str]) -> list[Claim]:
        """Confirm the claims of these instances on these nodes.

        Returns the claims that were not confirmed before, as they were.
        """

    @abc.abstractmethod
    def finish(self, consumer: str, node_uuids: Sequence[str], meant: Meant = ANY) -> list[Claim]:
        """Settle the consumer's move to these nodes or resize on them: it stays there.

        The claim on the source of a move ends. Returns the claims that this changed, as they were
        before. Nothing changes unless the claims on the nodes are ``meant``.
        """

    @abc.abstractmethod
    def revert(self, consumer: str, meant: Meant = ANY) -> list[Claim]:
        """Take back the consumer's move or resize, if it is ``meant``.

        Returns the claims that this changed, as they were.
        """

    @abc.abstractmethod
    def release(
        self, keys: Sequence[tuple[str, str]], absent: bool = False, meant: Meant = ANY
    ) -> list[Claim]:
        """End claims by (consumer, node), as far as they are ``meant``. Returns the ended claims.

        ``absent``: the nodes no longer list the consumers. Then claims stay that are not
        confirmed, or that an open move keeps.
        """

    @abc.abstractmethod
    def expire(self, now_s: float | None = None) -> list[Claim]:
        """End claims that were not confirmed in time, a limited number per call.

        Returns the ended claims; none when no overdue claim is left. ``now_s`` replaces the
        store's clock.
        """

    def forget_groups(self) -> int:
        """Remove groups without claims: server groups, and records that are deleted.

        Returns the number of groups. No other method depends on it.
        """
        return 0

    @abc.abstractmethod
    def end_domains(self) -> list[str]:
        """End the exclusive domains that no claim is in.

        Returns the UUIDs of the nodes that were in them. Until then, the nodes of a domain are
        closed although its last claim has ended.
        """

    # Top groups.

    @abc.abstractmethod
    def top_group(self, uuid: str, whole: bool = True) -> Record | None:
        """Returns the record of a top group, deleted or not; without its definition unless
        ``whole``."""

    @abc.abstractmethod
    def top_groups(
        self,
        project_id: str | None = None,
        name: str | None = None,
        marker: str | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[Record]:
        """Returns records without their definitions, oldest first.

        The arguments select the records of a project, of a name, after the record with UUID
        ``marker``, and at most ``limit``. With ``deleted``, deleted records are included. Raises
        GroupNotFound if there is no record ``marker``.
        """

    @abc.abstractmethod
    def group_claims(self, uuid: str) -> list[Claim]:
        """Returns the claims of a top group's members, oldest first."""

    @abc.abstractmethod
    def renew(self, uuid: str, expires_s: float | None) -> list[Claim]:
        """Set the expiry of a top group's planned claims and of its record (None: never).

        Returns these claims as they are now. The record keeps its serial.
        """

    @abc.abstractmethod
    def fence(self, token: str, nodes: Iterable[str], domain: Domain | None = None) -> list[str]:
        """Add the token to nodes that have joined its domain, whichever claims are on them.

        With ``domain``, the nodes are found as for a Fence. A node that has left the domain loses
        the token, unless a claim on it has the token. Returns the UUIDs of nodes whose tokens
        changed. Nothing is done if no claim has the token.
        """

    @abc.abstractmethod
    def domains(self) -> dict[str, Domain]:
        """Returns the known exclusive domains, by token."""

    @abc.abstractmethod
    def claims(self, consumer_uuid: str | None = None) -> list[Claim]:
        """Returns all claims, or those of one consumer, oldest first."""

    @abc.abstractmethod
    def remove_node(self, uuid: str, since_s: float = math.inf) -> bool:
        """Remove a node and its claims, unless the node was made after ``since_s``.

        Returns whether the node was removed.
        """

    @abc.abstractmethod
    def set_service(self, service: ServiceFacts) -> ServiceFacts:
        """Store an operator's settings of a host; None in a field keeps the stored value.

        Returns all settings as stored now.
        """

    @abc.abstractmethod
    def set_aggregate(self, aggregate_id: int, aggregate: Aggregate | None) -> list[str]:
        """Store an aggregate, or remove it.

        Returns the UUIDs of nodes whose tokens changed because they joined or left exclusive
        domains.
        """

    @abc.abstractmethod
    def set_instances(
        self, host: str, instances: frozenset[str], since_s: float = math.inf
    ) -> bool:
        """Store the list of instances that a host reported, unless the stored list is from after
        ``since_s``.

        Returns whether this list is the stored one now.
        """

    @abc.abstractmethod
    def digest(self) -> tuple[int, int]:
        """Returns the number of nodes and the sum of their generations; a write changes them.

        Cheap. Like ``heads``, it may be called from another thread.
        """

    @abc.abstractmethod
    def heads(self) -> dict[str, tuple[int, float]]:
        """Returns each node's generation and the time of its last sign of life."""

    @abc.abstractmethod
    def look(self, nodes: Sequence[str]) -> Changes:
        """Returns the current data of these nodes, or that they are gone.

        Each small table that changed since the last call is included.
        """

    def changes(self, generations: Mapping[str, int]) -> Changes:
        """Returns all differences from nodes of these generations, and from the last call.

        The first call returns everything.
        """
        heads = self.heads()
        stale = [
            uuid for uuid, (generation, _) in heads.items() if generations.get(uuid) != generation
        ]
        missing = [uuid for uuid in generations if uuid not in heads]
        seen = {uuid: seen_s for uuid, (_, seen_s) in heads.items()}
        return dataclasses.replace(self.look(stale + missing), seen=seen)

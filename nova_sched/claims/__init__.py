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
"""Claims that last: the contract of every store, and what passes through it.

A store judges: it makes claims durable or says that they were lost, and never retries. The engine
decides again. Everything that the engine knows of claims and of what outlives the process is here.
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
    """A top group: who has it, and what it is.

    ``generation`` is that of its definition; ``serial`` rises with each change of its definition
    or of where its members are. ``definition`` is text that no store reads; None where nobody
    asked for it, and in a placement for the one that is kept already. ``deleted``: it stays until
    the last claim of a member ends. Times are seconds since the epoch; ``expires_s`` None never
    expires.
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
    """A failure domain that top group ``top_group`` has for itself: the one of that name at that
    level."""

    level: str
    name: str
    top_group: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fence:
    """Keeps all claims without its ``token`` off ``nodes``: the UUIDs of all nodes of one domain.

    A token is of one policy in one domain, so that the fence of a domain ends when the last claim
    in it does. A store that has a ``locator`` reads the nodes of ``domain`` in its own
    transaction: ``nodes`` count only where it does not know the domain, or what a node says of its
    own.
    """

    token: str
    nodes: frozenset[str]
    domain: Domain | None = None


class Locator(Protocol):
    """Which domains a node is in. A store asks it in its transactions, and knows no topology
    itself."""

    def told(self, report: Report) -> dict[str, str]:
        """What the node says of its own domains, by level."""

    def domains(
        self, host: str, nodename: str, told: Mapping[str, str], aggregates: Sequence[Aggregate]
    ) -> dict[str, str]:
        """The name of the node's domain at each level; ``aggregates`` are those of its host."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Claims that are made together or not at all, and (consumer, node) claims that end with it.

    Amounts are judged by what the node has left. CPUs, pages and devices were picked one by one,
    so they are good only while nobody else takes any there: ``generations`` are those at which
    they were picked, for each node of a claim with parts. ``policies`` are those of the groups
    that the claims' consumers are members of; they are judged by where all members have claims.
    ``replaces`` are the UUIDs of the pending claims that its consumers had, as far as that is
    known: the placement is lost if there is another one.

    Of top groups: ``takes`` are those of the releases that must still be there, and planned: it is
    lost without. With ``serial``, a record changes together with the claims: the stored one must
    be at this serial (0: there is none yet), and is at the next one then. It becomes ``record``;
    without, it stays as it is but for its serial, and is that of the claims' top group. ``fences``
    are put up. A placement is lost if that would leave an outsider behind one of them, a claim or
    an instance that nobody claimed; and so is one with a claim that enters a node without being
    behind the very fences that the node carries. CPUs and devices that come from a claim that is
    taken are still there: their node needs no generation.

    ``new``: its consumers are nowhere yet. It is lost if one of them has a confirmed claim on
    another node than it is claimed on here. Where it is confirmed on that very node it stays as it
    is, which is no resize. ``unplaced``: the same, and it is lost wherever a confirmed claim is.
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
    def guarded_by(self):
        """UUID of the record whose serial it names; None without. Raises ValueError if nothing
        says which."""
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
    """All that a store knows of a node."""

    report: Report
    generation: int
    claims: tuple[Claim, ...] = ()
    foreign: Mapping[str, int] = dataclasses.field(default_factory=dict)
    foreign_instances: int = 0
    seen_s: float = 0.0
    fences: frozenset[str] = frozenset()  # tokens
    stale: bool = (
        False  # the report that these are the answer to was older, and has changed nothing
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a placement.

    ``claims`` are those of a placement that was won, as the store keeps them now. ``generations``
    gives each node's generation before and after; but not of nodes whose fences its batch has
    changed: ``fences`` has what tokens these carry now, and the rest about them is to be read.

    For a placement that was lost, all of it after the whole batch: ``used`` is the use by resource
    class that its nodes were judged by, ``gone`` are those that left, and ``fresh`` is all about
    them, about its takes' and fences' nodes, about the nodes where other members of a server group
    are, and about those where a consumer that was to be new is confirmed. If the serial was
    another one, ``record`` is the whole record as it is stored, and ``record_gone`` says that
    there is none.
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
    """An operator's word on a host's compute service."""

    host: str
    disabled: bool | None = False
    disabled_reason: str | None = None
    forced_down: bool | None = False
    seen_s: float = 0.0

    def after(self, before: 'ServiceFacts | None') -> 'ServiceFacts':
        """All that stands after this word, whose None means as it was."""
        before = before or ServiceFacts(self.host)
        disabled, reason = self.disabled, self.disabled_reason
        if disabled is None:
            disabled, reason = before.disabled, before.disabled_reason
        forced_down = before.forced_down if self.forced_down is None else self.forced_down
        return ServiceFacts(self.host, disabled, reason, forced_down, self.seen_s)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What is new in a store: None where nothing changed, or the whole list."""

    nodes: tuple[NodeFacts, ...] = ()
    gone: tuple[str, ...] = ()
    seen: Mapping[str, float] = dataclasses.field(default_factory=dict)
    services: tuple[ServiceFacts, ...] | None = None
    aggregates: tuple[Aggregate, ...] | None = None
    instances: Mapping[str, frozenset[str]] | None = None


class ClaimStore(abc.ABC):
    """Where claims live. Each method is one transaction.

    Times are seconds since the epoch by the store's own clock, which is the same for all processes
    that share the store. It is the database's, or the function ``clock``, if that is set: where
    time is simulated.

    Every method raises StoreUnavailable when the store does not answer, and StoreBusy when another
    one was in the way; then the call may be made again as it is: what was done already is not done
    twice. StoreFull is final: nothing was done.

    With a ``locator``, each node carries the tokens of all exclusive domains that it is in: from
    the transaction on that closes the domain, or that brings the node there by a report or an
    aggregate.
    """

    clock: Callable[[], float] | None = None
    locator: Locator | None = None

    @abc.abstractmethod
    def now_s(self) -> float:
        """The time by the store's clock."""

    @abc.abstractmethod
    def commit(self, placements: Sequence[Placement]) -> list[Outcome]:
        """Make the placements durable, each judged after those before it.

        A claim that was made already (by its UUID) is won. A consumer has at most one claim that
        is not confirmed: an older one ends. On the node where it is confirmed already, it is
        resized. What ends there ends the resize alone.
        """

    @abc.abstractmethod
    def report(self, reports: Sequence[Report], now_s: float | None = None) -> list[NodeFacts]:
        """Take nodes' reports: settle their claims and work out the unclaimed usage.

        ``now_s`` stands in for the store's clock. A report that is older than the one that was
        taken last changes nothing, and its NodeFacts are ``stale``: see state.report.ReportOrder.
        """

    @abc.abstractmethod
    def confirm(self, consumers: Sequence[str], node_uuids: Sequence[str]) -> list[Claim]:
        """The nodes have these instances. Returns the claims that were not confirmed before, as
        they were."""

    @abc.abstractmethod
    def finish(self, consumer: str, node_uuids: Sequence[str], meant: Meant = ANY) -> list[Claim]:
        """The consumer stays on these nodes: its move to them or resize on them is settled.

        The source of a move ends. Returns the claims that this changed, as they were before.
        Nothing changes unless the claims on the nodes are ``meant``.
        """

    @abc.abstractmethod
    def revert(self, consumer: str, meant: Meant = ANY) -> list[Claim]:
        """The consumer's move or resize is taken back, if that is ``meant``.

        Returns the claims that this changed, as they were.
        """

    @abc.abstractmethod
    def release(
        self, keys: Sequence[tuple[str, str]], absent: bool = False, meant: Meant = ANY
    ) -> list[Claim]:
        """End claims by (consumer, node), as far as they are ``meant``. Returns those that there
        were.

        ``absent``: their nodes do not list the consumers any more, so that those stay that are not
        confirmed, or are kept by an open move.
        """

    @abc.abstractmethod
    def expire(self, now_s: float | None = None) -> list[Claim]:
        """End claims that nobody confirmed in time: many at a time, and none when all have ended.

        ``now_s`` stands in for the store's clock.
        """

    def forget_groups(self) -> int:
        """Forget groups in which nobody has a claim: server groups, and records that are deleted.

        Returns how many. Nothing depends on it.
        """
        return 0

    # Top groups.

    @abc.abstractmethod
    def top_group(self, uuid: str, whole: bool = True) -> Record | None:
        """The record of a top group, deleted or not; without its definition unless ``whole``."""

    @abc.abstractmethod
    def top_groups(
        self,
        project_id: str | None = None,
        name: str | None = None,
        marker: str | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[Record]:
        """Records without their definitions, oldest first: of a project, of a name, after the one
        of UUID ``marker``, at most ``limit``; with ``deleted`` also those.

        Raises GroupNotFound if there is no record ``marker``.
        """

    @abc.abstractmethod
    def group_claims(self, uuid: str) -> list[Claim]:
        """The claims of a top group's members, oldest first."""

    @abc.abstractmethod
    def renew(self, uuid: str, expires_s: float | None) -> list[Claim]:
        """Let a top group's planned claims, and its record, expire at another time (None: never).

        Returns these claims as they are now. The record keeps its serial.
        """

    @abc.abstractmethod
    def fence(self, token: str, nodes: Iterable[str], domain: Domain | None = None) -> list[str]:
        """Let these nodes carry the token too, whoever is there: they have come to its domain.

        With ``domain``, its nodes are found as those of a Fence, and a node that has left it,
        without a claim that has the token, loses it. Returns the UUIDs of nodes whose tokens have
        changed. Nothing is done if no claim has the token.
        """

    @abc.abstractmethod
    def domains(self) -> dict[str, Domain]:
        """The exclusive domains that are known, by token."""

    @abc.abstractmethod
    def claims(self, consumer_uuid: str | None = None) -> list[Claim]:
        """All claims, or those of one consumer, oldest first."""

    @abc.abstractmethod
    def remove_node(self, uuid: str, since_s: float = math.inf) -> bool:
        """Forget a node and its claims; not one that was made after ``since_s``. Returns whether
        it did."""

    @abc.abstractmethod
    def set_service(self, service: ServiceFacts) -> ServiceFacts:
        """Keep an operator's word on a host, None: as it was; returns all that stands then."""

    @abc.abstractmethod
    def set_aggregate(self, aggregate_id: int, aggregate: Aggregate | None) -> list[str]:
        """Keep an aggregate, or forget it.

        Returns the UUIDs of nodes whose tokens have changed, as it brings them to exclusive
        domains, or away.
        """

    @abc.abstractmethod
    def set_instances(
        self, host: str, instances: frozenset[str], since_s: float = math.inf
    ) -> bool:
        """Keep the list of instances that a host's messages tell; not if a list from after
        ``since_s`` is kept.

        Returns whether the list is the one that is kept now.
        """

    @abc.abstractmethod
    def digest(self) -> tuple[int, int]:
        """How many nodes there are, and the sum of their generations: different if somebody wrote.

        Cheap, and may be asked from another thread, as ``heads``.
        """

    @abc.abstractmethod
    def heads(self) -> dict[str, tuple[int, float]]:
        """Each node's generation and last sign of life."""

    @abc.abstractmethod
    def look(self, nodes: Sequence[str]) -> Changes:
        """These nodes as they are now, or gone; and each small table that changed since the last
        look."""

    def changes(self, generations: Mapping[str, int]) -> Changes:
        """All that differs from nodes of these generations, and from the last look. At first:
        everything."""
        heads = self.heads()
        stale = [
            uuid for uuid, (generation, _) in heads.items() if generations.get(uuid) != generation
        ]
        missing = [uuid for uuid in generations if uuid not in heads]
        seen = {uuid: seen_s for uuid, (_, seen_s) in heads.items()}
        return dataclasses.replace(self.look(stale + missing), seen=seen)

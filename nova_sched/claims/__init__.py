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
"""Durable claims: the contracts of every claim store.

A claim store validates placements: it makes their claims durable or reports that they lost. The
store never decides again; the engine does. This package is all that the engine knows of claims and
of other data that outlives the process. A user of the store names the smallest contract that it
needs. ``values`` has what passes through them.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from nova_sched.claim import Claim
from nova_sched.claims.changed_claims import ClaimChanges
from nova_sched.claims.values import (
    ANY,
    Changes,
    ClaimEdit,
    ClaimSelector,
    ClosedDomain,
    Domain,
    GroupGuard,
    GroupRecord,
    NodeFacts,
    NodeLocator,
    Placement,
    PlacementOutcome,
    ServerGroupPolicy,
    ServiceFacts,
)
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import Report

__all__ = [
    'ANY',
    'ChangeFeed',
    'Changes',
    'ClaimChanges',
    'ClaimEdit',
    'ClaimSelector',
    'ClaimStore',
    'ClaimTransactions',
    'ClosedDomain',
    'Domain',
    'GroupGuard',
    'GroupRecord',
    'GroupRecords',
    'NodeFacts',
    'NodeLocator',
    'NodeReports',
    'Placement',
    'PlacementOutcome',
    'PlanQuotas',
    'ServerGroupPolicy',
    'ServiceFacts',
    'SmallTables',
]


class StoreTransactions(abc.ABC):
    """What all contracts have in common: each change is made in one transaction.

    A method may read before or after it in another one.

    Times are seconds since the epoch by the store's clock, which all processes that share the
    store have in common. It is the clock of the database, or the function ``clock``, if that is
    set (for simulated time).

    ``on_changes``, if it is set, is called after each transaction that changed claims. It does not
    wait, and raises nothing. A transaction whose outcome the caller never learnt calls nothing,
    although it may have been made.

    Every method raises StoreUnavailable when the store does not answer, and StoreBusy when another
    transaction conflicts. Then the call may be repeated unchanged: work that was done already is
    not done twice. StoreFull is final: nothing was done.
    """

    clock: Callable[[], float] | None = None
    on_changes: Callable[[ClaimChanges], None] | None = None

    @abc.abstractmethod
    def now_s(self) -> float:
        """The time by the store's clock."""

    def _tell(self, cause, before, after, now_s, hosts):
        """Call ``on_changes``, if any claims changed; see ClaimChanges."""
        if self.on_changes is not None and (before or after):
            self.on_changes(ClaimChanges(cause, before, after, now_s, hosts))

    def _tell_changes(self, cause, consumer_claims, now_s, usages):
        """Tell of the changes in a ConsumerClaims that is final. ``usages`` are those of its
        nodes."""
        if self.on_changes is not None:
            hosts = {uuid: usage.host for uuid, usage in usages.items()}
            self._tell(cause, consumer_claims.removed, consumer_claims.added, now_s, hosts)


class ClaimTransactions(StoreTransactions):
    """Claims: made together or not at all, and changed one by one.

    A placement wins only if its nodes have the capacity, no other claim has taken its hardware,
    and all of its conditions hold in the transaction that makes its claims. A claim changes only
    as its life cycle allows, and a late message changes only the claims that it means. Each method
    returns what it changed, so that the caller can follow.
    """

    @abc.abstractmethod
    def commit(self, placements: Sequence[Placement]) -> list[PlacementOutcome]:
        """Make the placements durable, each validated after those before it.

        A placement whose claims were made already (by their UUIDs) wins. A consumer has at most
        one claim that is not confirmed: an older one ends. On a node where the consumer is
        confirmed already, its claim is resized. A release there ends only the resize.
        """

    @abc.abstractmethod
    def confirm(self, consumers: Sequence[str], node_uuids: Sequence[str]) -> list[Claim]:
        """Confirm the claims of these instances on these nodes.

        Returns the claims that were not confirmed before, as they were.
        """

    @abc.abstractmethod
    def allocated(self, claims: Sequence[Claim]) -> list[Claim]:
        """Confirm these claims, by their UUIDs: another service has allocated the same. Who read
        their nodes before has not seen that.

        Returns those that are there, as they were.
        """

    @abc.abstractmethod
    def finish(
        self, consumer: str, node_uuids: Sequence[str], selector: ClaimSelector = ANY
    ) -> ClaimEdit:
        """Settle the consumer's move to these nodes, or its resize on them: it stays there.

        The claim on the source of a move ends. Nothing changes unless ``selector`` covers a claim
        on the nodes.
        """

    @abc.abstractmethod
    def revert(self, consumer: str, selector: ClaimSelector = ANY) -> ClaimEdit:
        """Take back the consumer's move or resize that ``selector`` covers."""

    @abc.abstractmethod
    def release(self, keys: Sequence[tuple[str, str]], selector: ClaimSelector = ANY) -> ClaimEdit:
        """End the claims of these (consumer, node) that ``selector`` covers."""

    @abc.abstractmethod
    def renew_claim(self, claim: Claim, lifetime_s: float | None) -> bool:
        """Let a claim expire ``lifetime_s`` seconds from now; None: never.

        Returns whether it was renewed. Only a pending claim with this name, or an open resize, is
        renewed, and only if it has not ended.
        """

    def expire(self, now_s: float | None = None, unwatched_s: float | None = None) -> list[Claim]:
        """Do ``expire_some`` until nothing is left. Returns the ended claims."""
        ended, is_more = self.expire_some(now_s, unwatched_s)
        while is_more:
            more, is_more = self.expire_some(now_s, unwatched_s)
            ended += more
        return ended

    @abc.abstractmethod
    def expire_some(
        self, now_s: float | None = None, unwatched_s: float | None = None
    ) -> tuple[list[Claim], bool]:
        """End claims that were not confirmed in time, a limited number per call.

        Of a confirmed claim it is noted that its time is over: its resize in place was not settled
        in time, or it is no longer ``awaited``. Returns the ended claims, and whether there may be
        more to do. ``now_s`` replaces the store's clock.

        With ``unwatched_s``, only time counts that schedulers have watched. They have not if the
        store's clock differs from that of the last such call by more than this: no scheduler ran,
        or the clock jumped, as at a failover. Each claim of before gets the time again that it had
        when it was last changed, as soon as its time is up. A smaller step back is none: the
        clocks of a database's servers differ. A caller that stood still in between does not
        matter: one transaction reads the clock, and ends what is overdue by it.
        """

    @abc.abstractmethod
    def claims(self, consumer_uuid: str | None = None) -> list[Claim]:
        """Return all claims, or those of one consumer, oldest first."""


class NodeReports(StoreTransactions):
    """Nodes, as they report themselves.

    A report replaces the last one of its node, settles the claims on the node, and determines the
    unclaimed usage. A report that is older than the last one changes nothing, and its silence ends
    no claim that has changed since its sender looked (see claims.reconcile). With a ``locator``,
    each node carries the tokens of all exclusive domains that it is in, from the transaction that
    closes the domain, or that brings the node into it by a report or an aggregate.

    If a report or a removal ends the claim on the target of a move that keeps its source, the
    consumer may be on its way back. The silence of the source does not count then for
    ``lifetime_s`` seconds, or until the source lists the consumer.
    """

    locator: NodeLocator | None = None
    lifetime_s: Callable[[], float] = staticmethod(lambda: 3600.0)

    @abc.abstractmethod
    def report(self, reports: Sequence[Report], now_s: float | None = None) -> list[NodeFacts]:
        """Apply nodes' reports: settle their claims and compute the unclaimed usage.

        ``now_s`` replaces the store's clock. A report that is older than the last applied one
        changes nothing, and its NodeFacts are ``stale``: see state.report.ReportOrder. So are the
        NodeFacts of a report of an unknown node that may be from before the known node of its host
        and name was made; they are those of that node.
        """

    @abc.abstractmethod
    def remove_node(self, uuid: str, generation: int | None = None) -> bool:
        """Remove a node and its claims, if the caller has seen it at this generation; without
        one, a node without confirmed claims.

        A node that has reported since is alive, and stays; so does one on which a claim was
        written since. Returns whether the node was removed.
        """


class SmallTables(StoreTransactions):
    """Small tables that the operator and the hosts write: services, aggregates, lists of
    instances.

    Every scheduler receives the same messages and stores the same rows. The first one makes the
    change, and the others find it made.
    """

    @abc.abstractmethod
    def set_service(
        self, service: ServiceFacts, may: Callable[[ServiceFacts], bool] = lambda stored: True
    ) -> ServiceFacts:
        """Store an operator's settings of a host; None in a field keeps the stored value.

        Nothing changes if ``may`` returns False for the stored settings; no other scheduler
        changes them in between. Returns all settings as stored now.
        """

    @abc.abstractmethod
    def set_aggregate(self, aggregate_id: int, aggregate: HostAggregate | None) -> list[str]:
        """Store an aggregate, or remove it.

        Returns the UUIDs of nodes whose tokens changed because they joined or left exclusive
        domains.
        """

    @abc.abstractmethod
    def set_instances(self, host: str, instances: frozenset[str]) -> None:
        """Store the list of instances that a host's messages gave."""


class GroupRecords(StoreTransactions):
    """Groups: their records, the claims of their members, and their exclusive domains.

    A record changes only with a placement that names its serial (see GroupGuard), so two changes
    of one group never both happen. No outsider enters an exclusive domain from the time it is
    closed until it ends, and it ends only without claims.
    """

    @abc.abstractmethod
    def top_group(self, uuid: str, whole: bool = True) -> GroupRecord | None:
        """Return the record of a group, deleted or not; without its definition unless
        ``whole``."""

    @abc.abstractmethod
    def top_groups(
        self,
        project_id: str | None = None,
        name: str | None = None,
        marker: str | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[GroupRecord]:
        """Return records without their definitions, oldest first.

        The arguments select the records of a project, of a name, after the record with UUID
        ``marker``, and at most ``limit``. With ``deleted``, deleted records are included. Raises
        GroupNotFound if there is no record ``marker``, or it is of another project.
        """

    @abc.abstractmethod
    def group_claims(self, uuid: str) -> list[Claim]:
        """Return the claims of a group's members, oldest first."""

    @abc.abstractmethod
    def renew(self, uuid: str, expires_s: float | None) -> list[Claim]:
        """Set the expiry of a group's planned claims and of its record (None: never).

        Returns these claims as they are now. The record keeps its serial.
        """

    @abc.abstractmethod
    def spread_domain(
        self, token: str, nodes: Iterable[str], domain: Domain | None = None
    ) -> list[str]:
        """Add the token to nodes that have joined its domain, whichever claims are on them.

        With ``domain``, the nodes are found as for a ClosedDomain. A node that has left the
        domain loses the token, unless a claim on it has the token. Returns the UUIDs of nodes
        whose tokens changed. Nothing is done if no claim has the token.
        """

    @abc.abstractmethod
    def domains(self) -> dict[str, Domain]:
        """Return the known exclusive domains, by token."""

    @abc.abstractmethod
    def end_domains(self) -> list[str]:
        """End the exclusive domains that no claim is in.

        Returns the UUIDs of the nodes that were in them. Until then, the nodes of a domain are
        closed although its last claim has ended.
        """

    @abc.abstractmethod
    def forget_groups(self) -> int:
        """Remove groups without claims: server groups, and records that are deleted. Returns the
        number of groups."""


class PlanQuotas(StoreTransactions):
    """What the plans of a project use, and the limits that were set for it.

    Both may be read from any thread. A placement with ``limits`` (see GroupGuard) is validated
    against the usage in its own transaction.
    """

    @abc.abstractmethod
    def plan_usage(self, project_id: str) -> Mapping[str, int]:
        """Return the usage by resource, as claims.plan_quota counts; without zeros."""

    @abc.abstractmethod
    def limits(self, project_id: str) -> Mapping[str, int]:
        """Return the limits that were set for a project, by resource; -1 is unlimited."""


class ChangeFeed(StoreTransactions):
    """What has changed in the store since a scheduler last read it.

    Each write raises the generation of the nodes that it changes, and no generation is used twice.
    So a scheduler that compares generations finds every change, also one that it has seen only in
    part.
    """

    @abc.abstractmethod
    def digest(self) -> tuple[int, int]:
        """Return the number of nodes and the sum of their generations; a write changes them.

        The method is cheap. Like ``heads``, it may be called from another thread.
        """

    @abc.abstractmethod
    def heads(self) -> dict[str, tuple[int, float]]:
        """Return each node's generation and the time of its last heartbeat."""

    @abc.abstractmethod
    def read_nodes(self, nodes: Sequence[str]) -> Changes:
        """Return the current data of these nodes, or that they are gone.

        Each small table that changed since the last call is included.
        """

    def changes(self, generations: Mapping[str, int]) -> Changes:
        """Return all differences from nodes of these generations, and from the last call.

        The first call returns everything.
        """
        heads = self.heads()
        stale = [
            uuid for uuid, (generation, _) in heads.items() if generations.get(uuid) != generation
        ]
        missing = [uuid for uuid in generations if uuid not in heads]
        seen = {uuid: seen_s for uuid, (_, seen_s) in heads.items()}
        return dataclasses.replace(self.read_nodes(stale + missing), seen=seen)


class ClaimStore(
    ClaimTransactions, NodeReports, SmallTables, GroupRecords, PlanQuotas, ChangeFeed
):
    """A whole claim store: all contracts, on the same data."""

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
"""Validates the guards of placements: policies of server groups, records of groups, exclusive
domains, and quotas of plans. Pure. A batch without guards does without it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import ServerGroupPolicy, plan_quota
from nova_sched.claims.exclusive_domains import Change, put
from nova_sched.state.request import AFFINITY


class ServerGroupMembers:
    """The members of a server group: the nodes of each member's claims, node UUID -> host."""

    def __init__(self, policy: ServerGroupPolicy, members: Iterable[Sequence[str]] = ()):
        """``members``: (consumer, node UUID, host) of each claim."""
        self.policy = policy
        self._nodes: dict[str, dict[str, str]] = {}
        for consumer, node, host in members:
            self._nodes.setdefault(consumer, {})[node] = host

    @property
    def nodes(self):
        """UUIDs of all nodes with members."""
        return {node for hosts in self._nodes.values() for node in hosts}

    def holds(self, consumer, node):
        return node in self._nodes.get(consumer, ())

    def after(self, moves):
        """The members after moves: (consumer, node UUID, host); the host is None for a claim that
        ends."""
        members = ServerGroupMembers(self.policy)
        members._nodes = dict(self._nodes)
        for consumer, node, host in moves:
            hosts = {
                uuid: at for uuid, at in members._nodes.get(consumer, {}).items() if uuid != node
            }
            members._nodes[consumer] = hosts if host is None else hosts | {node: host}
            if not members._nodes[consumer]:
                del members._nodes[consumer]
        return members

    def admits(self, consumer, node, host):
        """Whether the policy is satisfied if the consumer is on this host.

        In an affinity group, the host of each other member must be certain. It is not certain for
        a member that moves between two hosts.
        """
        others = [nodes for other, nodes in self._nodes.items() if other != consumer]
        if self.policy.kind == AFFINITY:
            return all(set(nodes.values()) == {host} for nodes in others)
        return sum(node in nodes for nodes in others) < self.policy.most


class GuardChange(NamedTuple):
    """What a placement changes of a Guards: the ``members`` by group UUID, the exclusive
    ``domains``, and the usage that it adds to the plans of its project."""

    members: Mapping[str, ServerGroupMembers]
    domains: Change
    planned: Mapping[str, int]


class Guards:
    """What the guards of a batch are validated by; each placement that wins updates it.

    ``members`` (group UUID to ServerGroupMembers) and ``records`` (UUID to GroupRecord, None where
    there is none) cover every policy and record that the placements name. ``exclusive_domains``
    (ExclusiveDomains) cover the domains that they close or end. ``plans`` has the usage of their
    plans by resource, for each project of a placement with ``limits``.
    """

    def __init__(self, members, records, exclusive_domains, plans):
        self.members, self.records = members, records
        self.exclusive_domains = exclusive_domains
        self._plans = plans
        self._exceeded = {}  # id of a placement -> the QuotaExceeded by which it lost

    def was_done(self, placement, changes):
        """Whether there is nothing left to do: its claims exist, or it changed only a record."""
        uuid = placement.record_uuid
        if uuid is None or changes:
            return not changes
        stored = self.records[uuid]
        if _serial(stored) == placement.guard.serial:
            return False
        return bool(placement.claims) or (
            stored is not None and _same(stored, _next(placement, stored))
        )

    def admit(self, placement, consumer_claims):
        """Whether the group is at the serial that the guard names, and the planned claims that it
        names exist."""
        guard, uuid = placement.guard, placement.record_uuid
        if uuid is not None and _serial(self.records[uuid]) != guard.serial:
            return False
        planned = (
            consumer_claims.of(consumer).get(node) for consumer, node in guard.planned_releases
        )
        return all(claim is not None and claim.state == PLANNED for claim in planned)

    def change(self, placement, changes, usages):
        """Return the GuardChange of a placement, with a guard or without; None if it breaks a
        policy, an exclusive domain or a quota.

        ``changes`` are (consumer, node) -> claim before, claim after.
        """
        members = self._regrouped(changes, usages)
        if members is None:
            return None
        domains = self.exclusive_domains.after(changes, put(placement))
        if domains is None:
            return None
        planned = {}
        if placement.guard is not None and placement.guard.limits:
            planned = self._planned(placement, changes, domains)
            if planned is None:
                return None
        return GuardChange(members, domains, planned)

    def adopt(self, placement, change):
        """Apply the change of a placement that wins."""
        if change.planned:
            self._plans[placement.guard.record.project_id].update(change.planned)
        self.members.update(change.members)
        self.exclusive_domains.adopt(change.domains)
        if (uuid := placement.record_uuid) is not None:
            self.records[uuid] = _next(placement, self.records[uuid])

    def explain(self, placement, outcome):
        """Return the outcome of a placement that lost, with the quota that it would exceed, and
        with the stored record if the serial differs."""
        uuid, exceeded = placement.record_uuid, self._exceeded.get(id(placement))
        if uuid is None or _serial(self.records[uuid]) == placement.guard.serial:
            return dataclasses.replace(outcome, exceeded=exceeded)
        stored = self.records[uuid]
        return dataclasses.replace(
            outcome, exceeded=exceeded, record=stored, record_gone=stored is None
        )

    def _planned(self, placement, changes, domains):
        """The usage that the placement adds to the plans of its project; None if it would exceed
        a limit."""
        guard = placement.guard
        record = _next(placement, self.records[guard.record.uuid])
        more = plan_quota.added(
            changes.values(),
            self.records[record.uuid],
            record,
            self.exclusive_domains.growth(domains),
        )
        try:
            project = record.project_id
            plan_quota.check(project, self._plans[project], more, guard.limits)
        except errors.QuotaExceeded as error:
            self._exceeded[id(placement)] = error
            return None
        return more

    def _regrouped(self, changes, usages):
        """Group UUID -> its members after the changes; None if that would break a policy."""
        moves: dict[str, list] = {}
        for (consumer, node), (old, new) in changes.items():
            left, entered = (claim and claim.group_uuid for claim in (old, new))
            if left in self.members and left != entered:
                moves.setdefault(left, []).append((consumer, node, None))
            if entered in self.members and left != entered and node in usages:
                moves.setdefault(entered, []).append((consumer, node, usages[node].host))
        after = {
            group: self.members[group].after(group_moves) for group, group_moves in moves.items()
        }
        for group, group_moves in moves.items():
            for consumer, node, host in group_moves:
                is_member = host is None or self.members[group].holds(consumer, node)
                if not is_member and not after[group].admits(consumer, node, host):
                    return None
        return after


def _serial(record):
    return 0 if record is None else record.serial


def _next(placement, stored):
    """The record after the placement, given the stored one; a definition of None keeps the stored
    one."""
    record = stored if placement.guard.record is None else placement.guard.record
    definition = record.definition
    if definition is None and stored is not None:
        definition = stored.definition
    return dataclasses.replace(record, serial=placement.guard.serial + 1, definition=definition)


def _same(record, other):
    """Whether two records are equal except for their definitions, which may not have been read."""
    return dataclasses.replace(record, definition=None) == dataclasses.replace(
        other, definition=None
    )

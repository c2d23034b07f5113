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
"""Validates a batch of placements against the nodes' current state. Pure."""

import dataclasses
from collections.abc import Iterable, Sequence

from nova_sched import errors
from nova_sched.claim import PENDING, PLANNED, TO_ANOTHER_HOST, Claim
from nova_sched.claims import PlacementOutcome, ServerGroupPolicy, plan_quota
from nova_sched.claims.exclusive_domains import put
from nova_sched.state.request import AFFINITY


@dataclasses.dataclass(slots=True)
class NodeUsage:
    """One node during validation: its inventories, usage by resource class, generation, and host.

    ``pieces_at`` is the generation at which CPUs, pages or devices were last taken or reported
    there. ``fences`` are the tokens of exclusive domains. ``foreign_instances`` is the number of
    instances on the node without a claim.
    """

    inventories: dict
    used: dict
    generation: int
    host: str = ''
    pieces_at: int = 0
    changed: bool = False
    fences: frozenset = frozenset()
    foreign_instances: int = 0

    def fits(self, resources):
        for name, amount in resources.items():
            inventory = self.inventories.get(name)
            if inventory is None or amount > inventory.largest:
                return False
            if self.used.get(name, 0) + amount > inventory.capacity:
                return False
        return True

    def take(self, resources, sign=1):
        add(self.used, resources, sign)


def add(sums, resources, sign=1):
    """Add amounts by resource class to their sums; ``sign`` -1 subtracts them."""
    for name, amount in resources.items():
        sums[name] = sums.get(name, 0) + sign * amount


class Held:
    """The claims of the consumers in question, and how the batch changes them.

    ``added`` and ``removed`` are the difference from the initial state, by (consumer, node).
    """

    def __init__(self, claims):
        self._claims: dict[str, dict[str, Claim]] = {}
        self.added, self.removed = {}, {}
        for claim in claims:
            self._claims.setdefault(claim.consumer_uuid, {})[claim.node_uuid] = claim

    def of(self, consumer):
        return self._claims.get(consumer, {})

    @property
    def claims(self):
        """All claims as they are now, oldest first."""
        found = (claim for mine in self._claims.values() for claim in mine.values())
        return sorted(found, key=lambda claim: (claim.created_s, claim.uuid))

    def put(self, key, claim):
        """Replace the claim of (consumer, node) with this one; None ends it."""
        mine = self._claims.setdefault(key[0], {})
        old = mine.pop(key[1], None)
        if old is not None and key not in self.added:
            self.removed.setdefault(key, old)
        self.added.pop(key, None)
        if claim is not None:
            mine[key[1]] = self.added[key] = claim

    def stamp(self, now_s, usages):
        """Stamp the claims that are new or changed with this time and their nodes' next
        generations, and mark these nodes as changed.

        The other claims of a consumer are stamped too if a move that has kept them is over: their
        nodes may have reported, until now, that they do not have the consumer.
        """
        for key, old in list(self.removed.items()):
            if old.keeps_source and not (key in self.added and self.added[key].keeps_source):
                for claim in list(self.of(key[0]).values()):
                    if claim.key not in self.added:
                        self.put(claim.key, claim)
        for key, claim in self.added.items():
            mine = self._claims[key[0]]
            number = 1 + max(one.number for one in mine.values())
            self.added[key] = mine[key[1]] = claim.stamped(
                self.removed.get(key), now_s, usages[key[1]].generation + 1, number
            )
        for _, node in (*self.added, *self.removed):
            usages[node].changed = True


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
        return {node for mine in self._nodes.values() for node in mine}

    def holds(self, consumer, node):
        return node in self._nodes.get(consumer, ())

    def after(self, moves):
        """The members after moves: (consumer, node UUID, host); the host is None for a claim that
        ends."""
        made = ServerGroupMembers(self.policy)
        made._nodes = dict(self._nodes)
        for consumer, node, host in moves:
            mine = {one: at for one, at in made._nodes.get(consumer, {}).items() if one != node}
            made._nodes[consumer] = mine if host is None else mine | {node: host}
            if not made._nodes[consumer]:
                del made._nodes[consumer]
        return made

    def admits(self, consumer, node, host):
        """Whether the policy is kept with the consumer there.

        In an affinity group, the host must be certain for each other member. One of two hosts that
        another member moves between is not certain.
        """
        others = [nodes for other, nodes in self._nodes.items() if other != consumer]
        if self.policy.kind == AFFINITY:
            return all(set(nodes.values()) == {host} for nodes in others)
        return sum(node in nodes for nodes in others) < self.policy.most


def judge(placements, usages, held, members, records, exclusive_domains, now_s, plans=None):
    """Validate placements one after the other; returns a PlacementOutcome for each.

    ``usages`` (node UUID to NodeUsage), ``held`` (Held), ``members`` (group UUID to
    ServerGroupMembers) and ``records`` (UUID to GroupRecord, None where there is none) cover every
    node, consumer, policy and record that the placements name, and every node where such a
    consumer holds a claim. ``exclusive_domains`` (ExclusiveDomains) cover the domains that the
    placements close or end. ``plans`` has the usage of their plans by resource, for each project
    of a placement with ``limits``. All of them are updated to the state after the batch; ``now_s``
    is the time of that state.
    """
    validator = _BatchValidator(usages, held, members, records, exclusive_domains, plans or {})
    won = [validator.judge(placement) for placement in placements]
    held.stamp(now_s, usages)
    tokens = {node: usages[node].fences for node in exclusive_domains.changed}
    return [
        _outcome(placement, one, usages, held, validator.records, tokens, validator.exceeded)
        for placement, one in zip(placements, won, strict=True)
    ]


def stale(placement, members, held):
    """Nodes whose data may have been outdated for a placement that lost."""
    others = unknown(placement, held, changes_by(placement, held))
    nodes = {claim.node_uuid for claim in (*placement.claims, *others)}
    nodes |= {old.node_uuid for old in elsewhere(placement, held)}
    if (guard := placement.guard) is None:
        return nodes
    nodes |= {node for _, node in guard.planned_releases}
    of_groups = (members[policy.group_uuid].nodes for policy in guard.policies)
    return nodes.union(*of_groups, *(closed.nodes for closed in guard.closed_domains))


def only_short(placement, usages, held):
    """Whether a placement that lost did so because its amounts do not fit, and nothing else can be
    the reason: then the usage of its nodes tells its scheduler all that it has to know."""
    return (
        placement.guard is None
        and not placement.releases
        and not placement.generations
        and not repeats_ended(placement, held)
        and all(
            claim.node_uuid in usages
            and not (claim.group_uuid or claim.fences or usages[claim.node_uuid].fences)
            and not held.of(claim.consumer_uuid)
            for claim in placement.claims
        )
    )


def changes_by(placement, held):
    """(consumer, node) -> claim before, claim after: the changes that the placement would make."""
    changes = {}
    for consumer, node in placement.releases:
        old = held.of(consumer).get(node)
        if old is not None and old.is_provisional:
            changes[consumer, node] = (old, old.reverted() if old.resizing else None)
    for claim in placement.claims:
        old = held.of(claim.consumer_uuid).get(claim.node_uuid)
        if placement.new and old is not None and old.is_confirmed:
            continue
        for node, other in held.of(claim.consumer_uuid).items():
            if node != claim.node_uuid and not other.is_confirmed:
                changes[claim.consumer_uuid, node] = (other, None)
        changes[claim.key] = (old, _after(old, claim, claim.key in placement.releases))
    return {key: pair for key, pair in changes.items() if pair[0] != pair[1]}


def has_arrived(here, confirmed, move):
    """Whether an instance, with these confirmed claims, is on the node of the claim ``here`` by a
    resize or migration that is to be settled, or is where a ``move`` to another host would only
    bring it: then a call for the move came late, and must not make a resize in place of it."""
    if any(one.order() >= here.order() for one in confirmed if one is not here):
        return False  # it has left the node
    return move in TO_ANOTHER_HOST or (here.keeps_source and here.resizing is None)


def unknown(placement, held, changes):
    """Claims by which the placement is lost, because its scheduler did not know them as they are:
    those that its ``changes`` (of changes_by) would end or replace, those that it knew as pending
    and are confirmed, and those of instances that its moves have brought there already.

    A message may arrive twice, and a delayed one may arrive after its caller has asked again.
    """
    confirmed = [
        old
        for claim in placement.claims
        for old in held.of(claim.consumer_uuid).values()
        if old.is_confirmed and old.uuid != claim.uuid and old.uuid in placement.replaces
    ]
    for claim in placement.claims:
        if claim.move:
            there = [one for one in held.of(claim.consumer_uuid).values() if one.is_confirmed]
            confirmed += [
                here
                for here in there
                if here.node_uuid == claim.node_uuid
                and here.uuid != claim.uuid
                and has_arrived(here, there, claim.move)
            ]
    return confirmed + [
        old
        for old, new in changes.values()
        if old is not None and _is_lost(old, new) and old.name not in placement.replaces
    ]


def _is_lost(old, new):
    """Whether a change takes from a caller what it was told: a pending claim, an open resize, or a
    move that it still has to settle: it could not while the claim is resized on its node."""
    if old.state == PENDING:
        return new is None or new.uuid != old.uuid
    is_resized = new is not None and new.resizing is not None
    return old.resizing is not None or (old.keeps_source and is_resized)


def repeats_ended(placement, held):
    """Whether the placement repeats a claim that has ended: a UUID names one life of a claim, and
    a late call that ends the first one must not end another."""
    return any(
        claim.uuid in placement.replaces
        and not any(one.has_uuid(claim.uuid) for one in held.of(claim.consumer_uuid).values())
        for claim in placement.claims
    )


def elsewhere(placement, held):
    """Confirmed claims that consumers of a new placement must not have: on other nodes, or on any
    node."""
    return [
        old
        for claim in (placement.claims if placement.new or placement.unplaced else ())
        for old in held.of(claim.consumer_uuid).values()
        if old.is_confirmed
        and old.uuid != claim.uuid
        and (placement.unplaced or old.node_uuid != claim.node_uuid)
    ]


class _BatchValidator:
    """The state that one batch is validated against; each placement that wins updates it."""

    def __init__(self, usages, held, members, records, exclusive_domains, plans):
        self._usages, self._held = usages, held
        self._members, self._plans = members, plans
        self.records = records
        self.exceeded = {}  # id of a placement -> the QuotaExceeded by which it lost
        self._exclusive_domains = exclusive_domains
        self._not_freed = set[str]()

    def judge(self, placement):
        """Returns whether the placement wins, and applies it if so."""
        changes = changes_by(placement, self._held)
        if not elsewhere(placement, self._held):
            if self._was_done(placement, changes):
                return True
            if self._is_as_seen(placement, changes) and self._settle(placement, changes):
                return True
        # Placements after this one may have picked the CPUs or devices that it would have freed.
        self._not_freed |= {
            node for (_, node), (old, _) in changes.items() if old is not None and old.all_parts
        }
        return False

    def _was_done(self, placement, changes):
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

    def _is_as_seen(self, placement, changes):
        """Whether the state that the placement was decided from still holds."""
        return (
            (placement.guard is None or self._admits(placement))
            and not unknown(placement, self._held, changes)
            and not (placement.replaces and repeats_ended(placement, self._held))
            and self._is_current(placement)
        )

    def _admits(self, placement):
        """Whether the group is at the serial, and the planned claims exist, that the guard
        names."""
        guard, uuid = placement.guard, placement.record_uuid
        if uuid is not None and _serial(self.records[uuid]) != guard.serial:
            return False
        return all(self._is_planned(*key) for key in guard.planned_releases)

    def _is_planned(self, consumer, node):
        claim = self._held.of(consumer).get(node)
        return claim is not None and claim.state == PLANNED

    def _settle(self, placement, changes):
        """Apply the placement if it keeps policies, exclusive domains and capacity; return whether
        it does."""
        members = self._regrouped(changes)
        if members is None:
            return False
        domains = self._exclusive_domains.after(changes, put(placement))
        if domains is None:
            return False
        more = self._added(placement, changes, domains)
        if more is None or not self._consume(changes):
            return False
        if placement.guard is not None and placement.guard.limits:
            self._plans[placement.guard.record.project_id].update(more)
        self._members.update(members)
        self._exclusive_domains.adopt(domains)
        if (uuid := placement.record_uuid) is not None:
            self.records[uuid] = _next(placement, self.records[uuid])
        return True

    def _added(self, placement, changes, domains):
        """The usage that the placement adds to the plans of its project, if that has limits; None
        if it would exceed one."""
        guard = placement.guard
        if guard is None or not guard.limits:
            return {}
        record = _next(placement, self.records[guard.record.uuid])
        more = plan_quota.added(
            changes.values(),
            self.records[record.uuid],
            record,
            self._exclusive_domains.growth(domains),
        )
        try:
            project = record.project_id
            plan_quota.check(project, self._plans[project], more, guard.limits)
        except errors.QuotaExceeded as error:
            self.exceeded[id(placement)] = error
            return None
        return more

    def _regrouped(self, changes):
        """Group UUID -> its members after the changes; None if that would break a policy."""
        moves: dict[str, list] = {}
        for (consumer, node), (old, new) in changes.items():
            left, entered = (one and one.group_uuid for one in (old, new))
            if left in self._members and left != entered:
                moves.setdefault(left, []).append((consumer, node, None))
            if entered in self._members and left != entered and node in self._usages:
                moves.setdefault(entered, []).append((consumer, node, self._usages[node].host))
        after = {group: self._members[group].after(some) for group, some in moves.items()}
        for group, some in moves.items():
            for consumer, node, host in some:
                there = host is None or self._members[group].holds(consumer, node)
                if not there and not after[group].admits(consumer, node, host):
                    return None
        return after

    def _is_current(self, placement):
        """Whether no other claim has taken CPUs or devices on the nodes since they were picked.

        Changes by the batch itself do not count: its placements were made one after the other. The
        exceptions are the nodes in ``_not_freed``: there a lost placement has not freed what later
        placements count on. A removed node is left to the check of the amounts.
        """
        return all(
            node not in self._usages
            or (self._usages[node].pieces_at <= generation and node not in self._not_freed)
            for node, generation in placement.generations.items()
        )

    def _consume(self, changes):
        """Apply the changes if they fit; return whether they did."""
        usages, consumed = self._usages, []
        for (_, node), (old, _) in changes.items():
            if old is not None:
                usages[node].take(old.resources, -1)
                consumed.append((node, old.resources, 1))
        for (_, node), (_, new) in changes.items():
            if new is None:
                continue
            if node not in usages or not usages[node].fits(new.resources):
                for undone, resources, sign in consumed:
                    usages[undone].take(resources, sign)
                return False
            usages[node].take(new.resources)
            consumed.append((node, new.resources, -1))
        for key, (_, new) in changes.items():
            self._held.put(key, new)
        return True


def _after(old, claim, released):
    """The claim on a node after a new claim there.

    ``old`` is the consumer's older claim there; ``released`` is whether that one ends.
    """
    if old is None:
        return claim
    if released and not old.is_confirmed and old.uuid != claim.uuid:
        return claim if claim.top_group else claim.in_group_of(old)
    return (old.reverted() if released and old.resizing else old).merged_with(claim)


def _serial(record):
    return 0 if record is None else record.serial


def _next(placement, stored):
    """The record that the placement makes of the stored one; a definition of None keeps the stored
    one."""
    record = stored if placement.guard.record is None else placement.guard.record
    definition = record.definition
    if definition is None and stored is not None:
        definition = stored.definition
    return dataclasses.replace(record, serial=placement.guard.serial + 1, definition=definition)


def _same(one, other):
    """Whether two records are equal except for their definitions, which may not have been read."""
    return dataclasses.replace(one, definition=None) == dataclasses.replace(other, definition=None)


def _outcome(placement, won, usages, held, records, tokens, exceeded):
    nodes = {claim.node_uuid for claim in placement.claims} | {
        node for _, node in placement.releases
    }
    known = {node: usages[node] for node in nodes if node in usages}
    if won:
        raised = {
            node: (one.generation, one.generation + one.changed)
            for node, one in known.items()
            if node not in tokens
        }
        there = (held.of(claim.consumer_uuid).get(claim.node_uuid) for claim in placement.claims)
        return PlacementOutcome(
            True, tuple(one for one in there if one is not None), raised, tokens=tokens
        )
    gone = tuple(sorted({claim.node_uuid for claim in placement.claims} - known.keys()))
    outcome = PlacementOutcome(
        False,
        used={node: dict(one.used) for node, one in known.items()},
        gone=gone,
        tokens=tokens,
        exceeded=exceeded.get(id(placement)),
    )
    uuid = placement.record_uuid
    if uuid is None or _serial(records[uuid]) == placement.guard.serial:
        return outcome
    return dataclasses.replace(outcome, record=records[uuid], record_gone=records[uuid] is None)

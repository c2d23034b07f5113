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
"""The judgement on a batch of placements, given the nodes' true state: pure, and the same in every
store."""

import dataclasses

from nova_sched.claims import Outcome
from nova_sched.claims.fences import Fences
from nova_sched.objects.claim import PENDING, PLANNED, Claim


@dataclasses.dataclass(slots=True)
class NodeUsage:
    """One node during a judgement: its inventories, use by resource class, generation, and host.

    ``pieces_at`` is the generation at which CPUs, pages or devices were last taken there, or
    reported anew. ``fences`` are tokens; ``foreign_instances`` is how many instances are there
    that nobody claimed.
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
        return all(self._fits(name, amount) for name, amount in resources.items())

    def _fits(self, name, amount):
        inventory = self.inventories.get(name)
        if inventory is None or amount > inventory.largest:
            return False
        return self.used.get(name, 0) + amount <= inventory.capacity

    def take(self, resources, sign=1):
        for name, amount in resources.items():
            self.used[name] = self.used.get(name, 0) + sign * amount


class Held:
    """The claims of the consumers in question, and how the batch changes them.

    ``added`` and ``removed`` are the difference to the beginning, by (consumer, node).
    """

    def __init__(self, claims):
        self._claims: dict[str, dict[str, Claim]] = {}
        self.added, self.removed = {}, {}
        for claim in claims:
            self._claims.setdefault(claim.consumer_uuid, {})[claim.node_uuid] = claim

    def of(self, consumer):
        return self._claims.get(consumer, {})

    @property
    def changes(self):
        """The difference to the beginning: (consumer, node) -> claim before, claim after."""
        keys = dict.fromkeys((*self.removed, *self.added))
        return {key: (self.removed.get(key), self.added.get(key)) for key in keys}

    def put(self, key, claim):
        """Make the claim of (consumer, node) this one; None ends it."""
        mine = self._claims.setdefault(key[0], {})
        old = mine.pop(key[1], None)
        if old is not None and key not in self.added:
            self.removed.setdefault(key, old)
        self.added.pop(key, None)
        if claim is not None:
            mine[key[1]] = self.added[key] = claim

    def stamp(self, now_s):
        """Let the claims that are new, or other ones than before, be so from this moment on.

        So does what a consumer has beside a claim that ended or changed: a word from before that
        moment may know nothing of it.
        """
        for consumer in {consumer for consumer, _ in self.removed}:
            for claim in list(self.of(consumer).values()):
                if claim.key not in self.added:
                    self.put(claim.key, claim)
        for key, claim in self.added.items():
            self.added[key] = self._claims[key[0]][key[1]] = claim.stamped(
                self.removed.get(key), now_s
            )


def judge(placements, usages, held, circles=None, records=None, fences=None, now_s=0.0):
    """Judge placements one after the other; returns an Outcome for each.

    ``usages`` (node UUID to NodeUsage), ``held`` (Held), ``circles`` (group UUID to
    ServerGroupMembers) and ``records`` (UUID to Record, None where there is none) cover every
    node, consumer, policy and record that the placements name, and every node where such a
    consumer holds a claim; ``fences`` (Fences) cover what they put up. All are brought to what
    they are afterwards; ``now_s`` is when that is. Raises Loose.
    """
    court = _BatchValidator(usages, held, circles, records, fences)
    won = [court.judge(placement) for placement in placements]
    held.stamp(now_s)
    for _, node in (*held.added, *held.removed):
        usages[node].changed = True
    fenced = {node: usages[node].fences for node in court.fences.changed}
    return [
        _outcome(placement, one, usages, held, court.records, fenced)
        for placement, one in zip(placements, won, strict=True)
    ]


def stale(placement, circles, held):
    """Nodes whose facts the loser of a placement may have been wrong about."""
    nodes = {claim.node_uuid for claim in (*placement.claims, *unknown(placement, held))}
    nodes |= {node for _, node in placement.takes}
    nodes |= {old.node_uuid for old in elsewhere(placement, held)}
    members = (circles[policy.group_uuid].nodes for policy in placement.policies)
    return nodes.union(*members, *(fence.nodes for fence in placement.fences))


def unknown(placement, held):
    """Pending claims that must not end for this placement: its scheduler did not know of them.

    A message may come twice, and one that was held up may come after its caller has asked again.
    """
    return [
        old
        for claim in placement.claims
        for old in held.of(claim.consumer_uuid).values()
        if old.state == PENDING
        and old.uuid not in (claim.uuid, *placement.replaces)
        and old.key not in placement.releases
    ]


def elsewhere(placement, held):
    """Confirmed claims of consumers that are to have none: on other nodes, or wherever they
    are."""
    return [
        old
        for claim in (placement.claims if placement.new or placement.unplaced else ())
        for old in held.of(claim.consumer_uuid).values()
        if old.is_confirmed
        and old.uuid != claim.uuid
        and (placement.unplaced or old.node_uuid != claim.node_uuid)
    ]


class _BatchValidator:
    """What one batch is judged by, as it changes from placement to placement."""

    def __init__(self, usages, held, circles, records, fences):
        self._usages, self._held = usages, held
        self._circles = {} if circles is None else circles
        self.records = {} if records is None else records
        self.fences = Fences(usages) if fences is None else fences
        self._kept = set[str]()

    def judge(self, placement):
        """Whether the placement is won; then it is booked."""
        changes = self._changes(placement)
        if not elsewhere(placement, self._held):
            if self._was_done(placement, changes):
                return True
            if self._is_as_seen(placement) and self._settle(placement, changes):
                return True
        # What it would have freed, those after it may have picked.
        self._kept |= {
            node for (_, node), (old, _) in changes.items() if old is not None and old.all_parts
        }
        return False

    def _was_done(self, placement, changes):
        """Whether there is nothing left to do: its claims are there, or it changed a record
        alone."""
        if placement.serial is None or changes:
            return not changes
        stored = self.records[placement.guarded_by]
        if _serial(stored) == placement.serial:
            return False
        return bool(placement.claims) or (
            stored is not None and _same(stored, _next(placement, stored))
        )

    def _is_as_seen(self, placement):
        """Whether all is there that the placement was decided by."""
        guarded = placement.serial is not None
        if guarded and _serial(self.records[placement.guarded_by]) != placement.serial:
            return False
        if placement.takes and not all(self._is_planned(*key) for key in placement.takes):
            return False
        return not unknown(placement, self._held) and self._is_current(placement)

    def _is_planned(self, consumer, node):
        claim = self._held.of(consumer).get(node)
        return claim is not None and claim.state == PLANNED

    def _settle(self, placement, changes):
        """Bring the placement about, if it keeps policies, fences and capacity; say whether it
        does."""
        circles = self._regrouped(changes)
        if circles is None:
            return False
        fenced = self.fences.after(changes, placement.fences)
        if fenced is None or not self._book(changes):
            return False
        self._circles.update(circles)
        self.fences.adopt(fenced)
        if placement.serial is not None:
            uuid = placement.guarded_by
            self.records[uuid] = _next(placement, self.records[uuid])
        return True

    def _changes(self, placement):
        """(consumer, node) -> claim before, claim after: what the placement would bring about."""
        held, changes = self._held, {}
        for consumer, node in placement.releases:
            if node in held.of(consumer):
                old = held.of(consumer)[node]
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

    def _regrouped(self, changes):
        """Group UUID -> its circle after the changes; None if that would break a policy."""
        moves: dict[str, list] = {}
        for (consumer, node), (old, new) in changes.items():
            left, entered = (one and one.group_uuid for one in (old, new))
            if left in self._circles and left != entered:
                moves.setdefault(left, []).append((consumer, node, None))
            if entered in self._circles and left != entered and node in self._usages:
                moves.setdefault(entered, []).append((consumer, node, self._usages[node].host))
        after = {group: self._circles[group].after(some) for group, some in moves.items()}
        for group, some in moves.items():
            for consumer, node, host in some:
                there = host is None or self._circles[group].holds(consumer, node)
                if not there and not after[group].admits(consumer, node, host):
                    return None
        return after

    def _is_current(self, placement):
        """Nobody has taken CPUs or devices on the nodes since some were picked there.

        What the batch itself does there does not count: its placements were made one after the
        other. On the nodes ``kept`` it has not done what those after it count on. A node that left
        is for the amounts to find out.
        """
        return all(
            node not in self._usages
            or (self._usages[node].pieces_at <= generation and node not in self._kept)
            for node, generation in placement.generations.items()
        )

    def _book(self, changes):
        """Bring the changes about if they fit; say whether they did."""
        usages, booked = self._usages, []
        for (_, node), (old, _) in changes.items():
            if old is not None:
                usages[node].take(old.resources, -1)
                booked.append((node, old.resources, 1))
        for (_, node), (_, new) in changes.items():
            if new is None:
                continue
            if node not in usages or not usages[node].fits(new.resources):
                for undone, resources, sign in booked:
                    usages[undone].take(resources, sign)
                return False
            usages[node].take(new.resources)
            booked.append((node, new.resources, -1))
        for key, (_, new) in changes.items():
            self._held.put(key, new)
        return True


def _after(old, claim, released):
    """What stands on a node after a claim there, given the consumer's older one and whether that
    one ends."""
    if old is None:
        return claim
    if released and old.uuid != claim.uuid:
        return claim if claim.top_group else claim.in_group_of(old)
    return old.merged_with(claim)


def _serial(record):
    return 0 if record is None else record.serial


def _next(placement, stored):
    """The record that the placement makes of the stored one; its definition None where it
    stays."""
    record = stored if placement.record is None else placement.record
    definition = record.definition
    if definition is None and stored is not None:
        definition = stored.definition
    return dataclasses.replace(record, serial=placement.serial + 1, definition=definition)


def _same(one, other):
    """Whether two records are the same but for their definitions, which nobody may have read."""
    return dataclasses.replace(one, definition=None) == dataclasses.replace(other, definition=None)


def _outcome(placement, won, usages, held, records, fenced):
    nodes = {claim.node_uuid for claim in placement.claims} | {
        node for _, node in placement.releases
    }
    known = {node: usages[node] for node in nodes if node in usages}
    if won:
        raised = {
            node: (one.generation, one.generation + one.changed)
            for node, one in known.items()
            if node not in fenced
        }
        there = (held.of(claim.consumer_uuid).get(claim.node_uuid) for claim in placement.claims)
        return Outcome(True, tuple(one for one in there if one is not None), raised, fences=fenced)
    gone = tuple(sorted({claim.node_uuid for claim in placement.claims} - known.keys()))
    outcome = Outcome(
        False, used={node: dict(one.used) for node, one in known.items()}, gone=gone, fences=fenced
    )
    uuid = placement.guarded_by
    if uuid is None or _serial(records[uuid]) == placement.serial:
        return outcome
    return dataclasses.replace(outcome, record=records[uuid], record_gone=records[uuid] is None)

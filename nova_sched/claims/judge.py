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
"""The judgement on a batch of placements, given the nodes' true state: pure, and the same in every store."""

import dataclasses

from nova_sched.claims import Outcome
from nova_sched.objects.claiming import Claim


@dataclasses.dataclass(slots=True)
class Ledger:
    """One node during a judgement: its inventories, use by resource class, and generation."""

    inventories: dict
    used: dict
    generation: int
    changed: bool = False

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

    def put(self, key, claim):
        """Make the claim of (consumer, node) this one; None ends it."""
        mine = self._claims.setdefault(key[0], {})
        old = mine.pop(key[1], None)
        if old is not None and key not in self.added:
            self.removed.setdefault(key, old)
        self.added.pop(key, None)
        if claim is not None:
            mine[key[1]] = self.added[key] = claim


def judge(placements, ledgers, held):
    """Judge placements one after the other; returns an Outcome for each.

    ``ledgers`` (node UUID to Ledger) and ``held`` (Held) cover every node and consumer that the
    placements name, and every node where such a consumer holds a claim. Both are brought to what
    they are afterwards.
    """
    won, kept = [], set[str]()
    for placement in placements:
        changes = _changes(placement, held)
        won.append(not changes or (_is_current(placement, ledgers, kept) and _apply(changes, ledgers, held)))
        if not won[-1]:
            # What it would have freed, those after it may have picked.
            kept |= {node for (_, node), (old, _) in changes.items() if old is not None and old.parts}
    for _, node in (*held.added, *held.removed):
        ledgers[node].changed = True
    return [_outcome(placement, one, ledgers) for placement, one in zip(placements, won, strict=True)]


def _is_current(placement, ledgers, kept):
    """Nothing has happened to the nodes since CPUs or devices were picked on them.

    What the batch itself does there does not count: its placements were made one after the other. On
    the nodes ``kept`` it has not done what those after it count on. A node that left is for the
    amounts to find out.
    """
    return all(
        node not in ledgers or (ledgers[node].generation == generation and node not in kept)
        for node, generation in placement.generations.items()
    )


def _changes(placement, held):
    """(consumer, node) -> claim before, claim after: what the placement would bring about."""
    changes = {}
    for consumer, node in placement.releases:
        if node in held.of(consumer):
            changes[consumer, node] = (held.of(consumer)[node], None)
    for claim in placement.claims:
        for node, old in held.of(claim.consumer_uuid).items():
            if node != claim.node_uuid and not old.is_confirmed:
                changes[claim.consumer_uuid, node] = (old, None)
        old = held.of(claim.consumer_uuid).get(claim.node_uuid)
        changes[claim.key] = (old, _after(old, claim, claim.key in placement.releases))
    return {key: pair for key, pair in changes.items() if pair[0] != pair[1]}


def _after(old, claim, released):
    """What stands on a node after a claim there, given the consumer's older one and whether that one ends."""
    if old is None or (released and old.uuid != claim.uuid):
        return claim
    return old.merged_with(claim)


def _apply(changes, ledgers, held):
    """Bring the changes about if they fit; say whether they did."""
    booked = []
    for (_, node), (old, _) in changes.items():
        if old is not None:
            ledgers[node].take(old.resources, -1)
            booked.append((node, old.resources, 1))
    for (_, node), (_, new) in changes.items():
        if new is None:
            continue
        if node not in ledgers or not ledgers[node].fits(new.resources):
            for undone, resources, sign in booked:
                ledgers[undone].take(resources, sign)
            return False
        ledgers[node].take(new.resources)
        booked.append((node, new.resources, -1))
    for key, (_, new) in changes.items():
        held.put(key, new)
    return True


def _outcome(placement, won, ledgers):
    nodes = {claim.node_uuid for claim in placement.claims} | {node for _, node in placement.releases}
    known = {node: ledgers[node] for node in nodes if node in ledgers}
    if won:
        return Outcome(
            True, {node: (one.generation, one.generation + one.changed) for node, one in known.items()}
        )
    return Outcome(False, {}, {node: dict(one.used) for node, one in known.items()})

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
"""Validates a batch of placements against the nodes' current state. Pure.

What only placements with guards are validated by is in claims.guards.
"""

import dataclasses

from nova_sched.claim import PENDING, Claim
from nova_sched.claims import PlacementOutcome


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
        """Add amounts by resource class to the usage; ``sign`` -1 subtracts them."""
        for name, amount in resources.items():
            self.used[name] = self.used.get(name, 0) + sign * amount


class ConsumerClaims:
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
        unsorted = (claim for by_node in self._claims.values() for claim in by_node.values())
        return sorted(unsorted, key=lambda claim: (claim.created_s, claim.uuid))

    def put(self, key, claim):
        """Replace the claim of (consumer, node) with this one; None ends it."""
        by_node = self._claims.setdefault(key[0], {})
        old = by_node.pop(key[1], None)
        if old is not None and key not in self.added:
            self.removed.setdefault(key, old)
        self.added.pop(key, None)
        if claim is not None:
            by_node[key[1]] = self.added[key] = claim

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
        # A new claim is later than all others of its consumer. One that replaces a pending claim
        # is of the same move, or of none.
        least = {old.consumer_uuid: old.number for old in self.removed.values() if old.number > 1
                 and not old.is_confirmed}  # fmt: skip
        for key, claim in self.added.items():
            by_node, number = self._claims[key[0]], least.get(key[0], 1)
            if len(by_node) > 1:  # claims of an older release have 0
                number = max(number, 2, 1 + max(other.number for other in by_node.values()))
            self.added[key] = by_node[key[1]] = claim.stamped(
                self.removed.get(key), now_s, usages[key[1]].generation + 1, number
            )
        for _, node in (*self.added, *self.removed):
            usages[node].changed = True


def judge(placements, usages, consumer_claims, now_s, guards=None):
    """Validate placements one after the other; returns a PlacementOutcome for each.

    ``usages`` (node UUID to NodeUsage) and ``consumer_claims`` (ConsumerClaims) cover every node
    and consumer that the placements name, and every node where such a consumer holds a claim.
    ``guards`` (Guards) cover what the placements' guards name; a batch in which none has a guard
    needs none. All of them are updated to the state after the batch; ``now_s`` is the time of that
    state.
    """
    won, not_freed = [], set[str]()
    for placement in placements:
        changes = changes_by(placement, consumer_claims)
        is_won = _apply(placement, changes, usages, consumer_claims, guards, not_freed)
        won.append(is_won)
        if is_won:
            for claim in placement.claims:
                of_consumer = consumer_claims.of(claim.consumer_uuid)
                stored = of_consumer.get(claim.node_uuid)
                if stored is not None and stored.is_confirmed and not stored.has_uuid(claim.uuid):
                    # It was there before, and is the result. It is stamped and numbered: who read
                    # its node before has not seen that its consumer is to be there, and the call
                    # that has made it cannot take it back.
                    number = 1 + max(other.number for other in of_consumer.values())
                    consumer_claims.put(claim.key, dataclasses.replace(stored, number=number))
        else:
            # Later placements may have picked the CPUs or devices that it would have freed.
            not_freed |= {
                node
                for (_, node), (old, _) in changes.items()
                if old is not None and old.all_parts
            }
    consumer_claims.stamp(now_s, usages)
    closed = guards.exclusive_domains.changed if guards else ()
    tokens = {node: usages[node].fences for node in closed}
    return [
        _outcome(placement, is_won, usages, consumer_claims, tokens, guards)
        for placement, is_won in zip(placements, won, strict=True)
    ]


def _apply(placement, changes, usages, consumer_claims, guards, not_freed):
    """Apply the changes of a placement if the rules allow them; return whether they do.

    ``not_freed``: nodes where placements have lost that would have freed CPUs or devices.
    """
    if moved(placement, consumer_claims):
        return False
    # Is nothing left to do, because its claims exist?
    if guards.was_done(placement, changes) if placement.guard else not changes:
        return True
    # Does the state that it was decided from still hold?
    if (
        (placement.guard and not guards.admit(placement, consumer_claims))
        or unknown(placement, changes)
        or (placement.replaces and repeats_ended(placement, consumer_claims))
        or (placement.generations and not _is_current(placement, usages, not_freed))
    ):
        return False
    # Does it keep policies, exclusive domains, quotas and capacity?
    if guards is None:
        return enters(changes, usages, {}) and _consume(changes, usages, consumer_claims)
    change = guards.change(placement, changes, usages)
    if change is None or not _consume(changes, usages, consumer_claims):
        return False
    guards.adopt(placement, change)
    return True


def _is_current(placement, usages, not_freed):
    """Whether no other claim has taken CPUs or devices on the nodes since they were picked.

    Changes by the batch itself do not count: its placements were made one after the other. The
    exceptions are the nodes in ``not_freed``: there a lost placement has not freed what later
    placements count on. A removed node is left to the check of the amounts.
    """
    return all(
        node not in usages or (usages[node].pieces_at <= generation and node not in not_freed)
        for node, generation in placement.generations.items()
    )


def _consume(changes, usages, consumer_claims):
    """Apply the changes if they fit; return whether they did."""
    consumed = []
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
        consumer_claims.put(key, new)
    return True


def _outcome(placement, won, usages, consumer_claims, tokens, guards):
    nodes = {claim.node_uuid for claim in placement.claims} | {
        node for _, node in placement.releases
    }
    known = {node: usages[node] for node in nodes if node in usages}
    if won:
        raised = {
            node: (usage.generation, usage.generation + usage.changed)
            for node, usage in known.items()
            if node not in tokens
        }
        claims = (
            consumer_claims.of(claim.consumer_uuid).get(claim.node_uuid)
            for claim in placement.claims
        )
        return PlacementOutcome(
            True, tuple(claim for claim in claims if claim is not None), raised, tokens=tokens
        )
    outcome = PlacementOutcome(
        False,
        used={node: dict(usage.used) for node, usage in known.items()},
        gone=tuple(sorted({claim.node_uuid for claim in placement.claims} - known.keys())),
        tokens=tokens,
    )
    return guards.explain(placement, outcome) if placement.guard else outcome


# What a placement changes, and what it must not.


def changes_by(placement, consumer_claims):
    """(consumer, node) -> claim before, claim after: the changes that the placement would make."""
    changes = {}
    for consumer, node in placement.releases:
        old = consumer_claims.of(consumer).get(node)
        if old is not None and old.is_provisional:
            changes[consumer, node] = (old, old.reverted() if old.resizing else None)
    for claim in placement.claims:
        of_consumer = consumer_claims.of(claim.consumer_uuid)
        old = of_consumer.get(claim.node_uuid)
        for node, other in of_consumer.items():
            if node != claim.node_uuid and not other.is_confirmed:
                changes[claim.consumer_uuid, node] = (other, None)
        new = claim if old is None else _after(old, claim, claim.key in placement.releases)
        if old is not None and new == old != claim and old.is_unheard(of_consumer.values()):
            # What the node says of the last stay must not end the claim of the next one.
            new = old.asked_back(claim)
        changes[claim.key] = (old, new)
    return {key: pair for key, pair in changes.items() if pair[0] != pair[1]}


def _after(old, claim, released):
    """The claim on a node after a new claim there, beside the consumer's ``old`` one; ``released``
    is whether that one ends."""
    if released and not old.is_confirmed and old.uuid != claim.uuid:
        return claim if claim.top_group else claim.in_group_of(old)
    return (old.reverted() if released and old.resizing else old).merged_with(claim)


def unknown(placement, changes):
    """Claims by which the placement is lost, because its ``changes`` (of changes_by) would end or
    replace them and its scheduler did not know them as they are.

    A message may arrive twice, and a delayed one may arrive after its caller has asked again.
    """
    return [
        old
        for old, new in changes.values()
        if old is not None and _is_lost(old, new) and old.name not in placement.replaces
    ]


def _is_lost(old, new):
    """Whether a change takes away what a caller was told: a pending claim, an open resize, or, by
    a resize on the node, a move that the caller still has to settle and could not settle then, or
    the wait for a consumer on its way back."""
    if old.state == PENDING:
        return new is None or new.uuid != old.uuid
    is_resized = new is not None and new.resizing is not None
    return old.resizing is not None or (is_resized and (old.keeps_source or old.awaited))


def repeats_ended(placement, consumer_claims):
    """Whether the placement repeats a claim that has ended: a UUID names one life of a claim, and
    a late call that ends the first one must not end another."""
    return any(
        claim.uuid in placement.replaces
        and not any(
            other.has_uuid(claim.uuid)
            for other in consumer_claims.of(claim.consumer_uuid).values()
        )
        for claim in placement.claims
    )


def moved(placement, consumer_claims):
    """The nodes on which the confirmed claims of a placement's consumers are not those that its
    scheduler knew.

    It may have decided about a move from a node that the consumer has left, or a resize on one
    that it has come to, or was asked back to, since.
    """
    if placement.runs is None:
        return set()
    running = {
        (claim.uuid, claim.number): claim.node_uuid
        for consumer in {claim.consumer_uuid for claim in placement.claims}
        for claim in consumer_claims.of(consumer).values()
        if claim.is_confirmed
    }
    # A plan may keep a claim that its scheduler has seen end since.
    kept = {
        (claim.uuid, claim.number): claim.node_uuid
        for claim in placement.claims
        if claim.is_confirmed
    }
    known = {**placement.runs, **kept}
    nodes = {**running, **known}
    return {nodes[key] for key in running.keys() ^ known.keys()}


def enters(changes, usages, marks):
    """Whether each claim that enters a node, or changes its tokens, has exactly the tokens of
    exclusive domains that the node carries: so no outsider enters one.

    ``marks``: node UUID -> the tokens that it carries after the changes, if not those of its
    usage.
    """
    for (_, node), (old, new) in changes.items():
        if new is None or node not in usages or (old is not None and old.fences == new.fences):
            continue
        carries = marks.get(node, usages[node].fences)
        if (carries or new.fences) and carries != frozenset(new.fences):
            return False
    return True


# After a placement was lost.


def stale(placement, consumer_claims, guards):
    """Nodes whose data may have been outdated for a placement that lost."""
    others = unknown(placement, changes_by(placement, consumer_claims))
    nodes = {claim.node_uuid for claim in (*placement.claims, *others)}
    nodes |= moved(placement, consumer_claims)
    if (guard := placement.guard) is None:
        return nodes
    nodes |= {node for _, node in guard.planned_releases}
    of_groups = (guards.members[policy.group_uuid].nodes for policy in guard.policies)
    return nodes.union(*of_groups, *(closed.nodes for closed in guard.closed_domains))


def only_short(placement, usages, consumer_claims):
    """Whether a placement lost only because its amounts do not fit. Then the usage of its nodes is
    all that its scheduler has to know."""
    return (
        placement.guard is None
        and not placement.releases
        and not placement.generations
        and not placement.runs
        and not repeats_ended(placement, consumer_claims)
        and all(
            claim.node_uuid in usages
            and not (claim.group_uuid or claim.fences or usages[claim.node_uuid].fences)
            and not consumer_claims.of(claim.consumer_uuid)
            for claim in placement.claims
        )
    )

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
"""The items that greedy search places as one (blocks of a small domain, and classes), in order."""

import dataclasses
import heapq

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import bounds
from nova_sched.groups.arrays.blocks import Block
from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.arrays.tally import Tally

SMALL = 64  # hosts in a domain, on average, up to which a block is packed at once


@dataclasses.dataclass(eq=False)
class Item:
    """A block that is packed at once, or a class whose units are placed in turn.

    ``options``: domains that pass, or slots per unit; ``share``: the share of the free capacity
    that it takes. ``followers``: numbers of items with members that want to be near members of
    this one.
    """

    number: int
    classes: np.ndarray
    block: Block | None
    options: float
    share: float
    at_home: bool
    followers: set[int] = dataclasses.field(default_factory=set)


def split(compiled: Compiled) -> tuple[list[Block], list[Block]]:
    """Returns the blocks that are packed at once, and the others, coarse levels first.

    No two of the former share a class. Greedy search chooses the domains of the latter before it
    places any unit.
    """
    packed: list[Block] = []
    regions: list[Block] = []
    taken = np.zeros(compiled.class_count, dtype=bool)
    for block in compiled.blocks:  # fine levels first
        level = compiled.layout.levels[block.level]
        if block.inner or taken[block.classes].any() or len(level.ids) > SMALL * level.count:
            regions.insert(0, block)
        else:
            packed.append(block)
            taken[block.classes] = True
    return packed, regions


def items(tally: Tally, packed: list[Block], passing: dict[int, np.ndarray]) -> list[Item]:
    """Returns all items of an empty tally.

    ``passing``: by block, bool [D] domains that may take it.
    """
    compiled = tally.compiled
    free = np.maximum(compiled.free.sum(axis=0), 1)
    item_of = np.full(compiled.class_count, -1, dtype=np.intp)
    made: list[Item] = []

    def add(classes: np.ndarray, block: Block | None, options: float) -> None:
        item_of[classes] = len(made)
        need = sum(compiled.count[c] * compiled.shapes[compiled.shape[c]].least for c in classes)
        at_home = any(len(compiled.stay[c][0]) for c in classes)
        made.append(Item(len(made), classes, block, options, float((need / free).max()), at_home))

    for block in packed:
        add(block.classes, block, float(passing[block.number].sum()))
    for c in range(compiled.class_count):
        if item_of[c] < 0:
            add(np.array([c]), None, float(tally.room(c).sum() / compiled.count[c]))
    for one in compiled.active:
        if one.kind == definition.NEAR:
            followers = np.unique(item_of[one.a > 0]).tolist()
            for anchor in np.unique(item_of[one.b > 0]).tolist():
                made[anchor].followers.update(other for other in followers if other != anchor)
    return made


def order(items: list[Item], weights: np.ndarray, home_first: bool) -> list[Item]:
    """Sorts the hardest items first, and anchors before their followers and as urgent as these.

    ``weights``: failures so far.
    """
    keys = [
        (-weights[item.number], home_first and not item.at_home, item.options, -item.share)
        for item in items
    ]
    for _ in items:  # as far as the longest chain of followers
        urgent = [min([keys[item.number], *(keys[f] for f in item.followers)]) for item in items]
        if urgent == keys:
            break
        keys = urgent
    waits = [0] * len(items)
    for item in items:
        for follower in item.followers:
            waits[follower] += 1
    ready = [(keys[n], waits[n], n) for n in range(len(items)) if not waits[n]]
    rest = {n for n in range(len(items)) if waits[n]}
    heapq.heapify(ready)
    result = []
    while ready or rest:
        if not ready:  # near both ways: the most urgent item goes first
            n = min(rest, key=lambda n: (keys[n], waits[n], n))
            rest.discard(n)
            ready.append((keys[n], waits[n], n))
        item = items[heapq.heappop(ready)[2]]
        result.append(item)
        for follower in item.followers:
            waits[follower] -= 1
            if not waits[follower] and follower in rest:
                rest.discard(follower)
                heapq.heappush(ready, (keys[follower], 0, follower))
    return result


def passing_of(tally: Tally) -> dict[int, np.ndarray]:
    """By block, bool [D]: domains that may take it in an empty tally, according to the bounds."""
    known: dict[int, np.ndarray] = {}
    alike = {number: one.blocks for one in tally.compiled.block_types for number in one.blocks}
    for block in tally.compiled.blocks:  # inner ones first
        if block.number not in known:
            passes = bounds.passing(tally, block, known)
            known.update((number, passes) for number in alike[block.number])
    return known

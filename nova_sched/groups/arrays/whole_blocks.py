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
"""How many whole blocks the domains of a region hold at most, when nothing is placed yet.

What is left in a domain after the last whole block is lost for further blocks. So a region may
have enough free capacity for all its blocks, and a domain for each of them, but too few domains.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.blocks import Block
from nova_sched.groups.arrays.layout import ENDLESS
from nova_sched.groups.arrays.tally import PlacementTally

Counted = tuple[int, list[Block], np.ndarray]  # level, some of its blocks, held int64 [D]


def held(
    tally: PlacementTally, blocks: Iterable[Block], passing: Mapping[int, np.ndarray]
) -> Iterator[Counted]:
    """Yields sets of two or more blocks of one level, and how many of a set each domain holds at
    most.

    ``passing``: by block, the domains that may take it, bool [D]. For each block, the set has the
    blocks that need at least as much of every resource as it does.
    """
    by_level: dict[int, list[Block]] = {}
    for block in blocks:
        by_level.setdefault(block.level, []).append(block)
    for level, every in by_level.items():
        if len(every) < 2:
            continue
        needs = np.array([_need(tally, block) for block in every])
        done: set[bytes] = set()
        for need in needs:
            some = (needs >= need).all(axis=1)
            if some.sum() < 2 or some.tobytes() in done:
                continue
            done.add(some.tobytes())
            chosen = [every[n] for n in np.flatnonzero(some).tolist()]
            yield level, chosen, _most(tally, chosen, need, passing)


def _need(tally: PlacementTally, block: Block) -> np.ndarray:
    """Returns the resources of all units, then the number of units, int64 [R + 1]."""
    compiled = tally.compiled
    count = compiled.count[block.classes]
    least = np.array([compiled.shapes[compiled.shape[c]].least for c in block.classes])
    return np.append(count @ least, count.sum())


def _most(
    tally: PlacementTally,
    blocks: list[Block],
    need: np.ndarray,
    passing: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Int64 [D]: an upper limit of the blocks in each domain.

    Each block needs at least ``need``, as from ``_need``.
    """
    compiled, level = tally.compiled, tally.compiled.layout.levels[blocks[0].level]
    classes = np.concatenate([block.classes for block in blocks])
    usable = np.logical_or.reduce([tally.usable(c) for c in classes.tolist()])
    passes = np.logical_or.reduce([passing[block.number] for block in blocks])
    most = np.where(passes, len(blocks), 0).astype(np.int64)
    for number in np.flatnonzero(need[:-1]).tolist():
        free = level.sum(np.where(usable, tally.free[:, number], 0))
        np.minimum(most, free // need[number], out=most)
    shapes = {int(compiled.shape[c]) for c in classes.tolist()}
    least = np.min([compiled.shapes[shape].least for shape in shapes], axis=0)
    units = np.full(len(usable), min(ENDLESS >> 12, int(compiled.count.sum())), dtype=np.int64)
    for number in np.flatnonzero(least).tolist():
        np.minimum(units, tally.free[:, number] // least[number], out=units)
    for one in compiled.active:
        if not one.is_required or one.kind != definition.ANTI_AFFINITY:
            continue
        if one.level == 0 and (each := int(one.a[classes].min())):
            np.minimum(units, one.rule.most // each, out=units)
        elif one.level == blocks[0].level:
            members = min(int(one.a[b.classes] @ compiled.count[b.classes]) for b in blocks)
            if members:
                np.minimum(most, one.rule.most // members, out=most)
    np.minimum(most, level.sum(np.where(usable, units, 0)) // need[-1], out=most)
    if _are_rivals(tally, blocks):
        np.minimum(most, 1, out=most)
    return most


def _are_rivals(tally: PlacementTally, blocks: list[Block]) -> bool:
    """Whether no two of the blocks may share a domain, because exclusive domains are required for
    all, or all but one, each for itself."""
    compiled = tally.compiled
    nests = compiled.layout.nests[blocks[0].level]
    alone: set[int] = set()
    for one in compiled.active:
        if one.is_required and one.kind == definition.EXCLUSIVE and nests[one.level]:
            owners = {block.number for block in blocks if (one.a[block.classes] > 0).any()}
            if len(owners) == 1:
                alone |= owners
    return len(alone) >= len(blocks) - 1

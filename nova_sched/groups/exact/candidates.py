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
"""Reduces the hosts that the solver chooses from, if there are too many; it proves nothing
then."""

from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.layout import Layout, LayoutLevel
from nova_sched.groups.exact.symmetry import Counts, Symmetry, SymmetryBlocks

SPARE_DOMAINS, SPARE_BLOCK_DOMAINS = 3, 4
PLENTY = 2  # times the demand
PARTNERS = 30  # domains of partners, above which they are no hint
BLOCK_DOMAINS = 12


def roomy(symmetry: Symmetry) -> Symmetry:
    """Keeps the domains with the most places: those of each block, and those of the other sets.

    The latter are chosen in each wide domain, and apply to all sets.
    """
    layout = symmetry.compiled.layout
    fine, wide = _grain(layout)
    chosen = np.zeros(fine.count, dtype=bool)
    in_block = {number for one in symmetry.blocks if not one.inner for number in one.sets}
    for number, alike in enumerate(symmetry.sets):
        if number not in in_block:
            places = fine.sum(alike.most)
            for domains in wide:
                order = domains[np.argsort(-places[domains], kind='stable')]
                enough = np.searchsorted(np.cumsum(places[order]), PLENTY * alike.count)
                chosen[order[: int(enough) + 1 + SPARE_DOMAINS]] = True
    masks = [chosen[fine.ids]] * len(symmetry.sets)
    for blocks in symmetry.blocks:
        if not blocks.inner:
            # By the blocks that a domain takes, then by its scarcest set.
            level = layout.levels[blocks.level]
            rows = [symmetry.sets[number] for number in blocks.sets]
            times = np.min([level.sum(row.most) / blocks.need(row) for row in rows], axis=0)
            slack = np.where(blocks.most > 0, blocks.most + times / (1 + times), -1.0)
            count = PLENTY * blocks.count + SPARE_BLOCK_DOMAINS
            best = np.zeros(level.count, dtype=bool)
            best[np.argsort(-slack, kind='stable')[:count]] = True
            for number in blocks.sets:
                masks[number] = masks[number] | best[level.ids]
    return symmetry.within(masks)


def _grain(layout: Layout) -> tuple[LayoutLevel, list[np.ndarray]]:
    """Returns the finest level above the host, and its domains grouped by the widest level around
    it."""
    above = [number for number, level in enumerate(layout.levels) if number and level.count > 1]
    if not above:
        return layout.levels[0], [np.arange(layout.levels[0].count)]
    finest = max(above, key=lambda number: layout.levels[number].count)
    around = [number for number in above if layout.nests[finest, number] and number != finest]
    fine = layout.levels[finest]
    if not around:
        return fine, [np.arange(fine.count)]
    widest = min(around, key=lambda number: layout.levels[number].count)
    inside = layout.around(finest, widest)
    return fine, [
        np.flatnonzero(inside == domain) for domain in range(layout.levels[widest].count)
    ]


def promising(symmetry: Symmetry, counts: Counts, budget: int) -> Symmetry:
    """Keeps the hosts with the best scores, the current hosts, and the hosts that can meet
    partners.

    The result needs about ``budget`` variables.
    """
    compiled, layout = symmetry.compiled, symmetry.compiled.layout
    masks = []
    share = budget // max(len(symmetry.sets), 1)
    for alike, mine in zip(symmetry.sets, counts, strict=True):
        best = np.argsort(-symmetry.score(alike), kind='stable')
        mask = np.zeros(len(layout.live), dtype=bool)
        mask[best[: max(2 * alike.count + 20, share)]] = True
        mask[list(mine)] = True
        masks.append(mask)
    for number, mask in _partners(symmetry, counts):
        masks[number] |= mask
    for blocks in symmetry.blocks:
        if not blocks.inner:
            best = _best_domains(symmetry, blocks, counts)
            for number in blocks.sets:
                masks[number] = best.copy()
    homes = compiled.problem.home[compiled.problem.home >= 0]
    at = layout.position[homes]
    for mask in masks:
        mask[at[at >= 0]] = True
    return _trimmed(symmetry, masks, counts, budget)


def _partners(symmetry: Symmetry, counts: Counts) -> Iterator[tuple[int, np.ndarray]]:
    """Yields sets with hosts in the domains of the members with which they share a policy."""
    for one in symmetry.compiled.active:
        draws = one.kind in (definition.NEAR, definition.SPREAD, definition.AFFINITY)
        if not draws or not one.level:
            continue
        level = symmetry.compiled.layout.levels[one.level]
        sides = [n for n, row in enumerate(symmetry.sets) if one.a[row.first] or one.b[row.first]]
        used = np.zeros(level.count, dtype=bool)
        for number in sides:
            used[level.ids[list(counts[number])]] = True
        if used.sum() <= PARTNERS:
            for number in sides:
                yield number, used[level.ids]


def _best_domains(symmetry: Symmetry, blocks: SymmetryBlocks, counts: Counts) -> np.ndarray:
    """Returns the hosts, bool [h], in the current domains of blocks, and in the best by possible
    score."""
    level = symmetry.compiled.layout.levels[blocks.level]
    worth = np.zeros(level.count)
    used = np.zeros(level.count, dtype=bool)
    for number in blocks.sets:
        alike = symmetry.sets[number]
        worth += blocks.need(alike) * level.max(symmetry.score(alike))
        used[level.ids[list(counts[number])]] = True
    worth[blocks.most == 0] = -np.inf
    used[np.argsort(-worth, kind='stable')[: PLENTY * blocks.count + BLOCK_DOMAINS]] = True
    return used[level.ids]


def _trimmed(symmetry: Symmetry, masks: list[np.ndarray], counts: Counts, budget: int) -> Symmetry:
    """Trims the candidates to the budget: the same share of each set, the best by score.

    The current hosts of each set always remain.
    """
    sizes = [
        int(np.count_nonzero(mask & (alike.most > 0)))
        for mask, alike in zip(masks, symmetry.sets, strict=True)
    ]
    if sum(sizes) <= budget:
        return symmetry.within(masks)
    trimmed = []
    for alike, mask, mine, size in zip(symmetry.sets, masks, counts, sizes, strict=True):
        score = np.where(mask, symmetry.score(alike), -np.inf)
        best = np.zeros(len(mask), dtype=bool)
        best[np.argsort(-score, kind='stable')[: max(1, size * budget // sum(sizes))]] = True
        best[list(mine)] = True
        trimmed.append(best & mask)
    return symmetry.within(trimmed)

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
"""Interchangeable units, counted together: the solver has variables for sets of them.

``symmetry_of`` makes the sets. ``placement`` assigns counted places to single members again.
"""

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import definition
from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.arrays.layout import Layout, LayoutLevel
from nova_sched.groups.exact.search import has_answer, solve

SPLIT_S = 1.0  # for blocks of one rack: a few variables each
# Where there are too many hosts to choose from.
SPARE_DOMAINS, SPARE_BLOCK_DOMAINS = 3, 4
PLENTY = 2  # times the demand
PARTNERS = 30  # domains of partners, above which they are not a hint
BLOCK_DOMAINS = 12

Counts = Sequence[Mapping[int, int]]  # for each symmetry set: units by live position
# For each block: for each of its symmetry sets the live positions of its units.
Shares = list[list[list[int]]]
# From anti-affinity within a block: the maximum on a host, and the number of members of each
# symmetry set that count.
Caps = list[tuple[int, list[int]]]


@dataclasses.dataclass(eq=False)
class SymmetrySet:
    """A set of interchangeable units: of one class, or of one column of several blocks.

    ``each``: units of one class. ``most`` int64 [h]: how many units each live host takes,
    regardless of other sets.
    """

    classes: list[int]
    each: int
    most: np.ndarray

    @property
    def first(self) -> int:
        """The class that represents all classes of the set."""
        return self.classes[0]

    @property
    def count(self) -> int:
        return self.each * len(self.classes)


@dataclasses.dataclass(eq=False)
class SymmetryBlocks:
    """Blocks of one type: each needs one domain of the level for all its units.

    ``numbers``: those of the blocks in the compiled problem. ``sets``: positions in
    ``Symmetry.sets``. ``most`` int64 [D]: the maximum number of blocks per domain. ``inner``:
    positions in ``Symmetry.blocks`` of those wholly inside, if this is a single block. ``whole``:
    the units of a block are placed all together or not at all.
    """

    level: int
    numbers: list[int]
    sets: list[int]
    most: np.ndarray
    inner: list[int] = dataclasses.field(default_factory=list)
    whole: bool = True

    @property
    def count(self) -> int:
        return len(self.numbers)

    def need(self, alike: SymmetrySet) -> int:
        """Return the units of a set in each block."""
        return alike.each if self.count > 1 else alike.count


@dataclasses.dataclass(eq=False)
class Symmetry:
    """A compiled problem as sets of units and of blocks.

    ``private``: the number of alike blocks, for each rule on the units of a single one of them;
    the key is the rule's position in ``Compiled.active``. All such rules are required
    anti-affinity at host level. The rules of the first block represent the rest. ``partial``: some
    units may be left out. A block is placed whole or not at all, except a block that contains
    other blocks or all members.
    """

    compiled: Compiled
    sets: list[SymmetrySet]
    blocks: list[SymmetryBlocks]
    private: dict[int, int]
    partial: bool = False

    @property
    def size(self) -> int:
        """The number of variables that the sets need."""
        return sum(int(np.count_nonzero(alike.most)) for alike in self.sets)

    @property
    def units(self) -> int:
        return int(self.compiled.count.sum())

    def score(self, alike: SymmetrySet) -> np.ndarray:
        """Return the score of a unit on each live host, float64 [h]; -inf where none may be."""
        score = self.compiled.shapes[self.compiled.shape[alike.first]].score
        return np.where(alike.most > 0, score, -np.inf)

    def within(self, masks: Sequence[np.ndarray]) -> 'Symmetry':
        """Return the same on fewer live hosts: bool [h] for each set."""
        sets = [
            dataclasses.replace(alike, most=np.where(mask, alike.most, 0))
            for alike, mask in zip(self.sets, masks, strict=True)
        ]
        fewer = dataclasses.replace(
            self, sets=sets, blocks=[dataclasses.replace(blocks) for blocks in self.blocks]
        )
        _tighten(fewer)
        return fewer


class CannotSplitError(Exception):
    """Blocks cannot be separated in the counts; ``blocks`` has their numbers."""

    def __init__(self, blocks: list[int]) -> None:
        super().__init__(f'blocks {blocks}')
        self.blocks = blocks


def symmetry_of(
    compiled: Compiled, apart: Collection[int] = (), partial: bool = False, by_home: bool = False
) -> Symmetry:
    """Return the sets of units and blocks of a compiled problem.

    Blocks with a number in ``apart`` are not merged. With ``by_home``, units that have a home are
    not merged either, because their identity matters.
    """
    named = np.array(
        [by_home and bool((compiled.problem.home[rows] >= 0).any()) for rows in compiled.members],
        dtype=bool,
    )
    columns, merged = _merge(compiled, set(apart), named)
    for blocks in merged:
        has_all = len(blocks.sets) == len(columns) and blocks.count == 1
        blocks.whole = not partial or not (blocks.inner or has_all)
    symmetry = Symmetry(compiled, [], merged, {}, partial)
    for classes in columns:
        each = int(compiled.count[classes[0]])
        most = np.minimum(compiled.slots(classes[0]), each * len(classes))
        symmetry.sets.append(SymmetrySet(classes, each, most))
    symmetry.private = _private(symmetry)
    _cap(symmetry)
    _tighten(symmetry)
    return symmetry


def _merge(
    compiled: Compiled, apart: set[int], named: np.ndarray
) -> tuple[list[list[int]], list[SymmetryBlocks]]:
    """Return the columns of classes that form one set, and the blocks that refer to these."""
    columns: list[list[int]] = []
    taken = named.copy()
    merged = []
    single = []
    for kind in sorted(compiled.block_types, key=lambda kind: -len(kind.blocks)):
        # If levels cross, a class may be in two types of several blocks. Only one of them is
        # merged.
        if (
            len(kind.blocks) > 1
            and apart.isdisjoint(kind.blocks)
            and not taken[kind.classes].any()
        ):
            first = len(columns)
            columns += kind.classes.T.tolist()
            taken[kind.classes] = True
            sets = list(range(first, len(columns)))
            merged.append(SymmetryBlocks(kind.level, list(kind.blocks), sets, np.zeros(0)))
        else:
            single += kind.blocks
    known = {c for classes in columns for c in classes}
    columns += [[c] for c in range(compiled.class_count) if c not in known]
    of = {c: number for number, classes in enumerate(columns) for c in classes}
    place_of = {block: place for place, blocks in enumerate(merged) for block in blocks.numbers}
    for number in sorted(single):  # inner blocks have the lower numbers
        block = compiled.blocks[number]
        sets = sorted({of[c] for c in block.classes.tolist()})
        inner = sorted({place_of[other] for other in block.inner})
        place_of[number] = len(merged)
        merged.append(SymmetryBlocks(block.level, [number], sets, np.zeros(0), inner))
    return columns, merged


def _private(symmetry: Symmetry) -> dict[int, int]:
    """Return how many blocks are alike, for each rule on units of a single one of them."""
    owner: dict[int, tuple[int, int]] = {}  # class -> position of its blocks, and which of them
    for number, blocks in enumerate(symmetry.blocks):
        if blocks.count > 1:
            for place in blocks.sets:
                for block, c in enumerate(symmetry.sets[place].classes):
                    owner[c] = number, block
    alike = {}
    for position, active in enumerate(symmetry.compiled.active):
        owners = {owner.get(c) for c in np.flatnonzero((active.a > 0) | (active.b > 0)).tolist()}
        only = next(iter(owners), None)
        if (
            len(owners) == 1
            and only is not None
            and not (active.fixed_a.any() or active.fixed_b.any())
        ):
            alike[position] = symmetry.blocks[only[0]].count
    return alike


def _cap(symmetry: Symmetry) -> None:
    """Limit each set by the anti-affinity among its units."""
    for position, active in enumerate(symmetry.compiled.active):
        if active.is_cap:
            times = symmetry.private.get(position, 1)
            left = np.maximum(active.rule.most - active.fixed_a, 0)
            for alike in symmetry.sets:
                a = int(active.a[alike.first])
                if a:
                    most = (left // a * times)[symmetry.compiled.layout.levels[active.level].ids]
                    alike.most = np.minimum(alike.most, most)


def _tighten(symmetry: Symmetry) -> None:
    """Limit blocks by the places of their sets in each domain, and sets by their blocks."""
    for blocks in symmetry.blocks:
        level = symmetry.compiled.layout.levels[blocks.level]
        blocks.most = _most_blocks(symmetry, blocks, level)
        for number in blocks.sets:
            alike = symmetry.sets[number]
            alike.most = np.minimum(alike.most, (blocks.most * blocks.need(alike))[level.ids])


def _most_blocks(symmetry: Symmetry, blocks: SymmetryBlocks, level: LayoutLevel) -> np.ndarray:
    """Int64 [D]: how many of the blocks each domain could take, by places and by each resource."""
    compiled = symmetry.compiled
    most = np.full(level.count, blocks.count, dtype=np.int64)
    usable = np.zeros(len(level.ids), dtype=bool)
    need = np.zeros(compiled.free.shape[1], dtype=np.int64)
    for alike in (symmetry.sets[number] for number in blocks.sets):
        usable |= alike.most > 0
        if blocks.whole:
            most = np.minimum(most, level.sum(alike.most) // blocks.need(alike))
        need += compiled.shapes[compiled.shape[alike.first]].least * blocks.need(alike)
    if not blocks.whole:
        return np.where(level.any(usable), most, 0)
    for resource in np.flatnonzero(need):
        held = level.sum(np.where(usable, compiled.free[:, resource], 0))
        most = np.minimum(most, held // need[resource])
    return most


def counted(symmetry: Symmetry, hosts: np.ndarray) -> Counts:
    """Return the units of each set by live position, as placed by a placement [M]."""
    compiled = symmetry.compiled
    counts = []
    for alike in symmetry.sets:
        heads = np.concatenate([compiled.members[c][:, 0] for c in alike.classes])
        counts.append(collections.Counter(compiled.layout.position[hosts[heads]].tolist()))
    return counts


def placement(symmetry: Symmetry, counts: Counts) -> np.ndarray:
    """Return the hosts [M], -1 for members without a place. Raises CannotSplitError."""
    compiled = symmetry.compiled
    hosts = np.where(compiled.problem.fixed >= 0, compiled.problem.fixed, -1).astype(np.int32)
    of_class: dict[int, Mapping[int, int]] = {
        alike.first: here for alike, here in zip(symmetry.sets, counts, strict=True)
    }
    for blocks in symmetry.blocks:
        if blocks.count > 1:
            of_class |= _split(symmetry, blocks, counts)
    for c, here in of_class.items():
        _name(compiled, c, here, hosts)
    return hosts


def _name(compiled: Compiled, c: int, here: Mapping[int, int], hosts: np.ndarray) -> None:
    """Assign the places ``here`` to units of one class: first units at home, then the rest in
    order."""
    if not here:
        return
    left = collections.Counter(here)
    units = compiled.members[c]
    homes = compiled.layout.position[compiled.problem.home[units]]
    homes[compiled.problem.home[units] < 0] = -1
    waiting = []
    for unit, own in zip(units, homes.tolist(), strict=True):
        stay = [h for h, _ in collections.Counter(own).most_common() if h >= 0 and left[h] > 0]
        if stay:
            left[stay[0]] -= 1
            hosts[unit] = compiled.layout.live[stay[0]]
        else:
            waiting.append(unit)
    # If some units are left out, these are the last ones.
    for unit, h in zip(waiting, left.elements(), strict=False):
        hosts[unit] = compiled.layout.live[h]


def _split(
    symmetry: Symmetry, blocks: SymmetryBlocks, counts: Counts
) -> dict[int, collections.Counter[int]]:
    """Return the places of each class of several blocks, domain by domain."""
    ids = symmetry.compiled.layout.levels[blocks.level].ids
    sets = [symmetry.sets[number] for number in blocks.sets]
    caps: Caps = []
    for position in symmetry.private:
        active = symmetry.compiled.active[position]
        members = [int(active.a[alike.first]) for alike in sets]
        if any(members):
            caps.append((active.rule.most, members))
    split: dict[int, collections.Counter[int]] = {
        c: collections.Counter() for alike in sets for c in alike.classes
    }
    by_domain: dict[int, list[list[int]]] = {}
    for place, number in enumerate(blocks.sets):
        for h, count in sorted(counts[number].items()):
            rows = by_domain.setdefault(int(ids[h]), [[] for _ in sets])
            rows[place].extend([h] * count)
    block = 0
    for rows in by_domain.values():
        for share in _shares(rows, len(rows[0]) // sets[0].each, caps, blocks.numbers):
            for alike, places in zip(sets, share, strict=True):
                split[alike.classes[block]].update(places)
            block += 1
    return split


def _shares(rows: list[list[int]], blocks: int, caps: Caps, numbers: list[int]) -> Shares:
    """Distribute the places of each set in one domain, ``rows``, over so many blocks.

    Round-robin, host by host: no block gets more places on a host than necessary. If that breaks
    a cap on several sets of a block, the solver does it.
    """
    shares = [[row[block::blocks] for row in rows] for block in range(blocks)]
    if blocks < 2 or _kept(shares, caps):
        return shares
    searched = _searched(rows, blocks, caps)
    if searched is None:
        raise CannotSplitError(numbers)
    return searched


def _kept(shares: Shares, caps: Caps) -> bool:
    for share in shares:
        for most, members in caps:
            on = collections.Counter[int]()
            for row, weight in zip(share, members, strict=True):
                for h in row:
                    on[h] += weight
            if any(count > most for count in on.values()):
                return False
    return True


def _searched(rows: list[list[int]], blocks: int, caps: Caps) -> Shares | None:
    """Do the same with the solver; returns None if it finds no way."""
    model = cp_model.CpModel()
    held = [collections.Counter(row) for row in rows]
    z = {
        (block, place, h): model.new_int_var(0, count, '')
        for block in range(blocks)
        for place, on in enumerate(held)
        for h, count in on.items()
    }
    every = range(blocks)
    for place, on in enumerate(held):
        # Rule: all places are assigned, and each block has its share.
        for h, count in on.items():
            model.add(sum(z[block, place, h] for block in every) == count)
        for block in every:
            model.add(sum(z[block, place, h] for h in on) == len(rows[place]) // blocks)
    for most, members in caps:
        # Rule: no block exceeds its limit on a host.
        for h in {h for on in held for h in on}:
            for block in every:
                terms = [w * z[block, p, h] for p, w in enumerate(members) if w and h in held[p]]
                model.add(sum(terms) <= most)
    solver, status = solve(model, SPLIT_S, num_workers=1, cp_model_presolve=True)
    if not has_answer(status):
        return None
    return [
        [
            [h for h in on for _ in range(solver.value(z[block, place, h]))]
            for place, on in enumerate(held)
        ]
        for block in every
    ]


def roomy(symmetry: Symmetry) -> Symmetry:
    """Keep the domains with the most places: those of each block, and those of the other sets.

    The latter are chosen in each wide domain, and apply to all sets.
    """
    layout = symmetry.compiled.layout
    fine, wide = _grain(layout)
    chosen = np.zeros(fine.count, dtype=bool)
    in_block = {number for blocks in symmetry.blocks if not blocks.inner for number in blocks.sets}
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
    """Return the finest level above the host, and its domains grouped by the widest level around
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
    inside = layout.around[finest, widest]
    return fine, [
        np.flatnonzero(inside == domain) for domain in range(layout.levels[widest].count)
    ]


def promising(symmetry: Symmetry, counts: Counts, budget: int) -> Symmetry:
    """Keep the hosts with the best scores, the current hosts, and the hosts that can meet
    partners.

    The result needs about ``budget`` variables.
    """
    compiled, layout = symmetry.compiled, symmetry.compiled.layout
    masks = []
    share = budget // max(len(symmetry.sets), 1)
    for alike, placed in zip(symmetry.sets, counts, strict=True):
        best = np.argsort(-symmetry.score(alike), kind='stable')
        mask = np.zeros(len(layout.live), dtype=bool)
        mask[best[: max(2 * alike.count + 20, share)]] = True
        mask[list(placed)] = True
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
    """Yield sets with hosts in the domains of the members with which they share a policy."""
    for active in symmetry.compiled.active:
        draws = active.kind in (definition.NEAR, definition.SPREAD, definition.AFFINITY)
        if not draws or not active.level:
            continue
        level = symmetry.compiled.layout.levels[active.level]
        sides = [
            n for n, row in enumerate(symmetry.sets) if active.a[row.first] or active.b[row.first]
        ]
        used = np.zeros(level.count, dtype=bool)
        for number in sides:
            used[level.ids[list(counts[number])]] = True
        if used.sum() <= PARTNERS:
            for number in sides:
                yield number, used[level.ids]


def _best_domains(symmetry: Symmetry, blocks: SymmetryBlocks, counts: Counts) -> np.ndarray:
    """Return the hosts, bool [h], in the current domains of blocks, and in the best by possible
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
    """Trim the candidates to the budget: the same share of each set, the best by score.

    The current hosts of each set always remain.
    """
    sizes = [
        int(np.count_nonzero(mask & (alike.most > 0)))
        for mask, alike in zip(masks, symmetry.sets, strict=True)
    ]
    if sum(sizes) <= budget:
        return symmetry.within(masks)
    trimmed = []
    for alike, mask, placed, size in zip(symmetry.sets, masks, counts, sizes, strict=True):
        score = np.where(mask, symmetry.score(alike), -np.inf)
        best = np.zeros(len(mask), dtype=bool)
        best[np.argsort(-score, kind='stable')[: max(1, size * budget // sum(sizes))]] = True
        best[list(placed)] = True
        trimmed.append(best & mask)
    return symmetry.within(trimmed)

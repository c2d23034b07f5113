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
"""Places a whole group greedily with look-ahead; repeats with other choices while it fails."""

import collections
import dataclasses
import heapq
from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.arrays.compile import Block, Compiled, compile
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.arrays.tally import PlacementTally, Wiring
from nova_sched.groups.limits import TimeLimit
from nova_sched.groups.quick import sequential
from nova_sched.groups.quick.packing import (
    RANDOM,
    SCORE,
    TIGHT,
    Packer,
    Taste,
    place_class,
    plan_spreads,
)

FOR_SCORE = 3  # attempts that choose by score; later ones rotate
LATER = ((TIGHT, False), (RANDOM, True), (RANDOM, False), (SCORE, True))  # with or without wishes
ELSEWHERE = 40  # members that may be placed again in other regions, to compare these


SMALL = 64  # hosts in a domain, on average, up to which a block is packed at once


@dataclasses.dataclass(eq=False)
class SearchItem:
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


def place(
    given: Problem | Compiled, seconds: float | None = 0.2, attempts: int = 25, seed: int = 0
) -> np.ndarray | None:
    """Return a placement, int32 [M], that breaks no required policy; None if none was found.

    ``seconds`` of processor time: for all attempts together, of which the first is always
    completed; None is unlimited. If all attempts fail, sequential placement runs, for as long
    again. The same seed gives the same answer, unless time runs out.
    """
    compiled = compile(given) if isinstance(given, Problem) else given
    problem = compiled.problem
    placement, held = None, _held(problem)
    if held is not None:
        half_s = None if seconds is None else seconds / 2
        placement = place(held, half_s, max(attempts // 5, 1), seed)
        if placement is not None and policies.broken(problem, placement):
            placement = None
    if placement is not None and not policies.cost(problem, placement).preferred:
        return placement
    other = _search(compiled, seconds, attempts, seed)
    if placement is None or other is None:
        return other if placement is None else placement
    return min(placement, other, key=lambda hosts: policies.cost(problem, hosts))


def _held(problem: Problem) -> Problem | None:
    """Return the problem with members fixed at home, except on hosts that lack capacity for all.

    Return None if no member is at home.
    """
    stays = np.flatnonzero((problem.home >= 0) & (problem.fixed < 0))
    stays = stays[problem.mask[problem.kind[stays], problem.home[stays]]]
    if problem.demand.shape[1] > 1:  # the way that a member takes at home is unknown
        return None
    hosts, kinds = problem.home[stays], problem.kind[stays]
    free = problem.free.copy()
    np.subtract.at(free, hosts, problem.demand[kinds, 0])
    full = np.any(free < 0, axis=1)
    cap = problem.cap
    if problem.cap is not None:
        cap = problem.cap.copy()
        np.subtract.at(cap, (kinds, hosts), 1)
        full |= (cap < 0).any(axis=0)
        cap[:, full] = problem.cap[:, full]
    free[full] = problem.free[full]
    stays = stays[~full[hosts]]
    if not len(stays):
        return None
    fixed = problem.fixed.copy()
    fixed[stays] = problem.home[stays]
    return dataclasses.replace(
        problem, fixed=fixed, free=free, cap=cap, home=np.full_like(problem.home, -1)
    )


def _search(
    compiled: Compiled, seconds: float | None, attempts: int, seed: int
) -> np.ndarray | None:
    if compiled.hopeless or (compiled.class_count and not len(compiled.layout.live)):
        return None
    problem = compiled.problem
    limit = TimeLimit(seconds)
    search = Search(compiled, seed, limit)
    for number in range(attempts):
        hosts = search.attempt(number)
        if hosts is not None and not policies.broken(problem, hosts):
            return min(
                [hosts, *search.elsewhere()], key=lambda places: policies.cost(problem, places)
            )
        if number == 0 and bounds.first(compiled):
            return None
        if limit.is_over:
            break
    return sequential.place(problem, TimeLimit(seconds))


class Search:
    """All attempts at one problem, and the data that they learn from failed attempts."""

    def __init__(self, compiled: Compiled, seed: int, limit: TimeLimit):
        self._compiled, self._limit = compiled, limit
        self._chance = np.random.default_rng(seed)
        self._wiring = Wiring(compiled)
        empty = PlacementTally(self._wiring)
        self._packed, self._regions = split(compiled)
        self._passing = passing_of(empty)
        self._items = items(empty, self._packed, self._passing)
        self._weights = np.zeros(len(self._items))
        self._region_choice = {block.number: 0 for block in self._regions}
        self._plan_choice: dict[int, int] = {}
        # By level, how many of the packed blocks could use each domain, int64 [D].
        self._demand = {
            block.level: np.zeros(compiled.layout.levels[block.level].count, dtype=np.int64)
            for block in self._packed
        }
        for block in self._packed:
            self._demand[block.level] += self._passing[block.number]

    def attempt(self, number: int) -> np.ndarray | None:
        """Return a placement that may still break something, or None.

        The limit of time does not end the first attempt (number 0): nearly all that is found, it
        finds.
        """
        mode, wishes = (
            (SCORE, True) if number < FOR_SCORE else LATER[(number - FOR_SCORE) % len(LATER)]
        )
        hosts = len(self._compiled.layout.live)
        taste = Taste(mode, self._chance.random(hosts) if mode == RANDOM else None, wishes)
        tally = PlacementTally(self._wiring)
        if not self._settle_regions(tally):
            return None
        packer = Packer(tally, taste, self._demand)
        for item in order(self._items, self._weights, home_first=number < FOR_SCORE):
            plan_spreads(tally, item.classes, self._plan_choice)
            if item.block is not None:
                placed = packer.place(item.block)
            else:
                c = int(item.classes[0])
                open_ = np.flatnonzero(tally.closed[c] == 0)  # usually within its region
                rows = slice(int(open_[0]), int(open_[-1]) + 1) if len(open_) else slice(0, 1)
                placed = place_class(tally, taste, c, rows)
            if not placed:
                self._learn(item)
                return None
            if number and self._limit.is_over:
                return None
        return self._compiled.placement(tally.at)

    def elsewhere(self) -> Iterator[np.ndarray]:
        """Yield placements in other domains of the regions after a success; only for small
        groups."""
        members = max(self._compiled.problem.member_count, 1)
        choices = max(
            (int(self._passing[block.number].sum()) for block in self._regions), default=0
        )
        for _ in range(min(choices - 1, ELSEWHERE // members)):
            for block in self._regions:
                self._region_choice[block.number] += 1
            hosts = None if self._limit.is_over else self.attempt(0)
            if hosts is not None and not policies.broken(self._compiled.problem, hosts):
                yield hosts

    def _settle_regions(self, tally: PlacementTally) -> bool:
        """Choose a domain for each region, the widest first, and closes all others to its
        classes."""
        for block in self._regions:
            level = self._compiled.layout.levels[block.level]
            passes = self._passing[block.number].copy()
            for c in block.classes:
                passes &= level.any(tally.usable(c))
            good = np.flatnonzero(passes)
            if not len(good):
                self._region_choice = {
                    key: choice + 1 for key, choice in self._region_choice.items()
                }
                return False
            if len(good) > 1:
                inside = [packed for packed in self._packed if packed.number in block.inner]
                good = good[np.argsort(-promise(tally, block, inside, good), kind='stable')]
            domain = good[self._region_choice[block.number] % len(good)]
            tally.closed[block.classes] += level.ids != domain
        return True

    def _learn(self, item: SearchItem) -> None:
        """Move a failed item forward in the order, and changes the choices made before
        placement."""
        self._weights[item.number] += 1
        for other in self._items:
            if item.number in other.followers:
                self._weights[other.number] += 0.5
        for c in item.classes:
            for number in self._wiring.asked[c]:
                self._plan_choice[number] = self._plan_choice.get(number, 0) + 1
        for block in self._regions:
            if np.isin(item.classes, block.classes).any():
                self._region_choice[block.number] += 1


def split(compiled: Compiled) -> tuple[list[Block], list[Block]]:
    """Return the blocks that are packed at once, and the others, coarse levels first.

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


def items(
    tally: PlacementTally, packed: list[Block], passing: dict[int, np.ndarray]
) -> list[SearchItem]:
    """Return all items of an empty tally.

    ``passing``: by block, bool [D] domains that may take it.
    """
    compiled = tally.compiled
    free = np.maximum(compiled.free.sum(axis=0), 1)
    item_of = np.full(compiled.class_count, -1, dtype=np.intp)
    search_items: list[SearchItem] = []

    def add(classes: np.ndarray, block: Block | None, options: float) -> None:
        item_of[classes] = len(search_items)
        need = sum(compiled.count[c] * compiled.shapes[compiled.shape[c]].least for c in classes)
        at_home = any(len(compiled.stay[c][0]) for c in classes)
        search_items.append(
            SearchItem(
                len(search_items), classes, block, options, float((need / free).max()), at_home
            )
        )

    for block in packed:
        add(block.classes, block, float(passing[block.number].sum()))
    for c in range(compiled.class_count):
        if item_of[c] < 0:
            add(np.array([c]), None, float(tally.room(c).sum() / compiled.count[c]))
    for active in compiled.active:
        if active.kind == definition.NEAR:
            followers = np.unique(item_of[active.a > 0]).tolist()
            for anchor in np.unique(item_of[active.b > 0]).tolist():
                search_items[anchor].followers.update(
                    other for other in followers if other != anchor
                )
    return search_items


def order(items: list[SearchItem], weights: np.ndarray, home_first: bool) -> list[SearchItem]:
    """Sort the hardest items first, and anchors before their followers and as urgent as these.

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


def passing_of(tally: PlacementTally) -> dict[int, np.ndarray]:
    """By block, bool [D]: domains that may take it in an empty tally, according to the bounds."""
    known: dict[int, np.ndarray] = {}
    alike = {
        number: block_type.blocks
        for block_type in tally.compiled.block_types
        for number in block_type.blocks
    }
    for block in tally.compiled.blocks:  # inner ones first
        if block.number not in known:
            passes = bounds.passing(tally, block, known)
            known.update((number, passes) for number in alike[block.number])
    return known


def promise(
    tally: PlacementTally, block: Block, inside: list[Block], domains: np.ndarray
) -> np.ndarray:
    """Float64 per domain: the approximate value of the block's units there, by score and home.

    Units of each class take the best hosts, even if other classes want them too. Blocks ``inside``
    that are packed at once take the best domains while these have capacity.
    """
    compiled, level = tally.compiled, tally.compiled.layout.levels[block.level]
    worth = np.zeros(len(domains))
    alone = np.setdiff1d(block.classes, [c for inner in inside for c in inner.classes])
    for c in alone.tolist():
        hosts = -(
            -int(compiled.count[c])
            // max(min(int(tally.wiring.at_most[c]), int(compiled.count[c])), 1)
        )
        value = np.where(tally.usable(c), tally.value(c), -np.inf)
        each = compiled.count[c] / hosts
        worth += each * np.array(
            [_best(value[level.rows(int(domain))], hosts) for domain in domains]
        )
    taken = {inner.level: np.zeros(compiled.layout.levels[inner.level].count) for inner in inside}
    for inner, count in _by_type(compiled, inside):
        reach, share = tally.reach(inner.classes, inner.level), taken[inner.level]
        times = (_times(tally, inner, count) * (1 - share) + 1e-9).astype(np.int64)
        around = compiled.layout.around[inner.level, block.level]
        for place, domain in enumerate(domains.tolist()):
            rows = np.flatnonzero((around == domain) & (times > 0) & (reach > -np.inf))
            rows = rows[np.argsort(-reach[rows], kind='stable')]
            here = np.clip(count - (np.cumsum(times[rows]) - times[rows]), 0, times[rows])
            share[rows] += here / times[rows] * (1 - share[rows])
            if here.any():  # hosts that seem to lack capacity count as much as the others
                worth[place] += float(reach[rows] @ here) * count / int(here.sum())
    return worth


def _times(tally: PlacementTally, block: Block, count: int) -> np.ndarray:
    """Int64 [D]: about how many blocks like this one each domain could take, at most ``count``."""
    compiled, level = tally.compiled, tally.compiled.layout.levels[block.level]
    times = np.full(level.count, count)
    for c in block.classes.tolist():
        slots = np.where(
            tally.usable(c),
            np.minimum(tally.slots[compiled.shape[c]], compiled.count[c] * count),
            0,
        )
        times = np.minimum(times, level.sum(slots) // compiled.count[c])
    for active in compiled.active:
        members = int((active.a[block.classes] * compiled.count[block.classes]).sum())
        if members and active.is_cap and active.level == block.level:
            times = np.minimum(times, active.rule.most // members)
    return times


def _by_type(compiled: Compiled, blocks: list[Block]) -> list[tuple[Block, int]]:
    """Return one block of each type, and how many there are."""
    type_of = {
        number: place
        for place, block_type in enumerate(compiled.block_types)
        for number in block_type.blocks
    }
    by_type: dict[int, list[Block]] = collections.defaultdict(list)
    for block in blocks:
        by_type[type_of[block.number]].append(block)
    return [(alike[0], len(alike)) for alike in by_type.values()]


def _best(values: np.ndarray, count: int) -> float:
    """Return the sum of the largest values.

    If there are too few, each missing value counts as the mean of those that exist.
    """
    good = values[values > -np.inf]
    if not len(good):
        return 0.0
    if len(good) > count:
        good = np.partition(good, len(good) - count)[-count:]
    return float(good.mean()) * count

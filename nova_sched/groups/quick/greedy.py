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

import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.arrays.compile import Compiled, compile
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.arrays.tally import Tally, Wiring
from nova_sched.groups.quick import sequential
from nova_sched.groups.quick.greedy_block import Packer
from nova_sched.groups.quick.greedy_class import (
    RANDOM,
    SCORE,
    TIGHT,
    Taste,
    place_class,
    plan_spreads,
)
from nova_sched.groups.quick.greedy_order import Item, items, order, passing_of, split
from nova_sched.groups.quick.greedy_region import promise
from nova_sched.groups.quick.implied import with_implied

FOR_SCORE = 3  # attempts that choose by score; later ones rotate
LATER = ((TIGHT, False), (RANDOM, True), (RANDOM, False), (SCORE, True))  # with or without wishes
ELSEWHERE = 40  # members that may be placed again in other regions, to compare these


def place(
    given: Problem | Compiled, seconds: float | None = 0.2, attempts: int = 25, seed: int = 0
) -> np.ndarray | None:
    """Returns a placement, int32 [M], that breaks no required policy; None if none was found.

    ``seconds``: for all attempts together; None is unlimited. If all attempts fail, sequential
    placement runs without a time limit, so its result is never lost. The same seed gives the same
    answer, unless time runs out.
    """
    compiled = compile(given) if isinstance(given, Problem) else given
    problem = compiled.problem
    until = None if seconds is None else time.monotonic() + seconds
    found = _at_home(problem, seconds, attempts, seed)
    if found is not None and not policies.cost(problem, found).preferred:
        return found
    other = _search(compiled, until, attempts, seed)
    if found is None or other is None:
        return other if found is None else found
    return min(found, other, key=lambda hosts: policies.cost(problem, hosts))


def _at_home(
    problem: Problem, seconds: float | None, attempts: int, seed: int
) -> np.ndarray | None:
    """Returns a placement in which all members at home stay, if they may.

    Returns None if no member is at home, or no such placement is found.
    """
    held = _held(problem)
    if held is None:
        return None
    hosts = place(held, None if seconds is None else seconds / 2, max(attempts // 5, 1), seed)
    return hosts if hosts is not None and not policies.broken(problem, hosts) else None


def _held(problem: Problem) -> Problem | None:
    """Returns the problem with members fixed at home, except on hosts that lack capacity for all.

    Returns None if no member is at home.
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
    compiled: Compiled, until: float | None, attempts: int, seed: int
) -> np.ndarray | None:
    if compiled.hopeless or (compiled.class_count and not len(compiled.layout.live)):
        return None
    problem = compiled.problem
    told = with_implied(problem)
    search = Search(compiled if told is problem else compile(told), seed, until)
    for number in range(attempts):
        hosts = search.attempt(number)
        if hosts is not None and not policies.broken(problem, hosts):
            return min([hosts, *search.elsewhere()], key=lambda one: policies.cost(problem, one))
        if (number == 0 and bounds.first(compiled)) or search.is_late():
            break
    return sequential.place(problem)


class Search:
    """All attempts at one problem, and the data that they learn from failed attempts."""

    def __init__(self, compiled: Compiled, seed: int, until: float | None):
        self._compiled, self._until = compiled, until
        self._chance = np.random.default_rng(seed)
        self._wiring = Wiring(compiled)
        empty = Tally(self._wiring)
        self._packed, self._regions = split(compiled)
        self._passing = passing_of(empty)
        self._items = items(empty, self._packed, self._passing)
        self._weights = np.zeros(len(self._items))
        self._region_choice = {block.number: 0 for block in self._regions}
        self._plan_choice: dict[int, int] = {}
        self._demand = self._demands()

    def is_late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def attempt(self, number: int) -> np.ndarray | None:
        """Returns a placement that may still break something, or None."""
        mode, wishes = (
            (SCORE, True) if number < FOR_SCORE else LATER[(number - FOR_SCORE) % len(LATER)]
        )
        hosts = len(self._compiled.layout.live)
        taste = Taste(mode, self._chance.random(hosts) if mode == RANDOM else None, wishes)
        tally = Tally(self._wiring)
        if not self._settle_regions(tally):
            return None
        packer = Packer(tally, taste, self._demand)
        for item in order(self._items, self._weights, home_first=number < FOR_SCORE):
            plan_spreads(tally, item.classes, self._plan_choice)
            if item.block is not None:
                placed = packer.place(item.block)
            else:
                placed = place_class(tally, taste, int(item.classes[0]), self._rows(tally, item))
            if not placed:
                self._learn(item)
                return None
            if self.is_late():
                return None
        return self._compiled.placement(tally.at)

    def elsewhere(self) -> Iterator[np.ndarray]:
        """Yields placements in other domains of the regions after a success; only for small
        groups."""
        members = max(self._compiled.problem.member_count, 1)
        choices = max(
            (int(self._passing[block.number].sum()) for block in self._regions), default=0
        )
        for _ in range(min(choices - 1, ELSEWHERE // members)):
            for block in self._regions:
                self._region_choice[block.number] += 1
            hosts = None if self.is_late() else self.attempt(0)
            if hosts is not None and not policies.broken(self._compiled.problem, hosts):
                yield hosts

    def _settle_regions(self, tally: Tally) -> bool:
        """Chooses a domain for each region, the widest first, and closes all others to its
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
                inside = [one for one in self._packed if one.number in block.inner]
                good = good[np.argsort(-promise(tally, block, inside, good), kind='stable')]
            domain = good[self._region_choice[block.number] % len(good)]
            tally.closed[block.classes] += level.ids != domain
        return True

    def _rows(self, tally: Tally, item: Item) -> slice:
        """Returns the smallest slice with all hosts where a class may go: usually its region."""
        open_ = np.flatnonzero(tally.closed[item.classes[0]] == 0)
        return slice(int(open_[0]), int(open_[-1]) + 1) if len(open_) else slice(0, 1)

    def _learn(self, item: Item) -> None:
        """Moves a failed item forward in the order, and changes the choices made before
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

    def _demands(self) -> dict[int, np.ndarray]:
        """Returns, by level, how many of the packed blocks could use each domain, int64 [D]."""
        levels = self._compiled.layout.levels
        found = {
            block.level: np.zeros(levels[block.level].count, dtype=np.int64)
            for block in self._packed
        }
        for block in self._packed:
            found[block.level] += self._passing[block.number]
        return found

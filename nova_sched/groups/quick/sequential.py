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
"""Places one member after the other where it is best at the time, as a fallback.

Single servers are scheduled in the same way. Policies are relaxed: while a spread has too few
domains a new one is taken, and a follower may go before all its anchors. Placements are not
reverted, so the result is checked at the end.
"""

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.problem import Problem, Rule, is_free
from nova_sched.groups.limits import TimeLimit

ENDLESS = TimeLimit(None)


def place(problem: Problem, limit: TimeLimit = ENDLESS) -> np.ndarray | None:
    """Return a placement, int32 [M], that breaks no required policy.

    Return None if the members' order leads to none, or if the ``limit`` is over.
    """
    walk = _Walk(problem)
    for member in np.flatnonzero(problem.fixed < 0).tolist():
        if limit.is_over or not walk.step(member):
            return None
    return None if policies.broken(problem, walk.hosts) else walk.hosts


class _Walk:
    """``hosts`` int32 [M] so far; ``counts`` per rule: int64 [2, D], members of either side.

    It looks only at ``rows``, the hosts where some kind fits and passes at the start.
    """

    def __init__(self, problem: Problem):
        self._problem = problem
        self.hosts = problem.fixed.astype(np.int32)
        self._free, self._cap = problem.free, problem.cap
        fits = [self._fit(kind, slice(None)) & problem.mask[kind]
                for kind in range(len(problem.demand))]  # fmt: skip
        self._rows = np.flatnonzero(np.any(fits, axis=0))
        self._fits = [fit[self._rows] for fit in fits]
        self._free = problem.free[self._rows]
        self._cap = None if problem.cap is None else problem.cap[:, self._rows]
        self._score = problem.score[:, self._rows]
        self._domains = [ids[self._rows] for ids in problem.domains]
        self._required = [rule for rule in problem.rules if rule.is_required]
        self._sides = [problem.sides(rule) for rule in self._required]
        # By member, each rule and side that it is on.
        self._on: list[list[tuple[int, int]]] = [[] for _ in problem.names]
        for number, sides in enumerate(self._sides):
            for side, member in zip(
                *(indices.tolist() for indices in np.nonzero(sides)), strict=True
            ):
                self._on[member].append((number, side))
        self._counts = [
            np.zeros((2, problem.size(rule.level)), dtype=np.int64) for rule in self._required
        ]
        self._outside = [
            policies.counts(problem, rule, self.hosts).outside for rule in self._required
        ]
        for member in np.flatnonzero(problem.fixed >= 0).tolist():
            self._count(member)

    def step(self, member: int) -> bool:
        """Place one member where it scores best; returns False if it may go nowhere."""
        kind = self._problem.kind[member]
        good, wishes = self._fits[kind].copy(), []
        for number, side in self._on[member]:
            rule = self._required[number]
            domains = self._domains[rule.level]
            allowed, wish = _judge(rule, side, self._counts[number], self._outside[number])
            if allowed is not None:
                good &= allowed[domains]
            if wish is not None:
                wishes.append(wish[domains])
        for wish in wishes:
            if (good & wish).any():
                good &= wish
        if not good.any():
            return False
        self._take(member, int(np.where(good, self._score[kind], -np.inf).argmax()))
        return True

    def _take(self, member: int, row: int) -> None:
        kind = self._problem.kind[member]
        self.hosts[member] = self._rows[row]
        ways = self._problem.demand[kind]
        self._free[row] -= ways[int(is_free(ways, self._free[row]).argmax())]
        if self._cap is not None:
            self._cap[kind, row] -= 1
        for other, fits in enumerate(self._fits):
            if fits[row]:
                fits[row] = self._fit(other, slice(row, row + 1))[0]
        self._count(member)

    def _fit(self, kind: int, rows: slice) -> np.ndarray:
        """Bool over rows: whether one more of the kind fits there now."""
        demand = self._problem.demand[kind][:, None]
        fits = np.any(is_free(demand, self._free[rows]), axis=0)
        return fits if self._cap is None else fits & (self._cap[kind, rows] > 0)

    def _count(self, member: int) -> None:
        for number, side in self._on[member]:
            domains = self._problem.domains[self._required[number].level]
            self._counts[number][side, domains[self.hosts[member]]] += 1


def _judge(
    rule: Rule, side: int, counts: np.ndarray, outside: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the domains where the next member of a side may be, and those that are preferred.

    None means all domains.
    """
    a, b = counts
    other = b if side == 0 else a
    match rule.kind:
        case definition.AFFINITY:
            return (a > 0 if a.any() and side == 0 else None), None
        case definition.ANTI_AFFINITY:
            return a < rule.most, None
        case definition.SPREAD:
            return _level(rule, a), None
        case definition.EXCLUSIVE | definition.APART:
            return (other == 0) & ~outside if side == 0 else other == 0, None
        case definition.NEAR if side == 0:
            return (b > 0 if b.any() else None), None
    alone = (a > 0) & (b == 0)
    return None, alone if alone.any() else None


def _level(rule: Rule, count: np.ndarray) -> np.ndarray | None:
    """Return the domains that a spread may use next: new ones while some are missing, then the
    lowest."""
    used = count > 0
    if used.sum() < rule.min_domains:
        return ~used
    if rule.max_skew is None:
        return None
    least = count[used].min()
    behind = used & ((count == least) | (count + 1 - least <= rule.max_skew))
    return behind | ~used if count.max() - 1 <= rule.max_skew else behind

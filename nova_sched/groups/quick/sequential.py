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
from nova_sched.groups.arrays.problem import Problem, Rule


def place(problem: Problem) -> np.ndarray | None:
    """Returns a placement, int32 [M], that breaks no required policy.

    Returns None if the members' order leads to none.
    """
    walk = _Walk(problem)
    for member in np.flatnonzero(problem.fixed < 0).tolist():
        if not walk.step(member):
            return None
    return None if policies.broken(problem, walk.hosts) else walk.hosts


class _Walk:
    """``hosts`` int32 [M] so far; ``counts`` per rule: int64 [2, D], members of either side."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self.hosts = problem.fixed.astype(np.int32)
        self._free = problem.free.copy()
        self._cap = None if problem.cap is None else problem.cap.copy()
        self._fits = [self._fit(kind, slice(None)) for kind in range(len(problem.demand))]
        self._required = [rule for rule in problem.rules if rule.is_required]
        self._sides = [self._side(rule) for rule in self._required]
        self._counts = [
            np.zeros((2, problem.size(rule.level)), dtype=np.int64) for rule in self._required
        ]
        self._outside = [
            policies.counts(problem, rule, self.hosts).outside for rule in self._required
        ]
        for member in np.flatnonzero(problem.fixed >= 0).tolist():
            self._count(member)

    def step(self, member: int) -> bool:
        """Places one member where it scores best; returns False if it may go nowhere."""
        kind = self._problem.kind[member]
        good, wishes = self._fits[kind] & self._problem.mask[kind], []
        for rule, sides, counts, outside in zip(
            self._required, self._sides, self._counts, self._outside, strict=True
        ):
            domains = self._problem.domains[rule.level]
            for side in np.flatnonzero(sides[:, member]).tolist():
                allowed, wish = _judge(rule, side, counts, outside)
                if allowed is not None:
                    good &= allowed[domains]
                if wish is not None:
                    wishes.append(wish[domains])
        for wish in wishes:
            if (good & wish).any():
                good &= wish
        host = int(np.where(good, self._problem.score[kind], -np.inf).argmax())
        if not good[host]:
            return False
        self._take(member, host)
        return True

    def _take(self, member: int, host: int) -> None:
        kind = self._problem.kind[member]
        self.hosts[member] = host
        ways = self._problem.demand[kind]
        left = self._free[host] - ways
        self._free[host] = left[int(((left >= 0) | (ways == 0)).all(axis=1).argmax())]
        if self._cap is not None:
            self._cap[kind, host] -= 1
        for other, fits in enumerate(self._fits):
            fits[host] = self._fit(other, slice(host, host + 1))[0]
        self._count(member)

    def _fit(self, kind: int, rows: slice) -> np.ndarray:
        """Bool over rows: whether one more of the kind fits there now."""
        asked = self._problem.demand[kind][:, None, :]
        fits = ((asked <= self._free[rows]) | (asked == 0)).all(axis=2).any(axis=0)
        return fits if self._cap is None else fits & (self._cap[kind, rows] > 0)

    def _side(self, rule: Rule) -> np.ndarray:
        """Bool [2, M]: members in ``a``, and in ``b`` or, for an exclusive policy, all others."""
        sides = np.zeros((2, self._problem.member_count), dtype=bool)
        sides[0, rule.a] = True
        sides[1, rule.b] = True
        if rule.kind == definition.EXCLUSIVE:
            sides[1] = ~sides[0]
        return sides

    def _count(self, member: int) -> None:
        for rule, sides, counts in zip(self._required, self._sides, self._counts, strict=True):
            domain = self._problem.domains[rule.level][self.hosts[member]]
            counts[:, domain] += sides[:, member]


def _judge(
    rule: Rule, side: int, counts: np.ndarray, outside: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the domains where the next member of a side may be, and those that are preferred.

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
    """Returns the domains that a spread may use next: new ones while some are missing, then the
    lowest."""
    used = count > 0
    if used.sum() < rule.min_domains:
        return ~used
    if rule.max_skew is None:
        return None
    least = count[used].min()
    behind = used & ((count == least) | (count + 1 - least <= rule.max_skew))
    return behind | ~used if count.max() - 1 <= rule.max_skew else behind

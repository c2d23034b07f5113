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
"""A rule that may bind: its counts at the start, and what it allows during an attempt.

``closed`` [C, h] counts the reasons why a unit of a class may not be on a host. Policies that can
only close hosts (anti-affinity, exclusive, apart) keep it up to date. Spread and near may open
hosts again, so they are evaluated each time.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.layout import Layout, LayoutLevel
from nova_sched.groups.arrays.problem import Problem, Rule


@dataclasses.dataclass(eq=False)
class Active:
    """A rule that may bind, with its counts. ``number`` is its index in the problem.

    ``a``, ``b`` int64 [C]: members of one unit of each class on either side. For an exclusive
    policy, ``b`` is every member that is not in ``a``. ``fixed_a``, ``fixed_b`` int64 [D]: fixed
    members per live domain of the level. ``left_a``, ``left_b``: members still to be placed.
    ``outside`` bool [D]: domains with instances from outside the group (exclusive policies only,
    else all False).
    """

    number: int
    rule: Rule
    a: np.ndarray
    b: np.ndarray
    fixed_a: np.ndarray
    fixed_b: np.ndarray
    left_a: int
    left_b: int
    outside: np.ndarray

    @property
    def kind(self) -> str:
        return self.rule.kind

    @property
    def level(self) -> int:
        return self.rule.level

    @property
    def is_required(self) -> bool:
        return self.rule.weight is None

    @property
    def is_cap(self) -> bool:
        """Whether it is required anti-affinity, which caps the members in a domain."""
        return self.rule.weight is None and self.rule.kind == definition.ANTI_AFFINITY


def may_bind(rule: Rule) -> bool:
    """Return False for a policy that no placement can break."""
    match rule.kind:
        case definition.AFFINITY:
            return len(rule.a) > 1
        case definition.ANTI_AFFINITY:
            return len(rule.a) > rule.most
        case definition.SPREAD:
            skew = rule.max_skew is not None and len(rule.a) > 1
            return len(rule.a) > 0 and (rule.min_domains > 1 or skew)
        case definition.APART:
            return len(rule.a) > 0 and len(rule.b) > 0
    return len(rule.a) > 0


def activate(
    problem: Problem, layout: Layout, number: int, a: np.ndarray, b: np.ndarray
) -> Active:
    """Return the rule of this number with its counts of units [C] and of fixed members."""
    rule = problem.rules[number]
    level = layout.levels[rule.level]
    fixed = problem.fixed >= 0
    others = np.flatnonzero(problem.sides(rule)[1])

    def count(members: np.ndarray) -> np.ndarray:
        at = layout.position[problem.fixed[members[fixed[members]]]]
        return np.bincount(level.ids[at], minlength=level.count)

    return Active(
        number=number,
        rule=rule,
        a=a,
        b=b,
        fixed_a=count(rule.a),
        fixed_b=count(others),
        left_a=int((~fixed[rule.a]).sum()),
        left_b=int((~fixed[others]).sum()),
        outside=policies.outside(problem, rule)[level.numbers]
        if rule.kind == definition.EXCLUSIVE
        else np.zeros(level.count, dtype=bool),
    )


def shut(active: Active, a: int, b: int) -> np.ndarray | None:
    """Return the domains, bool [D], that are closed for a unit by fixed members and outside
    instances.

    The placement of the other members cannot open them.
    """
    everywhere = np.ones(len(active.fixed_a), dtype=bool)
    match active.kind:
        case definition.ANTI_AFFINITY:
            return active.fixed_a + a > active.rule.most if a else None
        case definition.EXCLUSIVE:
            if a and b:
                return everywhere
            return active.outside | (active.fixed_b > 0) if a else active.fixed_a > 0
        case definition.APART:
            if a and b:
                return everywhere
            return active.fixed_b > 0 if a else active.fixed_a > 0
        case definition.NEAR:
            return active.fixed_b == 0 if a and not b and not active.left_b else None
    return None


def is_hopeless(active: Active) -> bool:
    """Return whether fixed members break the rule for good, or too few members are left to keep
    it."""
    used = active.fixed_a > 0
    match active.kind:
        case definition.ANTI_AFFINITY:
            return bool((active.fixed_a > active.rule.most).any())
        case definition.SPREAD:
            return active.rule.min_domains > int(used.sum()) + active.left_a
        case definition.EXCLUSIVE:
            return bool((used & (active.outside | (active.fixed_b > 0))).any())
        case definition.NEAR:
            alone = int((used & (active.fixed_b == 0)).sum()) > active.left_b
            return alone or (active.left_a > 0 and not (active.left_b or active.fixed_b.any()))
        case definition.APART:
            return bool((used & (active.fixed_b > 0)).any())
    return False


class Standing:
    """One rule. ``a``, ``b`` int64 [D]: members placed so far; ``left_a``, ``left_b``: members
    left."""

    def __init__(self, active: Active, level: LayoutLevel, closed: np.ndarray) -> None:
        self.rule, self.active, self.level = active.rule, active, level
        self.a, self.b = active.fixed_a.copy(), active.fixed_b.copy()
        self.left_a, self.left_b = active.left_a, active.left_b
        self._each_a, self._each_b = active.a.tolist(), active.b.tolist()
        self._closed = closed

    def move(self, c: int, host: int, sign: int) -> None:
        """Add one unit of the class to the host (``sign`` 1) or removes it (-1)."""
        domain = host if self.level.is_host else self.level.ids[host]
        more = sign * self._each_a[c]
        if more:
            before = self.a[domain]
            self.a[domain] = before + more
            self.left_a -= more
            self._a_changed(domain, before, before + more)
        more = sign * self._each_b[c]
        if more:
            before = self.b[domain]
            self.b[domain] = before + more
            self.left_b -= more
            self._b_changed(domain, before, before + more)

    def allowed(self, a: int, b: int) -> np.ndarray | None:
        """Return the domains, bool [D], where ``a`` and ``b`` more members may go together.

        None means anywhere. The result looks ahead: a breach that no later member can repair is
        not allowed.
        """
        return None

    def price(self, a: int, b: int) -> np.ndarray | float:
        """Return an estimate, [D], of the added breaches with ``a`` and ``b`` more members in a
        domain."""
        raise NotImplementedError

    def _a_changed(self, domain: int, before: int, after: int) -> None:
        pass

    def _b_changed(self, domain: int, before: int, after: int) -> None:
        pass

    def _close(self, classes: slice | np.ndarray, domain: int, sign: int) -> None:
        """``classes``: a slice, or intp [n]."""
        if self.level.is_host:
            self._closed[classes, domain] += sign
            return
        rows = self.level.rows(domain)
        if isinstance(rows, slice) or isinstance(classes, slice):
            self._closed[classes, rows] += sign
        else:
            self._closed[np.ix_(classes, rows)] += sign


class Affinity(Standing):
    """Preferred affinity only; blocks implement required affinity."""

    def price(self, a: int, b: int) -> np.ndarray | float:
        used = self.a > 0
        return (~used).astype(np.float64) if a and used.any() else 0.0


class AntiAffinity(Standing):
    def __init__(self, active: Active, level: LayoutLevel, closed: np.ndarray) -> None:
        super().__init__(active, level, closed)
        self._by_count = [
            (int(count), _index(np.flatnonzero(active.a == count)))
            for count in np.unique(active.a[active.a > 0])
        ]

    def _a_changed(self, domain: int, before: int, after: int) -> None:
        if self.rule.is_required:
            low, high, sign = (before, after, 1) if after > before else (after, before, -1)
            for count, classes in self._by_count:
                if low + count <= self.rule.most < high + count:
                    self._close(classes, domain, sign)

    def allowed(self, a: int, b: int) -> np.ndarray | None:
        return self.a + a <= self.rule.most if a else None

    def price(self, a: int, b: int) -> np.ndarray | float:
        if not a:
            return 0.0
        return np.maximum(self.a + a - self.rule.most, 0) - np.maximum(self.a - self.rule.most, 0)


class Rivals(Standing):
    """Apart, and exclusive (``b`` is every other member of the group): no domain has both
    sides."""

    def __init__(self, active: Active, level: LayoutLevel, closed: np.ndarray) -> None:
        super().__init__(active, level, closed)
        self._classes_a = _index(np.flatnonzero(active.a > 0))
        self._classes_b = _index(np.flatnonzero(active.b > 0))

    def _a_changed(self, domain: int, before: int, after: int) -> None:
        if self.rule.is_required and (before == 0) != (after == 0):
            self._close(self._classes_b, domain, 1 if after else -1)

    def _b_changed(self, domain: int, before: int, after: int) -> None:
        if self.rule.is_required and (before == 0) != (after == 0):
            self._close(self._classes_a, domain, 1 if after else -1)

    def allowed(self, a: int, b: int) -> np.ndarray | None:
        if a and b:
            return np.zeros(len(self.a), dtype=bool)
        if a:
            return (self.b == 0) & ~self.active.outside
        return self.a == 0 if b else None

    def price(self, a: int, b: int) -> np.ndarray | float:
        outside = self.active.outside
        before = (self.a > 0) & ((self.b > 0) | outside)
        after = ((self.a > 0) | bool(a)) & ((self.b > 0) | bool(b) | outside)
        return after.astype(np.float64) - before


class Near(Standing):
    def allowed(self, a: int, b: int) -> np.ndarray | None:
        """A domain may lack a ``b`` while enough of them are still to be placed."""
        alone = (self.a > 0) & (self.b == 0)
        then = ((self.a > 0) | bool(a)) & (self.b == 0) & (not b)
        return int(alone.sum()) - alone + then <= self.left_b - b

    def price(self, a: int, b: int) -> np.ndarray | float:
        if b:
            return -np.where(self.b == 0, self.a, 0.0)
        return np.where(self.b == 0, float(a), 0.0) if a and self.left_b <= 0 else 0.0


class Spread(Standing):
    """``plan`` bool [D]: the domains to use; ``ceiling``: the most members in each, once
    planned."""

    def __init__(self, active: Active, level: LayoutLevel, closed: np.ndarray) -> None:
        super().__init__(active, level, closed)
        self.plan: np.ndarray | None = None
        self.ceiling = 0

    def allowed(self, a: int, b: int) -> np.ndarray | None:
        """Domains where the remaining members can still restore the skew and the number of
        domains.

        Follows the plan, if there is one.
        """
        if not a:
            return None
        allowed = self._by_count(
            self._is_mendable if self.plan is None else self._is_not_too_late, a
        )
        if self.plan is not None:
            allowed &= self.plan & (self.a + a <= self.ceiling)
        return allowed

    def price(self, a: int, b: int) -> np.ndarray | float:
        """Return 1 where the spread can no longer be kept, but could be kept in another domain."""
        return (~self._by_count(self._is_mendable, a)).astype(np.float64) if a else 0.0

    def _by_count(self, verdict: Callable[[np.ndarray, int, int], bool], a: int) -> np.ndarray:
        """Bool [D]: a verdict on ``a`` more members, equal for domains with equally many
        members."""
        sizes = np.bincount(self.a)  # domains by the number of members that they have
        verdicts = np.zeros(len(sizes), dtype=bool)
        for count in np.flatnonzero(sizes).tolist():
            verdicts[count] = verdict(sizes, count, a)
        return verdicts[self.a]

    def _is_not_too_late(self, sizes: np.ndarray, count: int, a: int) -> bool:
        """Return whether enough members are left to raise all used domains to the largest count
        less the skew."""
        used = int(sizes[1:].sum())
        missing = max(self.rule.min_domains - used - (count == 0), 0)
        skew = self.rule.max_skew
        floor = 1 if skew is None else max(len(sizes) - 1, count + a) - skew
        short = missing * max(floor, 1)
        if floor > 1:
            short += int((np.maximum(floor - np.arange(1, len(sizes)), 0) * sizes[1:]).sum())
            short += max(floor - count - a, 0) - (max(floor - count, 0) if count else 0)
        return short <= self.left_a - a

    def _is_mendable(self, sizes: np.ndarray, count: int, a: int) -> bool:
        """Return whether the remaining members can fill some number of domains between floor and
        ceiling."""
        left, skew = self.left_a - a, self.rule.max_skew
        sizes = np.append(sizes, np.zeros(a, dtype=sizes.dtype))
        sizes[count] -= 1
        sizes[count + a] += 1
        counts = np.flatnonzero(sizes[1:]) + 1
        many = sizes[counts]
        missing = max(self.rule.min_domains - int(many.sum()), 0)
        if skew is None:
            return missing <= left
        ceiling = np.arange(counts[-1], counts[-1] + left + 1)
        floor = np.maximum(ceiling - skew, 1)
        short = np.maximum(floor[:, None] - counts, 0) @ many
        room = (ceiling[:, None] - counts) @ many
        # The minimum and the maximum number of further domains.
        fresh = np.maximum(missing, -((room - left) // ceiling))
        most = np.minimum(sizes[0], (left - short) // floor)
        return bool(((short <= left) & (fresh <= most)).any())


def _index(classes: np.ndarray) -> slice | np.ndarray:
    """Return the same classes as a slice if they are contiguous."""
    if len(classes) and classes[-1] - classes[0] + 1 == len(classes):
        return slice(int(classes[0]), int(classes[-1]) + 1)
    return classes


STANDINGS = {
    definition.AFFINITY: Affinity,
    definition.ANTI_AFFINITY: AntiAffinity,
    definition.SPREAD: Spread,
    definition.EXCLUSIVE: Rivals,
    definition.NEAR: Near,
    definition.APART: Rivals,
}

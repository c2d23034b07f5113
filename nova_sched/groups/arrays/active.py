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
"""A rule with its counts: of fixed members by domain, and of one unit of each class."""

import dataclasses

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.layout import Layout
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


def may_bind(rule: Rule) -> bool:
    """Returns False for a policy that no placement can break."""
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
    """Returns the rule of this number with its counts of units [C] and of fixed members."""
    rule = problem.rules[number]
    level = layout.levels[rule.level]
    fixed = problem.fixed >= 0
    others = rule.b
    if rule.kind == definition.EXCLUSIVE:
        others = np.setdiff1d(np.arange(problem.member_count), rule.a)

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


def shut(one: Active, a: int, b: int) -> np.ndarray | None:
    """Returns the domains, bool [D], that are closed for a unit by fixed members and outside
    instances.

    The placement of the other members cannot open them.
    """
    everywhere = np.ones(len(one.fixed_a), dtype=bool)
    match one.kind:
        case definition.ANTI_AFFINITY:
            return one.fixed_a + a > one.rule.most if a else None
        case definition.EXCLUSIVE:
            if a and b:
                return everywhere
            return one.outside | (one.fixed_b > 0) if a else one.fixed_a > 0
        case definition.APART:
            if a and b:
                return everywhere
            return one.fixed_b > 0 if a else one.fixed_a > 0
        case definition.NEAR:
            return one.fixed_b == 0 if a and not b and not one.left_b else None
    return None


def is_hopeless(one: Active) -> bool:
    """Returns whether fixed members break the rule for good, or too few members are left to keep
    it."""
    used = one.fixed_a > 0
    match one.kind:
        case definition.ANTI_AFFINITY:
            return bool((one.fixed_a > one.rule.most).any())
        case definition.SPREAD:
            return one.rule.min_domains > int(used.sum()) + one.left_a
        case definition.EXCLUSIVE:
            return bool((used & (one.outside | (one.fixed_b > 0))).any())
        case definition.NEAR:
            alone = int((used & (one.fixed_b == 0)).sum()) > one.left_b
            return alone or (one.left_a > 0 and not (one.left_b or one.fixed_b.any()))
        case definition.APART:
            return bool((used & (one.fixed_b > 0)).any())
    return False

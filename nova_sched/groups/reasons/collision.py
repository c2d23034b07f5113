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
"""Finds a small set of policies that conflict, by leaving out those that the proof does not
need."""

import dataclasses
import time
from collections.abc import Callable, Iterable

import numpy as np

from nova_sched.groups.arrays.problem import NOWHERE, Problem

# (problem, seconds) -> True: there is a placement; False: there is none; None: not known.
Settle = Callable[[Problem, float], bool | None]
Families = list[list[int]]  # numbers of rules that are alike

SETTLE_S = 0.3  # for each single question


def core(problem: Problem, ways: Iterable[Settle], until: float) -> tuple[Families, bool]:
    """Returns the numbers of required rules that cannot be kept together.

    The ``problem`` has no placement. The rules are grouped in families of alike rules: one kind,
    one level, members of the same flavors, such as the rules of many equal cells. Also returns
    whether each rule is needed; this is checked for every single rule, because alike rules may
    cover members that overlap in different ways. ``ways`` to settle a problem: the quicker and
    weaker first; ``until`` in ``time.monotonic`` seconds.
    """
    families = _families(problem)
    is_minimal = False
    for settle in ways:
        search = _Search(problem, settle, until)
        if search.is_impossible(families):
            families, is_minimal = search.shrink(families)
    return families, is_minimal


def only(problem: Problem, numbers: Iterable[int]) -> Problem:
    """Returns the problem with only these of its rules."""
    return dataclasses.replace(
        problem, rules=[problem.rules[number] for number in numbers], home=NOWHERE
    )


def _families(problem: Problem) -> Families:
    """Returns families of alike required rules, in the order of the rules."""
    found: dict[tuple[object, ...], list[int]] = {}
    for number, rule in enumerate(problem.rules):
        if rule.is_required:
            sides = (np.sort(problem.kind[side]).tobytes() for side in (rule.a, rule.b))
            key = (rule.kind, rule.level, rule.most, rule.min_domains, rule.max_skew, *sides)
            found.setdefault(key, []).append(number)
    return list(found.values())


class _Search:
    def __init__(self, problem: Problem, settle: Settle, until: float) -> None:
        self._problem, self._settle, self._until = problem, settle, until

    def is_impossible(self, families: Families) -> bool:
        """Returns whether it is proven that these cannot be kept together."""
        return self._can_be_kept(families) is False

    def _can_be_kept(self, families: Families) -> bool | None:
        """Returns whether these can be kept together; None if it is not known, or the time is
        up."""
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        rules = sorted(number for family in families for number in family)
        return self._settle(only(self._problem, rules), min(SETTLE_S, left))

    def shrink(self, families: Families) -> tuple[Families, bool]:
        """Returns the rules left when no more can be left out, and whether each is known to be
        needed."""
        families = self._without_spare(families)
        families = self._shortened(families)
        return self._needed(self._trimmed(families))

    def _without_spare(self, families: Families) -> Families:
        """Leaves families out by halves, quarters and so on, while there is a proof without
        them."""
        size = max(len(families) // 2, 1)
        while families:
            for start in reversed(range(0, len(families), size)):
                fewer = families[:start] + families[start + size :]
                if self.is_impossible(fewer):
                    families = fewer
            if size == 1:
                break
            size //= 2
        return families

    def _shortened(self, families: Families) -> Families:
        """Returns the smallest size that suffices if every family has this size.

        A cell usually has a rule of each family.
        """
        low, high = 1, max(map(len, families), default=1)
        while low < high:
            middle = (low + high) // 2
            if self.is_impossible([family[:middle] for family in families]):
                high = middle
            else:
                low = middle + 1
        return [family[:high] for family in families]

    def _trimmed(self, families: Families) -> Families:
        """Leaves out single rules, from the end of each family, until one is needed."""
        for place, family in enumerate(families):
            while len(family) > 1:
                fewer = [*families[:place], family[:-1], *families[place + 1 :]]
                if not self.is_impossible(fewer):
                    break
                families, family = fewer, family[:-1]
        return families

    def _needed(self, families: Families) -> tuple[Families, bool]:
        """Leaves out each single rule that is not needed. Returns whether each remaining rule is
        needed.

        A rule is needed if the other rules can be kept without it. One pass is enough: a rule that
        is needed in a larger set is needed in a smaller one.
        """
        is_known = True
        for number in [number for family in families for number in family]:
            fewer = [[one for one in family if one != number] for family in families]
            answer = self._can_be_kept(fewer)
            if answer is False:
                families = fewer
            is_known &= answer is not None
        return [family for family in families if family], is_known

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
"""Chooses the host of the next unit: the best allowed host, with regard to units placed later."""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.layout import Rows
from nova_sched.groups.arrays.standing import Spread, Standing
from nova_sched.groups.arrays.tally import Tally
from nova_sched.groups.quick.spread_plan import plans

SCORE, TIGHT, RANDOM = 'score', 'tight', 'random'  # criteria for the choice of a host


@dataclasses.dataclass(slots=True)
class Taste:
    """The criteria of an attempt for the choice among allowed hosts; ``noise`` [h] if random.

    ``wishes`` False: ignores preferred policies and homes, because they can prevent a placement.
    """

    mode: str
    noise: np.ndarray | None = None
    wishes: bool = True


def values(tally: Tally, taste: Taste, c: int, rows: Rows = slice(None)) -> np.ndarray:
    """Float64 over ``rows``: the value of each host for a unit by taste, without preferred
    policies."""
    if taste.mode == SCORE:
        return tally.value(c, rows)
    free = tally.free[rows]
    left = (free / np.maximum(tally.compiled.free.mean(axis=0), 1e-9)).sum(axis=1)
    value = (
        -left if taste.noise is None else taste.noise[rows] - 0.5 * left / max(left.mean(), 1e-9)
    )
    at, members = tally.compiled.stay[c]
    if len(at) and taste.wishes:
        home = np.zeros(tally.slots.shape[1])
        home[at] = members * tally.wiring.weight[0]
        value = value + home[rows]
    return value


class Chooser:
    """Chooses hosts among ``rows`` for units of one class, by some ``rules`` (positions in
    ``active``)."""

    def __init__(self, tally: Tally, taste: Taste, c: int, rows: Rows, rules: list[int]):
        self._tally, self._taste, self._c, self._rows = tally, taste, c, rows
        active = tally.compiled.active
        self._asked = [tally.rules[n] for n in tally.wiring.asked[c] if n in rules]
        self._priced = [
            tally.rules[n] for n in rules if taste.wishes and not active[n].is_required
        ]
        self._anchors = [Anchor(tally, n) for n in rules if _leads(tally, n, c)]
        self._score = tally.value(c, rows)
        self._value = values(tally, taste, c, rows)

    def best(self) -> tuple[int, float] | None:
        """Returns a host for one more unit and the value of this choice; None if there is none."""
        tally, c, rows = self._tally, self._c, self._rows
        usable = tally.usable(c, rows)
        for rule in self._asked:
            allowed = rule.allowed(int(rule.active.a[c]), int(rule.active.b[c]))
            if allowed is not None:
                usable &= allowed[rule.level.ids[rows]]
        for anchor in self._anchors:
            usable = anchor.narrowed(usable, rows)
        if self._taste.mode != SCORE:
            self._value = values(tally, self._taste, c, rows)
        value, cost = self._value, None
        if self._priced:
            cost = functools.reduce(np.add, map(self._price, self._priced))
            value = value - cost
        best = int(np.where(usable, value, -np.inf).argmax())
        if not usable[best]:
            return None
        worth = float(self._score[best]) - (0.0 if cost is None else float(cost[best]))
        return (best + (rows.start or 0) if isinstance(rows, slice) else int(rows[best])), worth

    def _price(self, rule: Standing) -> np.ndarray:
        price = rule.price(int(rule.active.a[self._c]), int(rule.active.b[self._c]))
        weighed = price * (self._tally.wiring.weight[1] * rule.rule.penalty)
        return np.broadcast_to(weighed, rule.level.count)[rule.level.ids[self._rows]]


def place_class(tally: Tally, taste: Taste, c: int, rows: Rows = slice(None)) -> bool:
    """Places every unit of a class in turn; returns False at the first unit without a host."""
    chooser = Chooser(tally, taste, c, rows, tally.wiring.concerns[c])
    for _ in range(int(tally.compiled.count[c])):
        found = chooser.best()
        if found is None:
            return False
        tally.settle(c, found[0])
    return True


def _leads(tally: Tally, number: int, c: int) -> bool:
    rule = tally.rules[number]
    return rule.rule.kind == definition.NEAR and rule.left_a > 0 and bool(rule.active.b[c])


class Anchor:
    """The unplaced followers of a near policy, and how many of them each domain could take."""

    def __init__(self, tally: Tally, number: int):
        self.rule, self._tally = tally.rules[number], tally
        self._classes = np.flatnonzero(self.rule.active.a).tolist()
        self.room = self._room()

    def _room(self) -> np.ndarray:
        """Int64 [D]: followers that each domain could take, counted kind by kind."""
        each = self.rule.active.a
        none = np.zeros(self._tally.slots.shape[1], dtype=np.int64)
        return self.rule.level.sum(
            sum((each[c] * self._tally.room(c) for c in self._classes), none)
        )

    def wanted(self) -> np.ndarray | None:
        """Returns the domains, bool [D], that followers are planned to use.

        Without a plan, returns the domains that take at least the average of the missing capacity.
        Returns None if nothing is missing.
        """
        self.room = self._room()
        covered = self.rule.b > 0
        for spread in _spreads_near(self._tally, self.rule):
            if spread.plan is not None and (spread.plan & ~covered).any():
                return spread.plan & ~covered
        missing = self.rule.left_a - int(self.room[covered].sum())
        if missing <= 0:
            return None
        return ~covered & (self.room * max(self.rule.left_b, 1) >= missing)

    def narrowed(self, usable: np.ndarray, rows: Rows = slice(None)) -> np.ndarray:
        """Returns the usable hosts in wanted domains; if there are none, those in the richest
        domain."""
        wanted = self.wanted()
        if wanted is None:
            return usable
        ids = self.rule.level.ids[rows]
        better = usable & wanted[ids]
        if better.any():
            return better
        room = np.where(usable & (self.rule.b == 0)[ids], self.room[ids], 0)
        most = room.max(initial=0)
        return usable & (room == most) if most > 0 else usable


def plan_spreads(tally: Tally, classes: np.ndarray, choice: dict[int, int]) -> None:
    """Plans the required spreads that limit the skew.

    These are the spreads of the classes, and those of the classes' followers. ``choice``: which
    plan to take, by rule.
    """
    asked = {n for c in classes for n in tally.wiring.asked[c]}
    for number, rule in enumerate(tally.rules):
        partner = (
            rule.rule.kind == definition.NEAR and number in asked and rule.active.b[classes].any()
        )
        asked |= (
            {tally.rules.index(one) for one in _spreads_near(tally, rule)} if partner else set()
        )
    for number in sorted(asked):
        rule, skew = tally.rules[number], tally.rules[number].rule.max_skew
        if isinstance(rule, Spread) and skew is not None and rule.plan is None:
            every = list(_plans(tally, rule, skew))
            if every:
                rule.ceiling, rule.plan = every[choice.get(number, 0) % len(every)]


def _plans(tally: Tally, rule: Spread, max_skew: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields all plans of one spread. Members that need near partners use only domains open to
    these."""
    active = rule.active
    mine = np.flatnonzero(active.a).tolist()
    open_ = [c for c in mine if len(tally.at[c]) < tally.compiled.count[c]]
    none = np.zeros(tally.slots.shape[1], dtype=np.int64)
    room = sum((active.a[c] * tally.room(c) for c in open_), none)
    score = rule.level.max(np.where(room > 0, tally.value(mine[0]), -np.inf))
    room, most = rule.level.sum(room), rule.level.count
    for near in tally.rules:
        if near.rule.kind == definition.NEAR and _brings(near, rule):
            reached = near.b > 0
            most = min(most, int(reached.sum()) + near.left_b)
            for c in np.flatnonzero(near.active.b).tolist():
                if len(tally.at[c]) < tally.compiled.count[c]:
                    reached = reached | rule.level.any(tally.usable(c))
            room = np.where(reached, room, 0)
    return plans(room, rule.a, score, rule.left_a, rule.rule.min_domains, max_skew, most)


def _spreads_near(tally: Tally, near: Standing) -> list[Spread]:
    """Returns the spreads of limited skew whose members all need near partners."""
    return [
        rule
        for rule in tally.rules
        if isinstance(rule, Spread) and rule.rule.max_skew is not None and _brings(near, rule)
    ]


def _brings(near: Standing, spread: Standing) -> bool:
    """Returns whether each domain that the spread's members use must have a partner."""
    return (
        near.is_required
        and spread.is_required
        and near.rule.level == spread.rule.level
        and bool((near.active.a[spread.active.a > 0] > 0).all())
    )

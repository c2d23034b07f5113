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
"""The state of an attempt: placed units, free capacity and policies. Units are placed and
removed."""

import functools

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import STANDINGS, Standing
from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.arrays.layout import Rows
from nova_sched.groups.arrays.problem import ENDLESS, is_free


class Wiring:
    """Data that is the same for every tally of one problem.

    ``ways`` int64 [S, V, R] by shape, padded to equal length; ``slots`` int64 and ``score``
    float64 [S, h]. ``concerns[c]``: positions in ``active`` of the rules that count units of the
    class; ``asked[c]``: the required rules among them that may open hosts again; ``priced[c]``:
    the preferred rules. ``at_most`` int64 [C]: units per host that host anti-affinity allows.
    """

    def __init__(self, compiled: Compiled):
        self.compiled = compiled
        shapes = compiled.shapes
        self.way_count = [len(shape.ways) for shape in shapes]
        resources, hosts = compiled.free.shape[1], len(compiled.layout.live)
        self.ways = np.full(
            (len(shapes), max(self.way_count, default=1), resources), 2 * ENDLESS, dtype=np.int64
        )
        for number, shape in enumerate(shapes):
            self.ways[number, : len(shape.ways)] = shape.ways
        self.slots = np.array([shape.slots for shape in shapes], dtype=np.int64).reshape(
            len(shapes), hosts
        )
        self.score = np.array([shape.score for shape in shapes], dtype=np.float64).reshape(
            len(shapes), hosts
        )
        self._best_first: dict[tuple[tuple[int, ...], int], np.ndarray] = {}
        self._divisor = np.maximum(self.ways, 1)
        self._endless = np.where(self.ways == 0, ENDLESS, 0)
        self.concerns = [
            [n for n, active in enumerate(compiled.active) if active.a[c] or active.b[c]]
            for c in range(compiled.class_count)
        ]
        may_open = (definition.SPREAD, definition.NEAR)
        self.asked = [
            [
                n
                for n in numbers
                if compiled.active[n].is_required and compiled.active[n].kind in may_open
            ]
            for numbers in self.concerns
        ]
        self.priced = [
            [n for n in numbers if not compiled.active[n].is_required] for numbers in self.concerns
        ]

    def slots_of(self, free: np.ndarray) -> np.ndarray:
        """Int64 [S]: units of each shape that fit into ``free`` [R], as in ``UnitShape.slots``."""
        most = ((free + self._endless) // self._divisor).min(axis=2, initial=ENDLESS)
        return most[:, 0] if most.shape[1] == 1 else np.minimum(most.sum(axis=1), ENDLESS)

    def best_first(self, shapes: tuple[int, ...], number: int) -> np.ndarray:
        """Hosts by domain of a level, by falling score for the best of the shapes within each.

        The result is sorted once and then kept.
        """
        if (shapes, number) not in self._best_first:
            level = self.compiled.layout.levels[number]
            self._best_first[shapes, number] = level.best_first(
                self.score[list(shapes)].max(axis=0)
            )
        return self._best_first[shapes, number]

    @functools.cached_property
    def at_most(self) -> np.ndarray:
        most = np.full(self.compiled.class_count, ENDLESS, dtype=np.int64)
        for active in self.compiled.active:
            if active.is_cap and active.level == 0:
                inside = active.a > 0
                most[inside] = np.minimum(most[inside], active.rule.most // active.a[inside])
        return most

    @functools.cached_property
    def weight(self) -> tuple[float, float]:
        """Return the value of a member at home, and of a miss of weight 1: more than all scores
        together."""
        score, members = self.score, self.compiled.problem.member_count
        span = float(score.max(initial=0.0) - score.min(initial=0.0)) + 1e-3
        return span * (members + 1), span * (members + 1) ** 3


class PlacementTally:
    """One attempt at a placement.

    ``free`` int64 [h, R], ``slots`` int64 [S, h], ``closed`` int16 [C, h].
    """

    def __init__(self, wiring: Wiring):
        compiled = wiring.compiled
        self.wiring, self.compiled = wiring, compiled
        self.free, self.slots = compiled.free.copy(), wiring.slots.copy()
        self.closed = (~compiled.open).astype(np.int16)
        levels = compiled.layout.levels
        self.rules: list[Standing] = [
            STANDINGS[active.kind](active, levels[active.level], self.closed)
            for active in compiled.active
        ]
        self.at: list[list[int]] = [[] for _ in range(compiled.class_count)]

    def usable(self, c: int, rows: Rows = slice(None)) -> np.ndarray:
        """Bool: hosts among ``rows`` with capacity for a unit of the class and no reason to be
        closed."""
        return (self.slots[self.compiled.shape[c], rows] > 0) & (self.closed[c, rows] == 0)

    def room(self, c: int) -> np.ndarray:
        """Int64 [h]: units of the class that each host could take alone.

        Capacity and host anti-affinity limit the number.
        """
        most = min(int(self.wiring.at_most[c]), int(self.compiled.count[c]))
        return np.where(
            self.closed[c] == 0, np.minimum(self.slots[self.compiled.shape[c]], most), 0
        )

    def value(self, c: int, rows: Rows = slice(None)) -> np.ndarray:
        """Float64 over ``rows``: the score of a unit, plus the value of staying at home."""
        value = self.wiring.score[self.compiled.shape[c], rows]
        at, members = self.compiled.stay[c]
        if not len(at):
            return value
        home = np.zeros(self.slots.shape[1])
        home[at] = members * self.wiring.weight[0]
        return value + home[rows]

    def reach(self, classes: np.ndarray, number: int) -> np.ndarray:
        """Float64 [D] by level: estimated best value of all units of the classes in one domain.

        -inf: they do not fit. Each class counts by itself, unless host anti-affinity binds the
        classes together.
        """
        every = classes.tolist()
        total = self._reach(every[:1], int(self.wiring.at_most[every[0]]), number)
        if len(every) == 1:
            return total
        for c in every[1:]:
            total += self._reach([c], int(self.wiring.at_most[c]), number)
        for n in self.wiring.concerns[every[0]]:
            active = self.compiled.active[n]
            least = int(active.a[every].min())
            if active.is_cap and active.level == 0 and least:
                total = np.minimum(total, self._reach(every, active.rule.most // least, number))
        return total

    def _reach(self, classes: list[int], each: int, number: int) -> np.ndarray:
        """Return the reach if units of all the classes are on the best hosts for any of them,
        ``each`` per host."""
        level, compiled = self.compiled.layout.levels[number], self.compiled
        count = int(compiled.count[classes].sum())
        hosts = -(-count // max(min(each, count), 1))
        value, usable = self.value(classes[0]), self.usable(classes[0])
        for c in classes[1:]:
            value, usable = np.maximum(value, self.value(c)), usable | self.usable(c)
        if any(len(compiled.stay[c][0]) for c in classes):
            order = level.best_first(value)
        else:
            order = self.wiring.best_first(
                tuple(sorted({int(compiled.shape[c]) for c in classes})), number
            )
        return level.top(order, value, usable, hosts) * (count / hosts)

    def place(self, c: int, host: int, rules: list[int]) -> int:
        """Place a unit on a host that has capacity and updates ``rules``. Return the way it
        took."""
        shape = self.compiled.shape[c]
        way = 0
        if self.wiring.way_count[shape] > 1:
            way = self._way(int(shape), host)
        self.free[host] -= self.wiring.ways[shape, way]
        self._moved(c, host, rules, 1)
        return way

    def _way(self, shape: int, host: int) -> int:
        """Return the way that leaves most slots for equal units; among those, the tightest fit."""
        ways = self.compiled.shapes[shape].ways
        left = self.free[host] - ways
        fits = np.flatnonzero(is_free(ways, self.free[host]))
        after = [int(self.wiring.slots_of(left[way])[shape]) for way in fits]
        tight = np.where(ways > 0, left, 0).sum(axis=1)[fits]
        return int(fits[np.lexsort((tight, np.negative(after)))[0]])

    def take_back(self, c: int, host: int, way: int, rules: list[int]) -> None:
        """Revert a ``place`` with the same rules."""
        self.free[host] += self.wiring.ways[self.compiled.shape[c], way]
        self._moved(c, host, rules, -1)

    def _moved(self, c: int, host: int, rules: list[int], sign: int) -> None:
        self.slots[:, host] = self.wiring.slots_of(self.free[host])
        for number in rules:
            self.rules[number].move(c, host, sign)

    def settle(self, c: int, host: int) -> None:
        """Make the placement of a unit final."""
        self.place(c, host, self.wiring.concerns[c])
        self.at[c].append(host)

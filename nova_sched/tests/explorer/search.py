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
"""Breadth-first through all worlds: the first way to a broken promise is a shortest one."""

import array
import re
import time
from typing import NamedTuple

from nova_sched.tests.explorer.world import Parts, sentence

BITS = 24  # of the number of a part's value
FULL = (1 << BITS) - 1
MOVED = 'calls', 'reports', 'agents', 'views'  # the parts with numbers of generations


class Found(NamedTuple):
    """``wrong``: (promise, sentences of the way) of each kind of violation."""

    wrong: list
    states: int
    depth: int
    seconds: float
    is_all: bool


class Space:
    """The worlds as numbers.

    Each value of a part has a number, and a world is these numbers side by side. What a kind of
    events makes of the parts that it gets is computed once, and remembered by their numbers. It
    cannot depend on another part, as it does not get one.
    """

    def __init__(self, world):
        self._world = world
        self._values = [[None] for _ in Parts._fields]
        self._numbers = [{} for _ in Parts._fields]
        self.first = self._number(world.first())
        self._judged = self._mask(world.JUDGED)
        self._verdicts = {}
        self._kinds = [
            (
                after,
                self._mask(names),
                [self._mask([one]) for one in MOVED if one not in names],
                {},
            )
            for after, names in world.kinds()
        ]
        self._moves = {}

    @staticmethod
    def _mask(names):
        return sum(FULL << BITS * Parts._fields.index(name) for name in names)

    def _number(self, parts):
        found = 0
        for place, (values, numbers, value) in enumerate(
            zip(self._values, self._numbers, parts, strict=True)
        ):
            if value is None:
                continue
            number = numbers.setdefault(value, len(values))
            if number == len(values):
                assert number <= FULL
                values.append(value)
            found |= number << BITS * place
        return found

    def _parts(self, number):
        return Parts(
            *(values[number >> BITS * place & FULL] for place, values in enumerate(self._values))
        )

    def after(self, number):
        """(label, number) of each next world."""
        found = []
        for after, mask, others, known in self._kinds:
            key = number & mask
            steps = known.get(key)
            if steps is None:
                steps = known[key] = self._steps(key, after)
            for label, change, moved in steps:
                then = number ^ change
                if moved:
                    for other in others:
                        then ^= self._move(then & other | moved)
                found.append((label, then))
        return found

    def _steps(self, key, after):
        """(label, bits of the number that change, number of ``moved``) of each next world."""
        found = []
        for label, parts in after(self._parts(key)):
            then = self._number(parts._replace(moved=None))
            moved = self._number(Parts(moved=parts.moved)) if any(parts.moved or ()) else 0
            found.append((label, key ^ then, moved))
        return found

    def _move(self, key):
        """The bits that change in a part, given with the number of a ``moved``."""
        change = self._moves.get(key)
        if change is None:
            parts = self._parts(key)
            before = parts._replace(moved=None)
            after = self._world.moved(before, parts.moved)
            change = self._moves[key] = self._number(before) ^ self._number(after)
        return change

    def wrong(self, number):
        """The promise that a world breaks; None."""
        key = number & self._judged
        if key not in self._verdicts:
            self._verdicts[key] = self._world.wrong(self._parts(key))
        return self._verdicts[key]


def explore(world, most=10**6, seconds=1e9, kinds=1):
    """Go through at most ``most`` distinct worlds. A broken promise is not gone on from; the
    search ends with so many ``kinds`` of them."""
    begin = time.process_time()
    space = Space(world)
    seen = {space.first}
    parents, places = array.array('q', [-1]), array.array('H', [0])
    wrong, kinds_found, layer, depth, is_all = [], set(), [(0, space.first)], 0, True
    while layer:
        after = []
        for number, one in layer:
            for place, (label, then) in enumerate(space.after(one)):
                if then in seen:
                    continue
                seen.add(then)
                parents.append(number)
                places.append(place)
                promise = space.wrong(then)
                if promise is None:
                    after.append((len(parents) - 1, then))
                elif (kind := _kind(promise, label)) not in kinds_found:
                    kinds_found.add(kind)
                    wrong.append((promise, _way(space, parents, places, len(parents) - 1)))
                    if len(wrong) >= kinds:
                        return Found(
                            wrong, len(seen), depth + 1, time.process_time() - begin, False
                        )
            if len(seen) >= most or (number % 256 == 0 and time.process_time() - begin > seconds):
                return Found(wrong, len(seen), depth, time.process_time() - begin, False)
        layer = after
        depth += bool(after)
    return Found(wrong, len(seen), depth, time.process_time() - begin, is_all)


def _kind(promise, label):
    """What two violations have in common that differ in names alone."""
    return re.sub(r'\b([ABC]|N[12])\b', '*', promise), label[0].split(' (')[0]


def _way(space, parents, places, number):
    """The sentences of the way to a state."""
    steps = []
    while number:
        steps.append(places[number])
        number = parents[number]
    one, told = space.first, []
    for place in reversed(steps):
        label, one = space.after(one)[place]
        told.append(sentence(label))
    return told

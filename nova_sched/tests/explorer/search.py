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

from nova_sched.tests.explorer.world import sentence


class Found(NamedTuple):
    """``wrong``: (promise, sentences of the way) of each kind of violation."""

    wrong: list
    states: int
    depth: int
    seconds: float
    is_all: bool


def explore(world, most=10**6, seconds=1e9, kinds=1):
    """Go through at most ``most`` distinct worlds. A broken promise is not gone on from; the
    search ends with so many ``kinds`` of them."""
    begin = time.process_time()
    first = world.first()
    seen = {hash(first)}
    parents, places = array.array('q', [-1]), array.array('H', [0])
    wrong, kinds_found, layer, depth, is_all = [], set(), [(0, first)], 0, True
    while layer:
        after = []
        for number, one in layer:
            for place, (label, then) in enumerate(world.after(one)):
                mark = hash(then)
                if mark in seen:
                    continue
                seen.add(mark)
                parents.append(number)
                places.append(place)
                promise = world.wrong(then)
                if promise is None:
                    after.append((len(parents) - 1, then))
                elif (kind := _kind(promise, label)) not in kinds_found:
                    kinds_found.add(kind)
                    wrong.append((promise, _way(world, parents, places, len(parents) - 1)))
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


def _way(world, parents, places, number):
    """The sentences of the way to a state."""
    steps = []
    while number:
        steps.append(places[number])
        number = parents[number]
    one, told = world.first(), []
    for place in reversed(steps):
        label, one = world.after(one)[place]
        told.append(sentence(label))
    return told

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
"""Tests of simulated time."""

import pytest

from nova_sched.sim.clock import Clock


@pytest.mark.parametrize(
    'due, moves, given',
    [
        pytest.param([], [10], [[]], id='nothing is due'),
        pytest.param([(5, 'a')], [4], [[]], id='not yet'),
        pytest.param([(5, 'a')], [5], [['a']], id='exactly now'),
        pytest.param([(5, 'a'), (3, 'b')], [10], [['b', 'a']], id='in order of time'),
        pytest.param(
            [(5, 'b'), (5, 'a')], [10], [['b', 'a']], id='at one time in order of asking'
        ),
        pytest.param([(5, 'a'), (15, 'b')], [10, 20, 30], [['a'], ['b'], []], id='each once'),
        pytest.param([(5, {}), (5, {})], [10], [[{}, {}]], id='what cannot be compared'),
    ],
)
def test_what_falls_due(due, moves, given):
    clock = Clock()
    for when_s, what in due:
        clock.at(when_s, what)
    assert [list(clock.move(to_s)) for to_s in moves] == given


def test_it_stands_still_between_moves_and_never_goes_back():
    clock = Clock(100.0)
    assert clock() == 100.0
    clock.at(120.0, 'a')
    clock.at(50.0, 'late')
    seen = [(what, clock()) for what in clock.move(150.0)]
    assert seen == [('late', 100.0), ('a', 120.0)]
    assert list(clock.move(10.0)) == []
    assert clock() == 150.0


def test_what_an_event_brings_about_falls_due_in_the_same_move():
    clock = Clock()
    clock.at(1, 'first')
    given = []
    for what in clock.move(10):
        given.append(what)
        if what == 'first':
            clock.at(2, 'second')
    assert given == ['first', 'second']

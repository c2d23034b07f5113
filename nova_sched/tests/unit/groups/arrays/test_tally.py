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
"""A tally keeps count, closes what is closed, and forgets what is taken back."""

import copy

import numpy as np
import pytest

from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.tally import PlacementTally, Wiring
from nova_sched.tests.groups import policy, problem, random_problem
from nova_sched.tests.rows import each

FOUR = dict.fromkeys('abcd', 1)


def tally(*rules, free=(9,) * 6, members=FOUR, **more):
    """A tally of a group on three racks of two hosts, and the class of each member by path."""
    compiled = compile(problem(members, list(free), *rules, **more))
    class_of = {
        compiled.problem.names[m]: c
        for c, units in enumerate(compiled.members)
        for m in units.flat
    }
    return PlacementTally(Wiring(compiled)), class_of


def state(one):
    """Everything that a placement changes, as plain lists."""
    rules = [(rule.a.tolist(), rule.b.tolist(), rule.left_a, rule.left_b) for rule in one.rules]
    return one.free.tolist(), one.slots.tolist(), one.closed.tolist(), rules


@each('seed', range(60))
def test_what_is_taken_back_was_never_there(seed):
    compiled = compile(random_problem(seed, members=(3, 8)))
    one = PlacementTally(Wiring(compiled))
    chance = np.random.default_rng(seed)
    before, stack = [], []
    for c in chance.permutation(compiled.class_count).tolist():
        for _ in range(int(compiled.count[c])):
            hosts = np.flatnonzero(one.slots[compiled.shape[c]] > 0)
            if len(hosts):
                host = int(chance.choice(hosts))
                before.append(copy.deepcopy(state(one)))
                stack.append((c, host, one.place(c, host, one.wiring.concerns[c])))
    while stack:
        c, host, way = stack.pop()
        one.take_back(c, host, way, one.wiring.concerns[c])
        assert state(one) == before.pop()


def test_a_way_is_taken_that_leaves_room_for_its_like():
    cells = [[2, 0], [0, 2]]
    one, class_of = tally(members=dict.fromkeys('ab', cells) | {'c': [2, 0]}, free=[[3, 4]])
    assert one.slots[:, 0].tolist() == [3, 1]
    one.settle(class_of['a'], 0)
    assert one.free[0].tolist() == [1, 4]  # three are left of a cell that has room for one anyway
    one.settle(class_of['b'], 0)
    assert one.free[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    'rules, members, expected',
    [
        pytest.param([], 'c', {0: 16, 1: 12, 2: 36}, id='the best host takes all'),
        pytest.param(
            [policy('anti-affinity', 'host', 'a b')], 'a', {0: 5, 1: 6, 2: -np.inf}, id='two hosts'
        ),
        pytest.param(
            [
                policy('anti-affinity', 'host', 'a b c d'),
                policy('near', 'rack', 'a', 'c d', weight=1.0),
            ],
            'a b',
            {0: 5, 1: 6, 2: -np.inf},
            id='two classes of which no two share a host',
        ),
    ],
)
def test_reach_is_what_the_best_hosts_of_a_domain_are_worth(rules, members, expected):
    score = np.array([[1, 4, 3, 3, 9, 0]], dtype=np.float32)
    one, class_of = tally(*rules, score=score, free=[9, 9, 9, 9, 9, 0])
    classes = np.unique([class_of[path] for path in members.split()])
    level = one.compiled.layout.levels[1]
    assert (
        dict(zip(level.numbers.tolist(), one.reach(classes, 1).tolist(), strict=True)) == expected
    )

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
"""Plans of random problems, replayed by a checker that knows nothing of the planner: in order,
in any order, several at once, with moves that fail, cut off anywhere."""

import numpy as np
import pytest

from nova_sched.extensions.optimize.rebalance.bound import most_emptied
from nova_sched.extensions.optimize.rebalance.greedy import drain, empty, fit, spread
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.optimize.rebalance.checker import Broken, replay
from nova_sched.tests.unit.extensions.optimize.rebalance.problems import problem, random_problem

STATES = cases(1000)
BATCHES = 5
LARGE = np.array([8, 32, 0])


def plans(one, random):
    most = int(random.integers(1, 20))
    everywhere = np.ones(len(one), dtype=bool)
    return most, [
        empty(one, most, most_emptied(one, most) if random.random() < 0.2 else None),
        drain(one, random.choice(len(one), 2, replace=False).tolist(), most),
        fit(one, LARGE, everywhere, most),
        spread(one, most),
    ]


@pytest.mark.parametrize('batch', range(BATCHES))
def test_no_rule_breaks(batch):
    made = 0
    for seed in range(batch * STATES // BATCHES, (batch + 1) * STATES // BATCHES):
        random = np.random.default_rng(seed)
        one = random_problem(random, fill=random.uniform(0.3, 0.9))
        most, found = plans(one, random)
        for plan in found:
            made += len(plan.moves)
            assert len(plan.moves) <= most
            assert replay(one, plan.moves).emptied() == sorted(plan.emptied)
            replay(one, plan.moves, random, in_flight=len(plan.moves) + 1)
            replay(one, plan.moves, random, in_flight=3, fails=0.3)
            replay(one, plan.moves, random, 2, most=int(random.integers(len(plan.moves) + 1)))
    assert made > 100


@each('seed', range(60))
def test_no_plan_empties_more_than_the_bound(seed):
    random = np.random.default_rng(seed)
    one = random_problem(random, hosts=10, fill=random.uniform(0.2, 0.8))
    most = int(random.integers(1, 30))
    bound = most_emptied(one, most)
    without = len(empty(one, most).emptied)
    assert without <= len(empty(one, most, bound).emptied) <= bound.most
    assert bound.most <= sum(bound.shares.values()) + 1 or not bound.shares


@pytest.mark.parametrize(
    'words, why',
    [
        pytest.param({'fixed': 'devices'}, 'immovable', id='immovable'),
        pytest.param({'families': (1,)}, 'a member is there', id='a member at the destination'),
        pytest.param({'confined': True}, 'leaves its domain', id='domain'),
    ],
)
def test_the_checker_finds_a_broken_rule(words, why):
    one = problem(
        [4, 4], [2], [(0, 0, words), (1, 0, {'families': (1,)})], domain=np.array([0, 1])
    )
    with pytest.raises(Broken, match=why):
        replay(one, [(0, 1)])


def test_the_checker_counts_both_ends():
    one = problem([4, 4], [3, 2], [(0, 0), (1, 1)])
    with pytest.raises(Broken, match='no VCPU'):
        replay(one, [(0, 1)])
    full = problem([4, 4, 4], [2], [(0, 0), (0, 0), (1, 0), (1, 0)])
    with pytest.raises(Broken, match='no VCPU'):
        # Host 0 is free for server 2 only when server 0 has left it.
        replay(full, [(0, 2), (2, 0)], in_flight=2)

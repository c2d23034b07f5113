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
"""Whole blocks by domain: what does not fit is proven, and what fits is never refused."""

import numpy as np
import pytest

from nova_sched.groups.arrays import bounds
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.tally import PlacementTally, Wiring
from nova_sched.groups.arrays.whole_blocks import held
from nova_sched.groups.quick import greedy
from nova_sched.tests.groups import policy, problem
from nova_sched.tests.unit.groups import oracle, random_problems

SIX = dict.fromkeys('abcdef', 1)
PAIRS = [policy('affinity', 'rack', pair) for pair in ('a b', 'c d', 'e f')]


@pytest.mark.parametrize(
    'members, free, rules, expected',
    [
        pytest.param(SIX, [2, 1, 2, 1, 0, 0], PAIRS, (2, 3), id='a rest in each rack'),
        pytest.param(SIX, [2, 1, 2, 2, 0, 0], PAIRS, None, id='one rack takes two'),
        pytest.param(
            {**SIX, 'a': 2, 'c': 2},
            [3, 0, 3, 0, 9, 0],
            PAIRS,
            None,
            id='the large ones in the large rack',
        ),
        pytest.param(
            {**SIX, 'a': 2, 'b': 2, 'c': 2, 'd': 2},
            [4, 2, 2, 2, 2, 1],
            PAIRS,
            None,
            id='each finds its own rack',
        ),
        pytest.param(
            {**SIX, 'a': 2, 'b': 2, 'c': 2, 'd': 2},
            [4, 2, 2, 1, 2, 1],
            PAIRS,
            (1, 2),
            id='two large ones, one large rack',
        ),
        pytest.param(
            SIX,
            [9, 9, 9, 9, 0, 0],
            [*PAIRS, *(policy('exclusive', 'rack', pair) for pair in ('a b', 'c d'))],
            (2, 3),
            id='two of them alone in their racks',
        ),
        pytest.param(
            SIX,
            [9, 9, 9, 9, 0, 0],
            [*PAIRS, policy('exclusive', 'rack', 'a b')],
            None,
            id='one of them alone in its rack',
        ),
    ],
)
def test_the_whole_cluster(members, free, rules, expected):
    group = problem(members, free, *rules)
    failure = bounds.first(group)
    if expected is None:
        assert failure is None
        assert greedy.place(group, None) is not None
    else:
        assert (failure.dimension, failure.held, failure.asked) == ('parts', *expected)
        assert f'a place for {expected[0]} of these parts' in failure.words


def test_a_region():
    """Three pairs in one zone, which has capacity for all six, but in racks that take one pair."""
    rules = [*PAIRS, policy('affinity', 'zone', 'a b c d e f')]
    group = problem(SIX, [2, 1, 2, 1, 0, 0], *rules)
    failure = bounds.first(group)
    assert failure is not None
    assert failure.dimension == 'parts'


def test_held_by_domain():
    compiled = compile(problem(SIX, [2, 1, 4, 1, 1, 0], *PAIRS))
    tally = PlacementTally(Wiring(compiled))
    passing = greedy.passing_of(tally)
    ((_, blocks, most),) = held(tally, compiled.blocks, passing)
    assert len(blocks) == 3
    assert sorted(most.tolist())[-2:] == [1, 2]
    assert np.sum(most) == 3


@pytest.mark.parametrize('generate', [random_problems.cells, random_problems.shards])
def test_no_placement_is_refused(generate):
    wrong, proven = [], 0
    for seed in range(80):
        one = generate(seed)
        if bounds.first(one) is not None:
            proven += 1
            if oracle.best(one, goal=False) is not None:
                wrong.append(seed)
    assert wrong == []
    assert proven > 5

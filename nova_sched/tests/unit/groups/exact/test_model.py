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
"""The rules of the model at their edges."""

import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import (
    AFFINITY,
    EXCLUSIVE,
    SPREAD,
)
from nova_sched.groups.exact import tasks
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.groups import oracle, random_problems
from nova_sched.tests.unit.groups.exact.test_tasks import (
    A2,
    GENERATORS,
    LONG_S,
    at,
    paths,
    policy,
    problem,
)


@pytest.mark.parametrize(
    'one, found',
    [
        pytest.param(problem([2], 3, {}), True, id='nobody to place'),
        pytest.param(problem([], 3, {'a': 1}), False, id='no hosts'),
        pytest.param(problem([2], 0, {'a': 1}), False, id='no room'),
        pytest.param(
            problem([2], 0, {'a': 2}, fixed=at(0, 1)), True, id='all fixed, where no room is'
        ),
        pytest.param(
            problem([1, 1], 9, {'a': 2}, policy(AFFINITY, 'rack', A2), fixed=at(0, 1)),
            False,
            id='all fixed, apart',
        ),
        pytest.param(
            problem(
                [1, 1],
                9,
                {'a': 3},
                policy(SPREAD, 'rack', paths('a', 3), max_skew=0),
                fixed=at(0, 0, 1),
            ),
            False,
            id='all fixed, uneven',
        ),
        pytest.param(
            problem([3], 1, {'a': 3}, policy(EXCLUSIVE, 'rack', ['a/0'])),
            False,
            id='others have nowhere to go',
        ),
    ],
)
def test_edges(one, found):
    hosts, proven = tasks.repair(one, LONG_S)
    assert (hosts is not None, proven) == (found, not found)


@pytest.mark.parametrize('generate, seeds', GENERATORS)
def test_the_best_placement_is_found(generate, seeds):
    wrong = []
    for seed in seeds:
        one = generate(seed)
        hosts, _ = tasks.repair(one, LONG_S)
        if hosts is not None:
            better = tasks.improve(one, hosts, seconds=LONG_S)
            if policies.broken(one, better) or tuple(policies.cost(one, better)) != oracle.best(
                one
            ):
                wrong.append(seed)
    assert wrong == []


def test_without_scores_it_breaks_no_more_preferences_and_moves_no_more_than_the_best():
    wrong = []
    for seed in range(cases(100)):
        one = random_problems.mixture(seed)
        hosts, _ = tasks.repair(one, LONG_S)
        if hosts is not None:
            better = tasks.improve(one, hosts, False, seconds=LONG_S)
            if policies.broken(one, better) or (
                tuple(policies.cost(one, better))[:2] != oracle.best(one)[:2]
            ):
                wrong.append(seed)
    assert wrong == []


def test_homes_are_kept_where_members_of_one_class_change_places():
    one = problem([4], 1, {'a': 3}, home=at(2, 0, 1))
    better = tasks.improve(one, at(0, 1, 3), seconds=LONG_S)
    assert better.tolist() == [2, 0, 1]

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
"""The objective: the best placement is found, and homes are kept."""

import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.exact import tasks
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.groups import oracle, random_problems
from nova_sched.tests.unit.groups.exact.test_tasks import GENERATORS, LONG_S, at, problem


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

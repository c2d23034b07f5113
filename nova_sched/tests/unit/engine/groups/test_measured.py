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
"""Plans of groups are counted by their results."""

import contextlib

import pytest

from nova_sched import errors
from nova_sched.engine.groups.measured import CONFLICT, measured
from nova_sched.measures.catalogue import GROUP_PLAN_SECONDS, GROUP_PLANS


@pytest.fixture(autouse=True)
def empty():
    GROUP_PLANS.clear()
    GROUP_PLAN_SECONDS.clear()


@pytest.mark.parametrize(
    'dry_run, result', [pytest.param(False, 'planned'), pytest.param(True, 'dry run')]
)
def test_a_plan(dry_run, result):
    with measured(dry_run) as plan:
        plan.stage = 'greedy'
    assert GROUP_PLANS.values == {(result, 'greedy'): 1}
    assert sum(GROUP_PLAN_SECONDS.values[result,][:-1]) == 1


@pytest.mark.parametrize(
    'error, result',
    [
        pytest.param(errors.GroupRefused('no room', None), 'refused', id='refused'),
        pytest.param(errors.QuotaExceeded('project', {}), 'over quota', id='over quota'),
        pytest.param(ZeroDivisionError(), 'failed', id='failed'),
    ],
)
def test_a_plan_that_ends_in_an_error(error, result):
    with contextlib.suppress(type(error)), measured(False):
        raise error
    assert GROUP_PLANS.values == {(result, 'filters'): 1}


def test_a_conflict_stays_one_when_the_plan_is_given_up():
    with contextlib.suppress(ZeroDivisionError), measured(False) as plan:
        plan.result = CONFLICT
        raise ZeroDivisionError
    assert GROUP_PLANS.values == {('conflict', 'filters'): 1}

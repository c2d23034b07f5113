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

from nova_sched.groups.definition import (
    AFFINITY,
    EXCLUSIVE,
    SPREAD,
)
from nova_sched.groups.exact import tasks
from nova_sched.tests.unit.groups.exact.test_tasks import A2, LONG_S, at, paths, policy, problem


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

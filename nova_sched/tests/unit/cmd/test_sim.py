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
"""Tests of nova-sched-sim's exit status; tests/functional/test_sim.py runs the command itself."""

import pytest

from nova_sched.cmd import sim
from nova_sched.tests.unit.sim.builders import result


@pytest.mark.parametrize(
    'violations, status',
    [
        pytest.param([], 0, id='all is well'),
        pytest.param(['a host is over its capacity'], 3, id='a check failed'),
    ],
)
def test_a_violation_is_no_success(violations, status):
    assert sim.status(result(violations=violations)) == status

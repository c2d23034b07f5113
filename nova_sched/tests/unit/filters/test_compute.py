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
"""ComputeFilter: seconds, switches."""

import pytest

from nova_sched.filters.compute import ComputeFilter
from nova_sched.tests.builders import NOW, hosts, mask_of, request


@pytest.mark.parametrize(
    'columns, mask',
    [
        pytest.param({'seen_s': [NOW, NOW - 60, NOW - 61]}, '110', id='seen long ago'),
        pytest.param({'seen_s': [NOW + 60, NOW + 61, 0.0]}, '100', id='a clock that runs ahead'),
        pytest.param({'disabled': [True, False, True]}, '010', id='disabled'),
        pytest.param({'forced_down': [True, False, True]}, '010', id='forced down'),
        pytest.param(
            {'traits': [{'COMPUTE_STATUS_DISABLED'}, set(), {'X'}]}, '011', id='disabled by trait'
        ),
    ],
)
def test_compute(columns, mask):
    assert mask_of(ComputeFilter, hosts(3, **columns), request()) == mask

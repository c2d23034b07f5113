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
"""CoreFilter."""

import pytest

from nova_sched.filters.core import CoreFilter
from nova_sched.tests.builders import hosts, mask_of, request


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'vcpus': [4, 3]}, 4, '10', id='exact fit'),
        pytest.param(
            {'vcpus': 4, 'vcpus_used': [15, 16], 'vcpus_ratio': 4.0}, 1, '10', id='ratio'
        ),
        pytest.param({'vcpus': [4, 8], 'vcpus_ratio': 16.0}, 5, '01', id='no more than there are'),
        pytest.param({'vcpus': [0, None]}, 5, '11', id='a host without CPUs of its own passes'),
        pytest.param(
            {'vcpus': 3, 'vcpus_used': [3, 4], 'vcpus_ratio': 1.5}, 1, '10', id='broken ratio'
        ),
    ],
)
def test_core(columns, asked, mask):
    assert mask_of(CoreFilter, hosts(2, **columns), request(vcpus=asked)) == mask

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
"""DiskFilter."""

import pytest

from nova_sched.filters.disk import DiskFilter
from nova_sched.tests.builders import hosts, mask_of, request


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'disk_gb': [10, 9]}, {'root_gb': 10}, '10', id='exact fit'),
        pytest.param(
            {'disk_gb': [10, 9]},
            {'root_gb': 5, 'ephemeral_gb': 4, 'swap_mb': 1024},
            '10',
            id='all parts',
        ),
        pytest.param(
            {'disk_gb': [10, 9]}, {'root_gb': 9, 'swap_mb': 1}, '10', id='swap is not rounded'
        ),
        pytest.param(
            {'disk_gb': [10, 9]},
            {'root_gb': 99, 'ephemeral_gb': 10, 'is_bfv': True},
            '10',
            id='volume',
        ),
        pytest.param(
            {'disk_gb': 10, 'disk_slack_gb': [2, 3]},
            {'root_gb': 8},
            '10',
            id='less on the disk than recorded',
        ),
        pytest.param(
            {'disk_gb': 10, 'disk_gb_used': [10, 11], 'disk_gb_ratio': 2.0},
            {'root_gb': 10},
            '10',
            id='ratio',
        ),
        pytest.param(
            {'disk_gb': [10, 11], 'disk_gb_ratio': 2.0},
            {'root_gb': 11},
            '01',
            id='no more than there is',
        ),
    ],
)
def test_disk(columns, asked, mask):
    assert mask_of(DiskFilter, hosts(2, **columns), request(**asked)) == mask

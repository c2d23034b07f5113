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
"""RamFilter."""

import pytest

from nova_sched.filters.ram import RamFilter
from nova_sched.tests.builders import hosts, mask_of, request


@pytest.mark.parametrize(
    'columns, asked, mask',
    [
        pytest.param({'memory_mb': [512, 511]}, 512, '10', id='exact fit'),
        pytest.param({'memory_mb': 1024, 'memory_mb_used': [512, 513]}, 512, '10', id='used'),
        pytest.param(
            {'memory_mb': 1024, 'memory_mb_used': [1024, 1500], 'memory_mb_ratio': 2.0},
            1024,
            '10',
            id='ratio',
        ),
        pytest.param(
            {'memory_mb': [1000, 1024], 'memory_mb_ratio': 16.0},
            1024,
            '01',
            id='no more than there is',
        ),
        pytest.param(
            {'memory_mb': 1024, 'memory_mb_reserved': [512, 513], 'memory_mb_used': 513},
            512,
            '00',
            id='reserve',
        ),
        pytest.param(
            {'memory_mb': 100, 'memory_mb_used': [100, 101]}, 0, '10', id='nothing asked'
        ),
    ],
)
def test_ram(columns, asked, mask):
    assert mask_of(RamFilter, hosts(2, **columns), request(memory_mb=asked)) == mask

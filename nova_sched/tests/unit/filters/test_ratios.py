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
"""CoreFilter, RamFilter and DiskFilter, and those whose ratios aggregates override."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_core import AggregateCoreFilter
from nova_sched.filters.aggregate_disk import AggregateDiskFilter
from nova_sched.filters.aggregate_ram import AggregateRamFilter
from nova_sched.filters.core import CoreFilter
from nova_sched.filters.disk import DiskFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.tests.builders import aggregate, hosts, mask_of, nova_like, request, spec
from nova_sched.tests.rows import each


@each(
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


@each(
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


@each(
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


# The rule, the metadata that overrides its ratio, full hosts, a request for half of one host, that
# amount in words, and what is free with a ratio of 1.25.
every_ratio = each(
    'rule, key, full, asked, unit, quarter',
    [
        (
            AggregateCoreFilter,
            'cpu_allocation_ratio',
            {'vcpus': 4, 'vcpus_used': 4},
            {'vcpus': 2},
            '2 vCPUs',
            1,
        ),
        (
            AggregateRamFilter,
            'ram_allocation_ratio',
            {'memory_mb': 1000, 'memory_mb_used': 1000},
            {'memory_mb': 500},
            '500 MiB of memory',
            250,
        ),
        (
            AggregateDiskFilter,
            'disk_allocation_ratio',
            {'disk_gb': 10, 'disk_gb_used': 10},
            {'root_gb': 5},
            '5 GiB of disk',
            2,
        ),
    ],
)


@every_ratio
@each(
    'texts, mask',
    [
        pytest.param([], '00', id="the host's own ratio"),
        pytest.param(['1.5'], '10', id='a ratio for half as much again'),
        pytest.param(['1.4'], '00', id='less than is asked'),
        pytest.param(['1.4', '9'], '00', id='the smallest counts'),
        pytest.param(['9', 'much'], '00', id='no number'),
        pytest.param(['inf'], '00', id='no end'),
    ],
)
def test_an_aggregate_overrides_the_ratio(rule, key, full, asked, unit, quarter, texts, mask):
    groups = [aggregate(number, ['host-0'], **{key: text}) for number, text in enumerate(texts)]
    seen = hosts(2, groups, **full)
    assert mask_of(rule, seen, request(**asked)) == mask
    state = nova_like(seen.state(0))
    assert rule().host_passes(state, spec(**asked)) is (mask[0] == '1')


@every_ratio
def test_why(rule, key, full, asked, unit, quarter):
    groups = [aggregate(1, ['host-1'], **{key: '1.25'})]
    seen, wanted = hosts(2, groups, **full), request(**asked)
    refusal = f'{unit} asked, the'
    assert rule().why(seen, wanted, np.array([0])) == f'{refusal} host has 0 free'
    both = np.array([0, 1])
    assert rule().why(seen, wanted, both) == f'{refusal} best host has {quarter} free'
    assert rule().nearest(seen, wanted, both) == 1

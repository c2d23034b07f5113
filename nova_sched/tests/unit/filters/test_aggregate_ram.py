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
"""AggregateRamFilter."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_ram import AggregateRamFilter
from nova_sched.tests.builders import aggregate, hosts, mask_of, nova_like, request, spec

FULL, ASKED = {'memory_mb': 1000, 'memory_mb_used': 1000}, {'memory_mb': 500}


@pytest.mark.parametrize(
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
def test_ratio(texts, mask):
    groups = [
        aggregate(number, ['host-0'], ram_allocation_ratio=text)
        for number, text in enumerate(texts)
    ]
    seen = hosts(2, groups, **FULL)
    assert mask_of(AggregateRamFilter, seen, request(**ASKED)) == mask
    one = nova_like(seen.state(0))
    assert AggregateRamFilter().host_passes(one, spec(**ASKED)) is (mask[0] == '1')


def test_why():
    groups = [aggregate(1, ['host-1'], ram_allocation_ratio='1.25')]
    seen, rule = hosts(2, groups, **FULL), AggregateRamFilter()
    assert (
        rule.why(seen, request(**ASKED), np.array([0]))
        == '500 MiB of memory asked, the host has 0 free'
    )
    assert (
        rule.why(seen, request(**ASKED), np.array([0, 1]))
        == '500 MiB of memory asked, the best host has 250 free'
    )
    assert rule.nearest(seen, request(**ASKED), np.array([0, 1])) == 1

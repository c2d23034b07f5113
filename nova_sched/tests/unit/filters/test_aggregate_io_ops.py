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
"""AggregateIoOpsFilter."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_io_ops import AggregateIoOpsFilter
from nova_sched.tests.builders import aggregate, host, hosts, mask_of, request, spec

KEY = 'max_io_ops_per_host'


@pytest.mark.parametrize(
    'texts, mask',
    [
        pytest.param([], '110', id='the option, for hosts that no aggregate gives a number'),
        pytest.param(['7'], '010', id='another number'),
        pytest.param(['60', ' 8 '], '110', id='the smallest, blanks are fine'),
        pytest.param(['60', '6'], '010', id='below the option'),
        pytest.param(['100'], '110', id='above the option'),
        pytest.param(['1', 'many'], '110', id='no number: the option'),
        pytest.param(['8.5'], '110', id='not whole: the option'),
        pytest.param(['9' * 400], '110', id='too many digits: the option'),
        pytest.param(['-1'], '010', id='none at all'),
    ],
)
def test_limit(texts, mask):
    groups = [aggregate(number, ['host-0'], **{KEY: text}) for number, text in enumerate(texts)]
    groups.append(aggregate(99, ['host-1'], other='1'))
    assert (
        mask_of(AggregateIoOpsFilter, hosts(3, groups, io_workload=[7, 7, 99]), request()) == mask
    )
    state = host(num_io_ops=7, aggregates=groups[:-1])
    assert AggregateIoOpsFilter().host_passes(state, spec()) is (mask[0] == '1')


@pytest.mark.parametrize(
    'rows, nearest, why',
    [
        pytest.param([0, 1, 2], 1, f'{KEY} is 3, the least busy host has 4', id='hosts'),
        pytest.param([2], 2, f'{KEY} is 8, the host has 99', id='one host'),
    ],
)
def test_why(rows, nearest, why):
    groups = [aggregate(1, ['host-0', 'host-1'], **{KEY: '3'})]
    seen, rows = hosts(3, groups, io_workload=[5, 4, 99]), np.array(rows)
    assert AggregateIoOpsFilter().why(seen, request(), rows) == why
    assert AggregateIoOpsFilter().nearest(seen, request(), rows) == nearest

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
"""IoOpsFilter and NumInstancesFilter, and those whose limits aggregates override."""

import numpy as np
import pytest

from nova_sched.filters.aggregate_io_ops import AggregateIoOpsFilter
from nova_sched.filters.aggregate_num_instances import AggregateNumInstancesFilter
from nova_sched.filters.io_ops import IoOpsFilter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.tests.builders import (
    aggregate,
    claim,
    cluster,
    host,
    hosts,
    mask_of,
    request,
    spec,
    uuid_of,
)
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

IO_OPS, INSTANCES = 'max_io_ops_per_host', 'max_instances_per_host'


@each(
    'rule, column, values, option, limit, mask',
    [
        (IoOpsFilter, 'io_workload', [0, 7, 8, 9], IO_OPS, None, '1100'),
        (IoOpsFilter, 'io_workload', [0, 7, 8, 9], IO_OPS, 9, '1110'),
        (IoOpsFilter, 'io_workload', [0, 7, 8, 9], IO_OPS, 0, '0000'),
        (NumInstancesFilter, 'num_instances', [0, 49, 50, 51], INSTANCES, None, '1100'),
        (NumInstancesFilter, 'num_instances', [0, 49, 50, 51], INSTANCES, 51, '1110'),
        (NumInstancesFilter, 'num_instances', [0, 49, 50, 51], INSTANCES, 1, '1000'),
    ],
)
def test_an_option_is_the_limit(rule, column, values, option, limit, mask):
    options = {} if limit is None else {f'filter_scheduler.{option}': limit}
    with settings(options):
        assert mask_of(rule, hosts(**{column: values}), request()) == mask


def test_a_claim_counts_as_an_instance():
    made = cluster(2, num_instances=49)
    made.add(claim(uuid_of('a'), made.hosts.nodes[0].uuid))
    assert mask_of(NumInstancesFilter, made.hosts, request()) == '01'


@each(
    'rule, column, attribute, key',
    [
        (AggregateIoOpsFilter, 'io_workload', 'num_io_ops', IO_OPS),
        (AggregateNumInstancesFilter, 'num_instances', 'num_instances', INSTANCES),
    ],
)
@each(
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
def test_an_aggregate_overrides_the_limit(rule, column, attribute, key, texts, mask):
    groups = [aggregate(number, ['host-0'], **{key: text}) for number, text in enumerate(texts)]
    groups.append(aggregate(99, ['host-1'], other='1'))
    assert mask_of(rule, hosts(3, groups, **{column: [7, 7, 99]}), request()) == mask
    state = host(aggregates=groups[:-1], **{attribute: 7})
    assert rule().host_passes(state, spec()) is (mask[0] == '1')


LEAST_BUSY, EMPTIEST = 'the least busy host has', 'the emptiest host has'


@each(
    'rule, columns, why_all, why_last',
    [
        (IoOpsFilter, {'io_workload': [10, 9, 11]}, f'8, {LEAST_BUSY} 9', '8, the host has 11'),
        (
            AggregateIoOpsFilter,
            {'io_workload': [5, 4, 99]},
            f'3, {LEAST_BUSY} 4',
            '8, the host has 99',
        ),
        (
            NumInstancesFilter,
            {'num_instances': [52, 51, 99]},
            f'50, {EMPTIEST} 51',
            '50, the host has 99',
        ),
        (
            AggregateNumInstancesFilter,
            {'num_instances': [5, 4, 99]},
            f'3, {EMPTIEST} 4',
            '50, the host has 99',
        ),
    ],
)
def test_why(rule, columns, why_all, why_last):
    groups = [aggregate(1, ['host-0', 'host-1'], **{IO_OPS: '3', INSTANCES: '3'})]
    seen, option = hosts(3, groups, **columns), IO_OPS if 'io_workload' in columns else INSTANCES
    for rows, nearest, why in (([0, 1, 2], 1, why_all), ([2], 2, why_last)):
        assert rule().why(seen, request(), np.array(rows)) == f'{option} is {why}'
        assert rule().nearest(seen, request(), np.array(rows)) == nearest

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
"""IoOpsFilter."""

import numpy as np
import pytest

from nova_sched.filters.io_ops import IoOpsFilter
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.options import settings

LIMIT = 'filter_scheduler.max_io_ops_per_host'


@pytest.mark.parametrize(
    'options, mask',
    [
        pytest.param({}, '1100', id='8 unless set'),
        pytest.param({LIMIT: 9}, '1110', id='an option'),
        pytest.param({LIMIT: 0}, '0000', id='none at all'),
    ],
)
def test_io_ops(options, mask):
    with settings(options):
        assert mask_of(IoOpsFilter, hosts(io_workload=[0, 7, 8, 9]), request()) == mask


@pytest.mark.parametrize(
    'rows, nearest, why',
    [
        pytest.param(
            [0, 1, 2], 1, 'max_io_ops_per_host is 8, the least busy host has 9', id='hosts'
        ),
        pytest.param([2], 2, 'max_io_ops_per_host is 8, the host has 11', id='one host'),
    ],
)
def test_why(rows, nearest, why):
    seen, rows = hosts(io_workload=[10, 9, 11]), np.array(rows)
    assert IoOpsFilter().why(seen, request(), rows) == why
    assert IoOpsFilter().nearest(seen, request(), rows) == nearest

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
"""NumInstancesFilter."""

import numpy as np
import pytest

from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.tests.builders import claim, cluster, hosts, mask_of, request, uuid_of
from nova_sched.tests.options import settings

LIMIT = 'filter_scheduler.max_instances_per_host'


@pytest.mark.parametrize(
    'options, mask',
    [
        pytest.param({}, '1100', id='50 unless set'),
        pytest.param({LIMIT: 51}, '1110', id='an option'),
        pytest.param({LIMIT: 1}, '1000', id='one'),
    ],
)
def test_num_instances(options, mask):
    with settings(options):
        assert mask_of(NumInstancesFilter, hosts(num_instances=[0, 49, 50, 51]), request()) == mask


def test_a_claim_counts_as_an_instance():
    made = cluster(2, num_instances=49)
    made.add(claim(uuid_of('a'), made.hosts.nodes[0].uuid))
    assert mask_of(NumInstancesFilter, made.hosts, request()) == '01'


@pytest.mark.parametrize(
    'rows, nearest, why',
    [
        pytest.param(
            [0, 1, 2], 1, 'max_instances_per_host is 50, the emptiest host has 51', id='hosts'
        ),
        pytest.param([2], 2, 'max_instances_per_host is 50, the host has 99', id='one host'),
    ],
)
def test_why(rows, nearest, why):
    seen, rows = hosts(num_instances=[52, 51, 99]), np.array(rows)
    assert NumInstancesFilter().why(seen, request(), rows) == why
    assert NumInstancesFilter().nearest(seen, request(), rows) == nearest

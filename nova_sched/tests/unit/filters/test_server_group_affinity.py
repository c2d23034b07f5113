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
"""ServerGroupAffinityFilter."""

import pytest

from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.tests.builders import hosts, mask_of, request


@pytest.mark.parametrize(
    'group, mask',
    [
        pytest.param(None, '*', id='no group'),
        pytest.param({'policy': 'affinity', 'hosts': []}, '*', id='the first member'),
        pytest.param(
            {'policy': 'affinity', 'hosts': ['host-1', 'gone']}, '010', id='with the others'
        ),
        pytest.param({'policy': 'affinity', 'hosts': ['gone']}, '000', id='their host is gone'),
        pytest.param({'policy': 'soft-affinity', 'hosts': ['host-1']}, '*', id='soft policy'),
        pytest.param({'policy': 'anti-affinity', 'hosts': ['host-1']}, '*', id='other policy'),
    ],
)
def test_server_group_affinity(group, mask):
    assert mask_of(ServerGroupAffinityFilter, hosts(3), request(group=group)) == mask

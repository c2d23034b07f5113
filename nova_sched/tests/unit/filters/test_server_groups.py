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
"""ServerGroupAffinityFilter and ServerGroupAntiAffinityFilter."""

import pytest

from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.tests.builders import claim, cluster, hosts, mask_of, request, uuid_of
from nova_sched.tests.rows import each


@each(
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


A, B, C, ME = map(uuid_of, ['a', 'b', 'c', 'me'])
PLACES = {'instances': [{A}, {A, B}, set()]}


@each(
    'group, mask',
    [
        pytest.param(None, '*', id='no group'),
        pytest.param({'members': []}, '111', id='no members'),
        pytest.param({'members': [B, C]}, '101', id='apart from the others'),
        pytest.param(
            {'members': [A, B], 'rules': {'max_server_per_host': '2'}}, '101', id='two on a host'
        ),
        pytest.param(
            {'members': [A, B], 'rules': {'max_server_per_host': 3}}, '111', id='three on a host'
        ),
        pytest.param(
            {'members': [C], 'rules': {'max_server_per_host': '0'}}, '000', id='none on any host'
        ),
        pytest.param(
            {'members': [C], 'hosts': ['host-0']}, '111', id='the hosts of the group do not count'
        ),
        pytest.param({'policy': 'soft-anti-affinity', 'members': [A]}, '*', id='soft policy'),
        pytest.param({'policy': 'affinity', 'members': [A]}, '*', id='other policy'),
    ],
)
def test_server_group_anti_affinity(group, mask):
    asked = request(instance_uuid=ME, group=group and {'policy': 'anti-affinity', **group})
    assert mask_of(ServerGroupAntiAffinityFilter, hosts(**PLACES), asked) == mask


def test_an_instance_may_stay_where_it_is():
    asked = request(instance_uuid=B, group={'policy': 'anti-affinity', 'members': [A, B]})
    assert mask_of(ServerGroupAntiAffinityFilter, hosts(**PLACES), asked) == '011'


def test_a_claim_counts_as_an_instance():
    made = cluster(2)
    made.add(claim(A, made.hosts.nodes[1].uuid))
    asked = request(group={'policy': 'anti-affinity', 'members': [A]})
    assert mask_of(ServerGroupAntiAffinityFilter, made.hosts, asked) == '10'

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
"""The query for allocation candidates."""

import pytest

from nova_sched.cloud.candidate_query import queries
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.rows import each

A, B, NODE = uuid_of('aggregate a'), uuid_of('aggregate b'), uuid_of('node')
PORT = ResourceGroup('_port', (('NET_BW_EGR_KILOBIT_PER_SEC', 5),), frozenset({'CUSTOM_NET'}))
DISK = ResourceGroup('_disk', (('DISK_GB', 5),), in_tree=NODE)
PLAIN = {
    'limit': 1000,
    'resources': 'MEMORY_MB:512,VCPU:1',
    'root_required': '!COMPUTE_STATUS_DISABLED',
}


def asked(in_tree=None, zone=(), is_owned=False, **words):
    known = {'resources': {'VCPU': 1, 'MEMORY_MB': 512}}
    return queries(request(**{**known, **words}), in_tree, zone, is_owned)


@each(
    'words, more',
    [
        pytest.param({}, {}, id='plain'),
        pytest.param(
            {'is_owned': True},
            {'root_required': 'OWNER_NOVA,!COMPUTE_STATUS_DISABLED'},
            id='providers of Nova',
        ),
        pytest.param({'zone': {A}}, {'member_of': [f'in:{A}']}, id='a zone'),
        pytest.param(
            {
                'zone': {A},
                'destination': RequestedDestination(
                    aggregates=(frozenset({A, B}),), forbidden_aggregates=frozenset({B})
                ),
            },
            {'member_of': [f'in:{",".join(sorted([A, B]))}', f'in:{A}', f'!in:{B}']},
            id='aggregates',
        ),
        pytest.param(
            {'required_traits': frozenset({'X', 'W'}), 'forbidden_traits': frozenset({'Y'})},
            {'required': 'W,X,!Y'},
            id='traits',
        ),
        pytest.param(
            {'root_required': frozenset({'X'}), 'root_forbidden': frozenset({'Y'})},
            {'root_required': 'X,!COMPUTE_STATUS_DISABLED,!Y'},
            id='traits of the node itself',
        ),
        pytest.param(
            {'groups': (PORT,), 'group_policy': 'none'},
            {
                'resources_port': 'NET_BW_EGR_KILOBIT_PER_SEC:5',
                'required_port': 'CUSTOM_NET',
            },
            id='a group needs no policy',
        ),
        pytest.param(
            {
                'groups': (PORT, DISK),
                'group_policy': 'isolate',
                'same_subtree': (frozenset({'_port', '_disk'}),),
            },
            {
                'resources_port': 'NET_BW_EGR_KILOBIT_PER_SEC:5',
                'required_port': 'CUSTOM_NET',
                'resources_disk': 'DISK_GB:5',
                'in_tree_disk': NODE,
                'group_policy': 'isolate',
                'same_subtree': ['_disk,_port'],
            },
            id='groups',
        ),
    ],
)
def test_the_query(words, more):
    assert asked(**words) == [{**PLAIN, **more}]


def test_one_node_is_asked_for_first():
    assert asked(in_tree=NODE) == [{**PLAIN, 'in_tree': NODE}, PLAIN]


def test_shared_cpus_in_place_of_dedicated_ones_are_asked_for_second():
    found = asked(resources={'PCPU': 2, 'MEMORY_MB': 512}, fallback_vcpus=2)
    assert [one['resources'] for one in found] == ['MEMORY_MB:512,PCPU:2', 'MEMORY_MB:512,VCPU:2']

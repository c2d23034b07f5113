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
"""Understood."""

import types

import numpy as np
import pytest

from nova_sched.filters.understood import Understood
from nova_sched.tests.builders import host, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

TWO_GROUPS = {'resources1:VGPU': '1', 'resources2:VGPU': '1'}


@each(
    'words, understood',
    [
        pytest.param({}, True, id='plain'),
        pytest.param(
            {'extra_specs': {'resources:CUSTOM_GOLD': '1', 'trait:A': 'required'}},
            True,
            id='known',
        ),
        pytest.param(
            {'extra_specs': {'hw:cpu_policy': 'shared', 'ssd': 'true'}}, True, id='free keys'
        ),
        pytest.param(
            {'extra_specs': {'accel:device_profile': 'gpu'}},
            False,
            id='a device profile that was not read',
        ),
        pytest.param(
            {
                'extra_specs': {'accel:device_profile': 'gpu'},
                'requested_resources': [
                    types.SimpleNamespace(requester_id='device_profile_0', resources={'PGPU': 1})
                ],
            },
            True,
            id='a device profile',
        ),
        pytest.param({'extra_specs': {'accel:other': 'x'}}, False, id='another word of Cyborg'),
        pytest.param({'extra_specs': {'resources1:VGPU': '1'}}, True, id='numbered group'),
        pytest.param(
            {'extra_specs': {'trait_GPU:A': 'required'}},
            False,
            id='a group of nothing but a trait',
        ),
        pytest.param({'extra_specs': TWO_GROUPS}, False, id='two groups'),
        pytest.param(
            {'extra_specs': {**TWO_GROUPS, 'group_policy': 'none'}},
            True,
            id='two groups that may share',
        ),
        pytest.param(
            {'extra_specs': {**TWO_GROUPS, 'group_policy': 'some'}}, False, id='an unknown policy'
        ),
    ],
)
def test_understood(words, understood):
    assert mask_of(Understood, hosts(2), request(**words)) == ('*' if understood else '00')
    assert Understood().host_passes(host(), spec(**words)) is understood


@each(
    'extra_specs, why',
    [
        pytest.param(
            {'accel:device_profile': 'gpu', 'resources.1:A': '1'},
            'the request asks for what no rule knows: accel:device_profile, resources.1:A',
            id='words',
        ),
        pytest.param(
            TWO_GROUPS,
            'the request has 2 groups of resources, but no group_policy (none or isolate)',
            id='policy',
        ),
    ],
)
def test_why(extra_specs, why):
    assert Understood().why(hosts(2), request(extra_specs=extra_specs), np.array([0, 1])) == why

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

import pytest

from nova_sched.filters.understood import Understood
from nova_sched.tests.builders import host, hosts, mask_of, request, spec


@pytest.mark.parametrize(
    'words, understood',
    [
        pytest.param({}, True, id='plain'),
        pytest.param(
            {'extra_specs': {'resources:CUSTOM_GOLD': '1', 'trait:A': 'required'}}, True, id='known'
        ),
        pytest.param({'extra_specs': {'hw:cpu_policy': 'shared', 'ssd': 'true'}}, True, id='free keys'),
        pytest.param({'extra_specs': {'accel:device_profile': 'gpu'}}, False, id='accelerator'),
        pytest.param({'extra_specs': {'resources1:VGPU': '1'}}, False, id='numbered group'),
        pytest.param({'extra_specs': {'trait_GPU:A': 'required'}}, False, id='trait of a group'),
    ],
)
def test_understood(words, understood):
    assert mask_of(Understood, hosts(2), request(**words)) == ('*' if understood else '00')
    assert Understood().host_passes(host(), spec(**words)) is understood

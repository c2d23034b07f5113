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
"""The size of a request."""

import json

import pytest

from nova_sched.hardware.providers import ResourceGroup
from nova_sched.packing.mix import DeviceDemand, Size, size_of
from nova_sched.tests.builders import request

GPU, FPGA = 'CUSTOM_GPU', 'FPGA'
A, B = frozenset('A'), frozenset('B')


@pytest.mark.parametrize(
    'words, size',
    [
        pytest.param({'resources': {'VCPU': 2, 'DISK_GB': 0}}, Size((('VCPU', 2),)), id='plain'),
        pytest.param(
            {'resources': {'VCPU': 2, GPU: 460}, 'required_traits': A, 'forbidden_traits': B},
            Size((('VCPU', 2),), DeviceDemand(GPU, 460, 1, A, B)),
            id='outside of groups',
        ),
        pytest.param(
            {
                'resources': {'VCPU': 2},
                'groups': (
                    ResourceGroup('1', ((GPU, 1000),), A),
                    ResourceGroup('2', ((GPU, 1000),), A),
                    ResourceGroup('3', ((GPU, 1000), ('VCPU', 1)), A),
                ),
            },
            Size((('VCPU', 3),), DeviceDemand(GPU, 1000, 3, A)),
            id='equal groups',
        ),
        pytest.param(
            {
                'resources': {},
                'groups': (
                    ResourceGroup('1', ((FPGA, 1),)),
                    ResourceGroup('2', ((GPU, 500),)),
                ),
            },
            Size((), DeviceDemand(GPU, 500)),
            id='the larger of two demands',
        ),
        pytest.param({'resources': {GPU: 0}}, Size(), id='nothing'),
    ],
)
def test_size(words, size):
    assert size_of(request(**words), {GPU, FPGA}) == size
    assert Size.from_plain(json.loads(json.dumps(size.to_plain()))) == size


@pytest.mark.parametrize(
    'plain',
    [
        pytest.param(None, id='nothing'),
        pytest.param([[]], id='too short'),
        pytest.param([[['VCPU', -1]], None], id='negative'),
        pytest.param([[['VCPU', True]], None], id='no number'),
        pytest.param([[], ['GPU', 5, 0, [], []]], id='no device'),
        pytest.param([[], ['GPU', 5]], id='half a demand'),
    ],
)
def test_malformed(plain):
    with pytest.raises((ValueError, TypeError)):
        Size.from_plain(plain)

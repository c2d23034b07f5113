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
"""The size of a request, and the mix: counted, bounded, merged, stored."""

import json

import pytest

from nova_sched.extensions.optimize.packing.mix import (
    MAX_COUNTED,
    MAX_SIZES,
    DeviceDemand,
    Mix,
    Size,
    size_of,
)
from nova_sched.hardware.providers import ResourceGroup
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
def test_a_size_that_is_malformed(plain):
    with pytest.raises((ValueError, TypeError)):
        Size.from_plain(plain)


SMALL, LARGE = Size((('VCPU', 1),)), Size((('VCPU', 8),), DeviceDemand('GPU', 500))


def test_requests_are_counted():
    mix = Mix()
    assert not mix
    mix.add([SMALL, LARGE, SMALL])
    assert mix.counts == {SMALL: 2, LARGE: 1}
    assert mix.total == 3


def test_old_requests_fade():
    mix = Mix({SMALL: MAX_COUNTED})
    mix.add([LARGE])
    assert mix.counts == {SMALL: MAX_COUNTED / 2, LARGE: 0.5}


def test_the_rarest_are_dropped():
    mix = Mix({Size((('VCPU', units),)): units for units in range(1, MAX_SIZES + 3)})
    assert len(mix.counts) == MAX_SIZES
    assert SMALL not in mix.counts


def test_two_mixes():
    mix = Mix({SMALL: 1})
    mix.merge(Mix({SMALL: 4, LARGE: 2}), 0.5)
    assert mix.counts == {SMALL: 3, LARGE: 1}


def test_a_stored_mix():
    mix = Mix({SMALL: 1.5, LARGE: 2})
    assert Mix.from_json(mix.to_json()).counts == mix.counts


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('', id='empty'),
        pytest.param('{}[', id='no JSON'),
        pytest.param('[[1, 2, 3]]', id='another shape'),
        pytest.param('[[[[], null], -1]]', id='a negative count'),
        pytest.param('[[[[], null], NaN]]', id='no count'),
        pytest.param('7', id='a number'),
    ],
)
def test_a_mix_that_is_malformed(text):
    with pytest.raises((ValueError, TypeError)):
        Mix.from_json(text)

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
"""ImageTypeSupport."""

import types

import numpy as np
import pytest

from nova_sched.filters.image_type_support import ImageTypeSupport
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.options import settings

ON = {'scheduler.query_placement_for_image_type_support': True}
TRAITS = [
    {'COMPUTE_IMAGE_TYPE_RAW'},
    {'COMPUTE_IMAGE_TYPE_RAW', 'COMPUTE_IMAGE_TYPE_QCOW2'},
    set(),
]


def image(disk_format):
    return types.SimpleNamespace(id='image', disk_format=disk_format, properties=None)


@pytest.mark.parametrize(
    'words, mask',
    [
        pytest.param({'image': image('raw')}, '110', id='raw'),
        pytest.param({'image': image('qcow2')}, '010', id='qcow2'),
        pytest.param({'image': image('vmdk')}, '000', id='a format that no host can'),
        pytest.param({'image': image('ova')}, '*', id='a format without a trait'),
        pytest.param({'image': image('vmdk'), 'is_bfv': True}, '*', id='boots from a volume'),
        pytest.param({'image': image(None)}, '*', id='no format'),
        pytest.param({'image': None}, '*', id='no image'),
    ],
)
def test_formats(words, mask):
    with settings(ON):
        assert mask_of(ImageTypeSupport, hosts(traits=TRAITS), request(**words)) == mask


def test_off():
    assert mask_of(ImageTypeSupport, hosts(traits=TRAITS), request(image=image('vmdk'))) == '*'


def test_what_it_depends_on():
    asked = request(image=image('raw'))
    with settings(ON):
        assert ImageTypeSupport().depends_on(asked) == ('COMPUTE_IMAGE_TYPE_RAW',)
    assert ImageTypeSupport().depends_on(asked) == ()


def test_why():
    with settings(ON):
        why = ImageTypeSupport().why(
            hosts(traits=TRAITS), request(image=image('qcow2')), np.array([0, 2])
        )
    assert why == 'these hosts lack COMPUTE_IMAGE_TYPE_QCOW2'

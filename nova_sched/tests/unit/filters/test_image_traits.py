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
"""ImageTypeSupport and ImageMetadata: the traits that an image needs."""

import types

import numpy as np
import pytest

from nova_sched.filters import image_traits
from nova_sched.filters.image_metadata import ImageMetadata
from nova_sched.filters.image_type_support import ImageTypeSupport
from nova_sched.objects import ImageMetaProps
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

TYPE_SUPPORT = {'scheduler.query_placement_for_image_type_support': True}
FORMATS = [
    {'COMPUTE_IMAGE_TYPE_RAW'},
    {'COMPUTE_IMAGE_TYPE_RAW', 'COMPUTE_IMAGE_TYPE_QCOW2'},
    set(),
]


def image(disk_format):
    return types.SimpleNamespace(id='image', disk_format=disk_format, properties=None)


@each(
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
    with settings(TYPE_SUPPORT):
        assert mask_of(ImageTypeSupport, hosts(traits=FORMATS), request(**words)) == mask


def test_off():
    assert mask_of(ImageTypeSupport, hosts(traits=FORMATS), request(image=image('vmdk'))) == '*'


def test_what_it_depends_on():
    asked = request(image=image('raw'))
    with settings(TYPE_SUPPORT):
        assert ImageTypeSupport().depends_on(asked) == ('COMPUTE_IMAGE_TYPE_RAW',)
    assert ImageTypeSupport().depends_on(asked) == ()


def test_why_of_a_format():
    with settings(TYPE_SUPPORT):
        why = ImageTypeSupport().why(
            hosts(traits=FORMATS), request(image=image('qcow2')), np.array([0, 2])
        )
    assert why == 'these hosts lack COMPUTE_IMAGE_TYPE_QCOW2'


PREFILTER = {'scheduler.image_metadata_prefilter': True}


@each(
    'properties, traits',
    [
        pytest.param({}, set(), id='none'),
        pytest.param({'hw_disk_bus': 'virtio'}, {'COMPUTE_STORAGE_BUS_VIRTIO'}, id='disk'),
        pytest.param({'hw_cdrom_bus': 'sata'}, {'COMPUTE_STORAGE_BUS_SATA'}, id='CD'),
        pytest.param({'hw_video_model': 'qxl'}, {'COMPUTE_GRAPHICS_MODEL_QXL'}, id='video'),
        pytest.param(
            {'hw_vif_model': 'ne2k_pci'}, {'COMPUTE_NET_VIF_MODEL_NE2K_PCI'}, id='network'
        ),
        pytest.param(
            {'hw_vif_model': 'spapr-vlan'}, {'COMPUTE_NET_VIF_MODEL_SPAPR_VLAN'}, id='a dash'
        ),
        pytest.param({'hw_architecture': 'x86_64'}, {'HW_ARCH_X86_64'}, id='architecture'),
        pytest.param(
            {'hw_emulation_architecture': 'aarch64'}, {'COMPUTE_ARCH_AARCH64'}, id='emulated'
        ),
        pytest.param(
            {'hw_disk_bus': 'scsi', 'hw_video_model': 'vga', 'hw_scsi_model': 'virtio-scsi'},
            {'COMPUTE_STORAGE_BUS_SCSI', 'COMPUTE_GRAPHICS_MODEL_VGA'},
            id='several, and others',
        ),
        pytest.param(
            {'hw_disk_bus': 'scsi', 'hw_vif_model': 'odd'},
            set(),
            id='an unknown one leaves out all',
        ),
        pytest.param(
            {'hw_disk_bus': 'scsi', 'hw_viommu_model': 'intel'},
            set(),
            id='as a virtual IOMMU does',
        ),
    ],
)
def test_traits(properties, traits):
    assert image_traits.of_properties(properties) == traits
    with settings(PREFILTER):
        assert ImageMetadata().depends_on(request(image_properties=properties)) == traits


def test_the_properties_are_those_of_images():
    assert image_traits.OF_PROPERTIES.keys() <= ImageMetaProps.fields.keys()


@each('options, mask', [({}, '*'), (PREFILTER, '100')], ids=['off', 'on'])
def test_hosts(options, mask):
    seen = hosts(
        traits=[{'COMPUTE_STORAGE_BUS_SCSI', 'HW_ARCH_I686'}, {'COMPUTE_STORAGE_BUS_SCSI'}, set()]
    )
    asked = request(image_properties={'hw_disk_bus': 'scsi', 'hw_architecture': 'i686'})
    with settings(options):
        assert mask_of(ImageMetadata, seen, asked) == mask


def test_why_of_properties():
    seen = hosts(traits=[{'HW_ARCH_I686'}, {'COMPUTE_STORAGE_BUS_SCSI', 'HW_ARCH_I686'}, set()])
    asked = request(image_properties={'hw_disk_bus': 'scsi', 'hw_architecture': 'i686'})
    with settings(PREFILTER):
        assert (
            ImageMetadata().why(seen, asked, np.array([0]))
            == 'the host lacks COMPUTE_STORAGE_BUS_SCSI'
        )
        assert ImageMetadata().why(seen, asked, np.array([0, 2])) == (
            'these hosts lack COMPUTE_STORAGE_BUS_SCSI, HW_ARCH_I686'
        )

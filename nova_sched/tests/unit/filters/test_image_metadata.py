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
"""ImageMetadata."""

import numpy as np
import pytest

from nova_sched.filters import image_traits
from nova_sched.filters.image_metadata import ImageMetadata
from nova_sched.objects import ImageMetaProps
from nova_sched.tests.builders import hosts, mask_of, request
from nova_sched.tests.options import settings

ON = {'scheduler.image_metadata_prefilter': True}


@pytest.mark.parametrize(
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
    with settings(ON):
        assert ImageMetadata().depends_on(request(image_properties=properties)) == traits


def test_the_properties_are_those_of_images():
    assert image_traits.OF_PROPERTIES.keys() <= ImageMetaProps.fields.keys()


@pytest.mark.parametrize('options, mask', [({}, '*'), (ON, '100')], ids=['off', 'on'])
def test_hosts(options, mask):
    seen = hosts(
        traits=[{'COMPUTE_STORAGE_BUS_SCSI', 'HW_ARCH_I686'}, {'COMPUTE_STORAGE_BUS_SCSI'}, set()]
    )
    asked = request(image_properties={'hw_disk_bus': 'scsi', 'hw_architecture': 'i686'})
    with settings(options):
        assert mask_of(ImageMetadata, seen, asked) == mask


def test_why():
    seen = hosts(traits=[{'HW_ARCH_I686'}, {'COMPUTE_STORAGE_BUS_SCSI', 'HW_ARCH_I686'}, set()])
    asked = request(image_properties={'hw_disk_bus': 'scsi', 'hw_architecture': 'i686'})
    with settings(ON):
        assert (
            ImageMetadata().why(seen, asked, np.array([0]))
            == 'the host lacks COMPUTE_STORAGE_BUS_SCSI'
        )
        assert ImageMetadata().why(seen, asked, np.array([0, 2])) == (
            'these hosts lack COMPUTE_STORAGE_BUS_SCSI, HW_ARCH_I686'
        )

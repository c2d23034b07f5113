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

"""Images and their properties, from the free form of the image service."""

import pytest

from nova_sched import errors, objects
from nova_sched.tests.unit.objects import reference

OLD_NAMES = 'select_destinations-image-old-names.json'


def properties_of(given):
    return objects.to_primitive(objects.ImageMetaProps.from_dict(given))['nova_object.data']


@pytest.mark.parametrize(
    'given, found',
    [
        pytest.param({'hw_cpu_sockets': '2'}, {'hw_cpu_sockets': 2}, id='digits'),
        pytest.param({'hw_boot_menu': 'yes'}, {'hw_boot_menu': True}, id='yes'),
        pytest.param(
            {'architecture': 'amd64'}, {'hw_architecture': 'x86_64'}, id='old name, old word'
        ),
        pytest.param(
            {'architecture': 'amd64', 'hw_architecture': 'aarch64'},
            {'hw_architecture': 'aarch64'},
            id='the new name goes first',
        ),
        pytest.param(
            {'vm_mode': 'HV', 'hypervisor_type': 'QEMU'},
            {'hw_vm_mode': 'hvm', 'img_hv_type': 'qemu'},
            id='hv',
        ),
        pytest.param(
            {'hypervisor_version_requires': '>=2.0'},
            {'img_hv_requested_version': '>=2.0'},
            id='version predicate',
        ),
        pytest.param({'vmware_adaptertype': 'ide'}, {'hw_disk_bus': 'ide'}, id='vmware ide'),
        pytest.param(
            {'vmware_adaptertype': 'lsiLogic'},
            {'hw_disk_bus': 'scsi', 'hw_scsi_model': 'lsilogic'},
            id='vmware scsi',
        ),
        pytest.param(
            {'trait:HW_CPU_X86_AVX': 'required', 'trait:CUSTOM_A': 'forbidden'},
            {'traits_required': ['HW_CPU_X86_AVX']},
            id='traits',
        ),
        pytest.param(
            {
                'hw_numa_nodes': '2',
                'hw_numa_cpus.0': '0-2,^1',
                'hw_numa_cpus.1': '3',
                'hw_numa_cpus.3': '4',
            },
            {'hw_numa_nodes': 2, 'hw_numa_cpus': [[0, 2], [3]]},
            id='CPUs of cells',
        ),
        pytest.param(
            {'hw_numa_mem.0': '512', 'hw_numa_mem.1': '1024'},
            {'hw_numa_mem': [512, 1024]},
            id='memory of cells',
        ),
        pytest.param({'favourite_colour': 'blue', 'hw_disk_bus': None}, {}, id='unknown and null'),
        pytest.param({}, {}, id='none'),
    ],
)
def test_properties(given, found):
    assert properties_of(given) == found


@pytest.mark.parametrize(
    'given, where',
    [
        pytest.param({'hw_disk_bus': 'warp'}, 'hw_disk_bus', id='unknown word'),
        pytest.param(
            {'architecture': 'x86'}, 'hw_architecture', id='unknown word under an old name'
        ),
        pytest.param({'hw_cpu_sockets': 'many'}, 'hw_cpu_sockets', id='no number'),
        pytest.param({'hw_numa_cpus.0': 'all'}, 'hw_numa_cpus', id='no CPUs'),
        pytest.param({'hw_numa_cpus.0': '5-1'}, 'hw_numa_cpus', id='CPUs backwards'),
        pytest.param({'hw_numa_cpus.0': '0-999999999999'}, 'hw_numa_cpus', id='too many CPUs'),
        pytest.param({'hw_numa_cpus.0': 5}, 'hw_numa_cpus', id='CPUs as a number'),
        pytest.param({'hw_numa_mem.0': 'much'}, 'hw_numa_mem[0]', id='no memory'),
    ],
)
def test_a_property_that_does_not_fit_is_refused(given, where):
    with pytest.raises(errors.MalformedObject) as refused:
        objects.ImageMetaProps.from_dict(given)
    assert refused.value.path == f'ImageMetaProps.{where}'


def test_old_names_give_what_nova_sends_for_them():
    recorded = reference.argument(OLD_NAMES)['nova_object.data']['image']['nova_object.data'][
        'properties'
    ]
    old = {
        'architecture': 'x86_64',
        'hypervisor_type': 'qemu',
        'vm_mode': 'hvm',
        'hypervisor_version_requires': '>=2.0',
    }
    assert properties_of(old) == recorded['nova_object.data']


def test_an_image_keeps_what_it_knows():
    image = objects.ImageMeta.from_dict(
        {
            'id': None,
            'name': 'x',
            'size': 5,
            'created_at': None,
            'colour': 'blue',
            'properties': {'vm_mode': 'xen'},
        }
    )
    assert 'id' not in image
    assert (image.name, image.size, image.created_at, image.properties.hw_vm_mode) == (
        'x',
        5,
        None,
        'xen',
    )


def test_get_of_a_property():
    properties = objects.ImageMetaProps(hw_vm_mode='hvm')
    assert properties.get('hw_vm_mode') == 'hvm'
    assert properties.get('hw_disk_bus') is None
    assert properties.get('hw_disk_bus', 'scsi') == 'scsi'
    with pytest.raises(AttributeError, match='colour'):
        properties.get('colour')

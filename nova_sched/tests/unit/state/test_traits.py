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
"""Traits that words of flavor and image stand for."""

import types

import pytest

from nova_sched.objects import ImageMetaProps
from nova_sched.state import traits
from nova_sched.tests.builders import request


def asked(flavor=None, image=None):
    return request(extra_specs=flavor or {}, image_properties=image or {})


@pytest.mark.parametrize(
    'flavor, image, required',
    [
        pytest.param(
            {'os:secure_boot': 'required'},
            {},
            {'COMPUTE_SECURITY_UEFI_SECURE_BOOT'},
            id='secure boot',
        ),
        pytest.param(
            {},
            {'os_secure_boot': 'required'},
            {'COMPUTE_SECURITY_UEFI_SECURE_BOOT'},
            id='of the image',
        ),
        pytest.param({'os:secure_boot': 'optional'}, {}, set(), id='secure boot if there is'),
        pytest.param(
            {'hw:maxphysaddr_mode': 'passthrough'},
            {},
            {'COMPUTE_ADDRESS_SPACE_PASSTHROUGH'},
            id='addresses',
        ),
        pytest.param(
            {'hw:maxphysaddr_mode': 'emulate'},
            {},
            {'COMPUTE_ADDRESS_SPACE_EMULATED'},
            id='emulated addresses',
        ),
        pytest.param(
            {},
            {'hw_firmware_type': 'uefi', 'hw_firmware_stateless': True},
            {'COMPUTE_SECURITY_STATELESS_FIRMWARE'},
            id='stateless firmware',
        ),
        pytest.param(
            {},
            {'hw_firmware_type': 'bios', 'hw_firmware_stateless': True},
            set(),
            id='not of a BIOS',
        ),
        pytest.param(
            {'hw:tpm_version': '2.0'},
            {},
            {'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_TIS'},
            id='TPM',
        ),
        pytest.param(
            {'hw:tpm_version': '2.0'},
            {'hw_tpm_model': 'tpm-crb'},
            {'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_CRB'},
            id='TPM of another model',
        ),
        pytest.param({'hw:tpm_model': 'tpm-crb'}, {}, set(), id='a model of no TPM'),
        pytest.param(
            {'hw:mem_encryption': 'True'}, {}, {'HW_CPU_X86_AMD_SEV'}, id='encrypted memory'
        ),
        pytest.param(
            {'hw:mem_encryption_model': 'amd-sev-es'},
            {'hw_mem_encryption': True},
            {'HW_CPU_X86_AMD_SEV_ES'},
            id='encrypted in another way',
        ),
        pytest.param({'hw:mem_encryption': 'false'}, {}, set(), id='memory as it is'),
        pytest.param(
            {'hw:pci_numa_affinity_policy': 'socket'},
            {},
            {'COMPUTE_SOCKET_PCI_NUMA_AFFINITY'},
            id='PCI by socket',
        ),
        pytest.param({'hw:pci_numa_affinity_policy': 'required'}, {}, set(), id='PCI by cell'),
        pytest.param({'trait:A': 'required'}, {'traits_required': ['B']}, {'A', 'B'}, id='named'),
        pytest.param(
            {'hw:mem_encryption_model': 'amd-sev'},
            {'hw_mem_encryption_model': 'amd-sev-es'},
            set(),
            id='at odds on how not to encrypt',
        ),
    ],
)
def test_required(flavor, image, required):
    assert asked(flavor, image).required_traits == required


@pytest.mark.parametrize(
    'flavor, image, required',
    [
        pytest.param({}, {}, set(), id='nothing'),
        pytest.param({'hw:sound_model': 'virtio'}, {}, {'COMPUTE_SOUND_MODEL_VIRTIO'}, id='sound'),
        pytest.param({'hw:sound_model': 'ich9'}, {}, set(), id='sound that every host can'),
        pytest.param(
            {'hw:virtio_packed_ring': 'yes'}, {}, {'COMPUTE_NET_VIRTIO_PACKED'}, id='packed rings'
        ),
        pytest.param({}, {'hw_virtio_packed_ring': False}, set(), id='plain rings'),
        pytest.param(
            {'hw:ephemeral_encryption': 'true'},
            {},
            {'COMPUTE_EPHEMERAL_ENCRYPTION'},
            id='encrypted disks',
        ),
        pytest.param(
            {'hw:ephemeral_encryption_format': 'luks'},
            {'hw_ephemeral_encryption': True},
            {'COMPUTE_EPHEMERAL_ENCRYPTION', 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKS'},
            id='in a certain format',
        ),
        pytest.param(
            {'hw:ephemeral_encryption_format': 'luks'}, {}, set(), id='the format of no encryption'
        ),
        pytest.param(
            {'hw:tpm_version': '2.0'},
            {},
            {'COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER'},
            id='secrets of a TPM',
        ),
        pytest.param(
            {'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'host'},
            {},
            {'COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST'},
            id='secrets that the host keeps',
        ),
        pytest.param(
            {'accel:device_profile': 'gpu'}, {}, {'COMPUTE_ACCELERATORS'}, id='a device profile'
        ),
    ],
)
def test_required_of_the_node_itself(flavor, image, required):
    assert asked(flavor, image).root_required == required


@pytest.mark.parametrize(
    'flavor, image, message',
    [
        pytest.param(
            {'os:secure_boot': 'required'},
            {'os_secure_boot': 'disabled'},
            'the flavor says os:secure_boot=required, but the image disabled',
            id='at odds',
        ),
        pytest.param(
            {'hw:mem_encryption': 'true'},
            {'hw_mem_encryption': False},
            'hw:mem_encryption',
            id='switches at odds',
        ),
        pytest.param(
            {'hw:tpm_version': '3'}, {}, 'hw:tpm_version=3 is none of 1.2, 2.0', id='TPM version'
        ),
        pytest.param(
            {'hw:tpm_version': '2.0', 'hw:tpm_model': 'x'}, {}, 'hw:tpm_model=x', id='TPM model'
        ),
        pytest.param(
            {'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'x'},
            {},
            'hw:tpm_secret_security=x',
            id='secrets',
        ),
        pytest.param(
            {'hw:mem_encryption': '1', 'hw:mem_encryption_model': 'x'},
            {},
            'hw:mem_encryption_model=x',
            id='model',
        ),
        pytest.param(
            {'hw:ephemeral_encryption': '1', 'hw:ephemeral_encryption_format': 'x'},
            {},
            'format=x',
            id='format',
        ),
    ],
)
def test_words_that_cannot_be(flavor, image, message):
    with pytest.raises(ValueError, match=message):
        asked(flavor, image)


@pytest.mark.parametrize(
    'policy, threads',
    [
        pytest.param('require', True, id='require'),
        pytest.param('isolate', False, id='isolate'),
        pytest.param('prefer', None, id='prefer'),
    ],
)
def test_sibling_threads(policy, threads):
    assert asked({'hw:cpu_thread_policy': policy}).sibling_threads is threads
    assert asked({}, {'hw_cpu_thread_policy': policy}).sibling_threads is threads
    assert asked().sibling_threads is None


def test_traits_that_the_caller_asks_of_the_node():
    params = types.SimpleNamespace(root_required={'A'}, root_forbidden={'B'})
    found = request(request_level_params=params)
    assert (found.root_required, found.root_forbidden) == ({'A'}, {'B'})


@pytest.mark.parametrize(
    'value, required', [('true', {'COMPUTE_REMOTE_MANAGED_PORTS'}), ('no', set())]
)
def test_remote_managed_ports(value, required):
    port = types.SimpleNamespace(count=1, spec=[{'remote_managed': value}])
    found = request(pci_requests=types.SimpleNamespace(requests=[port]))
    assert found.root_required == required


def test_every_word_of_an_image_is_one_of_its_properties():
    assert traits.OF_IMAGES.keys() <= ImageMetaProps.fields.keys()

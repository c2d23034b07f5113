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
from nova_sched.tests.rows import each, table


def asked(flavor=None, image=None):
    return request(extra_specs=flavor or {}, image_properties=image or {})


@table(
    'flavor, image, required',
    {
        'secure boot': ({'os:secure_boot': 'required'}, {}, {'COMPUTE_SECURITY_UEFI_SECURE_BOOT'}),
        'of the image': (
            {},
            {'os_secure_boot': 'required'},
            {'COMPUTE_SECURITY_UEFI_SECURE_BOOT'},
        ),
        'secure boot if there is': ({'os:secure_boot': 'optional'}, {}, set()),
        'addresses': (
            {'hw:maxphysaddr_mode': 'passthrough'},
            {},
            {'COMPUTE_ADDRESS_SPACE_PASSTHROUGH'},
        ),
        'emulated addresses': (
            {'hw:maxphysaddr_mode': 'emulate'},
            {},
            {'COMPUTE_ADDRESS_SPACE_EMULATED'},
        ),
        'stateless firmware': (
            {},
            {'hw_firmware_type': 'uefi', 'hw_firmware_stateless': True},
            {'COMPUTE_SECURITY_STATELESS_FIRMWARE'},
        ),
        'not of a BIOS': ({}, {'hw_firmware_type': 'bios', 'hw_firmware_stateless': True}, set()),
        'TPM': (
            {'hw:tpm_version': '2.0'},
            {},
            {'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_TIS'},
        ),
        'TPM of another model': (
            {'hw:tpm_version': '2.0'},
            {'hw_tpm_model': 'tpm-crb'},
            {'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_CRB'},
        ),
        'a model of no TPM': ({'hw:tpm_model': 'tpm-crb'}, {}, set()),
        'encrypted memory': ({'hw:mem_encryption': 'True'}, {}, {'HW_CPU_X86_AMD_SEV'}),
        'encrypted in another way': (
            {'hw:mem_encryption_model': 'amd-sev-es'},
            {'hw_mem_encryption': True},
            {'HW_CPU_X86_AMD_SEV_ES'},
        ),
        'memory as it is': ({'hw:mem_encryption': 'false'}, {}, set()),
        'PCI by socket': (
            {'hw:pci_numa_affinity_policy': 'socket'},
            {},
            {'COMPUTE_SOCKET_PCI_NUMA_AFFINITY'},
        ),
        'PCI by cell': ({'hw:pci_numa_affinity_policy': 'required'}, {}, set()),
        'named': ({'trait:A': 'required'}, {'traits_required': ['B']}, {'A', 'B'}),
        'at odds on how not to encrypt': (
            {'hw:mem_encryption_model': 'amd-sev'},
            {'hw_mem_encryption_model': 'amd-sev-es'},
            set(),
        ),
    },
)
def test_required(flavor, image, required):
    assert asked(flavor, image).required_traits == required


@table(
    'flavor, image, required',
    {
        'nothing': ({}, {}, set()),
        'sound': ({'hw:sound_model': 'virtio'}, {}, {'COMPUTE_SOUND_MODEL_VIRTIO'}),
        'sound that every host can': ({'hw:sound_model': 'ich9'}, {}, set()),
        'packed rings': ({'hw:virtio_packed_ring': 'yes'}, {}, {'COMPUTE_NET_VIRTIO_PACKED'}),
        'plain rings': ({}, {'hw_virtio_packed_ring': False}, set()),
        'encrypted disks': (
            {'hw:ephemeral_encryption': 'true'},
            {},
            {'COMPUTE_EPHEMERAL_ENCRYPTION'},
        ),
        'in a certain format': (
            {'hw:ephemeral_encryption_format': 'luks'},
            {'hw_ephemeral_encryption': True},
            {'COMPUTE_EPHEMERAL_ENCRYPTION', 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKS'},
        ),
        'the format of no encryption': ({'hw:ephemeral_encryption_format': 'luks'}, {}, set()),
        'secrets of a TPM': (
            {'hw:tpm_version': '2.0'},
            {},
            {'COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER'},
        ),
        'secrets that the host keeps': (
            {'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'host'},
            {},
            {'COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST'},
        ),
        'a device profile': ({'accel:device_profile': 'gpu'}, {}, {'COMPUTE_ACCELERATORS'}),
    },
)
def test_required_of_the_node_itself(flavor, image, required):
    assert asked(flavor, image).root_required == required


@table(
    'flavor, image, message',
    {
        'at odds': (
            {'os:secure_boot': 'required'},
            {'os_secure_boot': 'disabled'},
            'the flavor says os:secure_boot=required, but the image disabled',
        ),
        'switches at odds': (
            {'hw:mem_encryption': 'true'},
            {'hw_mem_encryption': False},
            'hw:mem_encryption',
        ),
        'TPM version': ({'hw:tpm_version': '3'}, {}, 'hw:tpm_version=3 is none of 1.2, 2.0'),
        'TPM model': ({'hw:tpm_version': '2.0', 'hw:tpm_model': 'x'}, {}, 'hw:tpm_model=x'),
        'secrets': (
            {'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'x'},
            {},
            'hw:tpm_secret_security=x',
        ),
        'model': (
            {'hw:mem_encryption': '1', 'hw:mem_encryption_model': 'x'},
            {},
            'hw:mem_encryption_model=x',
        ),
        'format': (
            {'hw:ephemeral_encryption': '1', 'hw:ephemeral_encryption_format': 'x'},
            {},
            'format=x',
        ),
    },
)
def test_words_that_cannot_be(flavor, image, message):
    with pytest.raises(ValueError, match=message):
        asked(flavor, image)


@table(
    'policy, threads',
    {
        'require': ('require', True),
        'isolate': ('isolate', False),
        'prefer': ('prefer', None),
    },
)
def test_sibling_threads(policy, threads):
    assert asked({'hw:cpu_thread_policy': policy}).sibling_threads is threads
    assert asked({}, {'hw_cpu_thread_policy': policy}).sibling_threads is threads
    assert asked().sibling_threads is None


def test_traits_that_the_caller_asks_of_the_node():
    params = types.SimpleNamespace(root_required={'A'}, root_forbidden={'B'})
    found = request(request_level_params=params)
    assert (found.root_required, found.root_forbidden) == ({'A'}, {'B'})


@each('value, required', [('true', {'COMPUTE_REMOTE_MANAGED_PORTS'}), ('no', set())])
def test_remote_managed_ports(value, required):
    port = types.SimpleNamespace(count=1, spec=[{'remote_managed': value}])
    found = request(pci_requests=types.SimpleNamespace(requests=[port]))
    assert found.root_required == required


def test_every_word_of_an_image_is_one_of_its_properties():
    assert traits.OF_IMAGES.keys() <= ImageMetaProps.fields.keys()

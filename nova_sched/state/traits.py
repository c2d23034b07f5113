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
"""Traits that a request requires of its host: named ones, and those implied by other properties.

These properties are those of the flavor (`hw:tpm_model`) or of the image (`hw_tpm_model`). Two
requirements of Nova are not checked here: that a provider be owned by Nova (only Nova's hosts
report), and which segments of a routed network a host reaches (only Neutron knows).
"""

import types

from oslo_utils import strutils

from nova_sched.hardware.numa.topology import ISOLATE, REQUIRE
from nova_sched.hardware.pci import requests_of
from nova_sched.state.fields import extra_specs, image_properties, read, thread_policy
from nova_sched.words import closest

HYPERTHREADING = 'HW_CPU_HYPERTHREADING'
OWNER = 'OWNER_NOVA'  # of each provider that nova-compute makes

CUSTOM = 'CUSTOM_'
# Names of traits share their beginnings. A trait of an operator may also be the secret of another
# project, so it is suggested only for a name that differs from it in a letter or two.
CLOSE = 0.85


def suggested(trait, known):
    """Return the end of an error that suggests the trait that may have been meant; may be
    empty."""
    prefix = CUSTOM if trait.startswith(CUSTOM) else ''
    alike = [
        candidate.removeprefix(prefix)
        for candidate in known
        if candidate.startswith(CUSTOM) == bool(prefix)
    ]
    close = closest(trait.removeprefix(prefix), alike, CLOSE)
    return f'; did you mean {prefix}{close}?' if close else ''


# Property: the trait for each value; other values need none.
OF_WORDS = types.MappingProxyType(
    {
        'os:secure_boot': {'required': 'COMPUTE_SECURITY_UEFI_SECURE_BOOT'},
        'hw:maxphysaddr_mode': {
            'passthrough': 'COMPUTE_ADDRESS_SPACE_PASSTHROUGH',
            'emulate': 'COMPUTE_ADDRESS_SPACE_EMULATED',
        },
        'hw:pci_numa_affinity_policy': {'socket': 'COMPUTE_SOCKET_PCI_NUMA_AFFINITY'},
    }
)
# The same for traits that the compute node itself must have, and no child provider.
ROOT_OF_WORDS = types.MappingProxyType(
    {
        'hw:sound_model': {'virtio': 'COMPUTE_SOUND_MODEL_VIRTIO'},
        'hw:virtio_packed_ring': {True: 'COMPUTE_NET_VIRTIO_PACKED'},
        'hw:ephemeral_encryption': {True: 'COMPUTE_EPHEMERAL_ENCRYPTION'},
    }
)
# Properties that have no other values than these.
TPM_VERSIONS = {'1.2': 'COMPUTE_SECURITY_TPM_1_2', '2.0': 'COMPUTE_SECURITY_TPM_2_0'}
TPM_MODELS = {'tpm-tis': 'COMPUTE_SECURITY_TPM_TIS', 'tpm-crb': 'COMPUTE_SECURITY_TPM_CRB'}
TPM_SECRETS = {
    'user': 'COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER',
    'host': 'COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST',
    'deployment': 'COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT',
}
ENCRYPTION_MODELS = {
    'amd-sev': 'HW_CPU_X86_AMD_SEV',
    'amd-sev-es': 'HW_CPU_X86_AMD_SEV_ES',
    'amd-sev-snp': 'HW_CPU_X86_AMD_SEV_SNP',
    'intel-tdx': 'HW_CPU_X86_INTEL_TDX',
}
DISK_ENCRYPTION_FORMATS = {
    'plain': 'COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN',
    'luks': 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKS',
    'luksv2': 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKSV2',
}


SWITCHES = frozenset(['hw:virtio_packed_ring', 'hw:ephemeral_encryption', 'hw:mem_encryption'])
WORDS = frozenset(
    [
        *OF_WORDS,
        *ROOT_OF_WORDS,
        *SWITCHES,
        'hw:tpm_version',
        'hw:tpm_model',
        'hw:mem_encryption_model',
        'hw:ephemeral_encryption_format',
    ]
)
OF_IMAGES = types.MappingProxyType({word.replace(':', '_'): word for word in WORDS})


def words(spec, properties=None):
    """Return the properties in flavor or image, each with the values of both; see ``value``.

    ``properties`` are the image's, if they are read already.
    """
    properties = image_properties(spec) if properties is None else properties
    of_flavor = {name: value for name, value in extra_specs(spec).items() if name in WORDS}
    of_image = {OF_IMAGES[name]: value for name, value in properties.items() if name in OF_IMAGES}
    return {name: (of_flavor.get(name), of_image.get(name)) for name in (*of_flavor, *of_image)}


def value(said, name, default=None):
    """Return the value of a property. Raises ValueError if flavor and image disagree."""
    pair = said.get(name)
    if pair is None:
        return default
    of_flavor, of_image = (_read(name, text) for text in pair)
    if None not in (of_flavor, of_image) and of_flavor != of_image:
        raise ValueError(f'the flavor says {name}={of_flavor}, but the image {of_image}')
    chosen = of_image if of_flavor is None else of_flavor
    return default if chosen is None else chosen


def _read(name, text):
    if text in (None, ''):
        return None
    return strutils.bool_from_string(text) if name in SWITCHES else text


def one_of(table, name, value):
    """Return the trait for a value that must be in the table. Raises ValueError."""
    if value not in table:
        raise ValueError(f'{name}={value} is none of {", ".join(table)}')
    return table[value]


def _of(said, table):
    return {
        values[property_value]
        for name, values in table.items()
        if (property_value := value(said, name)) in values
    }


def required_traits(spec):
    """Traits that some provider of the node must have, outside of groups."""
    properties = image_properties(spec)
    said = words(spec, properties)
    traits = {
        *_named(spec, 'required'),
        *(properties.get('traits_required') or ()),
        *_of(said, OF_WORDS),
    }
    if properties.get('hw_firmware_type') == 'uefi' and properties.get('hw_firmware_stateless'):
        traits.add('COMPUTE_SECURITY_STATELESS_FIRMWARE')
    if (version := value(said, 'hw:tpm_version')) is not None:
        traits.add(one_of(TPM_VERSIONS, 'hw:tpm_version', version))
        traits.add(one_of(TPM_MODELS, 'hw:tpm_model', value(said, 'hw:tpm_model', 'tpm-tis')))
    if value(said, 'hw:mem_encryption'):
        model = value(said, 'hw:mem_encryption_model', 'amd-sev')
        traits.add(one_of(ENCRYPTION_MODELS, 'hw:mem_encryption_model', model))
    return frozenset(traits)


def forbidden_traits(spec):
    """Traits that no provider of the request's resources may have, outside of groups."""
    return frozenset(_named(spec, 'forbidden'))


def _named(spec, verdict):
    return (key.removeprefix('trait:') for key, value in extra_specs(spec).items()
            if key.startswith('trait:') and value == verdict)  # fmt: skip


def encrypts_memory(spec):
    return bool(value(words(spec), 'hw:mem_encryption'))


def sibling_threads(spec):
    """Whether the host's cores must have several threads (True), or must not (False); None:
    either."""
    return {REQUIRE: True, ISOLATE: False}.get(thread_policy(spec))


def root_required(spec):
    """Traits that the compute node itself must have."""
    traits = set(read(read(spec, 'request_level_params'), 'root_required') or ())
    said = words(spec)
    traits |= _of(said, ROOT_OF_WORDS)
    if value(said, 'hw:ephemeral_encryption'):
        kind = value(said, 'hw:ephemeral_encryption_format')
        if kind is not None:
            traits.add(one_of(DISK_ENCRYPTION_FORMATS, 'hw:ephemeral_encryption_format', kind))
    if value(said, 'hw:tpm_version') is not None:
        security = extra_specs(spec).get('hw:tpm_secret_security') or 'user'
        traits.add(one_of(TPM_SECRETS, 'hw:tpm_secret_security', security))
    if extra_specs(spec).get('accel:device_profile'):
        traits.add('COMPUTE_ACCELERATORS')
    if any(request.remote_managed for request in requests_of(read(spec, 'pci_requests'))):
        traits.add('COMPUTE_REMOTE_MANAGED_PORTS')
    return frozenset(traits)


def root_forbidden(spec):
    """Traits that the compute node itself must not have."""
    return frozenset(read(read(spec, 'request_level_params'), 'root_forbidden') or ())

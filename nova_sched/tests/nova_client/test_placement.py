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
"""What Nova asks Placement for, and what our requests ask of hosts: the same, for random flavors
and images.

Nova's request filters run before, but for those that ask its database or Neutron.
"""

import urllib.parse
from unittest import mock

import pytest
from nova import exception, objects
from nova.conf import CONF
from nova.scheduler import request_filter, utils
from nova.virt import hardware

from nova_sched import errors
from nova_sched.conf import CONF as OURS
from nova_sched.filters import image_traits
from nova_sched.state.demand import resources_on
from nova_sched.state.traits import OWNER
from nova_sched.tests.nova_client import random_requests
from nova_sched.tests.nova_client.dice import Dice
from nova_sched.tests.nova_client.faces import request_of
from nova_sched.tests.nova_client.settings import both
from nova_sched.tests.placement import query

CASES = 2500
SHOWN = 5
AMOUNTS = ('0', '1', '2', '4')
VERDICTS = ('required', 'forbidden')
SWITCH = ('true', 'false', 'yes', '1')
IMAGE_SWITCH = (True, False)
# Word: what the flavor, and what the image may say.
WORDS = {
    'hw:cpu_policy': (('dedicated', 'shared', 'mixed'), ('dedicated', 'shared')),
    'hw:cpu_thread_policy': (('prefer', 'isolate', 'require'),) * 2,
    'hw:mem_encryption': (SWITCH, IMAGE_SWITCH),
    'hw:mem_encryption_model': (('amd-sev', 'amd-sev-es'),) * 2,
    'hw:tpm_version': (('1.2', '2.0'),) * 2,
    'hw:tpm_model': (('tpm-tis', 'tpm-crb'),) * 2,
    'os:secure_boot': (('required', 'optional', 'disabled'),) * 2,
    'hw:maxphysaddr_mode': (('passthrough', 'emulate'),) * 2,
    'hw:pci_numa_affinity_policy': (('required', 'socket', 'legacy'),) * 2,
    'hw:virtio_packed_ring': (SWITCH, IMAGE_SWITCH),
    'hw:sound_model': (('virtio', 'ich9', 'ac97'),) * 2,
    'hw:ephemeral_encryption': (SWITCH, IMAGE_SWITCH),
    'hw:ephemeral_encryption_format': (('plain', 'luks'),) * 2,
}
OF_FLAVORS = {
    'hw:emulator_threads_policy': ('isolate', 'share'),
    'hw:cpu_dedicated_mask': ('0', '1-2'),
    'hw:tpm_secret_security': ('user', 'host', 'deployment'),
    'hw:pmem': ('6GB', '6GB,small', ' a-b , '),
    'group_policy': ('none', 'isolate'),
}
OF_IMAGES = {
    'traits_required': (['HW_CPU_X86_AVX'], ['CUSTOM_A', 'CUSTOM_B']),
    'hw_firmware_stateless': IMAGE_SWITCH,
    'hw_disk_bus': ('virtio', 'scsi', 'sata'),
    'hw_cdrom_bus': ('ide', 'sata'),
    'hw_video_model': ('qxl', 'vga', 'virtio'),
    'hw_vif_model': ('virtio', 'e1000', 'ne2k_pci'),
    'hw_architecture': ('x86_64', 'aarch64'),
    'hw_viommu_model': ('intel',),
}
OPTIONS = ('query_placement_for_image_type_support', 'image_metadata_prefilter')
FILTERS = (
    request_filter.require_image_type_support,
    request_filter.compute_status_filter,
    request_filter.transform_image_metadata,
    request_filter.packed_virtqueue_filter,
    request_filter.ephemeral_encryption_filter,
    request_filter.virtio_sound_filter,
    request_filter.tpm_secret_security_filter,
    request_filter.owner_nova_filter,
)


def spec(dice):
    """A RequestSpec of a random flavor and image, with random groups of ports."""
    flavor, image = {}, {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
    for name in dice.some(WORDS, 3):
        of_flavor, of_image = WORDS[name]
        if dice.maybe(0.7):
            flavor[name] = dice.choice(of_flavor)
        if dice.maybe(0.4):
            image[name.replace(':', '_')] = dice.choice(of_image)
    for name in dice.some(OF_FLAVORS, 2):
        flavor[name] = dice.choice(OF_FLAVORS[name])
    for name in dice.some(OF_IMAGES, 3):
        image[name] = dice.choice(OF_IMAGES[name])
    for _ in range(dice.choice((0, 0, 1, 3))):
        suffix = dice.choice(('', '1', '2', '_GPU'))
        flavor[
            f'resources{suffix}:{dice.choice(("VCPU", "PCPU", "MEMORY_MB", "CUSTOM_A", "VGPU"))}'
        ] = dice.choice(AMOUNTS)
        if dice.maybe(0.5):
            flavor[f'trait{suffix}:{dice.choice(("CUSTOM_A", "HW_CPU_X86_AVX"))}'] = dice.choice(
                VERDICTS
            )
    words = {
        'extra_specs': flavor,
        'image': image,
        'vcpus': 4,
        'is_bfv': dice.maybe(0.2),
        'requested_resources': [port(dice, name) for name in dice.some(('port-1', 'port-2'), 2)],
    }
    made = random_requests.spec(dice.uuid(), words)
    return f'{words}', made


def valid_spec(dice):
    """One that Nova's API would let through, with the NUMA topology that it works out."""
    while True:
        words, made = spec(dice)
        try:
            made.numa_topology = hardware.numa_get_constraints(made.flavor, made.image)
        except exception.NovaException:
            continue
        return words, made


def port(dice, name):
    made = objects.RequestGroup(
        requester_id=name,
        resources={dice.choice(('NET_BW', 'VCPU')): dice.choice((1, 1000))},
        required_traits=set(dice.some(('CUSTOM_NET',), 1)),
    )
    made.obj_set_defaults()
    return made


def theirs(made):
    """Nova's queries: the one, and the one for shared CPUs in the place of dedicated ones."""
    with mock.patch.object(request_filter, '_should_filter_by_owner', return_value=True):
        for one in FILTERS:
            one(None, made)
    asked = [utils.resources_from_request_spec(None, made, None)]
    if asked[0].cpu_pinning_requested:
        asked.append(
            utils.resources_from_request_spec(None, made, None, enable_pinning_translate=False)
        )
    return [parameters(one.to_querystring()) for one in asked]


def parameters(text):
    pairs = [(name, value) for name, value in urllib.parse.parse_qsl(text) if name != 'limit']
    return dict(pairs)


def mine(request, options):
    """What our rules ask for, in the same words."""
    request = request.from_nova()
    root = {*request.root_required, OWNER}
    if options['scheduler.image_metadata_prefilter']:
        root |= image_traits.of_properties(request.image_properties)
    if options['scheduler.query_placement_for_image_type_support'] and not request.is_bfv:
        root.add(image_traits.of_format(request.image_format))
    threads = {'HW_CPU_HYPERTHREADING'} if request.sibling_threads is not None else set()
    required = request.required_traits | (threads if request.sibling_threads else set())
    found = [query(request, request.resources, required)]
    if request.fallback_vcpus:
        found.append(query(request, resources_on(request, {'VCPU'}), request.required_traits))
    for number, one in enumerate(found):
        one['root_required'] = ','.join([*sorted(root), '!COMPUTE_STATUS_DISABLED'])
        if request.sibling_threads is False and not number:
            forbidden = sorted(request.forbidden_traits | threads)
            one['required'] = ','.join([*sorted(required), *(f'!{trait}' for trait in forbidden)])
    return found


def one_case(dice):
    """Words, Nova's answer and ours; None for an answer that is an error."""
    options = {f'scheduler.{name}': dice.maybe(0.5) for name in OPTIONS}
    words, made = valid_spec(dice)
    with both(options):
        try:
            request = request_of(made)
            ours = mine(request, options)
            refused = request.unsupported or (
                len(request.groups) > 1 and request.group_policy is None
            )
        except errors.InvalidRequest:
            ours, refused = None, False
        try:
            nova = theirs(made)
        except (exception.NovaException, ValueError):
            nova = None
    return words, nova, ours, refused


def names_cpus(words):
    """The request names CPUs by their class: we never put shared ones in the place of those."""
    return 'VCPU' in words or 'PCPU' in words


def test_queries():
    objects.register_all()
    dice = Dice('placement')
    differences, counts = [], {'same': 0, 'refused': 0, 'both raise': 0, 'only Nova raises': 0}
    for _ in range(CASES):
        words, nova, ours, refused = one_case(dice)
        if nova is None:
            counts['both raise' if ours is None else 'only Nova raises'] += 1
        elif refused:
            counts['refused'] += 1
        elif ours and nova[: len(ours)] == ours and (len(nova) == len(ours) or names_cpus(words)):
            counts['same'] += 1
        else:
            differences.append(f'{words}\n  Nova {nova}\n  ours {ours}')
    assert not differences, f'{len(differences)} differences\n' + '\n'.join(differences[:SHOWN])
    assert min(counts.values()) > 0, counts
    assert counts['same'] > CASES // 2, counts


@pytest.mark.parametrize('name', OPTIONS)
def test_an_option_has_the_same_default(name):
    assert (CONF.scheduler[name], OURS.scheduler[name]) == (False, False)

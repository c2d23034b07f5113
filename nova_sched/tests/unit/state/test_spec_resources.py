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
"""Which resources and traits a request asks for."""

import types

import pytest

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.tests.builders import request
from nova_sched.tests.rows import each, table


def cells(*pcpusets):
    """A guest topology with these dedicated CPUs in its cells."""
    return types.SimpleNamespace(
        cells=[types.SimpleNamespace(pcpuset=set(cpus), memory=512) for cpus in pcpusets]
    )


def port(**fields):
    """A group of resources that a port asks for."""
    asked = {'resources': {'NET_BW': 1}, 'requester_id': 'port'}
    return types.SimpleNamespace(**{**asked, **fields})


def near(*suffixes):
    """Request level parameters: these groups are of one subtree."""
    return types.SimpleNamespace(same_subtree=[list(suffixes)])


DEDICATED = {'hw:cpu_policy': 'dedicated'}


MIXED = {'hw:cpu_policy': 'mixed'}


ISOLATED = {'hw:emulator_threads_policy': 'isolate'}


@table(
    'words, resources',
    {
        'no disk': ({'vcpus': 2, 'memory_mb': 512}, {VCPU: 2, MEMORY_MB: 512}),
        'root disk': ({'root_gb': 10}, {DISK_GB: 10}),
        'and ephemeral': ({'root_gb': 10, 'ephemeral_gb': 5}, {DISK_GB: 15}),
        'root disk on a volume': ({'root_gb': 10, 'is_bfv': True}, {}),
        'ephemeral beside a volume': (
            {'root_gb': 10, 'ephemeral_gb': 5, 'is_bfv': True},
            {DISK_GB: 5},
        ),
        'swap is rounded up': ({'swap_mb': 1}, {DISK_GB: 1}),
        'swap of whole GiB': ({'swap_mb': 1024}, {DISK_GB: 1}),
        'swap beside a root disk': ({'swap_mb': 1025, 'root_gb': 1}, {DISK_GB: 3}),
        'no swap, as old flavors say it': ({'swap_mb': ''}, {}),
        'dedicated CPUs': ({'vcpus': 4, 'extra_specs': DEDICATED}, {PCPU: 4}),
        'dedicated by the image': (
            {'vcpus': 4, 'image_properties': {'hw_cpu_policy': 'dedicated'}},
            {PCPU: 4},
        ),
        'shared CPUs': ({'vcpus': 4, 'extra_specs': {'hw:cpu_policy': 'shared'}}, {VCPU: 4}),
        'one more for emulator threads': (
            {'vcpus': 4, 'extra_specs': DEDICATED | ISOLATED},
            {PCPU: 5},
        ),
        'no emulator threads apart without a policy': (
            {'vcpus': 4, 'extra_specs': ISOLATED},
            {VCPU: 4},
        ),
        'mixed': (
            {'vcpus': 6, 'extra_specs': MIXED, 'numa_topology': cells({0, 1}, {4, 5})},
            {VCPU: 2, PCPU: 4},
        ),
        'mixed, emulator threads apart': (
            {'vcpus': 6, 'extra_specs': MIXED | ISOLATED, 'numa_topology': cells({0, 1})},
            {VCPU: 4, PCPU: 3},
        ),
        'mixed without a topology': (
            {'vcpus': 6, 'extra_specs': MIXED, 'numa_topology': None},
            {VCPU: 6},
        ),
        'bare metal': (
            {'vcpus': 4, 'extra_specs': {'resources:VCPU': '0', 'resources:CUSTOM_METAL': '1'}},
            {'CUSTOM_METAL': 1},
        ),
        'replaced': (
            {'memory_mb': 512, 'extra_specs': {'resources:MEMORY_MB': '700'}},
            {MEMORY_MB: 700},
        ),
        'other groups are not the instance itself': (
            {'extra_specs': {'resources1:VGPU': '1', 'resources': '1'}},
            {},
        ),
        'dedicated CPUs by name': (
            {'vcpus': 4, 'extra_specs': {'resources:PCPU': '4'}},
            {PCPU: 4},
        ),
        'what a group names, the flavor does not add': (
            {
                'vcpus': 4,
                'memory_mb': 512,
                'extra_specs': {'resources1:VCPU': '2', 'resources1:MEMORY_MB': '0'},
            },
            {},
        ),
        'nor what a port names': (
            {'vcpus': 4, 'requested_resources': [port(resources={VCPU: 1})]},
            {},
        ),
        'encrypted memory': (
            {'extra_specs': {'hw:mem_encryption': 'true'}},
            {'MEM_ENCRYPTION_CONTEXT': 1},
        ),
        'persistent memory': (
            {'extra_specs': {'hw:pmem': '6GB, 6GB,small-1,'}},
            {'CUSTOM_PMEM_NAMESPACE_6GB': 2, 'CUSTOM_PMEM_NAMESPACE_SMALL_1': 1},
        ),
    },
)
def test_resources(words, resources):
    nothing = {'vcpus': 0, 'memory_mb': 0}
    assert request(**{**nothing, **words}).resources == resources


@table(
    'words, vcpus',
    {
        'shared anyway': ({'vcpus': 4}, 0),
        'dedicated': ({'vcpus': 4, 'extra_specs': DEDICATED}, 4),
        'none for emulator threads': ({'vcpus': 4, 'extra_specs': DEDICATED | ISOLATED}, 4),
        'not where some are shared': (
            {'vcpus': 4, 'extra_specs': MIXED, 'numa_topology': cells({0, 1})},
            0,
        ),
        'asked for by name': ({'vcpus': 4, 'extra_specs': DEDICATED | {'resources:PCPU': '4'}}, 0),
    },
)
def test_shared_cpus_for_dedicated_ones(words, vcpus):
    assert request(**words).fallback_vcpus == vcpus


@each('text', ['x', '1.5', ''])
def test_an_amount_that_is_none(text):
    with pytest.raises(ValueError, match=r'VCPU: .* is not a whole number'):
        request(extra_specs={'resources:VCPU': text})


@table(
    'words, unsupported',
    {
        'plain': ({}, ()),
        'understood': (
            {'extra_specs': {'resources:VGPU': '1', 'trait:A': 'required', 'hw:x': 'y'}},
            (),
        ),
        'accelerator': ({'extra_specs': {'accel:device_profile': 'x'}}, ('accel:device_profile',)),
        'a policy of groups': ({'extra_specs': {'group_policy': 'none'}}, ()),
        'an unknown policy': ({'extra_specs': {'group_policy': 'some'}}, ('group_policy=some',)),
        'a group': ({'extra_specs': {'resources_A:VGPU': '1', 'trait_A:B': 'required'}}, ()),
        'keys that are nearly right': (
            {'extra_specs': {'resources.A:VGPU': '1', 'resources': '1', 'trait1': 'required'}},
            ('resources.A:VGPU', 'resources', 'trait1'),
        ),
        'names that nothing can have': (
            {'extra_specs': {'resources:gold': '1', 'trait:Fast': 'required'}},
            ('resources:gold', 'trait:Fast'),
        ),
        'another verdict': ({'extra_specs': {'trait:A': 'maybe'}}, ('trait:A=maybe',)),
        'a bare trait': (
            {'extra_specs': {'trait1:A': 'required'}},
            ('group 1 without resources',),
        ),
        'none of a resource': (
            {'extra_specs': {'resources1:VGPU': '0', 'trait1:A': 'required'}},
            ('group 1 without resources',),
        ),
        'no extra spec of Nova': ({'extra_specs': {'same_subtree': '1,2'}}, ('same_subtree',)),
        'no requested resources': ({'requested_resources': []}, ()),
        'null requested resources': ({'requested_resources': None}, ()),
        'bandwidth': ({'requested_resources': [port()]}, ()),
        'aggregates of a device': (
            {'requested_resources': [port(aggregates=[['a']], forbidden_aggregates={'b'})]},
            ('requested_resources aggregates', 'requested_resources forbidden_aggregates'),
        ),
        'nobody asked for it': (
            {'requested_resources': [port(requester_id=None, use_same_provider=False)]},
            (
                'requested_resources use_same_provider=False',
                'requested_resources without requester_id',
            ),
        ),
        'near to what is not there': (
            {
                'requested_resources': [port(resources={}, required_traits={'A'})],
                'request_level_params': near('port', 'other'),
            },
            ('same_subtree other',),
        ),
    },
)
def test_unsupported(words, unsupported):
    assert request(**words).unsupported == unsupported


@table(
    'words, required, forbidden',
    {
        'flavor': ({'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}}, {'A'}, {'B'}),
        'image': ({'image_properties': {'traits_required': ['A', 'C']}}, {'A', 'C'}, set()),
        'another word': ({'extra_specs': {'trait:A': 'maybe'}}, set(), set()),
        'at odds': (
            {
                'extra_specs': {'trait:A': 'forbidden'},
                'image_properties': {'traits_required': ['A']},
            },
            {'A'},
            {'A'},
        ),
    },
)
def test_traits(words, required, forbidden):
    asked = request(**words)
    assert (asked.required_traits, asked.forbidden_traits) == (required, forbidden)

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
from nova_sched.tests.rows import each


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


@each(
    'words, resources',
    [
        pytest.param({'vcpus': 2, 'memory_mb': 512}, {VCPU: 2, MEMORY_MB: 512}, id='no disk'),
        pytest.param({'root_gb': 10}, {DISK_GB: 10}, id='root disk'),
        pytest.param({'root_gb': 10, 'ephemeral_gb': 5}, {DISK_GB: 15}, id='and ephemeral'),
        pytest.param({'root_gb': 10, 'is_bfv': True}, {}, id='root disk on a volume'),
        pytest.param(
            {'root_gb': 10, 'ephemeral_gb': 5, 'is_bfv': True},
            {DISK_GB: 5},
            id='ephemeral beside a volume',
        ),
        pytest.param({'swap_mb': 1}, {DISK_GB: 1}, id='swap is rounded up'),
        pytest.param({'swap_mb': 1024}, {DISK_GB: 1}, id='swap of whole GiB'),
        pytest.param({'swap_mb': 1025, 'root_gb': 1}, {DISK_GB: 3}, id='swap beside a root disk'),
        pytest.param({'swap_mb': ''}, {}, id='no swap, as old flavors say it'),
        pytest.param({'vcpus': 4, 'extra_specs': DEDICATED}, {PCPU: 4}, id='dedicated CPUs'),
        pytest.param(
            {'vcpus': 4, 'image_properties': {'hw_cpu_policy': 'dedicated'}},
            {PCPU: 4},
            id='dedicated by the image',
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': {'hw:cpu_policy': 'shared'}}, {VCPU: 4}, id='shared CPUs'
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': DEDICATED | ISOLATED},
            {PCPU: 5},
            id='one more for emulator threads',
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': ISOLATED},
            {VCPU: 4},
            id='no emulator threads apart without a policy',
        ),
        pytest.param(
            {'vcpus': 6, 'extra_specs': MIXED, 'numa_topology': cells({0, 1}, {4, 5})},
            {VCPU: 2, PCPU: 4},
            id='mixed',
        ),
        pytest.param(
            {'vcpus': 6, 'extra_specs': MIXED | ISOLATED, 'numa_topology': cells({0, 1})},
            {VCPU: 4, PCPU: 3},
            id='mixed, emulator threads apart',
        ),
        pytest.param(
            {'vcpus': 6, 'extra_specs': MIXED, 'numa_topology': None},
            {VCPU: 6},
            id='mixed without a topology',
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': {'resources:VCPU': '0', 'resources:CUSTOM_METAL': '1'}},
            {'CUSTOM_METAL': 1},
            id='bare metal',
        ),
        pytest.param(
            {'memory_mb': 512, 'extra_specs': {'resources:MEMORY_MB': '700'}},
            {MEMORY_MB: 700},
            id='replaced',
        ),
        pytest.param(
            {'extra_specs': {'resources1:VGPU': '1', 'resources': '1'}},
            {},
            id='other groups are not the instance itself',
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': {'resources:PCPU': '4'}},
            {PCPU: 4},
            id='dedicated CPUs by name',
        ),
        pytest.param(
            {
                'vcpus': 4,
                'memory_mb': 512,
                'extra_specs': {'resources1:VCPU': '2', 'resources1:MEMORY_MB': '0'},
            },
            {},
            id='what a group names, the flavor does not add',
        ),
        pytest.param(
            {'vcpus': 4, 'requested_resources': [port(resources={VCPU: 1})]},
            {},
            id='nor what a port names',
        ),
        pytest.param(
            {'extra_specs': {'hw:mem_encryption': 'true'}},
            {'MEM_ENCRYPTION_CONTEXT': 1},
            id='encrypted memory',
        ),
        pytest.param(
            {'extra_specs': {'hw:pmem': '6GB, 6GB,small-1,'}},
            {'CUSTOM_PMEM_NAMESPACE_6GB': 2, 'CUSTOM_PMEM_NAMESPACE_SMALL_1': 1},
            id='persistent memory',
        ),
    ],
)
def test_resources(words, resources):
    nothing = {'vcpus': 0, 'memory_mb': 0}
    assert request(**{**nothing, **words}).resources == resources


@pytest.mark.parametrize(
    'words, vcpus',
    [
        pytest.param({'vcpus': 4}, 0, id='shared anyway'),
        pytest.param({'vcpus': 4, 'extra_specs': DEDICATED}, 4, id='dedicated'),
        pytest.param(
            {'vcpus': 4, 'extra_specs': DEDICATED | ISOLATED}, 4, id='none for emulator threads'
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': MIXED, 'numa_topology': cells({0, 1})},
            0,
            id='not where some are shared',
        ),
        pytest.param(
            {'vcpus': 4, 'extra_specs': DEDICATED | {'resources:PCPU': '4'}},
            0,
            id='asked for by name',
        ),
    ],
)
def test_shared_cpus_for_dedicated_ones(words, vcpus):
    assert request(**words).fallback_vcpus == vcpus


@pytest.mark.parametrize('text', ['x', '1.5', ''])
def test_an_amount_that_is_none(text):
    with pytest.raises(ValueError, match=r'VCPU: .* is not a whole number'):
        request(extra_specs={'resources:VCPU': text})


@pytest.mark.parametrize(
    'words, unsupported',
    [
        pytest.param({}, (), id='plain'),
        pytest.param(
            {'extra_specs': {'resources:VGPU': '1', 'trait:A': 'required', 'hw:x': 'y'}},
            (),
            id='understood',
        ),
        pytest.param(
            {'extra_specs': {'accel:device_profile': 'x'}},
            ('accel:device_profile',),
            id='accelerator',
        ),
        pytest.param({'extra_specs': {'group_policy': 'none'}}, (), id='a policy of groups'),
        pytest.param(
            {'extra_specs': {'group_policy': 'some'}},
            ('group_policy=some',),
            id='an unknown policy',
        ),
        pytest.param(
            {'extra_specs': {'resources_A:VGPU': '1', 'trait_A:B': 'required'}}, (), id='a group'
        ),
        pytest.param(
            {'extra_specs': {'resources.A:VGPU': '1', 'resources': '1', 'trait1': 'required'}},
            ('resources.A:VGPU', 'resources', 'trait1'),
            id='keys that are nearly right',
        ),
        pytest.param(
            {'extra_specs': {'resources:gold': '1', 'trait:Fast': 'required'}},
            ('resources:gold', 'trait:Fast'),
            id='names that nothing can have',
        ),
        pytest.param(
            {'extra_specs': {'trait:A': 'maybe'}}, ('trait:A=maybe',), id='another verdict'
        ),
        pytest.param(
            {'extra_specs': {'trait1:A': 'required'}},
            ('group 1 without resources',),
            id='a bare trait',
        ),
        pytest.param(
            {'extra_specs': {'resources1:VGPU': '0', 'trait1:A': 'required'}},
            ('group 1 without resources',),
            id='none of a resource',
        ),
        pytest.param(
            {'extra_specs': {'same_subtree': '1,2'}}, ('same_subtree',), id='no extra spec of Nova'
        ),
        pytest.param({'requested_resources': []}, (), id='no requested resources'),
        pytest.param({'requested_resources': None}, (), id='null requested resources'),
        pytest.param({'requested_resources': [port()]}, (), id='bandwidth'),
        pytest.param(
            {'requested_resources': [port(aggregates=[['a']], forbidden_aggregates={'b'})]},
            ('requested_resources aggregates', 'requested_resources forbidden_aggregates'),
            id='aggregates of a device',
        ),
        pytest.param(
            {'requested_resources': [port(requester_id=None, use_same_provider=False)]},
            (
                'requested_resources use_same_provider=False',
                'requested_resources without requester_id',
            ),
            id='nobody asked for it',
        ),
        pytest.param(
            {
                'requested_resources': [port(resources={}, required_traits={'A'})],
                'request_level_params': near('port', 'other'),
            },
            ('same_subtree other',),
            id='near to what is not there',
        ),
    ],
)
def test_unsupported(words, unsupported):
    assert request(**words).unsupported == unsupported


@pytest.mark.parametrize(
    'words, required, forbidden',
    [
        pytest.param(
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}},
            {'A'},
            {'B'},
            id='flavor',
        ),
        pytest.param(
            {'image_properties': {'traits_required': ['A', 'C']}}, {'A', 'C'}, set(), id='image'
        ),
        pytest.param({'extra_specs': {'trait:A': 'maybe'}}, set(), set(), id='another word'),
        pytest.param(
            {
                'extra_specs': {'trait:A': 'forbidden'},
                'image_properties': {'traits_required': ['A']},
            },
            {'A'},
            {'A'},
            id='at odds',
        ),
    ],
)
def test_traits(words, required, forbidden):
    asked = request(**words)
    assert (asked.required_traits, asked.forbidden_traits) == (required, forbidden)

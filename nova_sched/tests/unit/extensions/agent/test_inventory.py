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

"""Tests of the provider tree."""

import json

import pytest

from nova_sched.extensions.agent import machine, usage
from nova_sched.tests.unit.extensions.agent.builders import facts, processor, settings


def provider(found=None, **options):
    """The node and its root provider."""
    chosen = settings(**options)
    node = machine.describe(found or facts(), chosen, usage.total([]))
    tree = machine.inventories(node, chosen)
    assert list(tree) == [node.uuid]
    return node, tree[node.uuid]


def test_totals_are_those_of_the_node():
    node, root = provider(reserved_host_cpus=1, reserved_host_disk_mb=1500)
    fixed = {'min_unit': 1, 'step_size': 1}
    assert root['inventories'] == {
        'VCPU': {'total': 8, 'reserved': 1, 'max_unit': 8, 'allocation_ratio': 4.0, **fixed},
        'MEMORY_MB': {
            'total': 6144,
            'reserved': 512,
            'max_unit': 6144,
            'allocation_ratio': 1.0,
            **fixed,
        },
        'DISK_GB': {
            'total': 100,
            'reserved': 2,
            'max_unit': 100,
            'allocation_ratio': 1.0,
            **fixed,
        },
    }
    assert (root['name'], root['parent_provider_uuid']) == ('cmp1', None)
    assert root['inventories']['VCPU']['reserved'] == node.vcpus_used
    assert root['inventories']['MEMORY_MB']['reserved'] == node.memory_mb_used
    assert root['inventories']['DISK_GB']['reserved'] == node.local_gb_used


def test_resources_that_only_the_operator_knows():
    _, root = provider(resources={'CUSTOM_GOLD': 3})
    assert root['inventories']['CUSTOM_GOLD'] == {
        'total': 3,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': 3,
        'step_size': 1,
        'allocation_ratio': 1.0,
    }


@pytest.mark.parametrize(
    'options, vcpu, pcpu',
    [
        pytest.param({}, 8, None, id='nothing set apart'),
        pytest.param({'cpu_dedicated_set': '2-7'}, 2, 6, id='the rest is shared'),
        pytest.param({'cpu_dedicated_set': '0-7'}, None, 8, id='all dedicated'),
        pytest.param(
            {'cpu_dedicated_set': '4-7', 'cpu_shared_set': '2,3'}, 2, 4, id="two are the host's"
        ),
    ],
)
def test_dedicated_cpus(options, vcpu, pcpu):
    _, root = provider(**options)
    totals = {name: found['total'] for name, found in root['inventories'].items()}
    assert (totals.get('VCPU'), totals.get('PCPU')) == (vcpu, pcpu)


def test_dedicated_cpus_are_never_sold_twice():
    _, root = provider(cpu_dedicated_set='2-7', cpu_allocation_ratio=16.0)
    assert root['inventories']['PCPU']['allocation_ratio'] == 1.0
    assert root['inventories']['VCPU']['allocation_ratio'] == 16.0


def test_a_node_without_disk_offers_none():
    _, root = provider(facts(disk_gb=0))
    assert 'DISK_GB' not in root['inventories']


@pytest.mark.parametrize(
    'cpu, traits',
    [
        pytest.param(
            processor(features=('aes', 'avx2', 'fpu', 'pni', 'sse4.1', 'vmx')),
            ['AESNI', 'AVX2', 'INTEL_VMX', 'SSE3', 'SSE41', 'VMX'],
            id='Intel',
        ),
        pytest.param(processor(features=('svm', 'sse4a')), ['AMD_SVM', 'SSE4A', 'SVM'], id='AMD'),
        pytest.param(
            processor(arch='aarch64', features=('aes',)), [], id='another architecture, same word'
        ),
    ],
)
def test_cpu_traits(cpu, traits):
    _, root = provider(facts(processor=cpu))
    prefix = 'HW_CPU_X86_'
    assert [trait[len(prefix) :] for trait in root['traits'] if trait.startswith(prefix)] == traits


def test_traits_of_the_node():
    node, root = provider(traits=['CUSTOM_RACK_7'])
    assert {'COMPUTE_NODE', 'OWNER_NOVA', 'CUSTOM_RACK_7', 'HW_CPU_HYPERTHREADING'} <= set(
        root['traits']
    )
    info = json.loads(node.cpu_info)
    info['topology']['threads'] = 1
    node.cpu_info = json.dumps(info)
    assert 'HW_CPU_HYPERTHREADING' not in machine.traits(node)

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
"""Bad reports of nodes: a typed error that names node and field, and nothing has changed."""

import json
import math

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, primitive, refused_as, spec
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

NODE_A = uuid_of('node a')


NODES = [
    pytest.param('a node', 'BadReport', 'stats: it must be a ComputeNode, not str', id='text'),
    pytest.param(primitive(spec()), 'BadReport', 'not RequestSpec', id='another object'),
    pytest.param(
        primitive(compute_node('a'), '2.0'),
        'IncompatibleObject',
        'ComputeNode of version 2.0',
        id='newer major',
    ),
    pytest.param(
        primitive(compute_node('a'), vcpus='all'),
        'MalformedObject',
        'ComputeNode.vcpus',
        id='a word',
    ),
    pytest.param(primitive(compute_node('a'), drop=['uuid']), 'BadReport', 'uuid', id='no UUID'),
    pytest.param(
        primitive(compute_node('a'), uuid='me'),
        'MalformedObject',
        'ComputeNode.uuid',
        id='no such UUID',
    ),
    pytest.param(
        primitive(compute_node('a'), uuid=NODE_A.upper()),
        'BadReport',
        'is not a UUID',
        id='a UUID in capitals',
    ),
    pytest.param(
        primitive(compute_node('b')),
        'BadReport',
        "it says 'b', but 'a' sent it",
        id='of another host',
    ),
    pytest.param(
        primitive(compute_node('a'), drop=['memory_mb']),
        'BadReport',
        'memory_mb: it is not set',
        id='no memory',
    ),
    pytest.param(
        primitive(compute_node('a'), vcpus=-1),
        'BadReport',
        'a refused, vcpus: -1 is negative',
        id='negative total',
    ),
    pytest.param(
        primitive(compute_node('a'), local_gb_used=-1),
        'BadReport',
        'local_gb_used',
        id='negative use',
    ),
    pytest.param(
        primitive(compute_node('a'), memory_mb=2**60),
        'BadReport',
        'MEMORY_MB total',
        id='more than there can be',
    ),
    pytest.param(
        primitive(compute_node('a'), cpu_allocation_ratio=math.nan),
        'BadReport',
        'cpu_allocation_ratio: nan',
        id='NaN ratio',
    ),
    pytest.param(
        primitive(compute_node('a'), ram_allocation_ratio=math.inf),
        'BadReport',
        'ram_allocation_ratio',
        id='infinite ratio',
    ),
    pytest.param(
        primitive(compute_node('a'), disk_allocation_ratio=-1.0),
        'BadReport',
        'ratio',
        id='negative ratio',
    ),
    pytest.param(
        primitive(compute_node('a'), vcpus=math.nan),
        'MalformedObject',
        'ComputeNode.vcpus',
        id='NaN total',
    ),
    pytest.param(
        primitive(compute_node('a', stats={'num_instances': 'few'})),
        'BadReport',
        'stats[num_instances]',
        id='stats in words',
    ),
    pytest.param(
        primitive(compute_node('a', stats={'io_workload': '-3'})),
        'BadReport',
        'io_workload',
        id='negative stats',
    ),
    pytest.param(
        primitive(compute_node('a', numa_topology='{"cells": 4}')),
        'BadReport',
        'numa_topology',
        id='NUMA nonsense',
    ),
    pytest.param(
        primitive(compute_node('a', **node_fields(machine(cell(0), cell(0))))),
        'BadReport',
        'two cells have one id',
        id='NUMA cells that cannot be told apart',
    ),
    pytest.param(
        primitive(compute_node('a', **node_fields(machine(pools=[pool(-1)])))),
        'BadReport',
        'pci_device_pools',
        id='fewer devices than none',
    ),
    pytest.param(
        primitive(compute_node('a', metrics='x' * 5_000_000)),
        'BadReport',
        'characters; at most',
        id='5 MB of facts',
    ),
    pytest.param(
        primitive(compute_node('a', nodename='x' * 5_000_000)),
        'BadReport',
        'hypervisor_hostname',
        id='a name of 5 MB',
    ),
]


@pytest.mark.parametrize('stats, name, words', NODES)
def test_a_node(steady, stats, name, words):
    refused_as(
        lambda: steady.raw('update_resource_stats', '1.0', 'stats', name='a', stats=stats),
        name,
        words,
    )


VCPU = {'VCPU': {'total': 4}}
TREES = [
    pytest.param([1, 2], 'mapping of provider UUIDs', id='a list'),
    pytest.param({'root': {}}, "inventories['root']", id='a name that is not a UUID'),
    pytest.param({NODE_A: 'all'}, 'map a UUID to a provider', id='a provider that is none'),
    pytest.param(
        {uuid_of('gpu'): {'inventories': VCPU}},
        f'no provider {NODE_A}',
        id='without the node itself',
    ),
    pytest.param(
        {NODE_A: {'parent_provider_uuid': uuid_of('x')}}, 'parent_provider_uuid', id='an orphan'
    ),
    pytest.param(
        {NODE_A: {'inventories': ['VCPU']}},
        'mapping of resource classes',
        id='inventories are a list',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'v cpu': {'total': 1}}}},
        'resource classes',
        id='no resource class',
    ),
    pytest.param({NODE_A: {'inventories': {'VCPU': 4}}}, 'mapping with a total', id='a number'),
    pytest.param({NODE_A: {'inventories': {'VCPU': {'reserved': 1}}}}, 'total', id='no total'),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': -1}}}},
        '[VCPU].total: -1 is negative',
        id='negative total',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': math.nan}}}},
        '[VCPU].total: nan',
        id='NaN total',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': True}}}}, '[VCPU].total: True', id='true total'
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 10**30}}}}, '[VCPU].total', id='endless total'
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'reserved': 2}}}},
        'VCPU reserved',
        id='more than all reserved',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'allocation_ratio': 0}}}},
        'VCPU allocation ratio',
        id='ratio 0',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'allocation_ratio': math.inf}}}},
        'allocation_ratio: inf',
        id='ratio inf',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1}}, 'generation': math.nan}},
        'Out of range float',
        id='NaN elsewhere',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'step_size': 0}}}},
        'VCPU units',
        id='step 0',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'size': 2}}}},
        'unknown keys',
        id='unknown key',
    ),
    pytest.param({NODE_A: {'traits': 'HW_X'}}, 'list of traits', id='traits are a word'),
    pytest.param({NODE_A: {'traits': ['hw x']}}, 'list of traits', id='a trait that is none'),
    pytest.param(
        {NODE_A: {'inventories': VCPU}, uuid_of('gpu'): {'inventories': {'VGPU': {'total': -1}}}},
        '[VGPU].total: -1',
        id='a child with a negative total',
    ),
    pytest.param(
        {NODE_A: {'inventories': VCPU, 'note': 'x' * 5_000_000}},
        'characters; at most',
        id='5 MB of inventories',
    ),
]


@pytest.mark.parametrize('inventories, words', TREES)
def test_inventories(steady, inventories, words):
    arguments = {'name': 'a', 'stats': primitive(compute_node('a')), 'inventories': inventories}
    refused_as(
        lambda: steady.raw('update_resource_stats', '1.0', 'stats', **arguments),
        'BadReport',
        'node a',
        words,
    )


@pytest.mark.parametrize(
    'arguments, words',
    [
        pytest.param({'name': 5}, 'host', id='a host that is a number'),
        pytest.param({'name': ''}, 'host', id='a host without a name'),
        pytest.param({'name': 'a\nb'}, 'host', id='a host on two lines'),
        pytest.param({'instances': 'all'}, 'instances', id='instances are a word'),
        pytest.param(
            {'instances': ['x']}, "instances: 'x' is not a UUID", id='an instance without UUID'
        ),
        *(
            pytest.param({'instances': held}, words, id=name)
            for name, held, words in [
                ('amounts of no UUID', {'a': {}}, "instances: 'a' is not a UUID"),
                ('no amounts', {NODE_A: 1}, f'instances.{NODE_A}: 1 is not a mapping of resource'),
                ('no class', {NODE_A: {'vCPU': 1}}, "'vCPU' is not a resource class"),
                (
                    'a negative amount',
                    {NODE_A: {'VCPU': -1}},
                    f'{NODE_A}.VCPU: -1 is not an amount',
                ),
                ('a part', {NODE_A: {'VCPU': 0.5}}, 'VCPU: 0.5 is not an amount'),
                ('a truth', {NODE_A: {'VCPU': True}}, 'VCPU: True is not an amount'),
                (
                    'too much',
                    {NODE_A: {'VCPU': 2**43 + 1}},
                    'VCPU: 8796093022209 is not an amount',
                ),
                (
                    'too much in all',
                    {NODE_A: {'VCPU': 2**43}, uuid_of('b'): {'VCPU': 1}},
                    'instances: VCPU: 8796093022209 is more than',
                ),
                (
                    'many classes',
                    {uuid_of(f'{one}'): {f'C_{one}': 1} for one in range(101)},
                    'instances: there are more than 100 resource classes',
                ),
                (
                    'many instances',
                    {uuid_of(f'{one}'): {} for one in range(10_001)},
                    'instances: 10001 of them; at most 10000 are accepted',
                ),
            ]
        ),
        pytest.param(
            {'cell_uuid': 'here'}, "cell_uuid: 'here' is not a UUID", id='a cell without UUID'
        ),
    ],
)
def test_what_goes_with_a_node(steady, arguments, words):
    stats = primitive(compute_node('a'), drop=['host'])
    arguments = {'name': 'a', 'stats': stats, **arguments}
    refused_as(
        lambda: steady.raw('update_resource_stats', '1.0', 'stats', **arguments),
        'BadReport',
        words,
    )


def test_a_node_that_two_hosts_report(steady):
    """The first keeps it while it is up."""
    stolen = compute_node('thief', nodename='a')
    refused_as(
        lambda: steady.stats.update_resource_stats('thief', stolen),
        'NodeOwned',
        'node a refused, host: host thief reports it, but it belongs to host a, which is up',
    )


def test_all_that_was_sent_is_json():
    """What the table sends is what any sender can put on the wire."""
    assert all(json.dumps(row.values[0]) for row in NODES + TREES)

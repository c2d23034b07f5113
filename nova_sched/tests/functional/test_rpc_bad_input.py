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
"""Bad input: a typed error that says what and where; the daemon goes on, and nothing has changed."""

import json
import math
import uuid

import pytest

from nova_sched import objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import (
    DATA,
    VERSION,
    compute_node,
    eventually,
    primitive,
    refused_as,
    spec,
)

ONE, NODE_A = uuid_of('one'), uuid_of('node a')
MANY = [str(uuid.UUID(int=number)) for number in range(1, 10_001)]


@pytest.fixture(scope='module')
def two_hosts(started):
    """The daemon with two hosts and a server; at the end, after all that was sent to it, it still works."""
    started.add('a', 'b', instances=[])
    started.boot('running')
    yield started
    assert started.boot('afterwards')[0] in ('a', 'b')


@pytest.fixture
def cloud(two_hosts, caplog):
    """The same; whatever a test sends it, it stays as it was, and nothing has gone wrong inside."""
    before = two_hosts.state()
    caplog.clear()
    yield two_hosts
    assert two_hosts.state() == before
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


GROUP = objects.InstanceGroup(uuid=ONE, policy='affinity')
SPECS = [
    pytest.param(None, 'InvalidRequest', 'spec_obj', id='none'),
    pytest.param('boot it', 'InvalidRequest', 'not str', id='text'),
    pytest.param({}, 'InvalidRequest', 'not dict', id='a plain dict'),
    pytest.param(primitive(compute_node()), 'InvalidRequest', 'not ComputeNode', id='another object'),
    pytest.param({'nova_object.name': 'RequestSpec'}, 'MalformedObject', 'missing', id='a name only'),
    pytest.param({**primitive(spec()), DATA: []}, 'MalformedObject', DATA, id='data is a list'),
    pytest.param(primitive(spec(), VERSION), 'MalformedObject', VERSION, id='a version that is none'),
    pytest.param(
        primitive(spec(), '2.0'), 'IncompatibleObject', 'RequestSpec of version 2.0', id='newer major'
    ),
    pytest.param(
        primitive(spec(), flavor=primitive(spec().flavor, '2.0')),
        'IncompatibleObject',
        'Flavor of version 2.0',
        id='newer major inside',
    ),
    pytest.param(
        primitive(spec(), flavor=primitive(spec().flavor, vcpus='many')),
        'MalformedObject',
        'RequestSpec.flavor.vcpus',
        id='a number that is none',
    ),
    pytest.param(
        primitive(spec(), image=5), 'MalformedObject', 'RequestSpec.image', id='no object where one is'
    ),
    pytest.param(
        primitive(spec(), scheduler_hints=[1]), 'MalformedObject', 'scheduler_hints', id='hints are a list'
    ),
    pytest.param(primitive(spec(), drop=['flavor']), 'InvalidRequest', 'flavor', id='no flavor'),
    pytest.param(primitive(spec(memory_mb=-1)), 'InvalidRequest', 'flavor.memory_mb', id='negative memory'),
    pytest.param(
        primitive(spec(vcpus=2**63)), 'InvalidRequest', 'flavor.vcpus', id='more CPUs than there are atoms'
    ),
    pytest.param(
        primitive(spec(extra_specs={'resources:VCPU': 'two'})),
        'InvalidRequest',
        'resources',
        id='resources are words',
    ),
    pytest.param(
        primitive(spec(extra_specs={'resources:CUSTOM_X': '-1'})),
        'InvalidRequest',
        'CUSTOM_X',
        id='negative resources',
    ),
    pytest.param(
        primitive(spec(scheduler_hints={'note': ['x' * 5_000_000]})),
        'InvalidRequest',
        'scheduler_hints: they have 5000004 characters; at most 65536',
        id='a hint of 5 MB',
    ),
    pytest.param(
        primitive(spec(scheduler_hints={'x' * 5_000_000: ['note']})),
        'InvalidRequest',
        'scheduler_hints',
        id='its name',
    ),
    pytest.param(primitive(spec(project_id='p' * 256)), 'InvalidRequest', 'project_id', id='a long project'),
    pytest.param(
        primitive(spec(user_id='zero\x00')), 'InvalidRequest', 'user_id', id='a user no database takes'
    ),
    pytest.param(
        primitive(spec(), instance_group=primitive(GROUP, uuid='all of them')),
        'MalformedObject',
        'instance_group.uuid',
        id='a group without UUID',
    ),
    pytest.param(
        primitive(
            spec(
                instance_group=objects.InstanceGroup(
                    uuid=ONE, policy='anti-affinity', _rules={'max_server_per_host': 'x'}
                )
            )
        ),
        'InvalidRequest',
        'group',
        id='group rules are words',
    ),
]


@pytest.mark.parametrize('given, name, where', SPECS)
@pytest.mark.parametrize('method', ['select_destinations', 'instance_claim'])
def test_a_spec(cloud, method, given, name, where):
    arguments = {'spec_obj': given}
    if method == 'select_destinations':
        refused_as(lambda: cloud.raw(method, instance_uuids=[ONE], **arguments), name, where)
    else:
        arguments |= {'instance_uuid': ONE, 'host': 'a', 'nodename': 'a'}
        refused_as(lambda: cloud.raw(method, '1.0', 'claims', **arguments), name, where)


@pytest.mark.parametrize(
    'given, words',
    [
        pytest.param([ONE, uuid_of('two'), ONE], f'{ONE} is given twice', id='given twice'),
        pytest.param(MANY, '10000 instances in one request; 1 to 2000 are accepted', id='10,000'),
        pytest.param(['no-uuid'], "'no-uuid' is no UUID", id='no UUID'),
        pytest.param([ONE.upper()], 'is no UUID', id='in capitals'),
        pytest.param([5], '5 is no UUID', id='a number'),
        pytest.param([['x' * 1_000_000]], 'is no UUID', id='a long list'),
        pytest.param(ONE, 'is no list of UUIDs', id='text'),
        pytest.param(5, '5 is no list of UUIDs', id='one number'),
    ],
)
def test_instance_uuids(cloud, given, words):
    refused_as(
        lambda: cloud.raw('select_destinations', spec_obj=primitive(spec()), instance_uuids=given),
        'InvalidRequest',
        'instance_uuids',
        words,
    )


@pytest.mark.parametrize(
    'request_spec, name, words',
    [
        pytest.param({}, 'InvalidRequest', 'flavor', id='nothing'),
        pytest.param('boot', 'MalformedObject', 'request_spec', id='text'),
        pytest.param({'instance_type': 7}, 'MalformedObject', 'flavor', id='a flavor that is none'),
        pytest.param(
            {'instance_type': primitive(spec().flavor), 'num_instances': 10_000},
            'InvalidRequest',
            'num_instances: 10000 instances in one request; 1 to 2000',
            id='10,000',
        ),
        pytest.param(
            {'instance_type': primitive(spec().flavor), 'num_instances': -1},
            'InvalidRequest',
            '-1',
            id='less than none',
        ),
    ],
)
def test_the_dicts_of_4_0(cloud, request_spec, name, words):
    arguments = {'request_spec': request_spec, 'filter_properties': {}}
    refused_as(lambda: cloud.raw('select_destinations', '4.0', **arguments), name, words)


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
        primitive(compute_node('a'), vcpus='all'), 'MalformedObject', 'ComputeNode.vcpus', id='a word'
    ),
    pytest.param(primitive(compute_node('a'), drop=['uuid']), 'BadReport', 'uuid', id='no UUID'),
    pytest.param(
        primitive(compute_node('a'), uuid='me'), 'MalformedObject', 'ComputeNode.uuid', id='no such UUID'
    ),
    pytest.param(
        primitive(compute_node('a'), uuid=NODE_A.upper()), 'BadReport', 'is no UUID', id='a UUID in capitals'
    ),
    pytest.param(
        primitive(compute_node('b')), 'BadReport', "it says 'b', but 'a' sent it", id='of another host'
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
        primitive(compute_node('a'), local_gb_used=-1), 'BadReport', 'local_gb_used', id='negative use'
    ),
    pytest.param(
        primitive(compute_node('a'), memory_mb=2**60),
        'BadReport',
        'MEMORY_MB total',
        id='more than there can be',
    ),
    pytest.param(
        primitive(compute_node('a'), vcpus_used=10**6), 'BadReport', 'VCPU used', id='use beyond reason'
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
        primitive(compute_node('a'), disk_allocation_ratio=-1.0), 'BadReport', 'ratio', id='negative ratio'
    ),
    pytest.param(
        primitive(compute_node('a'), vcpus=math.nan), 'MalformedObject', 'ComputeNode.vcpus', id='NaN total'
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
def test_a_node(cloud, stats, name, words):
    refused_as(lambda: cloud.raw('update_resource_stats', '1.0', 'stats', name='a', stats=stats), name, words)


VCPU = {'VCPU': {'total': 4}}
TREES = [
    pytest.param([1, 2], 'mapping of provider UUIDs', id='a list'),
    pytest.param({'root': {}}, "inventories['root']", id='a name that is no UUID'),
    pytest.param({NODE_A: 'all'}, 'map a UUID to a provider', id='a provider that is none'),
    pytest.param(
        {uuid_of('gpu'): {'inventories': VCPU}}, f'no provider {NODE_A}', id='without the node itself'
    ),
    pytest.param({NODE_A: {'parent_provider_uuid': uuid_of('x')}}, 'parent_provider_uuid', id='an orphan'),
    pytest.param(
        {NODE_A: {'inventories': ['VCPU']}}, 'mapping of resource classes', id='inventories are a list'
    ),
    pytest.param(
        {NODE_A: {'inventories': {'v cpu': {'total': 1}}}}, 'resource classes', id='no resource class'
    ),
    pytest.param({NODE_A: {'inventories': {'VCPU': 4}}}, 'mapping with a total', id='a number'),
    pytest.param({NODE_A: {'inventories': {'VCPU': {'reserved': 1}}}}, 'total', id='no total'),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': -1}}}},
        '[VCPU].total: -1 is negative',
        id='negative total',
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': math.nan}}}}, '[VCPU].total: nan', id='NaN total'
    ),
    pytest.param({NODE_A: {'inventories': {'VCPU': {'total': True}}}}, '[VCPU].total: True', id='true total'),
    pytest.param({NODE_A: {'inventories': {'VCPU': {'total': 10**30}}}}, '[VCPU].total', id='endless total'),
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
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'step_size': 0}}}}, 'VCPU units', id='step 0'
    ),
    pytest.param(
        {NODE_A: {'inventories': {'VCPU': {'total': 1, 'size': 2}}}}, 'unknown keys', id='unknown key'
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
def test_inventories(cloud, inventories, words):
    arguments = {'name': 'a', 'stats': primitive(compute_node('a')), 'inventories': inventories}
    refused_as(
        lambda: cloud.raw('update_resource_stats', '1.0', 'stats', **arguments), 'BadReport', 'node a', words
    )


@pytest.mark.parametrize(
    'arguments, words',
    [
        pytest.param({'name': 5}, 'host', id='a host that is a number'),
        pytest.param({'name': ''}, 'host', id='a host without a name'),
        pytest.param({'name': 'a\nb'}, 'host', id='a host on two lines'),
        pytest.param({'instances': 'all'}, 'instances', id='instances are a word'),
        pytest.param({'instances': ['x']}, "instances: 'x' is no UUID", id='an instance without UUID'),
        pytest.param({'instances': {'a': 1}}, 'instances', id='instances are a mapping'),
        pytest.param({'cell_uuid': 'here'}, "cell_uuid: 'here' is no UUID", id='a cell without UUID'),
    ],
)
def test_what_goes_with_a_node(cloud, arguments, words):
    stats = primitive(compute_node('a'), drop=['host'])
    arguments = {'name': 'a', 'stats': stats, **arguments}
    refused_as(lambda: cloud.raw('update_resource_stats', '1.0', 'stats', **arguments), 'BadReport', words)


def test_a_node_that_two_hosts_report(cloud):
    """The first keeps it while it is up."""
    stolen = compute_node('thief', nodename='a')
    refused_as(
        lambda: cloud.stats.update_resource_stats('thief', stolen),
        'NodeOwned',
        'node a refused, host: host thief reports it, but it belongs to host a, which is up',
    )


@pytest.mark.parametrize(
    'namespace, method, arguments, where',
    [
        pytest.param('stats', 'update_service', {'name': 'a', 'service': 'up'}, 'service', id='service'),
        pytest.param(
            'stats',
            'update_service',
            {'name': [], 'service': primitive(objects.Service())},
            'name',
            id='host',
        ),
        pytest.param(
            'stats',
            'update_service',
            {'name': 'a', 'service': primitive(objects.Service(disabled_reason='\x00'))},
            'service.disabled_reason',
            id='a reason that no database takes',
        ),
        pytest.param('stats', 'remove_node', {'name': {}, 'nodename': 'a'}, 'name', id='a node of no host'),
        pytest.param('claims', 'show', {'instance_uuid': {'x': 1}}, 'instance_uuid', id='show'),
        pytest.param('claims', 'confirm_claim', {'instance_uuid': ONE, 'host': []}, 'host', id='confirm'),
        pytest.param('claims', 'abort_claim', {'instance_uuid': 'all'}, 'instance_uuid', id='abort'),
        pytest.param(
            'claims',
            'claim_alternate',
            {
                'spec_obj': primitive(spec()),
                'instance_uuid': ONE,
                'failed_host': 5,
                'host': 'a',
                'nodename': 'a',
            },
            'failed_host',
            id='alternate',
        ),
    ],
)
def test_other_calls(cloud, namespace, method, arguments, where):
    refused_as(lambda: cloud.raw(method, '1.0', namespace, **arguments), 'InvalidRequest', where)


def aggregate(**data):
    return primitive(objects.Aggregate(id=1, name='x', hosts=['a']), **data)


@pytest.mark.parametrize(
    'method, arguments, words',
    [
        pytest.param('update_aggregates', {'aggregates': 'all'}, 'aggregates', id='aggregates are a word'),
        pytest.param('update_aggregates', {'aggregates': [1]}, 'not int', id='an aggregate is a number'),
        pytest.param(
            'update_aggregates', {'aggregates': [aggregate(drop=['id'])]}, 'aggregate.id', id='no id'
        ),
        pytest.param(
            'update_aggregates', {'aggregates': [aggregate(id=2**40)]}, 'aggregate.id', id='a large id'
        ),
        pytest.param(
            'update_aggregates', {'aggregates': [aggregate(name='')]}, 'aggregate.name', id='no name'
        ),
        pytest.param(
            'update_aggregates', {'aggregates': [aggregate(uuid='x')]}, 'Aggregate.uuid', id='no UUID'
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': aggregate(version='2.0')},
            'Aggregate of version 2.0',
            id='newer major',
        ),
        pytest.param('delete_aggregate', {'aggregate': 1}, 'aggregate', id='delete a number'),
        pytest.param(
            'update_instance_info', {'host_name': 'a', 'instance_info': 3}, 'instance_info', id='a number'
        ),
        pytest.param(
            'update_instance_info', {'host_name': 'a', 'instance_info': [{}]}, 'instance_info', id='a dict'
        ),
        pytest.param(
            'update_instance_info', {'host_name': [], 'instance_info': []}, 'host_name', id='no host'
        ),
        pytest.param(
            'update_instance_info',
            {'host_name': 'a', 'instance_info': primitive(objects.Instance(host='a'))},
            'instance_info',
            id='an instance without UUID',
        ),
        pytest.param(
            'delete_instance_info',
            {'host_name': 'a', 'instance_uuid': []},
            'instance_uuid',
            id='delete a list',
        ),
        pytest.param(
            'sync_instance_info',
            {'host_name': 'a', 'instance_uuids': ['x']},
            'instance_uuids',
            id='sync a word',
        ),
        pytest.param(
            'sync_instance_info',
            {'host_name': 'a'},
            'arguments of sync_instance_info',
            id='one argument less',
        ),
    ],
)
def test_casts_are_refused_in_the_log(cloud, caplog, method, arguments, words):
    cloud.raw(method, '4.2', fanout=True, **arguments)
    eventually(lambda: any(words in message and 'refused' in message for message in caplog.messages))


def test_all_that_was_sent_is_json():
    """What the tables above send is what any sender can put on the wire."""
    for row in SPECS + NODES + TREES:
        json.dumps(row.values[0])

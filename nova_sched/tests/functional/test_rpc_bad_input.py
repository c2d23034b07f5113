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
"""Bad input: a typed error that says what and where; the daemon goes on, and nothing has
changed."""

import json
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


SPEC = {'spec_obj': primitive(spec())}
REBUILD = {
    'scheduler_hints': {'_nova_check_type': ['rebuild']},
    'force_hosts': ['a'],
    'force_nodes': ['a'],
}
RESIZE = {**SPEC, 'instance_uuid': ONE, 'host': 'a', 'nodename': 'a'}
GROUP = objects.InstanceGroup(uuid=ONE, policy='affinity')
SPECS = [
    pytest.param(None, 'InvalidRequest', 'spec_obj', id='none'),
    pytest.param('boot it', 'InvalidRequest', 'not str', id='text'),
    pytest.param({}, 'InvalidRequest', 'not dict', id='a plain dict'),
    pytest.param(
        primitive(compute_node()), 'InvalidRequest', 'not ComputeNode', id='another object'
    ),
    pytest.param(
        {'nova_object.name': 'RequestSpec'}, 'MalformedObject', 'missing', id='a name only'
    ),
    pytest.param({**primitive(spec()), DATA: []}, 'MalformedObject', DATA, id='data is a list'),
    pytest.param(
        primitive(spec(), VERSION), 'MalformedObject', VERSION, id='a version that is none'
    ),
    pytest.param(
        primitive(spec(), '2.0'),
        'IncompatibleObject',
        'RequestSpec of version 2.0',
        id='newer major',
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
        primitive(spec(), image=5),
        'MalformedObject',
        'RequestSpec.image',
        id='no object where one is',
    ),
    pytest.param(
        primitive(spec(), scheduler_hints=[1]),
        'MalformedObject',
        'scheduler_hints',
        id='hints are a list',
    ),
    pytest.param(primitive(spec(), drop=['flavor']), 'InvalidRequest', 'flavor', id='no flavor'),
    pytest.param(
        primitive(spec(memory_mb=-1)), 'InvalidRequest', 'flavor.memory_mb', id='negative memory'
    ),
    pytest.param(
        primitive(spec(vcpus=2**63)),
        'MalformedObject',
        'flavor.vcpus',
        id='more CPUs than there are atoms',
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
    pytest.param(
        primitive(spec(project_id='p' * 256)), 'InvalidRequest', 'project_id', id='a long project'
    ),
    pytest.param(
        primitive(spec(user_id='zero\x00')),
        'InvalidRequest',
        'user_id',
        id='a user no database takes',
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
        'max_server_per_host',
        id='group rules are words',
    ),
    pytest.param(
        primitive(spec(), flavor=primitive(spec().flavor, swap='9' * 400)),
        'MalformedObject',
        'RequestSpec.flavor.swap',
        id='a swap of 400 digits',
    ),
]


@pytest.mark.parametrize('given, name, where', SPECS)
@pytest.mark.parametrize(
    'method', ['select_destinations', 'instance_claim', 'resize_claim', 'select_candidates']
)
def test_a_spec(steady, method, given, name, where):
    arguments = {'spec_obj': given}
    if method == 'select_destinations':
        refused_as(lambda: steady.raw(method, instance_uuids=[ONE], **arguments), name, where)
    elif method == 'select_candidates':
        refused_as(lambda: steady.raw(method, '1.0', 'candidates', **arguments), name, where)
    else:
        arguments |= {'instance_uuid': ONE, 'host': 'a', 'nodename': 'a'}
        refused_as(lambda: steady.raw(method, '1.0', 'claims', **arguments), name, where)


@pytest.mark.parametrize(
    'given, words',
    [
        pytest.param([ONE, uuid_of('two'), ONE], f'{ONE} is given twice', id='given twice'),
        pytest.param(MANY, '10000 instances in one request; 1 to 2000 are accepted', id='10,000'),
        pytest.param(['no-uuid'], "'no-uuid' is not a UUID", id='no UUID'),
        pytest.param([ONE.upper()], 'is not a UUID', id='in capitals'),
        pytest.param([5], '5 is not a UUID', id='a number'),
        pytest.param([['x' * 1_000_000]], 'is not a UUID', id='a long list'),
        pytest.param(ONE, 'is not a list of UUIDs', id='text'),
        pytest.param(5, '5 is not a list of UUIDs', id='one number'),
    ],
)
def test_instance_uuids(steady, given, words):
    refused_as(
        lambda: steady.raw(
            'select_destinations', spec_obj=primitive(spec()), instance_uuids=given
        ),
        'InvalidRequest',
        'instance_uuids',
        words,
    )


@pytest.mark.parametrize(
    'request_spec, name, words',
    [
        pytest.param({}, 'InvalidRequest', 'flavor', id='nothing'),
        pytest.param('boot', 'MalformedObject', 'request_spec', id='text'),
        pytest.param(
            {'instance_type': 7}, 'MalformedObject', 'flavor', id='a flavor that is none'
        ),
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
def test_the_dicts_of_4_0(steady, request_spec, name, words):
    arguments = {'request_spec': request_spec, 'filter_properties': {}}
    refused_as(lambda: steady.raw('select_destinations', '4.0', **arguments), name, words)


@pytest.mark.parametrize(
    'namespace, method, arguments, where',
    [
        pytest.param(
            'stats', 'update_service', {'name': 'a', 'service': 'up'}, 'service', id='service'
        ),
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
            'message.disabled_reason: it holds',
            id='a reason that no database takes',
        ),
        pytest.param(
            'stats', 'remove_node', {'name': {}, 'nodename': 'a'}, 'name', id='a node of no host'
        ),
        pytest.param('claims', 'show', {'instance_uuid': {'x': 1}}, 'instance_uuid', id='show'),
        pytest.param(
            'claims', 'confirm_claim', {'instance_uuid': ONE, 'host': []}, 'host', id='confirm'
        ),
        pytest.param(
            'claims', 'abort_claim', {'instance_uuid': 'all'}, 'instance_uuid', id='abort'
        ),
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
        *(
            pytest.param(
                'claims', 'resize_claim', {**RESIZE, 'move': move}, f'move: {text}', id=row
            )
            for move, text, row in [
                ('teleport', "'teleport'", 'a move that there is not'),
                (None, 'None', 'a move that nobody names'),
                (['resize'], "['resize']", 'a list of moves'),
                ({'move': 'resize'}, "{'move': 'resize'}", 'a move in a dict'),
                ('Resize', "'Resize'", 'a move in capitals'),
                ('r' * 1_000_000, "'rrr", 'a long move'),
                (True, 'True', 'a move that is true'),
            ]
        ),
        pytest.param(
            'claims', 'resize_claim', {**RESIZE, 'host': 7}, 'host', id='resize on a number'
        ),
        pytest.param(
            'claims', 'resize_claim', {**RESIZE, 'nodename': None}, 'nodename', id='on no node'
        ),
        pytest.param(
            'claims',
            'resize_claim',
            {**RESIZE, 'instance_uuid': [ONE]},
            'instance_uuids',
            id='resize a list',
        ),
        pytest.param(
            'claims', 'revert_claim', {'instance_uuid': 'last'}, 'instance_uuid', id='revert'
        ),
        pytest.param(
            'claims', 'revert_claim', {'instance_uuid': None}, 'instance_uuid', id='revert none'
        ),
        pytest.param(
            'candidates', 'claim_candidate', {'uuid': 'best'}, 'uuid', id='a candidate by its rank'
        ),
        pytest.param('candidates', 'claim_candidate', {'uuid': [ONE]}, 'uuid', id='candidates'),
        pytest.param(
            'candidates', 'select_candidates', {**SPEC, 'count': 0}, 'count', id='no candidate'
        ),
        pytest.param(
            'candidates', 'select_candidates', {**SPEC, 'count': True}, 'count', id='a yes'
        ),
        pytest.param(
            'candidates', 'select_candidates', {**SPEC, 'count': 'all'}, 'count', id='a word'
        ),
        pytest.param(
            'candidates',
            'select_candidates',
            {**SPEC, 'instance_uuids': [ONE, ONE]},
            'instance_uuids',
            id='candidates of one instance twice',
        ),
        pytest.param(
            'candidates',
            'select_candidates',
            {'spec_obj': primitive(spec(**REBUILD))},
            'a check of a rebuild claims nothing',
            id='candidates of a rebuild',
        ),
    ],
)
def test_other_calls(steady, namespace, method, arguments, where):
    refused_as(lambda: steady.raw(method, '1.0', namespace, **arguments), 'InvalidRequest', where)


def aggregate(**data):
    return primitive(objects.Aggregate(id=1, name='x', hosts=['a']), **data)


@pytest.mark.parametrize(
    'method, arguments, words',
    [
        pytest.param(
            'update_aggregates', {'aggregates': 'all'}, 'aggregates', id='aggregates are a word'
        ),
        pytest.param(
            'update_aggregates', {'aggregates': [1]}, 'not int', id='an aggregate is a number'
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': [aggregate(drop=['id'])]},
            'aggregate.id',
            id='no id',
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': [aggregate(id=2**40)]},
            'aggregate.id',
            id='a large id',
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': [aggregate(name='')]},
            'aggregate.name',
            id='no name',
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': [aggregate(uuid='x')]},
            'Aggregate.uuid',
            id='no UUID',
        ),
        pytest.param(
            'update_aggregates',
            {'aggregates': aggregate(version='2.0')},
            'Aggregate of version 2.0',
            id='newer major',
        ),
        pytest.param('delete_aggregate', {'aggregate': 1}, 'aggregate', id='delete a number'),
        pytest.param(
            'update_instance_info',
            {'host_name': 'a', 'instance_info': 3},
            'instance_info',
            id='a number',
        ),
        pytest.param(
            'update_instance_info',
            {'host_name': 'a', 'instance_info': [{}]},
            'instance_info',
            id='a dict',
        ),
        pytest.param(
            'update_instance_info',
            {'host_name': [], 'instance_info': []},
            'host_name',
            id='no host',
        ),
        pytest.param(
            'update_instance_info',
            {'host_name': 'a', 'instance_info': primitive(objects.Instance())},
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
def test_casts_are_refused_in_the_log(steady, caplog, method, arguments, words):
    steady.raw(method, '4.2', fanout=True, **arguments)
    eventually(
        lambda: any(words in message and 'refused' in message for message in caplog.messages)
    )


def test_all_that_was_sent_is_json():
    """What the table sends is what any sender can put on the wire."""
    assert all(json.dumps(row.values[0]) for row in SPECS)

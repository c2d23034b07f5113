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
"""Sound messages for every door: what a real Nova sent, the manual's templates, requests of the
API."""

import dataclasses
import functools
import json
from pathlib import Path

import yaml

from nova_sched import objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, spec
from nova_sched.tests.reference import REFERENCE, golden, wire

EXAMPLES = Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'examples' / 'groups'

# What stands for things that only a world knows.
GROUP, CANDIDATE, INSTANCE, NODE = map(
    uuid_of, ('a group', 'a candidate', 'an instance', 'a node')
)
HOST = 'cmp01'
RPC, AGENT, QUEUES, REST = 'rpc', 'agent', 'queues', 'rest'

SERVER = {
    'heat_template_version': '2021-04-16',
    'parameters': {'size': {'type': 'number', 'constraints': [{'range': {'min': 1, 'max': 9}}]}},
    'conditions': {'large': {'not': {'equals': [{'get_param': 'size'}, 1]}}},
    'resources': {
        'servers': {
            'type': 'OS::Heat::ResourceGroup',
            'properties': {
                'count': {'get_param': 'size'},
                'resource_def': {
                    'type': 'OS::Nova::Server',
                    'properties': {
                        'name': {'list_join': ['-', ['a', '%index%']]},
                        'flavor': 'tiny',
                        'image': 'cirros',
                        'scheduler_hints': {'group': {'get_resource': 'apart'}},
                    },
                },
            },
        },
        'pinned': {
            'type': 'OS::Nova::Server',
            'condition': 'large',
            'properties': {
                'flavor': {
                    'vcpus': 2, 'ram': 64, 'disk': 0,
                    'extra_specs': {'hw:cpu_policy': 'dedicated'},
                },
            },
        },
        'apart': {'type': 'OS::Nova::ServerGroup', 'properties': {'policies': ['anti-affinity']}},
        'all': {
            'type': 'OS::NovaSched::Group',
            'properties': {
                'members': [{'get_resource': 'servers'}, 'pinned'],
                'policies': [{'type': 'spread', 'level': 'zone', 'max_skew': 3, 'weight': 2}],
                'relations': [
                    {
                        'type': 'near', 'level': 'rack', 'from': 'pinned', 'to': 'servers',
                        'required': False,
                    },
                ],
            },
        },
    },
}  # fmt: skip
BESIDE = {
    'parameters': {'size': 2},
    'flavors': {
        'tiny': {'vcpus': 1, 'ram': 64, 'disk': 0, 'extra_specs': {'trait:CUSTOM_X': 'forbidden'}}
    },
    'images': {'cirros': {'disk_format': 'raw', 'properties': {'hw_architecture': 'x86_64'}}},
}


@dataclasses.dataclass(frozen=True)
class Seed:
    """A sound message for a door, as JSON text; ``weight`` says how often it is chosen."""

    name: str
    door: str
    text: str
    weight: int = 1


def _call(door, name, method, version, namespace, arguments, context=None, weight=1):
    message = {'method': method, 'version': version, 'args': arguments}
    if namespace is not None:
        message['namespace'] = namespace
    context = CONTEXT if context is None else context
    text = json.dumps({'message': message, 'context': context, 'timeout': None})
    return Seed(name, door, text, weight)


CONTEXT = wire('select_destinations-boot-1')['context']


def _recorded():
    for path in sorted((REFERENCE / 'wire').glob('*-*.json')):
        found = wire(path.stem)
        if path.stem.startswith(('select_destinations-', 'cast-')):
            message = found['message']
            text = json.dumps({'message': message, 'context': found['context'], 'timeout': None})
            yield Seed(path.stem, RPC, text)


def _specs():
    """RequestSpecs of recorded calls, as they travelled."""
    for path in sorted((REFERENCE / 'wire').glob('select_destinations-*.json')):
        arguments = wire(path.stem)['message']['args']
        if 'spec_obj' in arguments:
            yield path.stem.removeprefix('select_destinations-'), arguments['spec_obj']


def _of_spec(name, given):
    named = {'spec_obj': given, 'instance_uuid': INSTANCE, 'host': HOST, 'nodename': HOST}
    for namespace, method, version, arguments in (
        ('claims', 'instance_claim', '1.1', {**named, 'new': True}),
        ('claims', 'claim_alternate', '1.1', {**named, 'failed_host': HOST}),
        ('claims', 'resize_claim', '1.1', {**named, 'move': 'resize'}),
        ('candidates', 'select_candidates', '1.0', {'spec_obj': given, 'count': 2}),
        ('explain', 'dry_run', '1.0', {'spec_obj': given}),
        ('explain', 'why_not', '1.0', {'spec_obj': given, 'host': HOST}),
        ('explain', 'capacity', '1.0', {'spec_obj': given}),
        ('explain', 'fragmentation', '1.3', {'zone': None, 'aggregate': '1', 'most': 3}),
        ('explain', 'plan_moves', '1.3',
         {'goal': 'empty', 'moves': '1%', 'zone': None, 'aggregate': None, 'spec_obj': given}),
        ('explain', 'rank_hosts', '1.2',
         {'spec_obj': given, 'hosts': [[HOST, None]], 'weights': {HOST: 1.0}}),
        ('explain', 'health', '1.1', {}),
    ):  # fmt: skip
        yield _call(RPC, f'{method} {name}', method, version, namespace, arguments)
    for method, arguments in (
        ('build', {'finished': False}),
        ('resize', {}),
    ):
        arguments = {'spec_obj': given, 'instance_uuid': INSTANCE, **arguments}
        yield _call(AGENT, f'agent {method} {name}', method, '1.1', 'agent', arguments)


def _without_spec():
    for namespace, method, version, arguments in (
        ('claims', 'confirm_claim', '1.1', {'instance_uuid': INSTANCE, 'host': HOST}),
        ('claims', 'revert_claim', '1.1', {'instance_uuid': INSTANCE}),
        ('claims', 'abort_claim', '1.1', {'instance_uuid': INSTANCE, 'host': None}),
        ('claims', 'show', '1.1', {'instance_uuid': INSTANCE}),
        ('candidates', 'claim_candidate', '1.0', {'uuid': CANDIDATE}),
        ('explain', 'show', '1.0', {'request_id': CONTEXT['request_id']}),
        (
            'rebalances',
            'create',
            '1.0',
            {
                'uuid': INSTANCE,
                'close_s': 60,
                'moves': [{'server': INSTANCE, 'source': INSTANCE, 'destination': CANDIDATE}],
            },
        ),
        ('rebalances', 'list', '1.0', {'marker': None, 'limit': 2}),
        ('rebalances', 'show', '1.0', {'uuid': INSTANCE}),
        ('rebalances', 'stop', '1.0', {'uuid': INSTANCE}),
        ('cloud', 'status', '1.0', {}),
        ('baseapi', 'ping', '1.1', {'arg': 'x'}),
        ('baseapi', 'get_backdoor_port', '1.1', {}),
        ('stats', 'remove_node', '1.0', {'name': 'gone', 'nodename': 'gone'}),
    ):
        yield _call(RPC, method, method, version, namespace, arguments, weight=3)
    for method in ('finish', 'confirm_resize', 'revert_resize', 'destroy'):
        yield _call(AGENT, f'agent {method}', method, '1.1', 'agent', {'instance_uuid': INSTANCE})
    yield _call(AGENT, 'agent instances', 'instances', '1.1', 'agent', {})
    yield _call(AGENT, 'agent news', 'catalogue_changed', '1.1', 'agent', {'version': 3})


def _reports():
    told = golden('filter-matrix')['instances_by_host']
    for path in sorted((REFERENCE / 'wire').glob('object-ComputeNode-*.json')):
        given = wire(path.stem)['primitive']
        name = given['nova_object.data']['host']
        arguments = {
            'name': name,
            'stats': given,
            'instances': told.get(name, []),
            'cell_uuid': uuid_of('cell'),
        }
        yield _call(RPC, path.stem, 'update_resource_stats', '1.0', 'stats', arguments, weight=8)
    node = objects.to_primitive(compute_node('tree'))
    uuid, child = node['nova_object.data']['uuid'], uuid_of('child')
    vcpus = {
        'total': 8,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': 8,
        'step_size': 1,
        'allocation_ratio': 2.0,
    }
    inventories = {
        uuid: {
            'inventories': {'VCPU': vcpus, 'MEMORY_MB': {'total': 512}},
            'traits': ['CUSTOM_T'],
        },
        child: {'inventories': {'VGPU': {'total': 2}}, 'traits': [], 'parent_provider_uuid': uuid},
    }
    arguments = {'name': 'tree', 'stats': node, 'instances': None, 'inventories': inventories}
    yield _call(
        RPC, 'report of a tree', 'update_resource_stats', '1.0', 'stats', arguments, weight=8
    )
    service = wire('object-Service')['primitive']
    yield _call(
        RPC,
        'update_service',
        'update_service',
        '1.0',
        'stats',
        {'name': HOST, 'service': service},
        weight=5,
    )


def templates():
    """Name to template, as a mapping."""
    found = {
        path.stem: yaml.safe_load(path.read_text('utf-8'))
        for path in sorted(EXAMPLES.glob('*.yaml'))
    }
    for one in found.values():  # a date to YAML, text to Heat
        one['heat_template_version'] = str(one['heat_template_version'])
    return {**found, 'server': SERVER}


def _groups():
    for name, template in templates().items():
        beside = BESIDE if name == 'server' else {}
        weight = 12 if name == 'server' else 3
        for method, arguments in (
            ('validate', {}),
            ('create', {'name': 'shop', 'ttl': 60, 'dry_run': False}),
            (
                'update',
                {'uuid': GROUP, 'generation': 1, 'dry_run': True, 'project_id': None, 'ttl': 60},
            ),
        ):
            given = {'template': template, **beside, **arguments}
            yield _call(RPC, f'{method} {name}', method, '1.0', 'groups', given, weight=weight)
            given = {**given, 'template': json.dumps(template)}
            yield _call(RPC, f'{method} {name} as text', method, '1.0', 'groups', given)
    for method, arguments in (
        ('show', {'uuid': GROUP, 'project_id': None}),
        ('list', {'project_id': 'red', 'name': 'shop', 'marker': GROUP, 'limit': 3}),
        ('plan', {'uuid': GROUP, 'replan': True, 'dry_run': True}),
        ('renew', {'uuid': GROUP, 'ttl': 60, 'dry_run': True}),
        ('delete', {'uuid': GROUP, 'generation': 1, 'dry_run': False}),
        ('topology', {}),
    ):
        yield _call(RPC, f'groups {method}', method, '1.0', 'groups', arguments, weight=3)


def _queues():
    flavor = {
        'name': 'tiny',
        'vcpus': 1,
        'memory_mb': 64,
        'root_gb': 0,
        'extra_specs': {'hw:cpu_policy': 'shared'},
    }
    for namespace, method, arguments in (
        ('queues', 'catalogue', {'host': HOST}),
        ('queues', 'flavor_create', {'flavor': flavor}),
        (
            'queues',
            'flavor_create',
            {'flavor': {**flavor, 'name': 'other', 'flavorid': '7', 'swap': 64}},
        ),
        ('queues', 'flavor_delete', {'name': 'tiny'}),
        ('queues', 'flavor_list', {}),
        ('queues', 'facts', {'marker': 'flavor.tiny', 'limit': 3}),
        ('catalogue', 'catalogue_changed', {'version': 3}),
    ):
        yield _call(QUEUES, f'{namespace} {method}', method, '1.0', namespace, arguments, weight=6)


def _requests():
    """Requests of the API; ``body`` is JSON, ``raw`` is text."""
    text = yaml.safe_dump(SERVER)
    flavor = {'name': 'small', 'vcpus': 1, 'memory_mb': 64, 'extra_specs': {'hw:numa_nodes': '1'}}
    whole = {'name': 'shop', 'template': SERVER, **BESIDE, 'ttl': 60}
    match, trial = {'If-Match': '"1"'}, {'dry_run': 'true'}
    for method, path, more in (
        ('POST', '/v1/groups', {'body': whole}),
        ('POST', '/v1/groups',
         {'query': {'dry_run': 'true'}, 'body': {'template': text, **BESIDE}}),
        ('POST', '/v1/groups/validate', {'body': {'template': SERVER, **BESIDE}}),
        ('POST', '/v1/groups/validate', {'raw': text, 'media': 'application/yaml'}),
        ('GET', '/v1/groups', {'query': {'limit': '2', 'status': 'planned', 'marker': GROUP}}),
        ('GET', '/v1/groups', {'query': {'name': 'shop'}}),
        ('GET', '/v1/groups', {'query': {'all_projects': 'true', 'project_id': 'red'}}),
        ('GET', f'/v1/groups/{GROUP}', {'headers': {'If-None-Match': '"1"'}}),
        ('PUT', f'/v1/groups/{GROUP}', {'headers': match, 'body': {'template': SERVER, **BESIDE}}),
        ('PUT', f'/v1/groups/{GROUP}',
         {'headers': match, 'query': trial, 'body': {'template': text}}),
        ('DELETE', f'/v1/groups/{GROUP}', {'headers': match, 'query': trial}),
        ('GET', f'/v1/groups/{GROUP}/plan', {}),
        ('POST', f'/v1/groups/{GROUP}/plan', {'query': {'dry_run': 'true'}}),
        ('POST', f'/v1/groups/{GROUP}/renew', {'body': {'ttl': 60}}),
        ('POST', '/v1/flavors', {'body': flavor}),
        ('GET', '/v1/flavors', {}),
        ('GET', '/v1/flavors/small', {}),
        ('DELETE', '/v1/flavors/small', {}),
        ('GET', '/v1/queues', {'query': {'limit': '2', 'marker': 'results'}}),
        ('GET', '/v1/openapi.json', {}),
        ('GET', '/healthcheck', {}),
        ('GET', '/', {}),
    ):  # fmt: skip
        given = {
            'method': method,
            'path': path,
            'headers': {'X-Auth-Token': 'admin:red'},
            'query': {},
            **more,
        }
        given['headers'] = {'X-Auth-Token': 'admin:red', **more.get('headers', {})}
        yield Seed(f'{method} {path}', REST, json.dumps(given), 12 if 'body' in more else 4)


@functools.cache
def seeds():
    """All of them."""
    found = [
        *_recorded(),
        *_without_spec(),
        *_reports(),
        *_groups(),
        *_queues(),
        *_requests(),
    ]
    for name, given in _specs():
        found += _of_spec(name, given)
    found += _of_spec('small', objects.to_primitive(spec()))
    assert len({one.name for one in found if one.door == RPC}) > 100
    return tuple(found)

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
"""Stacks of all kinds: what the scheduler is told of their servers, and what hints these have in
turn."""

import pytest
import yaml

from nova_sched.tests.heat_engine.cloud import IMAGE, TOKEN
from nova_sched.tests.heat_engine.templates import (
    VERSION,
    hints,
    members,
    of,
    policy,
    server,
    servers,
    template,
)


def half(name):
    """A server of the nested stack; its name tells of which one."""
    return server(
        name={'list_join': ['-', [{'get_param': 'title'}, name]]},
        flavor={'get_param': 'flavor'},
        scheduler_hints={'get_param': ['hints', name]},
    )


APP = {
    'heat_template_version': VERSION,
    'parameters': {
        'hints': {'type': 'json', 'default': {}},
        'flavor': {'type': 'string', 'default': 'small'},
        'title': {'type': 'string', 'default': 'app'},
        'address': {'type': 'string', 'default': ''},
    },
    'resources': {
        'front': half('front'),
        'back': half('back'),
        'pair': members('front', 'back', policies=[policy('affinity', 'rack')]),
        'close': of(
            'OS::NovaSched::Relation',
            **{
                'type': 'near',
                'level': 'host',
                'from': [{'get_resource': 'front'}],
                'to': ['back'],
            },
        ),
    },
}
FILES = {'app.yaml': yaml.safe_dump(APP)}
FLAVOR_OF_SMALL = {'flavor': {'get_attr': ['choice', 'value']}}


@pytest.mark.parametrize(
    'resources, built',
    [
        pytest.param({'web': server('web')}, {'web': 'web'}, id='a server'),
        pytest.param(
            {'web': server('web'), 'other': server(name='other')},
            {'web': 'web', 'other': None},
            id='a stranger',
        ),
        pytest.param(
            {
                'web': server('web'),
                'db': server('db'),
                'app': members('web', 'inner'),
                'inner': members('db'),
            },
            {'web': 'app/web', 'db': 'app/inner/db'},
            id='groups in groups',
        ),
        pytest.param(
            {'web': server('web'), 'app': members({'name': 'part', 'members': ['web']})},
            {'web': 'app/part/web'},
            id='a group without a resource',
        ),
        pytest.param(
            {'pool': servers('pool', 2)},
            {'pool-0': 'pool/0', 'pool-1': 'pool/1'},
            id='a resource group',
        ),
        pytest.param(
            {'web': server('web'), 'pool': servers('pool', 0)}, {'web': 'web'}, id='of none'
        ),
        pytest.param(
            {
                'pool': of(
                    'OS::Heat::ResourceGroup',
                    count=2,
                    index_var='<i>',
                    removal_policies=[{'resource_list': ['0']}],
                    resource_def=server('pool', name='pool-<i>'),
                ),
                'rack': members('pool'),
            },
            {'pool-1': 'rack/pool/1', 'pool-2': 'rack/pool/2'},
            id='another index variable, and a number used up',
        ),
        pytest.param(
            {'app': of('app.yaml', hints=hints('app')), 'web': server('web')},
            {'app-front': 'app/pair/front', 'app-back': 'app/pair/back', 'web': 'web'},
            id='a nested stack',
        ),
        pytest.param(
            {
                'apps': of(
                    'OS::Heat::ResourceGroup',
                    count=2,
                    resource_def=of('app.yaml', hints=hints('apps'), title='%index%'),
                )
            },
            {f'{i}-{name}': f'apps/{i}/pair/{name}' for i in '01' for name in ('front', 'back')},
            id='nested stacks in a resource group',
        ),
        pytest.param(
            {
                'pool': of(
                    'OS::NovaSched::AutoScalingGroup',
                    min_size=1,
                    max_size=4,
                    desired_capacity=2,
                    resource=server('pool', name='pool-%index%'),
                )
            },
            {'pool-0': 'pool/0', 'pool-1': 'pool/1'},
            id='a scaling group',
        ),
        pytest.param(
            {
                'pool': of(
                    'OS::NovaSched::AutoScalingGroup',
                    min_size=1,
                    max_size=4,
                    resource=of('app.yaml', hints=hints('pool'), title='%index%'),
                )
            },
            {f'0-{name}': f'pool/0/pair/{name}' for name in ('front', 'back')},
            id='nested stacks in a scaling group',
        ),
        pytest.param(
            {
                'choice': of('OS::Heat::Value', value='small'),
                'web': server('web', **FLAVOR_OF_SMALL),
            },
            {'web': 'web'},
            id='a flavor from another resource',
        ),
        pytest.param(
            {
                'db': server('db'),
                'app': of('app.yaml', hints=hints('app'), address={'get_attr': ['db', 'name']}),
            },
            {'db': 'db', 'app-front': 'app/pair/front', 'app-back': 'app/pair/back'},
            id='a nested stack that waits for a member',
        ),
    ],
)
def test_each_server_has_the_hints_of_the_member_it_was_planned_as(
    cloud, stack, read, resources, built
):
    stack(template(**resources), files=FILES)
    planned = read()['members']
    before = cloud.story[: cloud.story.index('POST')]
    assert [name for name, path in built.items() if path and f'+{name}' in before] == []
    assert sorted(planned) == sorted(path for path in built.values() if path)
    assert {one['flavor'] for one in planned.values()} == {'small'}
    uuid = cloud.group()['uuid']
    assert cloud.hints() == {
        name: {'top_group': uuid, 'member': path, 'replace': 'true'} if path else {}
        for name, path in built.items()
    }


RACKS = [
    policy('anti-affinity', 'rack', max_per_domain=2),
    policy('spread', min_domains=2, weight=3),
]


@pytest.mark.parametrize(
    'resources, policies',
    [
        pytest.param(
            {
                'web': server('web'),
                'db': server('db'),
                'app': members('web', 'db', policies=RACKS),
            },
            {
                'app: anti-affinity at rack': [['app/db', 'app/web'], []],
                'app: spread at host, preferred': [['app/db', 'app/web'], []],
            },
            id='of a group',
        ),
        pytest.param(
            {
                'web': server('web'),
                'pool': servers('pool', 2),
                'app': members('web', 'pool'),
                'all': members('web', 'pool', policies=[policy('affinity', 'zone')], overlay=True),
            },
            {'all: affinity at zone': [['app/pool/0', 'app/pool/1', 'app/web'], []]},
            id='of an overlay',
        ),
        pytest.param(
            {
                'web': server('web'),
                'db': server('db'),
                'near': of(
                    'OS::NovaSched::Relation',
                    **{
                        'type': 'near',
                        'level': {'get_param': 'level'},
                        'from': {'get_resource': 'web'},
                        'to': ['db'],
                    },
                ),
            },
            {'near: near at room': [['web'], ['db']]},
            id='a relation',
        ),
        pytest.param(
            {'app': of('app.yaml', hints=hints('app'))},
            {
                'app/pair: affinity at rack': [['app/pair/back', 'app/pair/front'], []],
                'app.close: near at host': [['app/pair/front'], ['app/pair/back']],
            },
            id='within a nested stack',
        ),
        pytest.param(
            {
                'apart': of('OS::Nova::ServerGroup', policies=['anti-affinity'], name='apart'),
                'web': server(
                    'web',
                    scheduler_hints={
                        'map_merge': [hints('web'), {'group': {'get_resource': 'apart'}}]
                    },
                ),
            },
            {'apart: anti-affinity at host': [['web'], []]},
            id="of Nova's server group",
        ),
    ],
)
def test_policies_are_those_of_the_stack(stack, read, resources, policies):
    level = {'level': {'type': 'string', 'default': 'room'}}
    stack(template(parameters=level, **resources), files=FILES)
    assert read()['policies'] == policies


@pytest.mark.parametrize(
    'more, told',
    [
        pytest.param({'flavor': 'large'}, {'flavor': 'large', 'vcpus': 4}, id='flavor by name'),
        pytest.param({'flavor': '2'}, {'flavor': 'large', 'vcpus': 4}, id='flavor by ID'),
        pytest.param(
            {'image': IMAGE['id']}, {'image': {'hw_architecture': 'x86_64'}}, id='image by ID'
        ),
        pytest.param({'availability_zone': 'az1'}, {'zone': 'az1'}, id='zone'),
        pytest.param(
            {'scheduler_hints': {'map_merge': [hints('web'), {'different_cell': ['c1']}]}},
            {'hints': {'different_cell': ['c1']}},
            id='hints of its own',
        ),
        pytest.param(
            {
                'image': None,
                'block_device_mapping_v2': [
                    {'image': 'debian', 'volume_size': 10, 'boot_index': 0}
                ],
            },
            {'volume': True, 'image': {'hw_architecture': 'x86_64'}},
            id='boot from a volume',
        ),
    ],
)
def test_what_placement_reads_of_a_server_is_told(stack, read, more, told):
    stack(template(web=server('web', **more)))
    member = read()['members']['web']
    default = {
        'flavor': 'small',
        'vcpus': 1,
        'image': {'hw_architecture': 'x86_64'},
        'zone': None,
        'hints': {},
    }
    assert member == {**default, 'volume': False, **told}


def test_a_disabled_server_is_none(stack, read):
    made = template(web=server('web'), db={**server('db'), 'condition': 'no'})
    stack({**made, 'conditions': {'no': {'equals': [1, 2]}}})
    assert [*read()['members']] == ['web']


def test_an_environment_makes_plain_scaling_groups_ours(cloud, stack):
    plain = of(
        'OS::Heat::AutoScalingGroup',
        min_size=2,
        max_size=3,
        resource=server('pool', name='pool-%index%'),
    )
    registry = {'OS::Heat::AutoScalingGroup': 'OS::NovaSched::AutoScalingGroup'}
    stack(template(pool=plain), environment={'resource_registry': registry})
    assert {name: hint['member'] for name, hint in cloud.hints().items()} == {
        'pool-0': 'pool/0',
        'pool-1': 'pool/1',
    }


def test_the_scheduler_is_asked_with_the_token_of_the_stack(cloud, stack):
    stack(template(web=server('web')), timeout_mins=5)
    method, path, headers, body = cloud.calls[0]
    assert (method, path, headers['X-Auth-Token']) == ('POST', '/v1/groups', TOKEN)
    assert body['ttl'] == 300
    assert body['name'].startswith('stack')


def test_outputs_tell_the_plan(heat, cloud, stack):
    outputs = {
        name: {'get_attr': ['group', name]} for name in ('members', 'plan', 'moves', 'hints')
    }
    made = stack(template(web=server('web'), outputs=outputs))
    told = {
        one['output_key']: one['output_value']
        for one in heat.show(made['stack_identity'])['outputs']
    }
    assert told == {
        'members': {'web': 'planned'},
        'plan': {'web': {'rack': 'r1'}},
        'moves': [],
        'hints': {'web': {'top_group': cloud.group()['uuid'], 'member': 'web', 'replace': 'true'}},
    }

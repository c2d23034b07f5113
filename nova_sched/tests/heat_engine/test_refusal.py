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
"""What goes wrong: stacks that cannot be read, groups that cannot be placed, a scheduler that is
away."""

import pytest
from heat.common import exception

from nova_sched.tests.heat_engine.engine import PLUGINS, initialise
from nova_sched.tests.heat_engine.templates import (
    fresh_name,
    hints,
    members,
    of,
    policy,
    server,
    servers,
    template,
)

TYPES = {
    'OS::NovaSched::' + name for name in ('TopGroup', 'Group', 'Relation', 'AutoScalingGroup')
}


def test_heat_loads_the_plug_in_from_its_folder(heat):
    assert {name for name in heat.types() if name.startswith('OS::NovaSched::')} == TYPES
    loaded = initialise().get_class_to_instantiate('OS::NovaSched::TopGroup')
    assert loaded.__module__ == 'heat.engine.plugins.top_group'
    assert (PLUGINS / 'top_group.py').exists()


def test_heat_accepts_a_template_with_all_types(heat):
    said = heat.validate(
        template(
            web=server('web'),
            app=members('web', policies=[policy('spread', min_domains=2)]),
            near=of('OS::NovaSched::Relation', type='near', level='rack', between=['web', 'app']),
        )
    )
    assert 'Error' not in said


PLAIN_SCALING = of('OS::Heat::AutoScalingGroup', min_size=1, max_size=2, resource=server('pool'))


@pytest.mark.parametrize(
    'resources, reason',
    [
        pytest.param(
            {'web': server(name='web')}, 'No server has the hints of group', id='no member'
        ),
        pytest.param(
            {'web': server('web'), 'db': server(name='db'), 'app': members('web', 'db')},
            'app names db, which has no hints of group',
            id='a group with a stranger',
        ),
        pytest.param(
            {
                'web': server('web'),
                'db': server(name='db'),
                'near': of(
                    'OS::NovaSched::Relation', type='near', level='rack', between=['web', 'db']
                ),
            },
            'near names db, which has no hints of group',
            id='a relation to a stranger',
        ),
        pytest.param(
            {'web': server('db'), 'db': server('db')},
            'The server web has the hints of db',
            id='hints of another',
        ),
        pytest.param(
            {'web': server('web'), 'one': members('web'), 'two': members('web')},
            'web is a member of both one and two',
            id='two places',
        ),
        pytest.param(
            {'web': server('web'), 'one': members('web', 'two'), 'two': members('one')},
            'The group one is a member of itself',
            id='a circle',
        ),
        pytest.param(
            {'pool': PLAIN_SCALING},
            'pool cannot be scaled with its group; use an OS::NovaSched',
            id='plain scaling',
        ),
        pytest.param(
            {
                'web': server('web'),
                'app': members({'name': 'db', 'type': 'OS::Nova::Server'}, 'web'),
            },
            'app has a member that is not a resource of the stack',
            id='a server that is no resource',
        ),
        pytest.param(
            {'web': server('web'), 'app': members('web', policies=[policy('spraed')])},
            '"spraed" is not an allowed value',
            id='no such policy',
        ),
        pytest.param(
            {
                'web': server('web'),
                'app': members('web', policies=[policy('spread', min_domain=2)]),
            },
            'Unknown Property min_domain',
            id='no such word of a policy',
        ),
        pytest.param(
            {
                'db': server('db'),
                'web': server('web', flavor={'get_attr': ['later', 'value']}),
                'later': of('OS::Heat::Value', value={'get_attr': ['db', 'name']}),
            },
            None,
            id='a flavor that is known too late',
        ),
    ],
)
def test_a_stack_that_cannot_be_read_is_refused(heat, cloud, resources, reason):
    made = template(**resources)
    if reason is None:
        done = heat.create(fresh_name(), made)
        assert done['stack_status'] == 'FAILED'
        assert (
            'The flavor of web comes from a resource that is created after group'
            in done['stack_status_reason']
        )
    else:
        with pytest.raises(exception.StackValidationFailed, match=reason):
            heat.create(fresh_name(), made)
    assert cloud.calls == []
    assert cloud.servers == {}


@pytest.mark.parametrize(
    'status, error, reason',
    [
        pytest.param(
            409,
            {
                'code': 'nova_sched.refused',
                'detail': '3 members need 3 racks; there are 2.',
                'details': {'core': []},
            },
            'The scheduler refuses: 3 members need 3 racks; there are 2.',
            id='no place',
        ),
        pytest.param(
            400,
            {
                'code': 'nova_sched.template',
                'detail': 'there is no level row',
                'where': 'resources.app.level',
            },
            'The scheduler refuses (resources.app.level): there is no level row',
            id='not understood',
        ),
        pytest.param(
            503,
            {
                'code': 'nova_sched.unavailable',
                'detail': 'No scheduler answers; it is done or not.',
            },
            'The scheduler fails: No scheduler answers; it is done or not.',
            id='done or not',
        ),
    ],
)
def test_a_refusal_fails_the_stack_before_there_is_a_server(heat, cloud, status, error, reason):
    cloud.answers.append((status, error))
    done = heat.create(fresh_name(), template(pool=servers('pool', 3)))
    assert (done['stack_action'], done['stack_status']) == ('CREATE', 'FAILED')
    assert reason in done['stack_status_reason']
    assert cloud.servers == {}
    heat.delete(done['stack_identity'])
    assert 'DELETE' not in [method for method, *_ in cloud.calls]


def test_a_busy_scheduler_is_asked_again(cloud, stack):
    cloud.answers.extend(
        [(503, {'code': 'nova_sched.busy', 'detail': 'Others were in the way.'})] * 2
    )
    stack(template(web=server('web')))
    assert len(cloud.asked('POST')) - 2 == len(cloud.groups) == 1


def test_hints_of_an_unknown_resource_fail_the_server(heat, cloud):
    made = template(web=server('web'), note=of('OS::Heat::Value', value=hints('wbe')))
    done = heat.create(fresh_name(), made)
    assert done['stack_status'] == 'FAILED'
    assert 'wbe' in done['stack_status_reason']


def test_a_check_finds_members_without_a_host(heat, cloud, stack):
    made = stack(template(web=server('web')))
    group = cloud.group()
    group['status'] = 'incomplete'
    group['members'][0]['state'] = 'unplaced'
    done = heat.check(made['stack_identity'])
    assert done['stack_status'] == 'FAILED'
    assert 'These members have no host: web' in done['stack_status_reason']
    group['status'] = 'planned'
    assert (
        heat.update(made['stack_identity'], template(web=server('web')))['stack_status']
        == 'COMPLETE'
    )
    assert cloud.group() is group

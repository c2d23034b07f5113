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
"""Stacks that change and go: the scheduler hears of it before a server does."""

import pytest

from nova_sched.tests.heat_engine.templates import (
    hints,
    members,
    of,
    policy,
    server,
    servers,
    template,
)


def paths(body):
    """Count and removed numbers of each group that repeats, as they were sent."""
    return {
        name: (one['properties']['count'], *one['properties'].get('removal_policies', []))
        for name, one in body['template']['resources'].items()
        if one['type'] == 'OS::Heat::ResourceGroup'
    }


def removed(*numbers):
    return {'resource_list': [*numbers]}


@pytest.fixture
def updated(heat):
    """Update a stack: ``updated(stack, template)``; it must become complete."""

    def updated(stack, changed, **more):
        done = heat.update(stack['stack_identity'], changed, **more)
        assert (done['stack_action'], done['stack_status']) == ('UPDATE', 'COMPLETE'), done[
            'stack_status_reason'
        ]
        return done

    return updated


def test_a_group_grows_before_its_servers_do(cloud, stack, updated):
    made = stack(template(web=server('web'), pool=servers('pool', 1)))
    uuid = cloud.group()['uuid']
    cloud.story.clear()
    updated(made, template(web=server('web'), pool=servers('pool', 2)))
    assert cloud.story == ['PUT', '+pool-1']
    assert paths(cloud.asked('PUT')[0]) == {'pool': (2,)}
    assert cloud.hints()['pool-1'] == {'top_group': uuid, 'member': 'pool/1', 'replace': 'true'}
    (headers,) = [headers for method, _, headers, _ in cloud.calls if method == 'PUT']
    assert headers['If-Match'] == '"1-0"'


def test_what_has_not_changed_is_not_sent(cloud, stack, updated):
    same = template(web=server('web'), app=members('web', policies=[policy('affinity')]))
    made = stack(same)
    updated(made, {**same, 'description': 'another'})
    assert cloud.asked('PUT') == []


@pytest.mark.parametrize(
    'changed, sent',
    [
        pytest.param(
            {'app': members('web', policies=[policy('affinity', 'rack')])}, 'rack', id='policy'
        ),
        pytest.param({'app': members('web', policies=[]), 'db': server('db')}, 'db', id='member'),
    ],
)
def test_servers_stay_when_the_group_changes(cloud, stack, updated, changed, sent):
    made = stack(template(web=server('web'), app=members('web', policies=[policy('affinity')])))
    before = dict(cloud.servers)
    updated(made, template(web=server('web'), **changed))
    assert sent in str(cloud.asked('PUT')[0]['template'])
    assert before.items() <= cloud.servers.items()


def test_numbers_that_are_used_up_are_told(cloud, stack, updated):
    made = stack(template(pool=servers('pool', 3)))
    less = servers('pool', 2)
    less['properties']['removal_policies'] = [removed('1')]
    updated(made, template(pool=less))
    assert paths(cloud.asked('PUT')[-1]) == {'pool': (2, removed('1'))}
    assert sorted(cloud.hints()) == ['pool-0', 'pool-2']
    updated(made, template(pool=servers('pool', 3)))
    assert paths(cloud.asked('PUT')[-1]) == {'pool': (3, removed('1'))}
    assert sorted(cloud.hints()) == ['pool-0', 'pool-2', 'pool-3']


def scaling(size=None, **more):
    """A scaling group of servers with policies that add and remove one."""
    named = server('pool', name='pool-%index%', **more)
    grow, shrink = (
        of(
            'OS::Heat::ScalingPolicy',
            adjustment_type='change_in_capacity',
            auto_scaling_group_id={'get_resource': 'pool'},
            scaling_adjustment=step,
        )
        for step in (1, -1)
    )
    sizes = {'min_size': 1, 'max_size': 4} | ({'desired_capacity': size} if size else {})
    pool = of('OS::NovaSched::AutoScalingGroup', **sizes, resource=named)
    return template(pool=pool, grow=grow, shrink=shrink)


def test_a_scaling_group_asks_for_places_before_it_grows(heat, cloud, stack):
    made = stack(scaling())
    cloud.story.clear()
    heat.signal(made['stack_identity'], 'grow')
    heat.signal(made['stack_identity'], 'grow')
    assert cloud.story == ['PUT', '+pool-1', 'PUT', '+pool-2']
    assert {hint['member'] for hint in cloud.hints().values()} == {'pool/0', 'pool/1', 'pool/2'}
    cloud.story.clear()
    heat.signal(made['stack_identity'], 'shrink')
    gone, told = cloud.story
    number = gone.removeprefix('-pool-')  # Heat takes one of the oldest
    assert told == 'PUT'
    assert paths(cloud.asked('PUT')[-1]) == {
        'pool': (2,) if number == '2' else (2, removed(number))
    }
    heat.signal(made['stack_identity'], 'grow')
    assert paths(cloud.asked('PUT')[-1]) == {'pool': (3,)}
    assert sorted(cloud.hints()) == ['pool-0', 'pool-1', 'pool-2']


def test_a_scaling_group_does_not_grow_without_places(heat, cloud, stack):
    made = stack(scaling())
    cloud.answers.append((409, {'code': 'nova_sched.refused', 'detail': 'No rack has room.'}))
    with pytest.raises(Exception, match='No rack has room'):
        heat.signal(made['stack_identity'], 'grow')
    assert sorted(cloud.hints()) == ['pool-0']


def test_an_update_knows_how_far_a_group_has_scaled(heat, cloud, stack, updated):
    made = stack(scaling())
    heat.signal(made['stack_identity'], 'grow')
    before = dict(cloud.servers)
    changed = scaling()
    changed['resources']['web'] = server('web')
    updated(made, changed)
    assert paths(cloud.asked('PUT')[-1]) == {'pool': (2,)}
    assert before.items() <= cloud.servers.items()
    updated(made, scaling(3))
    assert paths(cloud.asked('PUT')[-1]) == {'pool': (3,)}
    updated(made, scaling(1))
    assert [paths(body)['pool'][0] for body in cloud.asked('PUT')[-2:]] == [3, 1]
    assert len(cloud.hints()) == 1


def test_a_rolling_update_replaces_each_member_once(cloud, stack, updated):
    made = stack(scaling(2))
    cloud.story.clear()
    updated(made, scaling(2, availability_zone='az2'))
    assert sorted(cloud.story) == ['+pool-0', '+pool-1', '-pool-0', '-pool-1', 'PUT']
    assert cloud.story[0] == 'PUT'
    assert {hint['member'] for hint in cloud.hints().values()} == {'pool/0', 'pool/1'}


REFUSED = (409, {'code': 'nova_sched.refused', 'detail': '3 members need 3 hosts; room r1 has 2.'})


def test_a_refused_update_fails_with_the_reason_and_can_be_mended(heat, cloud, stack, updated):
    made = stack(template(pool=servers('pool', 1)))
    uuid, before = cloud.group()['uuid'], dict(cloud.servers)
    cloud.answers.append(REFUSED)
    done = heat.update(made['stack_identity'], template(pool=servers('pool', 3)))
    assert done['stack_status'] == 'FAILED'
    assert '3 members need 3 hosts; room r1 has 2.' in done['stack_status_reason']
    assert cloud.servers == before
    updated(made, template(pool=servers('pool', 2)))
    assert cloud.group()['uuid'] == uuid
    assert before.items() <= cloud.servers.items()


def test_moves_are_told(heat, cloud, stack):
    made = stack(template(web=server('web'), outputs={'moves': {'get_attr': ['group', 'moves']}}))
    cloud.group()['moves'] = [
        {'path': 'web', 'from_host': None, 'to_host': None, 'reason': 'rack r1 is full'}
    ]
    told = heat.resource(made['stack_identity'], 'group')['attributes']['moves']
    assert [one['reason'] for one in told] == ['rack r1 is full']


def test_the_group_ends_after_its_servers(heat, cloud, stack):
    made = stack(template(web=server('web'), db=server('db')))
    cloud.story.clear()
    heat.delete(made['stack_identity'])
    assert cloud.story[-1] == 'DELETE'
    assert sorted(cloud.story[:-1]) == ['-db', '-web']
    assert cloud.calls[-1][2]['If-Match'] == '*'
    assert cloud.groups == {}


def test_a_group_that_is_gone_does_not_hold_up_the_stack(heat, cloud, stack):
    made = stack(template(web=server('web')))
    cloud.groups.clear()
    heat.delete(made['stack_identity'])
    assert cloud.servers == {}


def test_hints_are_the_same_ever_after(heat, cloud, stack, updated):
    made = stack(
        template(web=server('web'), outputs={'hints': {'get_attr': ['group', 'hints', 'web']}})
    )
    done = updated(
        made, template(web=server('web'), db=server('db'), outputs={'hints': hints('web')})
    )
    told = {
        one['output_key']: one['output_value']
        for one in heat.show(done['stack_identity'])['outputs']
    }
    assert told == {
        'hints': {'top_group': cloud.group()['uuid'], 'member': 'web', 'replace': 'true'}
    }

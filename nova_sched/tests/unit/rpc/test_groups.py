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
"""The namespace `groups` before an engine that only notes what it is told: arguments in, objects
out."""

import json

import oslo_messaging as messaging
import pytest
from oslo_context.context import RequestContext

from nova_sched import errors, objects, rpc
from nova_sched.conf import CONF
from nova_sched.engine.groups import reading
from nova_sched.engine.groups.views import GroupView, MemberView, RequiredMove
from nova_sched.rpc import client, servers
from nova_sched.rpc.endpoints.groups import GroupsEndpoint
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

GROUP = uuid_of('group')
TEMPLATE = """\
heat_template_version: 2021-04-16
parameters:
  count: {type: number, default: 2}
resources:
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: count}
      resource_def:
        type: OS::Nova::Server
        properties:
          flavor: small
  app:
    type: OS::NovaSched::Group
    properties:
      members: [web]
      policies: [{type: anti-affinity, level: host}]
"""
FLAVORS = {'small': {'vcpus': 1, 'ram': 512}}


def member(path, **facts):
    return MemberView(
        **{
            'path': path,
            'state': 'pending',
            'member_uuid': uuid_of(path),
            'instance_uuid': uuid_of('server'),
            'host': 'a',
            'nodename': 'n',
            'node_uuid': uuid_of('node'),
            'zone': 'west',
            'domains': {'host': 'a', 'rack': 'r1'},
            **facts,
        }
    )


def view(**facts):
    return GroupView(
        **{
            'uuid': GROUP,
            'name': 'shop',
            'project_id': 'p',
            'user_id': 'u',
            'status': 'building',
            'generation': 2,
            'serial': 5,
            'source': {
                'template': TEMPLATE,
                'parameters': {'count': 3},
                'flavors': FLAVORS,
                'images': {},
            },
            'members': (member('app/web/0'), MemberView('app/web/1', 'unplaced', uuid_of('b'))),
            'moves': (RequiredMove('app/web/0', 'a', 'b', uuid_of('server'), 'too near'),),
            'warnings': ('one node tells no rack',),
            'created_s': NOW,
            'updated_s': NOW + 1,
            'expires_s': None,
            **facts,
        }
    )


class Engine:
    """Notes what it is told, and answers with a View, or raises ``error``."""

    levels = ('host', 'rack', 'zone')

    def __init__(self):
        self.told, self.error, self.view = [], None, view()

    def _note(self, method, *args, **kwargs):
        self.told.append((method, args, kwargs))
        if self.error is not None:
            raise self.error
        return self.view

    def __getattr__(self, method):
        return lambda *args, **kwargs: self._note(method, *args, **kwargs)

    def list(self, **kwargs):
        return [self._note('list', **kwargs)] * 2

    def read(self, project_id, given, rules):
        return reading.read(given, rules, rules.seconds)

    def account(self, project_id, given, rules):
        summary, _ = reading.account(given, rules, (), rules.seconds)
        self._note('account', project_id)
        return {**summary, 'contradiction': 'a and b collide'}


class Scheduler:
    """As much of one as the endpoint asks for."""

    def __init__(self):
        self.groups = Engine()


@pytest.fixture(scope='module')
def served():
    """(a client, the scheduler behind the bus)."""
    bus, scheduler = rpc.transport(CONF, 'fake://groups'), Scheduler()
    server = servers.server(bus, 'groups', [GroupsEndpoint(scheduler)])
    server.start()
    yield client.GroupsClient(bus, timeout_s=60), scheduler
    server.stop()
    server.finish()
    bus.cleanup()


@pytest.fixture
def caller(served):
    """The client; ``caller.engine`` is fresh."""
    found, scheduler = served
    found.engine = scheduler.groups = Engine()
    return found


def context(**words):
    return RequestContext(overwrite=False, project_id='p', user_id='u', **words)


def test_a_group_is_created(caller):
    made = caller.create(
        TEMPLATE, 'shop', parameters={'count': 3}, flavors=FLAVORS, ttl=60, context=context()
    )
    ((method, (definition, source), told),) = caller.engine.told
    assert method == 'create'
    assert list(definition.members) == [f'app/web/{number}' for number in range(3)]
    assert [policy.kind for policy in definition.policies] == ['anti-affinity']
    assert source == {
        'template': TEMPLATE,
        'parameters': {'count': 3},
        'flavors': FLAVORS,
        'images': {},
    }
    assert (told['name'], told['ttl_s'], told['dry_run']) == ('shop', 60, False)
    assert (told['context'].project_id, told['context'].user_id) == ('p', 'u')
    assert isinstance(made, objects.TopGroup)


def test_all_that_is_told_of_a_group(caller):
    made = caller.show(GROUP)
    assert (made.uuid, made.name, made.project_id, made.user_id) == (GROUP, 'shop', 'p', 'u')
    assert (made.status, made.generation, made.serial, made.dry_run) == ('building', 2, 5, False)
    assert (made.template, json.loads(made.parameters)) == (TEMPLATE, {'count': 3})
    assert (made.created_at.timestamp(), made.updated_at.timestamp()) == (NOW, NOW + 1)
    assert (made.expires_at, made.warnings) == (None, ['one node tells no rack'])
    first, second = made.members
    assert (first.path, first.state, first.member_uuid) == (
        'app/web/0',
        'pending',
        uuid_of('app/web/0'),
    )
    assert (first.instance_uuid, first.host, first.nodename) == (uuid_of('server'), 'a', 'n')
    assert (first.compute_node_uuid, first.availability_zone) == (uuid_of('node'), 'west')
    assert first.domains == {'host': 'a', 'rack': 'r1'}
    assert (second.state, second.host, second.domains) == ('unplaced', None, {})
    (move,) = made.moves
    assert (move.path, move.from_host, move.to_host) == ('app/web/0', 'a', 'b')
    assert (move.instance_uuid, move.reason) == (uuid_of('server'), 'too near')


def test_a_move_from_a_node_that_is_gone(caller):
    caller.engine.view = view(
        moves=(RequiredMove('app/web/0', '', 'b', uuid_of('server'), 'gone'),)
    )
    assert caller.show(GROUP).moves[0].from_host is None


def test_a_template_may_be_a_mapping(caller):
    server = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'vcpus': 1, 'ram': 1}}}
    given = {'heat_template_version': '2021-04-16', 'resources': {'one': server}}
    caller.create(given)
    ((_, (definition, source), _),) = caller.engine.told
    assert list(definition.members) == ['one']
    assert json.loads(source['template']) == given


def test_flavors_of_the_operator_are_known_and_those_of_the_caller_go_first(caller, tmp_path):
    (tmp_path / 'flavors.yaml').write_text(
        'small: {vcpus: 1, ram: 512}\nlarge: {vcpus: 8, ram: 512}\n'
    )
    with settings({'groups.flavors': str(tmp_path / 'flavors.yaml')}):
        caller.create(TEMPLATE)
        caller.create(TEMPLATE, flavors={'small': {'vcpus': 2, 'ram': 512}})
        caller.create(TEMPLATE.replace('small', 'large'), flavors=FLAVORS)
    cpus = [
        {one.flavor.vcpus for one in told[1][0].members.values()} for told in caller.engine.told
    ]
    assert cpus == [{1}, {2}, {8}]
    assert caller.engine.told[0][1][1]['flavors'] == {}


def test_a_group_is_updated(caller):
    made = caller.update(
        GROUP, TEMPLATE, {'count': 4}, FLAVORS, generation=2, dry_run=True, project_id='p', ttl=5
    )
    ((method, (uuid, definition, source), told),) = caller.engine.told
    assert (method, uuid, len(definition.members), source['parameters']) == (
        'update',
        GROUP,
        4,
        {'count': 4},
    )
    del told['context'], told['requests']
    wanted = {'generation': 2, 'dry_run': True, 'project_id': 'p', 'ttl_s': 5, 'renew': True}
    assert told == wanted
    assert [move.path for move in made.moves] == ['app/web/0']


@pytest.mark.parametrize(
    'dry_run, found',
    [pytest.param(False, None, id='done'), pytest.param(True, GROUP, id='a trial')],
)
def test_a_group_is_deleted(caller, dry_run, found):
    gone = caller.delete(GROUP, generation=2, dry_run=dry_run, project_id='p')
    assert caller.engine.told == [
        ('delete', (GROUP,), {'generation': 2, 'dry_run': dry_run, 'project_id': 'p'})
    ]
    assert (gone and gone.uuid) == found


def test_a_list_tells_neither_members_nor_templates(caller):
    found = caller.list(project_id='p', name='shop', marker=GROUP, limit=7)
    assert caller.engine.told == [
        ('list', (), {'project_id': 'p', 'name': 'shop', 'marker': GROUP, 'limit': 7})
    ]
    assert [one.uuid for one in found] == [GROUP] * 2
    assert all(name not in found[0] for name in ('members', 'moves', 'template', 'parameters'))


@pytest.mark.parametrize(
    'method, arguments, told',
    [
        pytest.param('show', {'project_id': 'p'}, {'project_id': 'p'}, id='show'),
        pytest.param(
            'plan',
            {'replan': True},
            {'project_id': None, 'replan': True, 'dry_run': False},
            id='plan',
        ),
        pytest.param(
            'renew', {'ttl': 9}, {'ttl_s': 9, 'project_id': None, 'dry_run': False}, id='renew'
        ),
        pytest.param(
            'renew',
            {'dry_run': True},
            {'ttl_s': None, 'project_id': None, 'dry_run': True},
            id='renew for trial',
        ),
    ],
)
def test_what_the_engine_is_told(caller, method, arguments, told):
    assert getattr(caller, method)(GROUP, **arguments).uuid == GROUP
    assert caller.engine.told == [(method, (GROUP,), told)]


def test_a_template_is_checked(caller):
    found = caller.validate(TEMPLATE, flavors=FLAVORS)
    assert [one['path'] for one in found['members']] == ['app/web/0', 'app/web/1']
    assert [one['kind'] for one in found['policies']] == ['anti-affinity']
    assert (found['warnings'], found['contradiction']) == ([], 'a and b collide')


# What is refused; the engine is not asked then.

LONG = 'x' * 256


@each(
    'method, arguments, where',
    [
        pytest.param('create', {'template': None}, 'template', id='no template'),
        pytest.param('create', {'template': 7}, 'template', id='a number'),
        pytest.param(
            'create', {'template': f'# {"x" * reading.MAX_SOURCE}'}, 'template', id='very long'
        ),
        pytest.param(
            'create',
            {'template': {'x': 'y' * reading.MAX_SOURCE}},
            'template',
            id='very long mapping',
        ),
        pytest.param('create', {'name': LONG}, 'name', id='long name'),
        pytest.param('create', {'name': ''}, 'name', id='empty name'),
        pytest.param('create', {'name': 'two\nlines'}, 'name', id='name on two lines'),
        pytest.param('create', {'parameters': []}, 'parameters', id='parameters'),
        pytest.param(
            'create', {'parameters': {LONG: 1}}, 'parameters', id='long name of a parameter'
        ),
        pytest.param('create', {'flavors': 'small'}, 'flavors', id='flavors'),
        pytest.param('create', {'images': [1]}, 'images', id='images'),
        pytest.param('create', {'ttl': 0}, 'ttl', id='no time'),
        pytest.param('create', {'ttl': 2**40}, 'ttl', id='for ever'),
        pytest.param('create', {'dry_run': 'yes'}, 'dry_run', id='neither true nor false'),
        pytest.param('update', {'uuid': 'x'}, 'uuid', id='update nothing'),
        pytest.param('update', {'generation': 'x'}, 'generation', id='generation'),
        pytest.param('update', {'generation': 0}, 'generation', id='generation 0'),
        pytest.param('update', {'project_id': LONG}, 'project_id', id='project'),
        pytest.param('update', {'dry_run': None}, 'dry_run', id='a trial or not'),
        pytest.param('delete', {'uuid': GROUP.upper()}, 'uuid', id='delete nothing'),
        pytest.param(
            'delete', {'uuid': GROUP, 'generation': True}, 'generation', id='true is no generation'
        ),
        pytest.param('show', {'uuid': 7}, 'uuid', id='show nothing'),
        pytest.param('list', {'marker': 'x'}, 'marker', id='marker'),
        pytest.param('list', {'limit': -1}, 'limit', id='limit'),
        pytest.param('list', {'name': 7}, 'name', id='a number for a name'),
        pytest.param('plan', {'uuid': GROUP, 'replan': 1}, 'replan', id='replan'),
        pytest.param('renew', {'uuid': GROUP, 'ttl': 1.5}, 'ttl', id='half a second'),
    ],
)
def test_arguments_that_make_no_sense(caller, method, arguments, where):
    usual = {'create': {'template': TEMPLATE}, 'update': {'uuid': GROUP, 'template': TEMPLATE}}
    flavors = {} if method not in usual else {'flavors': FLAVORS}
    with pytest.raises(errors.InvalidRequest) as refused:
        getattr(caller, method)(**{**usual.get(method, {}), **flavors, **arguments})
    assert refused.value.where == where
    assert len(str(refused.value)) < 300
    assert caller.engine.told == []


def test_a_caller_whose_name_no_database_takes(caller):
    with pytest.raises(errors.InvalidRequest, match='user_id of the caller'):
        caller.create(
            TEMPLATE, flavors=FLAVORS, context=RequestContext(overwrite=False, user_id=LONG)
        )
    assert caller.engine.told == []


@pytest.mark.parametrize('method', ['create', 'validate'])
def test_a_template_that_makes_no_sense_says_where(caller, method):
    broken = TEMPLATE.replace('anti-affinity', 'hate')
    with pytest.raises(errors.TemplateError) as refused:
        getattr(caller, method)(broken, flavors=FLAVORS)
    lines = broken.splitlines()
    assert 'hate' in lines[refused.value.line - 1]
    assert refused.value.column > 1
    assert caller.engine.told == []


def test_a_level_that_is_not_configured(caller):
    with pytest.raises(errors.TemplateError, match='room'):
        caller.create(TEMPLATE.replace('level: host', 'level: room'), flavors=FLAVORS)


def test_more_members_than_a_group_may_have(caller):
    with settings({'groups.max_members': 2}), pytest.raises(errors.TemplateError, match='2'):
        caller.create(TEMPLATE, parameters={'count': 3}, flavors=FLAVORS)


def test_a_file_of_flavors_that_is_away(caller, tmp_path):
    with (
        settings({'groups.flavors': f'{tmp_path}/none'}),
        pytest.raises(errors.BadConfig, match='flavors'),
    ):
        caller.create(TEMPLATE)


DETAILS = {
    'words': 'too small',
    'failing': ['small', 'VCPU', 'r1', 3, 4],
    'core': None,
    'proven': True,
}


@pytest.mark.parametrize(
    'error',
    [
        pytest.param(errors.GroupRefused('too small', DETAILS), id='no placement'),
        pytest.param(errors.GroupRefused('too small', None), id='no details'),
        pytest.param(errors.GroupNotFound(GROUP), id='no such group'),
        pytest.param(errors.GroupChanged(GROUP, 2, 3), id='changed meanwhile'),
        pytest.param(errors.StoreUnavailable('away'), id='no database'),
    ],
)
def test_an_error_of_the_engine_comes_back_whole(caller, error):
    caller.engine.error = error
    with pytest.raises(type(error)) as raised:
        caller.update(GROUP, TEMPLATE, flavors=FLAVORS)
    assert type(raised.value) is type(error)
    assert raised.value.args == error.args
    assert str(raised.value) == str(error)


def test_the_extra_specs_of_operators(caller):
    flavors = {'small': {'vcpus': 1, 'ram': 1, 'extra_specs': {'capabilities:host': 'a'}}}
    for ask in (
        caller.create,
        caller.validate,
        lambda template, **given: caller.update(GROUP, template, **given),
    ):
        assert ask(TEMPLATE, flavors=flavors)
        with pytest.raises(errors.TemplateError, match='is for operators'):
            ask(TEMPLATE, flavors=flavors, operator_specs=False)
        with pytest.raises(errors.InvalidRequest, match='operator_specs'):
            ask(TEMPLATE, flavors=flavors, operator_specs='no')


def test_arguments_that_are_not_known(caller):
    target = messaging.Target(
        exchange=rpc.EXCHANGE, topic=rpc.TOPIC, namespace='groups', version='1.0'
    )
    raw = messaging.get_rpc_client(caller._client.transport, target, timeout=60)
    with pytest.raises(errors.InvalidRequest, match="unexpected keyword argument 'colour'"):
        raw.call({}, 'show', uuid=GROUP, colour='red')


def test_what_reads_or_plans_is_not_delivered_again():
    """A template that ends a scheduler would end the next one, too."""
    marked = {
        name for name in dir(GroupsEndpoint) if getattr(getattr(GroupsEndpoint, name), 'once', 0)
    }
    assert marked == {'create', 'update', 'plan', 'validate'}

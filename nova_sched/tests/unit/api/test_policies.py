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
"""The permissions: the defaults, role by role, and an operator's own rules."""

import pytest
import yaml
from werkzeug.test import Client

from nova_sched import errors
from nova_sched.api import policies
from nova_sched.api.document import OPERATIONS
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.api.backend import PLAN, TEMPLATE, Manager
from nova_sched.tests.unit.api.callers import rest

APP = f'/v1/groups/{uuid_of("app")}'
BODY = {'json': {'template': TEMPLATE}}
FIRST = f'/v1/rebalances/{uuid_of("first")}'
RANKING = {
    'spec': {
        'nova_object.name': 'RequestSpec',
        'nova_object.namespace': 'nova',
        'nova_object.version': '1.15',
        'nova_object.data': {},
    },
    'hosts': [],
}
# What deletes something comes after what reads it: a caller makes all of them, one after another.
REQUESTS = {
    'create': ('POST', '/v1/groups', BODY),
    'validate': ('POST', '/v1/groups/validate', BODY),
    'list': ('GET', '/v1/groups', {}),
    'list all': ('GET', '/v1/groups?all_projects=true', {}),
    'list red': ('GET', '/v1/groups?project_id=red', {}),
    'show': ('GET', APP, {}),
    'plan': ('GET', f'{APP}/plan', {}),
    'update': ('PUT', APP, BODY),
    'replan': ('POST', f'{APP}/plan', {}),
    'renew': ('POST', f'{APP}/renew', {}),
    'delete': ('DELETE', APP, {}),
    'list flavors': ('GET', '/v1/flavors', {}),
    'show flavor': ('GET', '/v1/flavors/tiny', {}),
    'list queues': ('GET', '/v1/queues', {}),
    'create flavor': (
        'POST',
        '/v1/flavors',
        {'json': {'name': 'new', 'vcpus': 1, 'memory_mb': 1}},
    ),
    'delete flavor': ('DELETE', '/v1/flavors/tiny', {}),
    'rank hosts': ('POST', '/v1/external-scheduler', {'json': RANKING}),
    'plan moves': ('POST', '/v1/rebalance/plan', {'json': {'goal': 'empty'}}),
    'list rebalances': ('GET', '/v1/rebalances', {}),
    'show rebalance': ('GET', FIRST, {}),
    'run rebalance': ('POST', '/v1/rebalances', {'json': PLAN}),
    'stop rebalance': ('POST', f'{FIRST}/stop', {}),
}
READ = dict.fromkeys(['validate', 'list', 'show', 'plan'], 200)
CHANGE = {'update': 200, 'replan': 200, 'renew': 200, 'delete': 204}
ALL = {'list all': 200, 'list red': 200}
LOOK = dict.fromkeys(['list flavors', 'show flavor'], 200)
MOVES = dict.fromkeys(['plan moves', 'list rebalances', 'show rebalance'], 200)
WATCH = {**LOOK, **MOVES, 'list queues': 200, 'rank hosts': 200}
FLAVORS = {**WATCH, 'create flavor': 201, 'delete flavor': 204}
OPERATE = {**FLAVORS, 'run rebalance': 201, 'stop rebalance': 200}
NOT_THERE = dict.fromkeys(['show', 'plan', *CHANGE], 404)
# Project, roles and scope of each caller, and what it gets of group app, which is of project red;
# else 403.
CALLERS = {
    'member': (
        'red',
        'member,reader',
        None,
        {**READ, **CHANGE, **LOOK, 'create': 201, 'list red': 200},
    ),
    'reader': ('red', 'reader', None, {**READ, **LOOK, 'list red': 200}),
    'nobody': ('red', '', None, NOT_THERE),
    'stranger': ('blue', 'member,reader', None, {**READ, **NOT_THERE, **LOOK, 'create': 201}),
    'admin': (
        'operators',
        'admin,member,reader',
        None,
        {**READ, **CHANGE, **ALL, **OPERATE, 'create': 201},
    ),
    'system reader': (None, 'reader', 'all', {**READ, **ALL, **WATCH}),
    'system admin': (None, 'admin,member,reader', 'all', {**READ, **CHANGE, **ALL, **OPERATE}),
}


def headers(project, roles, scope=None):
    found = {'X-Auth-Token': f'ann:{project}', 'X-Roles': roles, 'If-Match': '*'}
    return {**found, 'OpenStack-System-Scope': scope} if scope else found


@pytest.mark.parametrize('caller', CALLERS)
def test_the_defaults(http, backend, manager, caller):
    project, roles, scope, allowed = CALLERS[caller]
    statuses, asked = {}, {}
    for name, (method, path, words) in REQUESTS.items():
        backend.calls.clear()
        manager.calls.clear()
        answer = http.open(path, method=method, headers=headers(project, roles, scope), **words)
        statuses[name] = answer.status_code
        asked[name] = {call for call, _ in backend.calls} - {'show'}, [*manager.calls]
    assert statuses == {name: allowed.get(name, 403) for name in REQUESTS}
    refused = [name for name, status in statuses.items() if status >= 400]
    assert {name: asked[name] for name in refused} == {name: (set(), []) for name in refused}


@pytest.mark.parametrize(
    'caller, seen',
    [
        pytest.param(headers('red', 'member,reader'), None, id='a project'),
        pytest.param(headers('x', 'admin'), 'host-1', id='an operator'),
        pytest.param(headers('', 'reader', 'all'), 'host-1', id='one who looks at the system'),
    ],
)
def test_who_sees_hosts(http, caller, seen):
    for path in (APP, f'{APP}/plan'):
        assert http.get(path, headers=caller).json['members'][0]['host'] == seen


def test_a_system_reader_without_a_project_lists_all(http, backend):
    answer = http.get('/v1/groups', headers=headers('', 'reader', 'all'))
    assert len(answer.json['groups']) == 3
    assert backend.calls == [('list', {'limit': 4})]


@pytest.mark.parametrize(
    'rules, method, path, status',
    [
        pytest.param({'delete': 'user_id:%(user_id)s'}, 'DELETE', APP, 403, id="another's group"),
        pytest.param(
            {'delete': 'user_id:%(user_id)s'}, 'GET', APP, 200, id='other rules are as they were'
        ),
        pytest.param({'show': '!'}, 'GET', APP, 404, id='not shown'),
        pytest.param({'list': '!'}, 'GET', '/v1/groups', 403, id='not listed'),
        pytest.param(
            {'list:all_projects': '@'},
            'GET',
            '/v1/groups?all_projects=1',
            400,
            id='sense comes first',
        ),
        pytest.param(
            {'list:all_projects': '@'},
            'GET',
            '/v1/groups?all_projects=true',
            200,
            id='all for all',
        ),
    ],
)
def test_an_operator_has_the_last_word(conf, backend, tmp_path, rules, method, path, status):
    file = tmp_path / 'policy.yaml'
    file.write_text(
        yaml.safe_dump({f'nova_sched:groups:{name}': rule for name, rule in rules.items()})
    )
    conf.set_override('policy_file', str(file), group='oslo_policy')
    made = rest(conf, backend, Manager())
    caller = {'X-Auth-Token': 'bob:red', 'X-Roles': 'member,reader'}
    assert Client(made).open(path, method=method, headers=caller).status_code == status


def test_hosts_may_be_shown_to_projects(conf, backend, tmp_path):
    file = tmp_path / 'policy.yaml'
    file.write_text('"nova_sched:groups:show:hosts": "rule:project_reader_or_admin"')
    conf.set_override('policy_file', str(file), group='oslo_policy')
    made = rest(conf, backend, Manager())
    (told,) = Client(made).get(APP, headers=headers('red', 'reader')).json['members']
    assert (told['host'], told['domains']) == ('host-1', {'host': 'host-1', 'rack': 'rack-1'})


@pytest.mark.parametrize(
    'caller, rules, levels',
    [
        pytest.param(headers('red', 'member,reader'), {}, [], id='a member'),
        pytest.param(
            headers('red', 'member,reader'), {'exclusive:host': '@'}, ['host'], id='allowed hosts'
        ),
        pytest.param(headers('x', 'admin'), {}, None, id='an operator'),
        pytest.param(
            headers('red', 'member,reader'), {'exclusive:domain': '@'}, None, id='all levels'
        ),
    ],
)
def test_who_may_close_domains(conf, backend, tmp_path, caller, rules, levels):
    file = tmp_path / 'policy.yaml'
    file.write_text(
        '\n'.join(f'"nova_sched:groups:{name}": "{rule}"' for name, rule in rules.items())
    )
    conf.set_override('policy_file', str(file), group='oslo_policy')
    http = Client(rest(conf, backend, Manager()))
    for method, path in (('POST', '/v1/groups'), ('PUT', APP)):
        answer = http.open(
            path, method=method, json={'template': {'resources': {}}}, headers=caller
        )
        assert answer.status_code < 300
        assert backend.levels == levels


@pytest.mark.parametrize(
    'rule, body, status, renews',
    [
        pytest.param('@', {}, 200, True, id='an update renews'),
        pytest.param('@', {'ttl': 60}, 200, True, id='for some time'),
        pytest.param('!', {}, 200, False, id='an update keeps the expiry'),
        pytest.param('!', {'ttl': 60}, 403, None, id='a time is a renewal'),
    ],
)
def test_who_may_renew_by_an_update(conf, backend, tmp_path, rule, body, status, renews):
    file = tmp_path / 'policy.yaml'
    file.write_text(f'"nova_sched:groups:renew": "{rule}"')
    conf.set_override('policy_file', str(file), group='oslo_policy')
    http = Client(rest(conf, backend, Manager()))
    sent = {'template': {'resources': {}}, **body}
    answer = http.put(APP, json=sent, headers=headers('red', 'member,reader'))
    assert (answer.status_code, backend.renews) == (status, renews)


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('a: [', id='no YAML'),
        pytest.param('"nova_sched:groups:show": "rule:nobody"', id='a rule that is not there'),
    ],
)
def test_a_policy_file_that_makes_no_sense(conf, backend, tmp_path, text):
    file = tmp_path / 'policy.yaml'
    file.write_text(text)
    conf.set_override('policy_file', str(file), group='oslo_policy')
    with pytest.raises(errors.BadConfig, match='policy_file'):
        rest(conf, backend, Manager())


def is_page(rule):
    return rule.name.startswith('nova_sched:dashboard:')


def test_every_operation_with_a_token_has_a_rule():
    """And the rules name the addresses that there are."""
    rules = [rule for rule in policies.list_rules()[len(policies.ROLES) :] if not is_page(rule)]
    named = {(one['method'], one['path']) for rule in rules for one in rule.operations}
    asked = {(one.method.upper(), one.path) for one in OPERATIONS.values() if not one.is_open}
    assert named == asked


def test_a_rule_is_documented():
    rules = policies.list_rules()
    assert [rule.name for rule in rules if not rule.description.endswith('.')] == []
    rules = rules[len(policies.ROLES) :]
    assert [rule.name for rule in rules if not rule.scope_types] == []

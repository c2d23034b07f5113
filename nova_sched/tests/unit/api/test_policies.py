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
from nova_sched.tests.rows import each
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
FLAVOR = {'name': 'new', 'vcpus': 1, 'memory_mb': 1}
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
    'create flavor': ('POST', '/v1/flavors', {'json': FLAVOR}),
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
    'member': ('red', 'member,reader', None,
               {**READ, **CHANGE, **LOOK, 'create': 201, 'list red': 200}),
    'reader': ('red', 'reader', None, {**READ, **LOOK, 'list red': 200}),
    'nobody': ('red', '', None, NOT_THERE),
    'stranger': ('blue', 'member,reader', None, {**READ, **NOT_THERE, **LOOK, 'create': 201}),
    'admin': ('operators', 'admin,member,reader', None,
              {**READ, **CHANGE, **ALL, **OPERATE, 'create': 201}),
    'system reader': (None, 'reader', 'all', {**READ, **ALL, **WATCH}),
    'system admin': (None, 'admin,member,reader', 'all', {**READ, **CHANGE, **ALL, **OPERATE}),
}  # fmt: skip


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


@each(
    'caller, seen',
    [
        (headers('red', 'member,reader'), None),
        (headers('x', 'admin'), 'host-1'),
        (headers('', 'reader', 'all'), 'host-1'),
    ],
)
def test_who_sees_hosts(http, caller, seen):
    for path in (APP, f'{APP}/plan'):
        assert http.get(path, headers=caller).json['members'][0]['host'] == seen


def test_a_system_reader_without_a_project_lists_all(http, backend):
    answer = http.get('/v1/groups', headers=headers('', 'reader', 'all'))
    assert len(answer.json['groups']) == 3
    assert backend.calls == [('list', {'limit': 4})]


@pytest.fixture
def ruled(conf, backend, tmp_path):
    """``ruled({'groups:delete': '!'})`` is a client of the API with these rules."""

    def client(rules):
        file = tmp_path / 'policy.yaml'
        file.write_text(
            rules
            if isinstance(rules, str)
            else yaml.safe_dump({f'nova_sched:{name}': rule for name, rule in rules.items()})
        )
        conf.set_override('policy_file', str(file), group='oslo_policy')
        return Client(rest(conf, backend, Manager()))

    return client


@pytest.mark.parametrize(
    'rules, method, path, status',
    [
        ({'groups:delete': 'user_id:%(user_id)s'}, 'DELETE', APP, 403),
        ({'groups:delete': 'user_id:%(user_id)s'}, 'GET', APP, 200),
        ({'groups:show': '!'}, 'GET', APP, 404),
        ({'groups:list': '!'}, 'GET', '/v1/groups', 403),
        ({'groups:list:all_projects': '@'}, 'GET', '/v1/groups?all_projects=1', 400),
        ({'groups:list:all_projects': '@'}, 'GET', '/v1/groups?all_projects=true', 200),
    ],
)
def test_an_operator_has_the_last_word(ruled, rules, method, path, status):
    caller = {'X-Auth-Token': 'bob:red', 'X-Roles': 'member,reader'}
    assert ruled(rules).open(path, method=method, headers=caller).status_code == status


def test_hosts_may_be_shown_to_projects(ruled):
    http = ruled({'groups:show:hosts': 'rule:project_reader_or_admin'})
    (shown,) = http.get(APP, headers=headers('red', 'reader')).json['members']
    assert (shown['host'], shown['domains']) == ('host-1', {'host': 'host-1', 'rack': 'rack-1'})


MEMBER = headers('red', 'member,reader')


@pytest.mark.parametrize(
    'caller, rules, levels',
    [
        (MEMBER, {}, []),
        (MEMBER, {'groups:exclusive:host': '@'}, ['host']),
        (MEMBER, {'groups:exclusive:domain': '@'}, None),
        (headers('x', 'admin'), {}, None),
    ],
)
def test_who_may_close_domains(ruled, backend, caller, rules, levels):
    http = ruled(rules)
    for method, path in (('POST', '/v1/groups'), ('PUT', APP)):
        answer = http.open(
            path, method=method, json={'template': {'resources': {}}}, headers=caller
        )
        assert answer.status_code < 300
        assert backend.levels == levels


@pytest.mark.parametrize(
    'caller, rule, is_allowed',
    [
        pytest.param(headers('red', 'member,reader'), 'rule:admin', False, id='a member'),
        pytest.param(headers('x', 'admin'), 'rule:admin', True, id='an operator'),
        pytest.param(headers('red', 'member,reader'), '@', True, id='a member who is allowed'),
    ],
)
def test_who_may_write_the_extra_specs_of_operators(
    conf, backend, tmp_path, caller, rule, is_allowed
):
    file = tmp_path / 'policy.yaml'
    file.write_text(f'"nova_sched:groups:operator_specs": "{rule}"')
    conf.set_override('policy_file', str(file), group='oslo_policy')
    http = Client(rest(conf, backend, Manager()))
    for method, path in (('POST', '/v1/groups'), ('POST', '/v1/groups/validate'), ('PUT', APP)):
        backend.operator_specs = None
        answer = http.open(
            path, method=method, json={'template': {'resources': {}}}, headers=caller
        )
        assert answer.status_code < 300
        assert backend.operator_specs is is_allowed


@pytest.mark.parametrize(
    'rule, body, status, renews',
    [
        ('@', {}, 200, True),
        ('@', {'ttl': 60}, 200, True),
        ('!', {}, 200, False),  # an update keeps the expiry
        ('!', {'ttl': 60}, 403, None),  # a time is a renewal
    ],
)
def test_who_may_renew_by_an_update(ruled, backend, rule, body, status, renews):
    sent = {'template': {'resources': {}}, **body}
    answer = ruled({'groups:renew': rule}).put(APP, json=sent, headers=MEMBER)
    assert (answer.status_code, backend.renews) == (status, renews)


@pytest.mark.parametrize('text', ['a: [', '"nova_sched:groups:show": "rule:nobody"'])
def test_a_policy_file_that_makes_no_sense(ruled, text):
    with pytest.raises(errors.BadConfig, match='policy_file'):
        ruled(text)


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

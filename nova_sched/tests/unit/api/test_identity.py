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
"""The caller: what noauth believes, and what Keystone's middleware says."""

import uuid

import pytest
from keystoneauth1 import fixture as tokens
from keystoneauth1 import loading
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_utils import timeutils
from werkzeug.test import Client

from nova_sched import errors
from nova_sched.api import identity, limits
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import Manager
from nova_sched.tests.unit.api.callers import configuration, rest

OPEN = [
    '/',
    '/v1',
    '/v1/',
    '/v1/openapi.json',
    '/v1/schema',
    '/healthcheck',
    '/healthcheck/live',
    '/healthcheck/ready',
]


# Headers, and the user, the project and the roles of the caller.
BELIEVED = {
    'user and project': ({'X-Auth-Token': 'ann:red'}, 'ann', 'red', ['member', 'reader']),
    'a user alone': ({'X-Auth-Token': 'ann'}, 'ann', 'ann', ['member', 'reader']),
    'a project alone': ({'X-Project-Id': 'red'}, 'red', 'red', ['member', 'reader']),
    'both': (
        {'X-Auth-Token': 'ann:red', 'X-Project-Id': 'blue'},
        'ann',
        'blue',
        ['member', 'reader'],
    ),
    'an operator': ({'X-Auth-Token': 'admin:red'}, 'admin', 'red', ['admin', 'member', 'reader']),
    'roles': ({'X-Auth-Token': 'a:red', 'X-Roles': 'reader'}, 'a', 'red', ['reader']),
}


def test_noauth_believes(http, backend):
    found, expected = {}, {}
    for name, (headers, *caller) in BELIEVED.items():
        backend.contexts.clear()
        assert http.get('/v1/groups', headers=headers).status_code == 200
        (context,) = backend.contexts
        found[name] = [context.user_id, context.project_id, context.roles]
        expected[name] = caller
    assert found == expected


def test_noauth_wants_a_name(http):
    for path in ('/v1/groups', f'/v1/groups/{uuid_of("app")}', '/v1/groups/validate', '/v2'):
        answer = http.get(path)
        (told,) = answer.json['errors']
        assert (answer.status_code, told['code']) == (401, 'nova_sched.unauthorized'), path
        assert 'X-Auth-Token' in told['detail']
        assert answer.headers['WWW-Authenticate']


@pytest.mark.parametrize('auth_strategy', ['noauth', 'keystone'])
def test_no_token_is_needed(backend, auth_strategy):
    made = Client(
        rest(with_keystone(configuration(auth_strategy=auth_strategy)), backend, Manager())
    )
    assert {path: made.get(path).status_code for path in OPEN} == dict.fromkeys(OPEN, 200)


# Keystone.


def with_keystone(conf, **values):
    """The configuration with a Keystone address where no process listens."""
    from keystonemiddleware.auth_token import (
        _opts,
    )  # its options, which it registers only when it is made

    for group, options in _opts.list_opts():
        conf.register_opts(options, group=group)
    known = {'auth_type': 'none', 'www_authenticate_uri': 'http://keystone.example.org'}
    for name, value in {**known, **values}.items():
        conf.set_override(name, value, group='keystone_authtoken')
    return conf


@pytest.fixture
def keystone():
    fixture = AuthTokenFixture()
    fixture.setUp()
    yield fixture
    fixture.cleanUp()


@pytest.fixture
def guarded(backend):
    return Client(rest(with_keystone(configuration(auth_strategy='keystone')), backend, Manager()))


def test_a_token_of_keystone(guarded, keystone, backend):
    keystone.add_token_data(
        'good', user_id='ann', project_id='red', role_list=['member', 'reader']
    )
    answer = guarded.get('/v1/groups', headers={'X-Auth-Token': 'good'})
    assert [one['name'] for one in answer.json['groups']] == ['app', 'db']
    (context,) = backend.contexts
    assert (context.user_id, context.project_id, context.roles) == (
        'ann',
        'red',
        ['member', 'reader'],
    )


def test_a_token_for_the_system(guarded, keystone):
    token = tokens.V3Token(user_id='root')
    token.set_system_scope()
    token.add_role(name='reader')
    keystone.add_token(token, 'system')
    answer = guarded.get('/v1/groups', headers={'X-Auth-Token': 'system'})
    assert len(answer.json['groups']) == 3


CONFIRMED = {'X-Roles': 'admin', 'X-Identity-Status': 'Confirmed'}


@each(
    'headers',
    [
        {},
        {'X-Auth-Token': uuid.uuid4().hex},
        {'X-Auth-Token': 'old'},
        {'X-Project-Id': 'red', 'X-User-Id': 'ann', **CONFIRMED},  # as the middleware says it
    ],
)
def test_a_token_that_is_no_good(guarded, keystone, headers):
    yesterday = timeutils.utcnow().replace(year=2020)
    keystone.add_token_data(
        'old', expires=yesterday, user_id='ann', project_id='red', role_list=['member']
    )
    answer = guarded.get('/v1/groups', headers=headers)
    (told,) = answer.json['errors']
    assert (answer.status_code, told['status']) == (401, 401)
    assert told['code'] == 'nova_sched.unauthorized'
    assert told['request_id'] == answer.headers['X-Openstack-Request-Id']
    assert answer.headers.getlist('WWW-Authenticate') == [
        'Keystone uri="http://keystone.example.org"'
    ]


def test_headers_that_the_caller_made_up_do_not_count(guarded, keystone, backend):
    keystone.add_token_data('good', user_id='ann', project_id='red', role_list=['reader'])
    made_up = {'X-Roles': 'admin', 'X-Project-Id': 'blue', 'OpenStack-System-Scope': 'all'}
    # Older names, which oslo.context reads too.
    made_up |= {'X-Role': 'admin', 'X-Tenant-Id': 'blue', 'X-Tenant': 'blue', 'X-User': 'bob'}
    made_up |= {'X-Domain-Id': 'blue', 'X-Service-Roles': 'admin', 'X-Is-Admin-Project': 'True'}
    answer = guarded.get('/v1/groups', headers={'X-Auth-Token': 'good', **made_up})
    assert [one['name'] for one in answer.json['groups']] == ['app', 'db']
    (context, *_) = backend.contexts
    found = context.roles, context.user_id, context.project_id, context.service_roles
    assert found == (['reader'], 'ann', 'red', [])
    assert (context.system_scope, context.domain_id) == (None, None)


def test_keystone_is_away(backend):
    """No process listens there; the fixture, which would answer, is not used."""
    conf = configuration(auth_strategy='keystone')
    conf.register_opts(
        loading.get_auth_plugin_conf_options('password'), group='keystone_authtoken'
    )
    with_keystone(
        conf, auth_type='password', auth_url='http://127.0.0.1:1', http_request_max_retries=0
    )
    answer = Client(rest(conf, backend, Manager())).get(
        '/v1/groups', headers={'X-Auth-Token': 'any'}
    )
    (told,) = answer.json['errors']
    assert (answer.status_code, told['code']) == (503, 'nova_sched.service-unavailable')
    assert answer.headers['Retry-After'] == '10'


@each(
    'auth_type, why',
    [(None, 'noauth'), ('magic', 'magic'), ('password', 'auth')],  # password lacks its options
)
def test_a_keystone_that_cannot_be_asked(backend, auth_type, why):
    conf = with_keystone(configuration(auth_strategy='keystone'), auth_type=auth_type)
    with pytest.raises(errors.BadConfig, match=why):
        rest(conf, backend, Manager())


def test_only_so_many_requests_wait_for_keystone(backend, monkeypatch):
    """And none of them waits for an answer of the API."""
    monkeypatch.setattr(limits, 'PLACE_S', 0.0)
    conf = with_keystone(configuration(auth_strategy='keystone', threads=2))
    made = limits.Limits(conf)
    http = Client(rest(conf, backend, Manager(), limits=made))
    with made.keystone.place():
        answer = http.get('/v1/groups', headers={'X-Auth-Token': 'any'})
        assert (answer.status_code, answer.headers['Retry-After']) == (503, '1')
        assert answer.json['errors'][0]['code'] == 'nova_sched.busy'
        assert http.get('/v1').status_code == 200


@pytest.mark.parametrize('values, wait_s', [({}, 5), ({'http_connect_timeout': 3}, 3)])
def test_an_answer_of_keystone_has_a_time(values, wait_s):
    conf = with_keystone(configuration(auth_strategy='keystone'), **values)
    made = identity.KeystoneAuth(None, conf, None)
    assert made._middleware._conf.get('http_connect_timeout') == wait_s

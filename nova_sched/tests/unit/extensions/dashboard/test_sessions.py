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

"""Logging in, by Keystone and without authentication, and what a token is worth."""

import http.server
import json
import threading

import pytest
from keystoneauth1 import fixture as tokens
from keystonemiddleware.fixture import AuthTokenFixture
from werkzeug import exceptions
from werkzeug.test import create_environ

from nova_sched.api import limits
from nova_sched.api.limits import Limits
from nova_sched.extensions.dashboard import conf as dashboard_options
from nova_sched.extensions.dashboard import sessions
from nova_sched.extensions.dashboard.sessions import Authenticator
from nova_sched.tests.fixtures.web import serving
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import configuration
from nova_sched.tests.unit.api.test_identity import with_keystone

FORM = {'user': 'ann', 'password': 'secret', 'project': 'red'}


def made(auth_strategy='noauth', url=None):
    conf = configuration(auth_strategy=auth_strategy)
    dashboard_options.register_opts(conf)
    if auth_strategy == 'keystone':
        with_keystone(conf, www_authenticate_uri=url)
    return Authenticator(conf, Limits(conf).keystone)


@each('form', [{}, {'user': 'ann'}, {'project': 'red'}, {'user': 'a:b', 'project': 'red'}])
def test_names_that_are_missing(form):
    with pytest.raises(exceptions.Unauthorized):
        made().log_in(form)


def test_headers_of_a_request_are_not_believed():
    guard = made()
    token = guard.log_in(FORM)
    environ = create_environ('/', headers={'X-Roles': 'admin', 'X-Project-Id': 'blue'})
    context = guard.context(token, environ)
    assert (context.user_id, context.project_id) == ('ann', 'red')
    assert 'admin' not in context.roles


# Keystone.


class Keystone(http.server.BaseHTTPRequestHandler):
    """Knows one password. ``asked`` are the bodies of requests for a token, ``revoked`` the paths
    and tokens of those that end one."""

    asked: list = []
    revoked: list = []
    revoking = 204

    def do_GET(self):
        self._answer(200, tokens.V3Discovery(f'http://{self.headers["Host"]}/'), 'version')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['auth']
        self.asked.append(body)
        good = body['identity']['password']['user']['password'] == 'secret'
        self._answer(201 if good else 401, tokens.V3Token() if good else {'error': {}})

    def do_DELETE(self):
        names = 'X-Auth-Token', 'X-Subject-Token'
        self.revoked.append((self.path, *(self.headers[name] for name in names)))
        self.send_response(self.revoking)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def _answer(self, status, found, key=None):
        data = json.dumps({key: found} if key else found).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.send_header('X-Subject-Token', 'its token')
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """No test reads it."""


@pytest.fixture
def url():
    Keystone.asked.clear()
    Keystone.revoked.clear()
    with serving(Keystone) as found:
        yield found


@pytest.mark.parametrize(
    'project, scope',
    [
        ('red', {'project': {'name': 'red', 'domain': {'name': 'Default'}}}),
        ('', {'system': {'all': True}}),
    ],
    ids=['project', 'system'],
)
def test_a_token_for_a_scope(url, project, scope):
    assert made('keystone', url).log_in({**FORM, 'project': project}) == 'its token'
    (asked,) = Keystone.asked
    assert asked['scope'] == scope


def test_keystone_is_not_asked_without_a_name(url):
    with pytest.raises(exceptions.Unauthorized, match='name of a user'):
        made('keystone', url).log_in({**FORM, 'user': ' '})
    assert Keystone.asked == []


def test_a_wrong_password(url):
    with pytest.raises(exceptions.Unauthorized, match='wrong'):
        made('keystone', url).log_in({**FORM, 'password': 'other'})


@pytest.mark.parametrize('address', ['http://127.0.0.1:9', None], ids=['silent', 'not known'])
def test_no_keystone(address, caplog):
    """Nobody logs in, and everybody logs out."""
    with pytest.raises(exceptions.ServiceUnavailable):
        made('keystone', address).log_in(FORM)
    made('keystone', address).log_out('its token')
    assert 'does not revoke' in caplog.text


def test_a_keystone_that_does_not_answer(url, monkeypatch):
    told = threading.Event()
    monkeypatch.setattr(Keystone, 'do_POST', lambda handler: told.wait(60))
    monkeypatch.setattr(sessions, 'TIMEOUT_S', 0.05)
    try:
        with pytest.raises(exceptions.ServiceUnavailable):
            made('keystone', url).log_in(FORM)
    finally:
        told.set()


@each('status, is_told', [(204, False), (404, True), (500, True)])
def test_a_token_is_revoked(url, monkeypatch, caplog, status, is_told):
    monkeypatch.setattr(Keystone, 'revoking', status)
    caplog.clear()
    made('keystone', url).log_out('its token')
    assert Keystone.revoked[-1] == ('/auth/tokens', 'its token', 'its token')
    assert ('does not revoke' in caplog.text) is is_told


def test_without_keystone_nothing_is_revoked(url):
    made().log_out('its token')
    made().log_out(None)
    made('keystone', url).log_out(None)
    assert Keystone.revoked == []


def test_a_caller_logs_out_while_too_many_wait_for_keystone(url, monkeypatch, caplog):
    monkeypatch.setattr(limits, 'PLACE_S', 0.0)
    guard = made('keystone', url)
    monkeypatch.setattr(guard._keystone, '_places', threading.Semaphore(0))
    guard.log_out('its token')
    assert Keystone.revoked == []
    assert 'does not revoke' in caplog.text


def test_what_a_token_is_worth():
    keystone = AuthTokenFixture()
    keystone.setUp()
    try:
        keystone.add_token_data('good', user_id='ann', project_id='red', role_list=['reader'])
        guard = made('keystone', 'http://keystone.example.org')
        context = guard.context('good', create_environ('/'))
        assert (context.user_id, context.project_id, context.roles) == ('ann', 'red', ['reader'])
        assert guard.context('bad', create_environ('/')) is None
    finally:
        keystone.cleanUp()

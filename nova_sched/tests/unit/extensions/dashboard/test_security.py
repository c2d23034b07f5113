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

"""Addresses to which a login may lead, and callers that are heard without authentication."""

import flask
import pytest
from werkzeug import exceptions

from nova_sched.extensions.dashboard import security
from nova_sched.extensions.dashboard.security import POLICY, local_path

# Whether a path is one of this server.
PATHS = {
    '/dashboard/cluster?host=a': True,
    '': False,
    None: False,
    '//evil.example/x': False,
    'https://evil.example': False,
    '/\\evil.example': False,
    'javascript:alert(1)': False,
    '/\t/evil.example': False,
    '/a\r\nX: y': False,
    '//[': False,
    'http://[': False,
}


def test_a_path():
    found = {path: local_path(path) for path in PATHS}
    assert found == {path: path if is_local else None for path, is_local in PATHS.items()}


def test_nothing_inline():
    assert 'unsafe' not in POLICY
    assert "default-src 'none'" in POLICY


@pytest.mark.parametrize(
    'host, caller, is_heard',
    [
        ('localhost:8779', '127.0.0.1', True),
        ('127.0.0.1', None, True),
        ('[::1]:8779', '::1', True),
        ('localhost', '192.0.2.7', False),
        ('localhost', '192.0.2.7, 127.0.0.1', False),
        ('evil.example', '127.0.0.1', False),
        ('[', '127.0.0.1', False),
    ],
)
def test_a_caller_without_authentication(host, caller, is_heard):
    environ = {'HTTP_HOST': host, **({'REMOTE_ADDR': caller} if caller else {})}
    with flask.Flask('test').test_request_context('/', environ_overrides=environ):
        if is_heard:
            security.check_host()
        else:
            with pytest.raises(exceptions.Forbidden):
                security.check_host()


@pytest.mark.parametrize('origin', ['null', 'http://[', 'http://evil.example', 'x'])
def test_a_form_of_another_site(origin):
    headers = {'Origin': origin}
    page = flask.Flask('test').test_request_context('/', method='POST', headers=headers)
    with page, pytest.raises(exceptions.Forbidden, match='another site'):
        security.check_token()


@pytest.mark.parametrize('sent', ['', '-', 'x'])
def test_a_form_without_a_session(sent):
    app = flask.Flask('test')
    app.secret_key = 'x'
    page = app.test_request_context('/', method='POST', data={'csrf_token': sent})
    with page, pytest.raises(exceptions.Forbidden, match='another session'):
        security.check_token()

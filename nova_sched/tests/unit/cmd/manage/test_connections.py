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
"""`config check --connect` on doubles of Keystone and of the clocks; the servers are in
integration.test_mistakes."""

import http.server
import json
import threading
import time

import pytest

from nova_sched import errors
from nova_sched.cmd.manage import config, connections
from nova_sched.conf import CONF

ACCOUNT = """
auth_type = v3password
username = nova
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


class Keystone(http.server.BaseHTTPRequestHandler):
    """Answers each request for a token with the status of its server."""

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        body = json.dumps({'token': {'methods': [], 'expires_at': '2100-01-01T00:00:00Z'}})
        self.send_response(self.server.status)
        self.send_header('X-Subject-Token', 'a token')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def keystone():
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Keystone)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def file(tmp_path):
    """The empty file of the database."""
    made = tmp_path / 'x.sqlite'
    made.touch()
    return made


@pytest.fixture
def read(tmp_path):
    def parse(text):
        file = tmp_path / 'one.conf'
        base = f'[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = sqlite:///{tmp_path}/x.sqlite\n'
        file.write_text(base + text)
        CONF(['--config-file', str(file)], project='nova_sched', default_config_dirs=[])
        return CONF

    yield parse
    CONF.reset()


def test_a_check_makes_no_file(read, tmp_path):
    assert connections.everything(read('')) == ([], [])
    assert not (tmp_path / 'x.sqlite').exists()


def test_without_other_services_only_the_database_is_tried(read, file):
    assert connections.everything(read('')) == ([], ['database'])


@pytest.mark.parametrize(
    'status, problem',
    [
        pytest.param(201, None, id='accepted'),
        pytest.param(401, 'Keystone refuses the account', id='a wrong password'),
        pytest.param(404, 'Keystone refuses the account', id='a wrong address'),
        pytest.param(503, 'Keystone does not answer', id='away'),
    ],
)
@pytest.mark.parametrize(
    'group, name, more',
    [
        ('keystone_authtoken', 'Keystone', ''),
        ('oslo_limit', 'unified limits', '[quota]\ndriver = keystone\n'),
    ],
)
def test_keystone(read, keystone, status, problem, group, name, more):
    keystone.status = status
    url = f'auth_url = http://127.0.0.1:{keystone.server_port}/v3\n'
    found, reached = connections.everything(read(f'{more}[{group}]{ACCOUNT}{url}'))
    assert (name in reached) == (problem is None)
    assert [one.where for one in found] == ([f'[{group}]'] if problem else [])
    assert all(one.problem.startswith(problem) for one in found)
    assert 'secret' not in str(found)


@pytest.mark.parametrize(
    'error, is_told',
    [
        pytest.param('SSL error: certificate verify failed', True, id='another authority'),
        pytest.param('could not open certificate file "x": denied', True, id='an unreadable file'),
        pytest.param('Connection refused', False, id='another error'),
    ],
)
def test_the_advice_for_certificates(error, is_told):
    refused = errors.StoreUnavailable(error)
    assert ('certificate authority' in (config.certificate_advice(refused) or '')) == is_told


@pytest.mark.parametrize('ahead_s, words', [(3600, '3600 s ahead of'), (-3600, '3600 s behind')])
def test_another_clock(read, file, monkeypatch, ahead_s, words):
    monkeypatch.setattr(connections.clock, 'read', lambda _: time.time() + ahead_s)
    found, reached = connections.everything(read(''))
    assert [one.severity for one in found] == [connections.WARNING]
    assert words in found[0].problem
    assert reached == []


def test_a_bus_that_does_not_answer(read):
    found, _ = connections.everything(read('[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:1/'))
    assert [one.problem.partition(':')[0] for one in found] == ['The broker does not answer']


def test_a_broker_of_queues_that_does_not_answer(read):
    found, _ = connections.everything(read('[queues]\ntransport_url = rabbit://a:b@127.0.0.1:1/'))
    assert [one.where for one in found] == ['[queues] transport_url']


def test_services_are_tried_at_the_same_time_and_listed_in_order(read, monkeypatch):
    meeting = threading.Barrier(len(connections.TRIALS))

    def meet(_):
        meeting.wait(60)  # raises if one is tried after the other
        return []

    for name in connections.TRIALS:
        monkeypatch.setitem(connections.TRIALS, name, meet)
    assert connections.everything(read('')) == ([], list(connections.TRIALS))

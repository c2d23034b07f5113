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
"""nova-sched-api as a process: a scheduler in it, what it says, and how it ends."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.functional.test_agent_daemon import Daemon

WHO, OPERATOR = {'X-Auth-Token': 'ann:red'}, {'X-Auth-Token': 'admin:red'}
READY = re.compile(r'Serving on http://127\.0\.0\.1:(\d+)')
BODY = b'{"template": "no template"}'
HEAD = f"""POST /v1/groups/validate HTTP/1.1\r
Host: x\r
X-Auth-Token: ann:red\r
Content-Type: application/json\r
Content-Length: {len(BODY)}\r
\r
"""
IMPORT = 'from nova_sched.cmd.api_wsgi import application'


class Api(Daemon):
    """The program on a port that is free, with a scheduler and a database of its own."""

    def __init__(self, root, url='fake://'):
        super().__init__(root, url, module='api')
        self._database = f'sqlite:///{root}/db.sqlite'

    def configure(self, *lines):
        head = [
            '[DEFAULT]',
            f'transport_url = {self._url}',
            '[database]',
            f'connection = {self._database}',
        ]
        plain = ['[api]', 'auth_strategy = noauth', 'port = 0', 'shutdown_timeout = 60']
        self.file.write_text('\n'.join([*head, *plain, *lines]))

    @property
    def file(self):
        return self._root / 'agent.conf'

    def port(self):
        """The port, as soon as it serves."""
        self.says('Serving on')
        return int(READY.search(self.log).group(1))


@pytest.fixture
def daemon(tmp_path):
    made = Api(tmp_path)
    yield made
    made.kill()


def ask(port, path, who=WHO):
    """Status and document."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
    connection.request('GET', path, headers=who)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_it_needs_nothing_else(daemon):
    """And a request that has begun before it is told to end gets its answer."""
    daemon.configure()
    daemon.start()
    port = daemon.port()
    assert ask(port, '/v1/groups') == (200, {'groups': [], 'links': []})
    assert ask(port, '/v1/flavors') == (200, {'version': 0, 'flavors': []})
    assert [one['name'] for one in ask(port, '/v1/queues', OPERATOR)[1]['queues']] == [
        'fallback',
        'results',
    ]
    with socket.create_connection(('127.0.0.1', port), timeout=20) as late:
        late.sendall(HEAD.encode() + BODY[:10])
        # Told, and answered, once the others are served: so the half of the late one has been read
        # by then.
        assert ask(port, '/v1')[0] == 200
        daemon.tell(signal.SIGTERM)
        eventually(lambda: _is_closed(port))
        late.sendall(BODY[10:])
        assert late.recv(1000).startswith(b'HTTP/1.1 400')
    assert daemon.status() == 0
    assert 'Stopped' in daemon.log
    assert 'Traceback' not in daemon.log


def test_without_a_database_there_are_no_flavors(daemon):
    """Requests are refused with that reason at once."""
    daemon.configure('[claims]', 'store = memory')
    daemon.start()
    port = daemon.port()
    status, told = ask(port, '/v1/flavors')
    assert (status, told['errors'][0]['code']) == (503, 'nova_sched.unavailable')
    assert ask(port, '/v1/groups')[0] == 200
    assert 'there is no manager of queues' in daemon.log


def _is_closed(port):
    """No process listens any more."""
    try:
        socket.create_connection(('127.0.0.1', port), timeout=20).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    'lines, why',
    [
        pytest.param(['auth_strategy = keystone'], 'auth_type', id='no Keystone'),
        pytest.param(['port = {taken}'], 'in use', id='a port that is taken'),
    ],
)
def test_a_daemon_that_cannot_work_says_why(daemon, lines, why):
    with socket.create_server(('127.0.0.1', 0)) as other:
        daemon.configure(*(line.format(taken=other.getsockname()[1]) for line in lines))
        daemon.start()
        assert daemon.status() == os.EX_CONFIG
    assert why in daemon.log
    assert 'Traceback' not in daemon.log


@pytest.mark.parametrize(
    'url, status, said',
    [
        pytest.param('rabbit://', 0, '200 OK', id='a bus'),
        pytest.param('fake://', 1, 'run nova-sched-api, which includes a scheduler', id='no bus'),
    ],
)
def test_under_another_wsgi_server(tmp_path, url, status, said):
    """Which imports ``application`` and calls it; no bus is needed for that."""
    daemon = Api(tmp_path, url)
    daemon.configure()
    environ = {
        'PATH_INFO': '/v1',
        'REQUEST_METHOD': 'GET',
        'wsgi.url_scheme': 'http',
        'HTTP_HOST': 'x',
    }
    call = f'application({environ}, print)'
    found = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', f'{IMPORT}\n{call}'],
        env={**os.environ, 'OS_NOVA_SCHED_CONFIG_FILES': str(daemon.file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, said in found.stdout + found.stderr) == (status, True), found.stderr

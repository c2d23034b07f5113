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
"""`nova-sched-manage health`."""

import http.server
import json
import threading
import time

import pytest

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd.manage import health as health_verb
from nova_sched.db.schedulers import SchedulerFacts, SqlSchedulers
from nova_sched.tests.builders import report, uuid_of


@pytest.fixture
def heard(database):
    """``heard(host, s)``: a scheduler of this host was heard so many seconds ago."""
    schedulers = SqlSchedulers(database)

    def write(host, ago_s):
        now_s = time.time()
        schedulers.write(
            SchedulerFacts(uuid_of(host), host, 1, now_s - 100, now_s - ago_s, {'placed': 1})
        )

    return write


@pytest.fixture
def health(manage, tmp_path):
    """``health(arguments)``: the exit status, and the parts by name."""

    def run(words='', bus='fake://', more=''):
        config = (
            f'[DEFAULT]\ntransport_url = {bus}\n'
            f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n{more}'
        )
        status, out, _ = manage(f'health check --format json {words}', config=config)
        return status, {one['part']: one for one in json.loads(out)}

    return run


def test_all_is_well(health, heard):
    heard('one', 1)
    status, parts = health()
    assert status == 0
    assert {name: one['healthy'] for name, one in parts.items()} == {
        'schedulers': True,
        'bus': True,
    }
    assert parts['schedulers']['detail'] == '1 scheduler heard within 12 s'


@pytest.mark.parametrize(
    'words, status',
    [
        pytest.param('--host one', 0, id='the host that was heard'),
        pytest.param('--host two', 1, id='a host that was not heard lately'),
        pytest.param('--host three', 1, id='a host that is not known'),
        pytest.param('--host two --within 100', 0, id='a longer time'),
    ],
)
def test_schedulers_of_a_host(health, heard, words, status):
    heard('one', 1)
    heard('two', 30)
    assert health(words)[0] == status


def test_no_scheduler_at_all(health, database):
    status, parts = health()
    assert (status, parts['schedulers']['detail']) == (1, '0 schedulers heard within 12 s')


def test_a_database_that_is_not_there(health):
    status, parts = health()
    assert (status, parts['schedulers']['healthy']) == (1, False)
    assert 'db.sqlite' in parts['schedulers']['detail']


def test_a_bus_that_does_not_answer(health, heard):
    heard('one', 1)
    status, parts = health(bus='rabbit://a:b@127.0.0.1:1/')
    assert (status, parts['bus']['healthy']) == (1, False)
    assert 'The broker does not answer' in parts['bus']['detail']


class Api(http.server.BaseHTTPRequestHandler):
    """Answers as the readiness of the REST API."""

    def do_GET(self):
        reason = self.server.reason if self.path == '/x/healthcheck/ready' else 'wrong path'
        body = self.server.body or json.dumps({'ready': not reason, 'reason': reason})
        self.send_response(503 if reason else 200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def api():
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Api)
    made.reason, made.body = '', None
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    'reason, body, status, detail',
    [
        pytest.param('', None, 0, 'ready', id='ready'),
        pytest.param('no scheduler answers', None, 1, 'no scheduler answers', id='not ready'),
        pytest.param('', 'a page', 1, 'http://127.0.0.1', id='another server'),
    ],
)
def test_the_api(health, heard, api, reason, body, status, detail):
    heard('one', 1)
    api.reason, api.body = reason, body
    found, parts = health(f'--api http://127.0.0.1:{api.server_port}/x/')
    assert found == status
    assert parts['api']['detail'].startswith(detail)


def test_an_api_that_is_not_there(health, heard):
    heard('one', 1)
    status, parts = health('--api http://127.0.0.1:1')
    assert (status, parts['api']['healthy']) == (1, False)


@pytest.mark.parametrize(
    'words, status, detail',
    [
        pytest.param('', 0, '2 of 3 compute nodes heard within 60 s', id='some of them'),
        pytest.param('--nodes 2', 0, '2 of 3 compute nodes heard within 60 s', id='enough'),
        pytest.param('--nodes 3', 1, '2 of 3 compute nodes heard within 60 s', id='too few'),
    ],
)
def test_compute_nodes(health, database, words, status, detail):
    store = SqlClaimStore(database)
    for name, ago_s in (('one', 0), ('two', 30), ('three', 100)):
        store.report([report(name)], store.now_s() - ago_s)
    found, parts = health(f'--part nodes {words}')
    assert (found, list(parts), parts['nodes']['detail']) == (status, ['nodes'], detail)


@pytest.mark.parametrize(
    'words, status',
    [
        pytest.param('', 0, id='one'),
        pytest.param('--nodes 2', 0, id='enough'),
        pytest.param('--nodes 3', 1, id='too few'),
    ],
)
def test_compute_nodes_that_are_read_from_nova(health, database, tmp_path, words, status):
    """When they were read says nothing of their compute services."""
    store = SqlClaimStore(database)
    store.report([report('one'), report('two')], store.now_s() - 100)
    connection = f'connection = sqlite:///{tmp_path}/db.sqlite'
    found, parts = health(
        f'--part nodes {words}', more=f'[cluster]\nsource = nova\n[claims]\n{connection}\n'
    )
    assert (found, parts['nodes']['detail']) == (status, '2 compute nodes read from Nova')


@pytest.mark.parametrize('name', ['agent', 'queues'])
def test_parts_on_a_bus_that_does_not_answer(health, name):
    """They need no database."""
    status, parts = health(f'--part {name} --part bus', bus='rabbit://a:b@127.0.0.1:1/')
    assert (status, set(parts)) == (1, {name, 'bus'})
    assert parts[name]['detail'] == 'the bus does not answer'


def test_parts_are_checked_at_the_same_time_and_listed_in_order(manage, monkeypatch):
    meeting = threading.Barrier(2)

    def meet(_args, _conf):
        meeting.wait(60)  # raises if one is checked after the other
        return True, 'it has met'

    for name in ('schedulers', 'bus'):
        monkeypatch.setitem(health_verb.PARTS, name, meet)
    status, out, _ = manage('health check --format json')
    assert (status, [one['part'] for one in json.loads(out)]) == (0, ['schedulers', 'bus'])

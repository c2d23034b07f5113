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
from nova_sched.tests.rows import each


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
    assert (status, [part['healthy'] for part in parts.values()]) == (0, [True, True])
    assert list(parts) == ['schedulers', 'bus']
    assert parts['schedulers']['detail'] == '1 scheduler heard within 12 s'


@each(
    'words, status',
    [
        ('--host one', 0),
        ('--host two', 1),  # it was not heard lately
        ('--host three', 1),
        ('--host two --within 100', 0),
    ],
)
def test_schedulers_of_a_host(health, heard, words, status):
    heard('one', 1)
    heard('two', 30)
    assert health(words)[0] == status


def test_no_database_and_then_no_scheduler(health, request):
    status, parts = health()
    assert (status, parts['schedulers']['healthy']) == (1, False)
    assert 'db.sqlite' in parts['schedulers']['detail']
    request.getfixturevalue('database')
    status, parts = health()
    assert (status, parts['schedulers']['detail']) == (1, '0 schedulers heard within 12 s')


@each(
    'bus, why',
    [
        ('rabbit://a:b@127.0.0.1:1/', 'The broker does not answer'),
        ('pigeon://x/', 'transport_url'),
    ],
)
def test_a_bus_that_cannot_be_used(health, heard, bus, why):
    heard('one', 1)
    status, parts = health(bus=bus)
    assert (status, parts['schedulers']['healthy'], parts['bus']['healthy']) == (1, True, False)
    assert why in parts['bus']['detail']


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


@each(
    'reason, body, status, detail',
    [
        ('', None, 0, 'ready'),
        ('no scheduler answers', None, 1, 'no scheduler answers'),
        ('', 'a page', 1, 'http://127.0.0.1'),  # of another server
    ],
)
def test_the_api(health, heard, api, reason, body, status, detail):
    heard('one', 1)
    api.reason, api.body = reason, body
    ended, parts = health(f'--api http://127.0.0.1:{api.server_port}/x/')
    assert ended == status
    assert parts['api']['detail'].startswith(detail)
    assert health('--api http://127.0.0.1:1')[1]['api']['healthy'] is False


@each('words, status', [('', 0), ('--nodes 2', 0), ('--nodes 3', 1)])
def test_compute_nodes(health, database, words, status):
    store = SqlClaimStore(database)
    for name, ago_s in (('one', 0), ('two', 30), ('three', 100)):
        store.report([report(name)], store.now_s() - ago_s)
    ended, parts = health(f'--part nodes {words}')
    heard = '2 of 3 compute nodes heard within 60 s'
    assert (ended, list(parts), parts['nodes']['detail']) == (status, ['nodes'], heard)


@each('words, status', [('', 0), ('--nodes 2', 0), ('--nodes 3', 1)])
def test_compute_nodes_that_are_read_from_nova(health, database, tmp_path, words, status):
    """When they were read says nothing of their compute services."""
    store = SqlClaimStore(database)
    store.report([report('one'), report('two')], store.now_s() - 100)
    connection = f'connection = sqlite:///{tmp_path}/db.sqlite'
    ended, parts = health(
        f'--part nodes {words}', more=f'[cluster]\nsource = nova\n[claims]\n{connection}\n'
    )
    assert (ended, parts['nodes']['detail']) == (status, '2 compute nodes read from Nova')


@each('name', ['agent', 'queues'])
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

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
"""The API on a real socket while a service that it needs is away, and while its tenants press."""

import concurrent.futures
import contextlib
import http.client
import json
import threading

import pytest

from nova_sched import errors
from nova_sched.api import limits
from nova_sched.api.limits import Limits
from nova_sched.cmd import api
from nova_sched.tests.unit.api.backend import Backend, group
from nova_sched.tests.unit.api.callers import RED, configuration, rest

THREADS, CALLERS = 4, 24
LARGE_HEAD, LARGE_BODY = 'request-header-fields-too-large', 'request-entity-too-large'
TIMEOUT_S = 60


class Away:
    """A manager of queues that sends no heartbeat: a call waits until it is told to give up."""

    def __init__(self):
        self.waiting, self.give_up = threading.Semaphore(0), threading.Event()

    def flavor_list(self, context):
        self.waiting.release()
        assert self.give_up.wait(TIMEOUT_S)
        raise errors.NoAnswer('flavor_list', 'it is away')


@pytest.fixture
def away():
    made = Away()
    yield made
    made.give_up.set()


@pytest.fixture
def port(away, monkeypatch):
    """The API with a few threads."""
    monkeypatch.setattr(limits, 'PLACE_S', 0.0)
    conf = configuration(port=0, threads=THREADS, shutdown_timeout=5, plan_rate='3/minute')
    made = Limits(conf)
    backend = Backend(group('app'))
    queues = made.queue_managers.calls(away)
    served = api.server(conf, rest(conf, backend, queues, limits=made))
    thread = threading.Thread(target=served.serve)
    thread.start()
    yield served.bind_addr[1]
    away.give_up.set()
    served.stop()
    thread.join(TIMEOUT_S)


def ask(port, path, method='GET', body=None):
    """Status, Retry-After, and the document."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request(method, path, body, {**RED, 'Content-Type': 'application/json'})
        answer = connection.getresponse()
        return answer.status, answer.headers['Retry-After'], json.loads(answer.read() or 'null')


def test_a_service_that_is_away_takes_no_threads(port, away):
    """Of many callers one waits, the others are told at once; nobody else waits. When it has been
    given up, nobody waits any more."""
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        asked = [pool.submit(ask, port, '/v1/flavors') for _ in range(CALLERS)]
        assert away.waiting.acquire(timeout=TIMEOUT_S)
        told = next(concurrent.futures.as_completed(asked)).result()
        assert (told[0], told[1]) == (503, '1')
        for path in ('/healthcheck/live', '/healthcheck/ready', '/v1/groups', '/v1'):
            assert ask(port, path)[0] == 200, path
        away.give_up.set()
        assert {one.result()[0] for one in asked} == {503}
    status, again_s, _ = ask(port, '/v1/flavors')
    assert (status, again_s) == (503, '10')
    assert not away.waiting.acquire(timeout=0)
    assert ask(port, '/v1/groups')[0] == 200


def test_requests_above_the_rate_reach_no_scheduler(port):
    found = [ask(port, '/v1/groups/validate', 'POST', '{')[0] for _ in range(5)]
    assert found == [400, 400, 400, 429, 429]
    status, again_s, _ = ask(port, '/v1/groups', 'POST', '{' * 1000000)
    assert (status, int(again_s) > 0) == (429, True)


@pytest.mark.parametrize(
    'path, body, headers, status, code',
    [
        ('/v1/groups', b'#' * 2**21, {}, 413, LARGE_BODY),
        (
            '/v1/groups',
            iter([b'#' * 2**20, b'#']),
            {'Transfer-Encoding': 'chunked'},
            413,
            LARGE_BODY,
        ),
        ('/v1/groups', b'', {'X': 'y' * 60000, 'Y': 'z' * 6000}, 431, LARGE_HEAD),
        ('/v1/groups', b'', {'Content-Length': '-1'}, 400, 'bad-request'),
        ('/healthcheck/live', b'', {'Content-Length': '9' * 400}, 413, LARGE_BODY),
    ],
)
def test_what_is_not_read_gets_an_error_of_this_api(port, path, body, headers, status, code):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            connection.request('POST', path, body, {**RED, **headers}, encode_chunked=True)
        answer = connection.getresponse()
        (error,) = json.loads(answer.read())['errors']
    assert (answer.status, error['status'], error['code']) == (
        status,
        status,
        f'nova_sched.{code}',
    )

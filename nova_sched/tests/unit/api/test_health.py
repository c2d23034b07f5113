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
"""Live and ready."""

import threading

import pytest

from nova_sched import errors
from nova_sched.api import health
from nova_sched.tests.rows import each


def test_live_and_ready(http, backend):
    assert http.get('/healthcheck/live').json == {'live': True}
    answer = http.get('/healthcheck/ready')
    assert (answer.status_code, answer.json) == (200, {'ready': True, 'reason': ''})
    assert [name for name, _ in backend.calls] == ['list']


@pytest.mark.parametrize(
    'error, reason',
    [
        (errors.NoAnswer('list', 'x'), 'no scheduler answers'),
        (errors.StoreUnavailable('secret'), 'the database does not answer'),
        (errors.StoreFull('secret'), 'the database is full'),
        (errors.BrokerUnavailable('secret'), 'a service that it needs does not answer'),
    ],
)
def test_not_ready(http, backend, error, reason):
    backend.refusal = error
    answer = http.get('/healthcheck/ready')
    assert (answer.status_code, answer.json) == (503, {'ready': False, 'reason': reason})
    assert http.get('/healthcheck/live').status_code == 200


def older_release():
    raise RuntimeError('Endpoint does not support RPC method health')


@each(
    'facts, reason',
    [
        (lambda: {'nodes': 3, 'heard': 1}, ''),
        (lambda: {'nodes': 3, 'heard': 0}, 'no compute node has reported in time'),
        (lambda: {'nodes': 0, 'heard': 0}, ''),
        (older_release, ''),
    ],
)
def test_compute_nodes(facts, reason):
    assert health.Readiness(lambda: None, facts).reason() == reason


def test_an_answer_is_kept_for_a_moment():
    now_s, asked = [0.0], []
    made = health.Readiness(lambda: asked.append(None), clock=lambda: now_s[0])
    for now_s[0] in (0.0, 1.0, 1.9, 2.0, 2.1):
        assert made.reason() == ''
    assert len(asked) == 2


def test_one_request_asks_and_the_next_ones_do_not_wait():
    asked, answered = threading.Event(), threading.Event()

    def probe():
        asked.set()
        answered.wait(60)

    made = health.Readiness(probe)
    first = threading.Thread(target=made.reason)
    first.start()
    assert asked.wait(60)
    assert made.reason() == 'it is starting'
    answered.set()
    first.join()
    assert made.reason() == ''


def test_a_probe_that_does_not_end():
    """The other requests are told so as soon as it takes too long."""
    now_s, asked, answered = [0.0], threading.Event(), threading.Event()

    def probe():
        asked.set()
        answered.wait(60)

    made = health.Readiness(lambda: None, clock=lambda: now_s[0])
    assert made.reason() == ''
    made._probe, now_s[0] = probe, 10.0
    first = threading.Thread(target=made.reason)
    first.start()
    assert asked.wait(60)
    assert made.reason() == ''
    now_s[0] += health.LATE_S + 0.1
    assert made.reason() == 'a service that it needs does not answer'
    answered.set()
    first.join()
    assert made.reason() == ''

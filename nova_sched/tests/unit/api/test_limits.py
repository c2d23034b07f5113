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
"""Waits for other services are short and few; the rate of plans counts before work."""

import threading

import pytest
from werkzeug import test as testing

from nova_sched import errors
from nova_sched.api import limits
from nova_sched.api.limits import AWAY_S, Limits, PlanRateLimit, Service, threads_of
from nova_sched.tests.unit.api.backend import TEMPLATE
from nova_sched.tests.unit.api.callers import ADMIN, RED, configuration, rest

PATIENCE_S = 60.0


class Client:
    """Answers with what is next, after as many seconds; ``asked`` are its calls."""

    def __init__(self):
        self.now_s, self.asked, self.next = 0.0, 0, []

    def clock(self):
        return self.now_s

    def show(self, name):
        self.asked += 1
        error, took_s = self.next.pop(0) if self.next else (None, 0.0)
        self.now_s += took_s
        if error is not None:
            raise error
        return name


@pytest.fixture
def client():
    return Client()


AWAY = errors.NoAnswer('show', 'silent')
# What two calls of a service end with, the time from one to the next, and whether the next one is
# sent.
NEXT_CALLS = [
    ('an answer', None, 1.0, 0.0, True),
    ('another error is an answer', errors.GroupNotFound('x'), 1.0, 0.0, True),
    ('no heartbeat', AWAY, 10.0, 0.0, False),
    ('no heartbeat a moment ago', AWAY, 10.0, AWAY_S - 0.1, False),
    ('no heartbeat some time ago', AWAY, 10.0, AWAY_S, True),
    ('it was at work all the time', AWAY, PATIENCE_S, 0.0, True),
]


@pytest.mark.parametrize(
    'error, took_s, later_s, is_sent', [pytest.param(*row, id=name) for name, *row in NEXT_CALLS]
)
def test_a_service_that_is_away_is_not_asked_for_some_time(
    client, error, took_s, later_s, is_sent
):
    calls = Service('schedulers', 1, client.clock).calls(client, PATIENCE_S)
    client.next = [(error, took_s)]
    assert told(lambda: calls.show(name='one')) == ('one' if error is None else type(error))
    client.now_s += later_s
    assert told(lambda: calls.show('two')) == ('two' if is_sent else errors.NoAnswer)
    assert client.asked == 1 + is_sent


def told(call):
    """What a call returns, or the kind of its error."""
    try:
        return call()
    except errors.SchedError as error:
        return type(error)


def test_all_clients_of_a_service_know_that_it_is_away(client):
    service, other = Service('schedulers', 1, client.clock), Client()
    client.next = [(AWAY, 10.0)]
    told(lambda: service.calls(client).show('one'))
    with pytest.raises(errors.NoAnswer, match='schedulers did not answer just before'):
        service.calls(other).show('two')
    assert other.asked == 0


def test_one_call_tries_whether_a_service_is_back(client):
    """Others do not wait meanwhile; and all are sent once it has answered."""
    service = Service('schedulers', 9, client.clock)
    calls = service.calls(client)
    client.next = [(AWAY, 10.0)]
    told(lambda: calls.show('one'))
    client.now_s += AWAY_S

    class Trying:
        def show(self):
            return told(lambda: calls.show('another'))

    assert service.calls(Trying()).show() is errors.NoAnswer
    assert calls.show('two') == 'two'


def test_only_so_many_requests_wait_for_a_service(monkeypatch):
    monkeypatch.setattr(limits, 'PLACE_S', 0.0)
    service, inside, let_go = Service('schedulers', 2), threading.Semaphore(0), threading.Event()

    class Slow:
        def show(self):
            inside.release()
            assert let_go.wait(60)

    threads = [threading.Thread(target=service.calls(Slow()).show) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert inside.acquire(timeout=60)
    with pytest.raises(errors.ServiceBusy, match='schedulers'):
        service.calls(Slow()).show()
    let_go.set()
    for thread in threads:
        thread.join(60)
    service.calls(Slow()).show()


@pytest.mark.parametrize('threads', [1, 2, 16, 100])
def test_waits_leave_threads_free(threads):
    conf = configuration(threads=threads)
    made = Limits(conf)
    waiting = sum(
        one._places._value for one in (made.schedulers, made.queue_managers, made.keystone)
    )
    assert waiting < threads_of(conf)


def test_each_project_has_a_limit_of_its_own():
    limit = PlanRateLimit('2/minute')
    for _ in range(2):
        limit.take('red')
    with pytest.raises(errors.RateLimited, match='2 per 1 minute') as refused:
        limit.take('red')
    assert 1 <= refused.value.retry_s <= 60
    limit.take('blue')
    limit.take(None)


def test_no_limit():
    limit = PlanRateLimit('')
    for _ in range(1000):
        limit.take('red')


@pytest.mark.parametrize('rate', ['often', '5/fortnight', '-1/minute'])
def test_a_rate_that_makes_no_sense(rate):
    with pytest.raises(errors.BadConfig, match='plan_rate'):
        PlanRateLimit(rate)


GROUP = '/v1/groups/00000000-0000-4000-8000-000000000001'
# Whether a request counts as one for a plan.
COUNTED = [
    ('POST', '/v1/groups', True),
    ('POST', '/v1/groups?dry_run=true', True),
    ('POST', '/v1/groups/validate', True),
    ('PUT', GROUP, True),
    ('DELETE', GROUP, True),
    ('POST', f'{GROUP}/plan', True),
    ('POST', f'{GROUP}/renew', True),
    ('GET', '/v1/groups', False),
    ('GET', GROUP, False),
    ('GET', f'{GROUP}/plan', False),
]


@pytest.mark.parametrize('method, path, is_counted', COUNTED)
def test_a_request_above_the_rate_is_refused_before_work(
    http, backend, monkeypatch, method, path, is_counted
):
    """Its body is not read, and no scheduler is asked."""

    def refuse(self, project_id):
        raise errors.RateLimited('2 per 1 minute', 7)

    monkeypatch.setattr(PlanRateLimit, 'take', refuse)
    told = {'data': b'{', 'content_type': 'no type'} if method != 'GET' else {}
    answer = http.open(path, method=method, headers=RED, **told)
    assert (answer.status_code == 429) is is_counted, answer.text
    if is_counted:
        assert (answer.headers['Retry-After'], backend.calls) == ('7', [])
        (error,) = answer.json['errors']
        assert (error['code'], error['retry_s']) == ('nova_sched.rate-limited', 7)
    assert http.open(path, method=method, headers=ADMIN, **told).status_code != 429


def test_the_rate_is_one_for_all_methods(backend, manager):
    http = testing.Client(rest(configuration(plan_rate='2/minute'), backend, manager))
    asked = [('PUT', GROUP), ('DELETE', GROUP), ('POST', '/v1/groups')]
    found = [
        http.open(path, method=method, json={'template': TEMPLATE}, headers=RED).status_code
        for method, path in asked
    ]
    assert found == [428, 404, 429]

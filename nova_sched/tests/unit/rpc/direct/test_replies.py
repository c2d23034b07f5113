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
"""Answers on their way: what is sent, sent again, and given up."""

import json
import types

import pytest

from nova_sched.rpc.direct import replies
from nova_sched.rpc.direct.replies import GONE_S, MAX_GONE, RESEND_S, ReplySender

WAIT_S = 60


class Session:
    """It keeps what is sent: (queue, owner, inner message)."""

    def __init__(self):
        self.sent = []
        self.is_blocked = False
        self.unconfirmed, self.confirmed, self.returned, self.refused = [], [], [], []

    def send(self, queue, message, owner):
        inner = json.loads(json.loads(message.body)['oslo.message'])
        self.sent.append((queue, owner, inner['ending']))


class Call(types.SimpleNamespace):
    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


def call(name='a', queue='reply'):
    text = json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps({'ending': True})})
    return Call(
        msg_id=name,
        reply_q=queue,
        text=text.encode(),
        beat_s=10.0,
        beat_due_s=None,
        missing_until_s=None,
    )


@pytest.fixture
def clock(monkeypatch):
    made = types.SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(replies.time, 'monotonic', lambda: made.now_s)
    return made


@pytest.fixture
def made(clock):
    rabbit = types.SimpleNamespace(
        kombu_compression=None, kombu_missing_consumer_retry_timeout=WAIT_S
    )
    forgotten = []
    one = ReplySender(rabbit, forgotten.append)
    one.forgotten = forgotten
    return one


def test_an_answer_is_sent_once_and_forgotten_when_it_is_confirmed(made):
    session, one = Session(), call()
    made.add(one)
    made.send(session)
    made.send(session)
    assert (session.sent, made.forgotten) == ([('reply', one, True)], [])
    session.confirmed.append(one)
    made.take_confirms(session)
    assert (made.forgotten, session.confirmed) == ([one], [])


def test_nothing_is_sent_while_the_connection_is_blocked(made, clock):
    session, one, slow = Session(), call(), call('slow')
    session.is_blocked = True
    made.add(one)
    made.start_heartbeats(slow)
    clock.now_s += 10.0
    made.send(session)
    assert (session.sent, made.due_s) == ([], clock.now_s + 10.0)
    session.is_blocked = False
    made.send(session)
    assert session.sent == [('reply', one, True)]


def test_heartbeats_end_with_the_answer(made, clock):
    session, one = Session(), call()
    made.start_heartbeats(one)
    assert made.due_s == clock.now_s + 10.0
    made.send(session)
    assert session.sent == []
    for _ in range(2):
        clock.now_s += 10.0
        made.send(session)
    assert session.sent == [('reply', None, False)] * 2
    made.add(one)
    clock.now_s += 10.0
    made.send(session)
    assert session.sent[2:] == [('reply', one, True)]
    assert made.due_s == float('inf')


def test_a_call_without_an_answer_is_forgotten(made):
    one = call()
    made.start_heartbeats(one)
    made.drop(one)
    assert (made.forgotten, made.due_s) == ([one], float('inf'))


@pytest.mark.parametrize('why', ['returned', 'refused'])
def test_what_no_queue_takes_is_sent_again(made, clock, why):
    session, one = Session(), call()
    getattr(session, why).append(one)
    made.take_confirms(session)
    made.send(session)
    assert (session.sent, made.due_s) == ([], clock.now_s + RESEND_S)
    clock.now_s += RESEND_S
    made.send(session)
    assert session.sent == [('reply', one, True)]


def test_a_queue_that_stays_missing_is_given_up(made, clock, caplog):
    session, one, next_one, other = Session(), call(), call('next'), call('other', 'there')
    session.returned.append(one)
    made.take_confirms(session)
    clock.now_s += WAIT_S
    made.send(session)
    session.returned.append(one)
    made.take_confirms(session)
    assert made.forgotten == [one]
    assert 'Abandoning' in caplog.text
    session.sent.clear()
    made.add(next_one)
    made.add(other)
    made.send(session)
    assert session.sent == [('there', other, True)]
    assert made.forgotten == [one, next_one]
    clock.now_s += GONE_S
    made.add(call('late'))
    made.send(session)
    assert len(session.sent) == 2


def test_only_so_many_missing_queues_are_known(made, clock):
    session = Session()
    for number in range(MAX_GONE + 1):
        one = call(queue=f'reply {number}')
        one.missing_until_s = clock.now_s
        session.returned.append(one)
    made.take_confirms(session)
    made.add(call(queue='reply 0'))
    made.add(call(queue='reply 1'))
    made.send(session)
    assert [queue for queue, _, _ in session.sent] == ['reply 0']


def test_a_lost_session_gives_back_what_was_not_confirmed(made):
    lost, session = Session(), Session()
    calls = [call(name) for name in 'abcd']
    lost.unconfirmed, lost.confirmed = [calls[0], None], [calls[1]]
    lost.returned, lost.refused = [calls[2]], [calls[3]]
    made.take_back(lost)
    made.send(session)
    assert [owner for _, owner, _ in session.sent] == calls

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
"""Subscriptions on one connection: what RabbitMQ is told, what comes, and what is too much."""

import pytest

from nova_sched.extensions.queues.brokers import FALLBACK, amqp_link
from nova_sched.extensions.queues.brokers.amqp_consumer import MAX_MISSING, Session
from nova_sched.tests.unit.extensions.queues.brokers.rabbit import Rabbit

A, B, C = 'flavor.a', 'flavor.b', 'host.c'
EACH_WAY = pytest.mark.parametrize('whole', [True, False], ids=['whole', 'each'])


def session(rabbit, window=1, whole=True):
    return Session(rabbit.connect(), window, whole)


def read(made):
    """All that RabbitMQ has sent. Returns what has arrived, as queue and body."""
    made.connection.read_all()
    return [(found.queue, found.body) for found in made.arrived]


@EACH_WAY
def test_only_what_changes_is_told(whole):
    rabbit = Rabbit(A, B, C)
    made = session(rabbit, whole=whole)
    made.follow({A: 1, B: 2, C: None})
    assert rabbit.said == [('consume', A, 1), ('consume', B, 2)]
    rabbit.said.clear()
    made.follow({A: 1, B: 3, C: 0})
    assert rabbit.said == [('cancel', B), ('consume', B, 3), ('consume', C, 0)]
    rabbit.said.clear()
    made.follow({A: None, C: None})
    made.follow({A: None})
    assert rabbit.said == [('cancel', A), ('cancel', C)]
    assert rabbit.consumers(B) == [3]


def test_more_than_a_batch_begins_and_ends():
    names = [f'flavor.f{number}' for number in range(2 * amqp_link.BATCH + 3)]
    rabbit = Rabbit(*names)
    made = session(rabbit)
    made.follow(dict.fromkeys(names, 1))
    made.follow(dict.fromkeys(names, 2))
    assert all(rabbit.consumers(name) == [2] for name in names)
    made.follow(dict.fromkeys(names))
    assert not any(rabbit.consumers(name) for name in names)
    channel, _ = made.connection.channels
    assert [channel.callbacks, channel.cancel_callbacks, made._queues] == [{}, {}, {}]


@pytest.mark.parametrize(
    'headers, tries, reason, expires',
    [
        pytest.param({}, 0, None, False, id='no headers'),
        pytest.param({'tries': 3, 'sent_ms': 17}, 3, None, False, id='ours'),
        pytest.param(
            {'reason': 'dropped', 'tries': 1}, 1, 'dropped', False, id='sent to fallback'
        ),
        pytest.param({'x-first-death-reason': 'expired'}, 0, 'expired', False, id='expired'),
        pytest.param({'expiration': '1000'}, 0, None, True, id='will expire'),
    ],
)
def test_what_a_message_says(headers, tries, reason, expires):
    rabbit = Rabbit(FALLBACK)
    made = session(rabbit)
    made.follow({FALLBACK: 0})
    rabbit.send(FALLBACK, b'\x00', **headers)
    read(made)
    (found,) = made.arrived
    assert (found.body, found.tries, found.reason, found.redelivered) == (
        b'\x00',
        tries,
        reason,
        False,
    )
    assert (found.tag.expires, found.tag.sent_ms) == (expires, headers.get('sent_ms'))


def test_only_the_fallback_queue_gives_a_reason():
    rabbit = Rabbit(A)
    made = session(rabbit)
    made.follow({A: 0})
    rabbit.send(A, reason='dropped')
    read(made)
    assert made.arrived[0].reason is None


@EACH_WAY
def test_a_delivery_is_settled_once_and_on_its_own_session(whole):
    rabbit = Rabbit(A, B, C)
    made, other = session(rabbit, whole=whole), session(rabbit, whole=whole)
    made.follow({A: 0})
    other.follow({C: 0})
    for queue in (A, C):
        rabbit.send(queue)
    read(made)
    assert read(other) == [(C, b'')]  # with the same number
    tag = made.arrived[0].tag
    assert (made.holds(tag), other.holds(tag)) == (True, False)
    made.ack(tag)
    assert not made.holds(tag)
    made.follow({B: 0})
    rabbit.send(B, b'2')
    read(made)
    tag = made.arrived[1].tag
    made.reject(tag)
    assert not made.holds(tag)
    assert [said for said in rabbit.said if said[0] in ('ack', 'reject')] == [
        ('ack', A),
        ('reject', B),
    ]


@EACH_WAY
def test_what_had_come_from_a_queue_that_is_ended_is_excess(whole):
    rabbit = Rabbit(A, B)
    made = session(rabbit, window=3, whole=whole)
    made.follow({A: 0, B: 0})
    for queue in (A, B):
        rabbit.send(queue, queue.encode())
    made.follow({A: None})
    assert [found.queue for found in made.excess] == [A]
    assert read(made) == [(B, B.encode())]
    assert made.holds(made.excess[0].tag)


def test_who_changes_a_priority_keeps_what_had_come():
    rabbit = Rabbit(A)
    made = session(rabbit)
    made.follow({A: 0})
    rabbit.send(A, b'1')
    made.follow({A: 5})
    assert (read(made), made.excess) == ([(A, b'1')], [])


@EACH_WAY
def test_queues_that_are_not_there_are_looked_for_again(whole):
    rabbit = Rabbit(B)
    made = session(rabbit, whole=whole)
    made.follow({A: 1, B: 2, C: 3})
    assert made.missing == {A: 1, C: 3}
    made.follow({A: 1, C: 4})
    made.follow({C: None})
    assert made.missing == {A: 1}
    made.retry()
    assert made.missing == {A: 1}
    rabbit.queues |= Rabbit(A).queues
    made.follow({A: 1})
    assert made.missing == {A: 1}  # until it is time to look
    made.retry()
    assert made.missing == {}
    assert (rabbit.consumers(A), rabbit.consumers(B)) == ([1], [2])


@pytest.mark.parametrize('where', [0, 1, 700, 1100])
def test_queues_that_are_not_there_hide_none_that_is(where):
    there = [f'flavor.f{number}' for number in range(1100)]
    absent = [f'flavor.x{number}' for number in range(3)]
    rabbit = Rabbit(*there)
    made = session(rabbit)
    made.follow(dict.fromkeys([*there[:where], *absent, *there[where:]], 1))
    assert all(rabbit.consumers(name) == [1] for name in there)
    assert made.missing == dict.fromkeys(absent, 1)


def test_only_so_many_are_found_missing_at_a_time():
    absent = [f'flavor.x{number}' for number in range(MAX_MISSING + 20)]
    rabbit = Rabbit(A, B)
    made = session(rabbit)
    made.follow(dict.fromkeys([A, *absent, B], 1))
    assert (rabbit.consumers(A), rabbit.consumers(B)) == ([1], [])
    made.retry()  # begins with those that were left
    assert rabbit.consumers(B) == [1]
    assert made.missing == dict.fromkeys(absent, 1)


@EACH_WAY
def test_a_queue_that_goes_is_missing_and_comes_back(whole):
    rabbit = Rabbit(A, B)
    made = session(rabbit, whole=whole)
    made.follow({A: 1, B: 2})
    rabbit.drop(B)
    assert read(made) == []
    assert made.missing == {B: 2}
    rabbit.queues |= Rabbit(B).queues
    made.retry()
    assert rabbit.consumers(B) == [2]


def test_a_queue_may_go_while_its_subscription_ends():
    rabbit = Rabbit(A, B)
    made = session(rabbit)
    made.follow({A: 1, B: 2})
    rabbit.drop(B)
    made.follow({A: None, B: None})
    read(made)
    assert (made.missing, rabbit.consumers(A)) == ({}, [])


def test_the_window_over_all_queues_is_told():
    rabbit = Rabbit(A, B)
    made = session(rabbit)
    made.follow({A: 0, B: 0})
    for queue in (A, B, A, B):
        rabbit.send(queue, queue.encode())
    assert len(read(made)) == 1
    made.window(3)
    assert len(read(made)) == 3
    made.window(1)
    made.ack(made.arrived[0].tag)
    assert len(read(made)) == 3


def test_without_it_a_subscription_brings_one_message_and_what_is_too_much_is_excess():
    rabbit = Rabbit(quorum=[A, B, C])
    made = session(rabbit, window=2, whole=False)
    made.follow({A: 1, B: 1, C: 1})
    for queue in (A, B, C, A):
        rabbit.send(queue, queue.encode())
    assert read(made) == [(A, A.encode()), (B, B.encode())]
    assert [found.queue for found in made.excess] == [C]
    assert rabbit.consumers(A) == rabbit.consumers(B) == rabbit.consumers(C) == []
    assert rabbit.bodies(A) == [A.encode()]
    made.ack(made.excess.pop().tag)
    made.reopen()
    assert rabbit.consumers(C) == []  # two are in hand still
    made.ack(made.arrived[0].tag)
    made.reopen()
    assert (rabbit.consumers(B), rabbit.consumers(C)) == ([1], [1])
    assert read(made)[2:] == [(A, A.encode())]
    channel, _ = made.connection.channels
    assert (
        len(channel.callbacks) == len(channel.cancel_callbacks) == len(made._queues) == 2
    )  # of B and C


def test_what_is_followed_while_the_window_is_full_is_subscribed_to_when_it_has_room():
    rabbit = Rabbit(quorum=[A, B, C])
    made = session(rabbit, whole=False)
    made.follow({A: 1})
    rabbit.send(A, b'1')
    read(made)
    made.follow({A: 7, B: 2, C: 3})
    made.follow({C: None})
    assert rabbit.consumers(B) == []
    made.ack(made.arrived[0].tag)
    made.reopen()
    assert (rabbit.consumers(A), rabbit.consumers(B), rabbit.consumers(C)) == ([7], [2], [])


def test_a_wider_window_lets_in_more_of_them():
    rabbit = Rabbit(quorum=[A])
    made = session(rabbit, whole=False)
    made.follow({A: 1})
    for body in (b'1', b'2', b'3'):
        rabbit.send(A, body)
    assert read(made) == [(A, b'1')]
    made.reopen()
    assert read(made) == [(A, b'1')]
    made.window(2)
    made.reopen()
    assert read(made) == [(A, b'1'), (A, b'2')]


def test_a_session_that_ends_gives_all_back():
    rabbit = Rabbit(A)
    made = session(rabbit, window=2)
    made.follow({A: 1})
    for body in (b'1', b'2', b'3'):
        rabbit.send(A, body)
    read(made)
    made.close()
    assert rabbit.bodies(A) == [b'1', b'2', b'3']
    assert [redelivered for _, redelivered in rabbit.queues['nova_sched.flavor.a'].ready] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize('seconds, beats', [(0, 3600.0), (30, 30)])
def test_the_interval_of_heartbeats(seconds, beats):
    made = session(Rabbit())
    made.connection.heartbeat = seconds
    assert made.beat_s == beats
    made.beat(4)
    assert made.connection.beats == 1

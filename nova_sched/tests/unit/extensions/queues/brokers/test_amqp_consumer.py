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
"""A consumer on RabbitMQ: its subscriptions on one connection, and its thread."""

import logging
import threading
import time

import pytest
from amqp.exceptions import AccessRefused, ConnectionForced

from nova_sched import errors
from nova_sched.extensions.queues.brokers import DROPPED, FALLBACK, Delivery, amqp_link
from nova_sched.extensions.queues.brokers.amqp_consumer import MAX_MISSING, AmqpConsumer, Session
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.queues.brokers.rabbit import WHOLE_NOT_QUORUM, Rabbit

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


@table(
    'headers, tries, reason, expires',
    {
        'no headers': ({}, 0, None, False),
        'ours': ({'tries': 3, 'sent_ms': 17}, 3, None, False),
        'sent to fallback': ({'reason': 'dropped', 'tries': 1}, 1, 'dropped', False),
        'expired': ({'x-first-death-reason': 'expired'}, 0, 'expired', False),
        'will expire': ({'expiration': '1000'}, 0, None, True),
    },
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


# The consumer's thread: connections that are lost, orders of other threads, and what is put back.

TIMEOUT_S = 90.0


class World:
    """A consumer of a RabbitMQ that may be away; ``sent`` is what the consumer sends to other
    queues."""

    def __init__(self, *queues, quorum=(), whole=True, deliver=None, heartbeat_s=0):
        self.rabbit = Rabbit(*queues, quorum=quorum, heartbeat_s=heartbeat_s)
        self.away, self.sending = None, True
        self.found, self.sent = [], []
        self.tries = 0
        self.consumer = AmqpConsumer(
            self.connect, self.send, deliver or self.found.append, 'test', whole
        )

    def connect(self):
        self.tries += 1
        if self.away:
            raise errors.BrokerUnavailable(self.away)
        return self.rabbit.connect()

    def send(self, queue, body, tries=0, expires=False, reason=None, sent_ms=None):
        if not self.sending:
            raise errors.BrokerUnavailable('away')
        self.sent.append((queue, body, tries, expires, reason, sent_ms))
        return f'nova_sched.{queue}' in self.rabbit.queues

    def give(self, queue, body=b'', **headers):
        """Send it from the consumer's thread, to which RabbitMQ's double belongs."""
        self.order(lambda: self.rabbit.send(queue, body, **headers))

    def order(self, work):
        self.consumer._order(work).result()

    def next(self, count=1):
        """The last of so many that have come."""
        self.until(lambda: len(self.found) >= count)
        assert len(self.found) == count
        return self.found[-1]

    def until(self, holds):
        end_s = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < end_s, 'it does not become true'
            time.sleep(0.002)

    def said(self, what):
        """How often the consumer has said so."""
        self.consumer.follow({})  # after all orders that were given before
        return [one[1] for one in self.rabbit.said if one[0] == what]


@pytest.fixture
def world():
    made = World(A, B, FALLBACK)
    yield made
    made.consumer.stop()


def test_it_is_not_made_without_a_broker():
    with pytest.raises(errors.BrokerUnavailable, match='nobody'):
        AmqpConsumer(
            lambda: (_ for _ in ()).throw(errors.BrokerUnavailable('nobody')),
            None,
            None,
            'test',
            True,
        )


def test_what_comes_is_given_and_acknowledged(world):
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    found = world.next()
    assert (found.queue, found.body) == (A, b'1')
    world.consumer.ack(found)
    world.consumer.ack(found)
    world.consumer.put_back(found)
    assert world.said('ack') == [A]
    assert world.sent == []


@each_afresh('strange', {'none': Delivery(A, b''), 'number': Delivery(A, b'', tag=17)})
def test_what_is_not_its_own_is_left_alone(world, strange):
    world.consumer.ack(strange)
    world.consumer.put_back(strange)
    assert world.said('ack') == []
    assert world.sent == []


@each_afresh(
    'headers, to, sent',
    {
        'its queue': ({}, None, (A, b'1', 1, False, None, None)),
        'another queue': ({'tries': 2}, B, (B, b'1', 3, False, None, None)),
        'will expire, its queue': ({'expiration': '9'}, None, (A, b'1', 1, True, None, None)),
        'will expire, another queue': ({'expiration': '9'}, B, (B, b'1', 1, False, None, None)),
        'has its time anew': ({'sent_ms': 5}, None, (A, b'1', 1, False, None, None)),
    },
)
def test_what_is_put_back_is_sent_and_counted(world, headers, to, sent):
    world.consumer.follow({A: 1})
    world.give(A, b'1', **headers)
    world.consumer.put_back(world.next(), to)
    assert world.said('ack') == [A]
    assert world.sent == [sent]


def test_what_has_no_queue_any_more_goes_to_the_fallback_queue(world):
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    world.consumer.put_back(world.next(), 'host.gone')
    assert world.said('ack') == [A]
    assert world.sent[1] == (FALLBACK, b'1', 1, False, DROPPED, None)


def test_what_cannot_be_sent_is_given_back_as_it_is(world, caplog):
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    found = world.next()
    world.sending = False
    world.consumer.put_back(found)
    again = world.next(2)
    assert world.said('reject') == [A]
    assert (again.redelivered, again.tries) == (True, 0)
    assert 'Consumer test could not put a message back' in caplog.text


def test_what_is_too_much_is_sent_again_with_its_time_and_not_counted():
    world = World(quorum=[A, B], whole=False)
    world.consumer.follow({A: 1, B: 1})
    # Both are on their way before the first one is read.
    world.order(
        lambda: (world.rabbit.send(A, b'1'), world.rabbit.send(B, b'2', tries=4, sent_ms=17))
    )
    assert world.next().body == b'1'
    world.until(lambda: world.sent)
    assert world.sent == [(B, b'2', 4, False, None, 17)]
    assert world.said('ack') == [B]
    world.consumer.stop()
    assert len(world.found) == 1


def test_the_next_one_comes_when_there_is_room_again():
    world = World(quorum=[A], whole=False)
    world.consumer.follow({A: 1})
    for count in (1, 2, 3):
        world.give(A, b'%d' % count)
        found = world.next(count)
        assert found.body == b'%d' % count
        world.consumer.ack(found)
    world.consumer.stop()


def test_what_had_come_from_a_queue_that_is_ended_is_sent_again():
    world = World(A)
    world.consumer.follow({A: 1})
    world.order(lambda: (world.rabbit.send(A, b'1', sent_ms=17), world.consumer.follow({A: None})))
    world.until(lambda: world.sent)
    assert world.sent == [(A, b'1', 0, False, None, 17)]
    assert world.said('ack') == [A]
    assert world.found == []
    world.consumer.stop()


@pytest.mark.parametrize('count', [0, -1])
def test_a_window_without_room_is_refused(world, count):
    with pytest.raises(ValueError, match='window'):
        world.consumer.window(count)


def test_a_lost_connection_is_made_again_with_all_that_is_wanted(world, caplog):
    world.consumer.follow({A: 1, B: 2})
    world.consumer.window(2)
    world.give(A, b'1')
    before = world.next()
    world.rabbit.connections[0].lose()
    world.consumer.follow({B: 7})  # whether it has noticed that or not
    again = world.next(2)
    assert (again.body, again.redelivered) == (b'1', True)
    assert (world.rabbit.consumers(A), world.rabbit.consumers(B)) == ([1], [7])
    world.consumer.put_back(before)
    world.consumer.ack(before)
    assert (world.said('ack'), world.sent) == ([], [])
    world.give(A, b'2')
    world.next(3)
    world.consumer.ack(again)
    assert world.said('ack') == [A]
    assert 'Consumer test has lost its connection' in caplog.text


def test_what_is_put_back_while_the_connection_is_lost_is_not_settled_on_the_next_one():
    class Slow(World):
        def send(self, *message, **how):
            self.rabbit.connections[0].lose()
            self.until(lambda: len(self.found) == 2)
            return super().send(*message, **how)

    world = Slow(A)
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    world.consumer.put_back(world.next(), A)
    assert world.said('ack') == []
    world.consumer.ack(world.next(2))
    assert world.said('ack') == [A]
    world.consumer.stop()


def test_what_was_ended_before_is_not_wanted_on_a_new_connection(world):
    world.consumer.follow({A: 1, B: 2})
    world.consumer.follow({A: None})
    world.rabbit.connections[0].lose()
    world.until(lambda: len(world.rabbit.connections) == 2 and world.rabbit.consumers(B) == [2])
    assert world.rabbit.consumers(A) == []


def test_it_tries_until_the_broker_is_back(world, caplog):
    world.away = 'away'
    tries = world.tries
    world.rabbit.connections[0].lose()
    world.until(lambda: world.tries >= tries + 2)
    world.consumer.follow({A: 3})
    world.consumer.window(2)
    world.away = None
    world.until(lambda: world.rabbit.consumers(A) == [3])
    assert 'Consumer test cannot connect' in caplog.text


def test_it_may_be_stopped_while_the_broker_is_away(world):
    world.away = 'away'
    world.rabbit.connections[0].lose()
    world.consumer.stop()
    assert world.consumer._over.is_set()


def test_a_broker_that_keeps_no_window_over_all_is_asked_for_one_no_more(caplog):
    world = World(quorum=[A])
    world.consumer.follow({A: 1})
    world.until(lambda: world.rabbit.consumers(A) == [1])
    world.give(A, b'1')
    assert world.next().body == b'1'
    assert len(world.rabbit.connections) == 2
    assert WHOLE_NOT_QUORUM in caplog.text
    world.rabbit.connections[1].lose()
    world.next(2)
    assert len(world.rabbit.connections) == 3
    world.consumer.stop()


def test_an_error_at_the_first_word_is_told():
    rabbit = Rabbit()

    class Refuses:
        def __init__(self):
            self.inner = rabbit.connect()
            self.sock = self.inner.sock
            self.heartbeat, self.connected, self.closed = 0, True, False
            self.transport = None

        def channel(self):
            raise AccessRefused('not you')

        def close(self):
            self.closed = True

        def collect(self):
            self.inner.collect()

    made = Refuses()
    with pytest.raises(errors.BrokerUnavailable, match='not you'):
        AmqpConsumer(lambda: made, None, None, 'test', True)
    assert made.closed


def test_heartbeats_that_are_missing_end_the_connection():
    world = World(A, heartbeat_s=0.02)
    first = world.rabbit.connections[0]

    def missing(rate):
        raise ConnectionForced('too many heartbeats missed')

    world.consumer.follow({A: 1})
    world.order(lambda: setattr(first, 'heartbeat_tick', missing))
    world.until(lambda: len(world.rabbit.connections) == 2 and world.rabbit.consumers(A) == [1])
    world.consumer.stop()


def test_heartbeats_go_on_while_nothing_comes():
    world = World(A, heartbeat_s=0.02)
    first = world.rabbit.connections[0]
    world.until(lambda: first.beats > 5)
    world.consumer.stop()


def test_a_fault_of_a_callback_ends_nothing(caplog):
    world = World(A, deliver=lambda found: world.found.append(found) or 1 / 0)
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    with caplog.at_level(logging.ERROR):
        world.consumer.ack(world.next())
        world.give(A, b'2')
        world.next(2)
    assert 'Consumer test failed on a message of flavor.a' in caplog.text
    world.consumer.stop()


def test_a_callback_may_call_the_consumer():
    threads = []

    def deliver(found):
        threads.append(threading.current_thread())
        world.consumer.follow({A: None, B: 1})
        world.consumer.ack(found)
        world.found.append(found)
        if found.queue == B:
            world.consumer.stop()

    world = World(A, B, deliver=deliver)
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    world.next()
    world.give(B, b'2')
    world.next(2)
    assert set(threads) == {world.consumer._bus._thread}
    world.until(lambda: world.consumer._over.is_set())
    assert world.said('ack') == [A, B]


def test_what_comes_after_the_end_does_nothing(world):
    world.consumer.window(2)
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    found = world.next()
    world.consumer.stop()
    assert world.rabbit.bodies(A) == [b'1']
    world.consumer.stop()
    world.consumer.follow({B: 1})
    world.consumer.window(3)
    world.consumer.ack(found)
    assert world.said('ack') == []
    assert world.rabbit.consumers(A) == world.rabbit.consumers(B) == []
    assert world.rabbit.connections[0].lost


def test_missing_queues_are_looked_for():
    world = World(A)
    world.consumer.follow({A: 1, B: 2})
    world.order(lambda: world.rabbit.queues.update(Rabbit(B).queues))
    world.until(lambda: world.rabbit.consumers(B) == [2])
    world.consumer.stop()

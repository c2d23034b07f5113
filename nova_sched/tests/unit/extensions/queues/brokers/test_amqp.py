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
"""The broker that is a RabbitMQ, as far as it needs none, and its consumer's thread."""

import logging
import threading
import time

import pytest
from amqp.exceptions import AccessRefused, ConnectionForced

from nova_sched import errors
from nova_sched.extensions.queues.brokers import DROPPED, FALLBACK, Delivery
from nova_sched.extensions.queues.brokers.amqp import AmqpBroker
from nova_sched.extensions.queues.brokers.amqp_consumer import AmqpConsumer
from nova_sched.tests.fixtures import process
from nova_sched.tests.unit.extensions.queues.brokers.rabbit import WHOLE_NOT_QUORUM, Rabbit


@pytest.fixture
def nowhere():
    made = AmqpBroker(f'rabbit://guest:secret@{process.LOOPBACK}:{process.free_port()}/')
    yield made
    made.close()


def test_a_bad_url_is_refused():
    with pytest.raises(errors.BadConfig):
        AmqpBroker('http://mq')


def test_nothing_is_connected_before_it_must_be(nowhere):
    nowhere.declare([])
    with pytest.raises(ValueError, match=FALLBACK):
        nowhere.drop(FALLBACK)


@pytest.mark.parametrize(
    'call',
    [
        pytest.param(lambda broker: broker.declare(['flavor.tiny']), id='declare'),
        pytest.param(lambda broker: broker.drop('flavor.tiny'), id='drop'),
        pytest.param(lambda broker: broker.facts('flavor.tiny'), id='facts'),
        pytest.param(lambda broker: broker.publish('flavor.tiny', b''), id='publish'),
        pytest.param(lambda broker: broker.consumer(print, 'nobody'), id='consumer'),
    ],
)
def test_a_broker_that_is_away_is_told(nowhere, call):
    with pytest.raises(errors.BrokerUnavailable) as told:
        call(nowhere)
    assert 'secret' not in str(told.value)


def test_after_the_end_nothing_is_sent(nowhere):
    nowhere.close()
    with pytest.raises(errors.BrokerUnavailable, match='closed'):
        nowhere.publish('flavor.tiny', b'')


# The consumer's thread: connections that are lost, orders of other threads, and what is put back.


A, B = 'flavor.a', 'host.b'
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


@pytest.mark.parametrize(
    'strange', [Delivery(A, b''), Delivery(A, b'', tag=17)], ids=['none', 'number']
)
def test_what_is_not_its_own_is_left_alone(world, strange):
    world.consumer.ack(strange)
    world.consumer.put_back(strange)
    assert world.said('ack') == []
    assert world.sent == []


@pytest.mark.parametrize(
    'headers, to, sent',
    [
        pytest.param({}, None, (A, b'1', 1, False, None, None), id='its queue'),
        pytest.param({'tries': 2}, B, (B, b'1', 3, False, None, None), id='another queue'),
        pytest.param(
            {'expiration': '9'}, None, (A, b'1', 1, True, None, None), id='will expire, its queue'
        ),
        pytest.param(
            {'expiration': '9'},
            B,
            (B, b'1', 1, False, None, None),
            id='will expire, another queue',
        ),
        pytest.param(
            {'sent_ms': 5}, None, (A, b'1', 1, False, None, None), id='has its time anew'
        ),
    ],
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


def test_a_window_is_told(world):
    world.consumer.follow({A: 1})
    world.give(A, b'1')
    world.next()
    world.give(A, b'2')
    world.consumer.follow({})
    assert len(world.found) == 1
    world.consumer.window(2)
    assert world.next(2).body == b'2'


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

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
"""The broker on RabbitMQ: its connections, and the queues and messages there."""

import time

import amqp
import pytest
from amqp.exceptions import AMQPNotImplementedError

from nova_sched import errors
from nova_sched.extensions.queues.brokers import (
    DROPPED,
    FALLBACK,
    RESULTS,
    QueueFacts,
    amqp_link,
    of_flavor,
    of_host,
    of_reply,
)
from nova_sched.extensions.queues.brokers.amqp import AmqpBroker
from nova_sched.extensions.queues.brokers.amqp_link import Link, LinkPool, arguments, message
from nova_sched.extensions.queues.conf import CLASSIC, QUORUM
from nova_sched.rpc.rabbit import ERRORS, body, headers
from nova_sched.tests.fixtures import process
from nova_sched.tests.rows import each, each_afresh, table
from nova_sched.tests.unit.extensions.queues.brokers.rabbit import Queue, Rabbit


class PooledLink:
    """Fails so often."""

    def __init__(self, fails):
        self.fails, self.closed = fails, False

    def work(self):
        if self.fails:
            raise ConnectionResetError('reset')
        return 'done'

    def close(self):
        self.closed = True


def pool(*fails):
    made = [PooledLink(fail) for fail in fails]
    left = iter(made)
    return LinkPool(lambda: next(left), size=2), made


def test_a_link_is_used_again():
    shared, made = pool(False, False)
    assert [shared.run(PooledLink.work), shared.run(PooledLink.work)] == ['done', 'done']
    shared.close()
    assert [link.closed for link in made] == [True, False]  # there was no need of the second one


def test_a_link_that_has_failed_is_replaced_once():
    shared, made = pool(False, False, True, True, False)
    shared.run(PooledLink.work)
    made[0].fails = True
    assert shared.run(PooledLink.work) == 'done'
    assert made[0].closed
    made[1].fails = True
    with pytest.raises(errors.BrokerUnavailable, match='reset'):
        shared.run(PooledLink.work)
    with pytest.raises(errors.BrokerUnavailable, match='reset'):
        pool(True, True)[0].run(PooledLink.work)


def test_what_is_no_fault_of_the_link_is_not_tried_again():
    shared, made = pool(False, False)

    def refuse(_):
        raise ValueError

    with pytest.raises(ValueError):
        shared.run(refuse)
    assert made[0].closed


def test_nothing_is_done_after_the_end():
    shared, made = pool(False)
    shared.close()
    with pytest.raises(errors.BrokerUnavailable, match='closed'):
        shared.run(PooledLink.work)
    assert made[0].closed is False


TINY, HERE = of_flavor('tiny'), of_host('a')
TO_FALLBACK = {'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'nova_sched.fallback'}
SAFELY = {'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish'}


@table(
    'queue, queue_type, found',
    {
        'flavor': (TINY, CLASSIC, {'x-message-ttl': 1500, **TO_FALLBACK}),
        'flavor, quorum': (TINY, QUORUM, {'x-message-ttl': 1500, **TO_FALLBACK, **SAFELY}),
        'host': (HERE, CLASSIC, TO_FALLBACK),
        'host, quorum': (HERE, QUORUM, TO_FALLBACK | SAFELY),
        'results': (RESULTS, CLASSIC, {}),
        'fallback, quorum': (FALLBACK, QUORUM, {}),
        'reply': (of_reply('me'), CLASSIC, {'x-expires': 3_600_000}),
    },
)
def test_what_rabbitmq_knows_of_a_queue(queue, queue_type, found):
    assert arguments(queue, queue_type, 1.5) == {'x-queue-type': queue_type, **found}


def test_a_queue_of_replies_is_classic_always():
    assert arguments(of_reply('me'), QUORUM, 1.5)['x-queue-type'] == CLASSIC


@each('seconds, found', [(1.5, 1500), (0.0001, 1), (0, 1), (-3, 1)])
def test_milliseconds_are_never_none(seconds, found):
    assert amqp_link.milliseconds(seconds) == found


def test_a_message_outlives_a_restart_and_says_what_it_is():
    before_ms = int(time.time() * 1000)
    made = message(b'\xff', tries=2, reason=DROPPED)
    said = dict(headers(made))
    assert before_ms <= said.pop('sent_ms') <= time.time() * 1000
    assert said == {'tries': 2, 'reason': DROPPED}
    assert (made.properties['delivery_mode'], 'expiration' in made.properties) == (2, False)
    assert body(made) == b'\xff'


@table(
    'ago_s, least, most',
    {
        'new': (None, 30_000, 30_000),
        'some time is left': (10, 10_000, 20_000),
        'no time is left': (31, 1, 1),
        'a clock that is ahead': (-60, 30_000, 30_000),
    },
)
def test_a_message_has_the_time_that_is_left_to_it(ago_s, least, most):
    sent_ms = None if ago_s is None else int((time.time() - ago_s) * 1000)
    made = message(b'', sent_ms=sent_ms, ttl_s=30.0)
    assert least <= int(made.properties['expiration']) <= most
    assert sent_ms in (None, headers(made)['sent_ms'])


def test_a_message_of_others_may_be_bare():
    assert (body(amqp.Message('')), headers(amqp.Message())) == (b'', {})


def link(rabbit):
    return Link(rabbit.connect(), CLASSIC, 1.5)


def test_a_link_makes_what_must_always_be_there():
    rabbit = Rabbit()
    made = link(rabbit)
    assert made.send(FALLBACK, message(b'1'))
    assert made.send(RESULTS, message(b'2'))
    assert not made.send(TINY, message(b'3'))
    assert made.send(RESULTS, message(b'4'))
    assert (rabbit.bodies(FALLBACK), rabbit.bodies(RESULTS)) == ([b'1'], [b'2', b'4'])


@table(
    'row',
    {
        'none': '',
        'new ones': 'nnn',
        'the same ones': 'sss',
        'others': 'ddd',
        'all kinds': 'nsdnsd',
        'new ones after others': 'dnndds',
        'a new one at the end': 'sddddn',
        'more than a batch': 'n' * 700 + 'd' * 700 + 'n' * 3,
    },
)
def test_a_link_makes_and_binds_those_that_are_not_there(row):
    names = [f'flavor.{kind}{number}' for number, kind in enumerate(row)]
    rabbit = Rabbit()
    made = link(rabbit)
    for name in names:
        if name.startswith(('flavor.s', 'flavor.d')):
            after_s = 1.5 if name.startswith('flavor.s') else 2.5
            queue = Queue(arguments=arguments(name, CLASSIC, after_s))
            rabbit.queues[amqp_link.on_broker(name)] = queue
    rabbit.said.clear()
    differ = made.declare(names)
    assert [name for _, name in rabbit.said] == [
        name for name in names if name.startswith('flavor.n')
    ]
    assert all(made.send(name, message(b'')) for name in names)
    others = [name for name in names if name.startswith('flavor.d')]
    assert set(differ) <= set(others)
    assert bool(differ) == bool(others)


def test_facts():
    rabbit = Rabbit()
    made = link(rabbit)
    assert made.facts(TINY) is None
    made.declare([TINY])
    made.send(TINY, message(b''))
    assert made.facts(TINY) == QueueFacts(TINY, ready=1, consumers=0)


@table('classic', {'classic': True, 'quorum': False})
def test_what_waits_in_a_queue_that_ends_is_moved(classic):
    rabbit = Rabbit()
    made = link(rabbit)
    made.declare([TINY])
    for number in range(3):
        made.send(TINY, message(b'%d' % number, tries=number))
    moved = []
    made.drop(TINY, classic, lambda: moved.append(None))
    assert len(moved) == 3
    assert amqp_link.on_broker(TINY) not in rabbit.queues
    assert rabbit.bodies(FALLBACK) == [b'0', b'1', b'2']
    said = [headers(content) for content, _ in rabbit.queues['nova_sched.fallback'].ready]
    assert [(one['tries'], one['reason']) for one in said] == [
        (0, DROPPED),
        (1, DROPPED),
        (2, DROPPED),
    ]
    made.drop(TINY, classic, lambda: moved.append(None))
    assert len(moved) == 3


def test_what_is_given_back_while_a_queue_ends_is_moved_too():
    class Slow(Rabbit):
        """A consumer gives a message back just before the queue is deleted for the first time."""

        given = False

        def connect(self):
            made = super().connect()
            channel, rabbit = made.channel, self

            def late():
                found = channel()
                delete = found.queue_delete

                def first(name, if_empty):
                    if not rabbit.given:
                        rabbit.given = True
                        rabbit.queues[name].ready.append((message(b'late'), True))
                    delete(name, if_empty)

                found.queue_delete = first
                return found

            made.channel = late
            return made

    rabbit = Slow()
    made = link(rabbit)
    made.declare([TINY])
    moved = []
    made.drop(TINY, True, lambda: moved.append(None))
    assert (len(moved), rabbit.bodies(FALLBACK)) == (1, [b'late'])
    assert amqp_link.on_broker(TINY) not in rabbit.queues


def test_a_quorum_queue_is_not_deleted_as_a_classic_one():
    rabbit = Rabbit(quorum=[TINY])
    with pytest.raises(AMQPNotImplementedError):
        link(rabbit).drop(TINY, True, lambda: None)
    assert amqp_link.on_broker(TINY) in rabbit.queues
    link(rabbit).drop(TINY, False, lambda: None)
    assert amqp_link.on_broker(TINY) not in rabbit.queues


def test_nothing_is_taken_from_a_queue_if_it_can_go_nowhere():
    rabbit = Rabbit()
    made = link(rabbit)
    made.declare([TINY])
    made.send(TINY, message(b'1'))
    rabbit.drop(FALLBACK)
    with pytest.raises(errors.BrokerUnavailable, match='fallback'):
        made.drop(TINY, True, lambda: None)
    made.close()
    assert rabbit.bodies(TINY) == [b'1']


def test_a_link_that_is_closed_sends_nothing():
    rabbit = Rabbit()
    made = link(rabbit)
    made.close()
    assert rabbit.connections[0].lost
    with pytest.raises(ERRORS):
        made.declare([TINY])


# The broker without a RabbitMQ.


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


@each_afresh(
    'call',
    {
        'declare': lambda broker: broker.declare(['flavor.tiny']),
        'drop': lambda broker: broker.drop('flavor.tiny'),
        'facts': lambda broker: broker.facts('flavor.tiny'),
        'publish': lambda broker: broker.publish('flavor.tiny', b''),
        'consumer': lambda broker: broker.consumer(print, 'nobody'),
    },
)
def test_a_broker_that_is_away_is_told(nowhere, call):
    with pytest.raises(errors.BrokerUnavailable) as told:
        call(nowhere)
    assert 'secret' not in str(told.value)


def test_after_the_end_nothing_is_sent(nowhere):
    nowhere.close()
    with pytest.raises(errors.BrokerUnavailable, match='closed'):
        nowhere.publish('flavor.tiny', b'')

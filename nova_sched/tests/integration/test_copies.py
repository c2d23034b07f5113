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
"""Copies of the calls to a scheduler, on RabbitMQ."""

import collections
import contextlib
import json
import threading
import time
import uuid

import amqp
import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc import rabbit
from nova_sched.rpc.copies import PREFETCH, CallCopies
from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.functional.test_rpc_recorded import CALLS
from nova_sched.tests.reference import wire

PATIENCE_S = 30.0
SETTLE_S = 0.5  # until the broker has dropped what a queue does not hold
TOKEN = 'gAAAAA-a-token-of-keystone'


class Bus:
    """A virtual host with the exchange and the queue of a scheduler, and a sender."""

    def __init__(self, url, has_exchange=True):
        self.url, self.name = url, url.rpartition('/')[2]
        self._connection = rabbit.connect(rabbit.cluster(url), 'test')
        self.channel = self._connection.channel()
        if has_exchange:
            self.declare()

    def declare(self):
        self.channel.exchange_declare('nova', 'topic', durable=False, auto_delete=False)
        self.channel.queue_declare('scheduler', auto_delete=False)
        self.channel.queue_bind('scheduler', 'nova', 'scheduler')

    def send(self, message, context=None, key='scheduler'):
        """As oslo.messaging sends a call."""
        inner = dict(message)
        inner |= {f'_context_{name}': value for name, value in (context or {}).items()}
        inner |= {'_msg_id': uuid.uuid4().hex, '_reply_q': 'reply_1', '_timeout': 60}
        self.publish(json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(inner)}), key)

    def publish(self, text, key='scheduler'):
        words = {'content_type': 'application/json', 'content_encoding': 'utf-8'}
        self.channel.basic_publish(amqp.Message(text, **words), 'nova', key)

    def waiting(self):
        """How many messages wait for the scheduler."""
        return self.channel.queue_declare('scheduler', passive=True).message_count

    def close(self):
        rabbit.close(self._connection)


class Copies:
    """The copies that have arrived; ``may_take`` holds them up while it is not set."""

    def __init__(self, url, most=100, **words):
        self.calls, self.counts = [], collections.Counter()
        self.may_take = threading.Event()
        self.may_take.set()
        self.bus = rpc.transport(CONF, url)
        self._copies = CallCopies(self.bus, self._take, most, self.counts, **words)
        self._copies.start()

    def _take(self, call):
        self.may_take.wait(PATIENCE_S)
        self.calls.append(call)

    def close(self):
        self.may_take.set()
        self._copies.stop()
        self.bus.cleanup()


@pytest.fixture
def stack():
    with contextlib.ExitStack() as made:
        yield made


@pytest.fixture
def bus(rabbitmq, stack):
    made = Bus(rabbitmq.fresh())
    stack.callback(made.close)
    return made


def queues(rabbitmq, bus):
    """The queues that get copies, as the broker shows them."""
    bindings = rabbitmq.ask('GET', f'bindings/{bus.name}')
    bound = {one['destination'] for one in bindings if one['source'] == 'nova'}
    found = rabbitmq.ask('GET', f'queues/{bus.name}')
    return [
        one
        for one in found
        if one['name'].startswith('scheduler_shadow_') and one['name'] in bound
    ]


@pytest.fixture
def watch(rabbitmq, bus, stack):
    """Start to take copies, and wait until the queue is there."""

    def start(url=None, **words):
        made = Copies(url or bus.url, **words)
        stack.callback(made.close)
        eventually(lambda: queues(rabbitmq, bus), PATIENCE_S)
        return made

    return start


def test_every_recorded_call_is_copied(bus, watch):
    copies = watch()
    for number, name in enumerate(CALLS, start=1):
        call = wire(name)
        bus.send(call['message'], {**call['context'], 'auth_token': TOKEN, 'service_catalog': [1]})
        eventually(lambda number=number: len(copies.calls) == number, PATIENCE_S)
        found, arguments = copies.calls[-1], call['message']['args']
        named = arguments.get('instance_uuids')
        assert found.is_named == bool(named)
        assert not named or [one.instance_uuid for one in found.requests] == named
        assert found.context.request_id == call['context']['request_id']
        assert found.context.auth_token is None
        assert TOKEN not in repr(found.context.to_dict())
    assert bus.waiting() == len(CALLS), 'the scheduler has got all of them'
    assert copies.counts == {}


def test_the_queue_is_bounded_and_goes_with_the_shadow(rabbitmq, bus, watch):
    copies = watch(most=7)
    (queue,) = queues(rabbitmq, bus)
    assert queue['arguments'] == {'x-max-length': 7, 'x-overflow': 'drop-head'}
    assert (queue['exclusive'], queue['auto_delete'], queue['durable']) == (True, True, False)
    bindings = rabbitmq.ask('GET', f'queues/{bus.name}/{queue["name"]}/bindings')
    assert [(one['source'], one['routing_key']) for one in bindings if one['source']] == [
        ('nova', 'scheduler')
    ]
    copies.close()
    eventually(lambda: not queues(rabbitmq, bus), PATIENCE_S)


CALL = 'select_destinations-boot-1'
OTHERS = [
    pytest.param({'method': 'ping', 'args': {}}, {}, id='another method'),
    pytest.param({'namespace': 'groups'}, {}, id='another namespace'),
    pytest.param({'args': {'spec_obj': 7}}, {'unreadable': 1}, id='no request'),
    pytest.param({'args': None}, {'unreadable': 1}, id='no arguments'),
]


@pytest.mark.parametrize('changes, counts', OTHERS)
def test_other_messages(bus, watch, changes, counts):
    copies, call = watch(), wire(CALL)
    bus.send({**call['message'], **changes}, call['context'])
    bus.send(call['message'], call['context'])
    eventually(lambda: copies.calls, PATIENCE_S)
    assert (len(copies.calls), copies.counts) == (1, counts)


@pytest.mark.parametrize(
    'text', ['', '{', '[]', '{"oslo.version": "9.0", "oslo.message": "{}"}', '\x00']
)
def test_a_text_that_is_no_message(bus, watch, text):
    copies, call = watch(), wire(CALL)
    bus.publish(text)
    bus.send(call['message'], call['context'])
    eventually(lambda: copies.calls, PATIENCE_S)
    assert copies.counts == {'unreadable': 1}


def test_the_token_is_in_no_line_of_the_log(bus, watch, caplog):
    caplog.set_level('DEBUG')
    copies, call = watch(), wire(CALL)
    context = {**call['context'], 'auth_token': TOKEN}
    bus.send({**call['message'], 'args': {'spec_obj': 7}}, context)
    eventually(lambda: copies.counts, PATIENCE_S)
    assert TOKEN not in caplog.text


def test_calls_to_one_server_are_not_copied(bus, watch):
    copies, call = watch(), wire(CALL)
    bus.send(call['message'], call['context'], key='scheduler.host')
    bus.send(call['message'], call['context'])
    eventually(lambda: copies.calls, PATIENCE_S)
    assert len(copies.calls) == 1


def test_a_broker_that_comes_later(rabbitmq, stack, caplog):
    url = rabbitmq.fresh()
    late = Bus(url, has_exchange=False)
    stack.callback(late.close)
    copies = Copies(url)
    stack.callback(copies.close)
    eventually(lambda: 'cannot connect to the broker' in caplog.text, PATIENCE_S)
    assert 'NOT_FOUND' in caplog.text, 'the exchange belongs to Nova'
    late.declare()
    eventually(lambda: queues(rabbitmq, late), PATIENCE_S)
    late.send(wire(CALL)['message'], wire(CALL)['context'])
    eventually(lambda: copies.calls, PATIENCE_S)


def test_a_connection_that_is_cut(rabbitmq, bus, watch, stack):
    proxy = stack.enter_context(Proxy(rabbitmq.port))
    copies = watch(bus.url.replace(f':{rabbitmq.port}/', f':{proxy.port}/'))
    (before,) = queues(rabbitmq, bus)
    proxy.reset()
    eventually(
        lambda: [one for one in queues(rabbitmq, bus) if one['name'] != before['name']], PATIENCE_S
    )
    bus.send(wire(CALL)['message'], wire(CALL)['context'])
    eventually(lambda: copies.calls, PATIENCE_S)


def test_a_queue_that_is_full_is_told(bus, watch, caplog):
    copies, call = watch(most=3, check_s=0.1), wire(CALL)
    copies.may_take.clear()
    count = PREFETCH + 20
    for _ in range(count):
        bus.send(call['message'], call['context'])
    eventually(lambda: bus.waiting() == count, PATIENCE_S)
    time.sleep(SETTLE_S)
    copies.may_take.set()
    eventually(lambda: copies.counts['overflows'], PATIENCE_S)
    eventually(lambda: len(copies.calls) >= PREFETCH + 3, PATIENCE_S)
    assert len(copies.calls) < count
    assert 'The queue of copies is full (3)' in caplog.text


def test_a_bus_that_is_not_rabbitmq():
    bus = rpc.transport(CONF, 'fake://')
    with pytest.raises(errors.BadConfig):
        CallCopies(bus, None, 1, collections.Counter())

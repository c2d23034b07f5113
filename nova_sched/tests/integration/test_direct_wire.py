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
"""The direct server on the wire: what it sends and declares is what oslo.messaging's server does,
byte by byte."""

import contextlib
import json
import re
import struct
import threading
import time
import uuid

import amqp
import oslo_messaging as messaging
import pytest
from amqp import transport

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc import rabbit, servers
from nova_sched.rpc.messages import expected
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.options import settings

TOPIC, REPLIES, PATIENCE_S = 'wire', 'reply_wire', 20.0
PUBLISH = struct.pack('>HH', 60, 40)
UNIQUE = re.compile(rb'[0-9a-f]{32}')


class Endpoint:
    """Answers of every kind."""

    target = messaging.Target(version='1.3')

    @expected
    def echo(self, context, **given):
        return given

    @expected
    def nothing(self, context):
        return None

    @expected
    def refuse(self, context):
        raise errors.NoValidHost('There are not enough hosts: ß')

    @expected
    def invalid(self, context):
        raise errors.InvalidRequest('there', 'because')

    @expected
    def fail(self, context):
        raise RuntimeError('broken', 7)

    @expected
    def slow(self, context):
        time.sleep(2.5)
        return 'late'


CALLS = [
    pytest.param('echo', {'a': [1, 2.5, None, True], 'b': {'ü': 'ß\u2028"'}}, id='answer'),
    pytest.param('echo', {'a': 'x' * 200_000}, id='a long answer'),
    pytest.param('nothing', {}, id='none'),
    pytest.param('refuse', {}, id='refusal'),
    pytest.param('invalid', {}, id='error of this package'),
    pytest.param('fail', {}, id='unexpected error'),
    pytest.param('echo', {'context': 1}, id='wrong arguments'),
    pytest.param('missing', {}, id='no such method'),
]


@pytest.fixture(scope='module')
def written():
    """Every write to a broker, as (transport, bytes)."""
    kept, patch = [], pytest.MonkeyPatch()
    original = transport._AbstractTransport.write

    def write(self, data):
        kept.append((self, bytes(data)))
        original(self, data)

    patch.setattr(transport._AbstractTransport, 'write', write)
    yield kept
    patch.undo()


class Raw:
    """A caller that sends bytes, and a server; ``sent`` are the server's answers on the wire."""

    def __init__(self, rabbitmq, written, is_direct):
        self._written = written
        url = rabbitmq.fresh()
        self.bus = rpc.transport(CONF, url)
        self.connection = rabbit.connect(rabbit.cluster(url), 'raw')
        self.channel = self.connection.channel()
        self.channel.auto_decode = False
        self.channel.queue_declare(REPLIES, auto_delete=False)
        self._endpoint = Endpoint()
        self._server = servers.server(
            self.bus, 'host', [self._endpoint], TOPIC, is_direct=is_direct
        )
        self._server.start()

    def call(self, method, args, **more):
        """Return the answers: (bytes on the wire, text, properties)."""
        begin = len(self._written)
        msg_id = uuid.uuid4().hex
        inner = {'method': method, 'args': args, 'version': '1.0', 'namespace': None}
        inner |= {'_context_user': 'me', '_msg_id': msg_id, '_reply_q': REPLIES}
        self.publish(inner | {'_unique_id': uuid.uuid4().hex} | more)
        answers = []
        while not answers or not json.loads(answers[-1][0]['oslo.message'])['ending']:
            answers.append(self._answer())
        mine = [
            data
            for one, data in self._written[begin:]
            if one is not self.connection.transport and PUBLISH in data[:20]
        ]
        return msg_id, answers, mine

    def publish(self, inner):
        text = json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(inner)})
        message = amqp.Message(
            text, content_type='application/json', content_encoding='utf-8', delivery_mode=2
        )
        self.channel.basic_publish(message, 'nova', TOPIC)

    def _answer(self):
        found = eventually(lambda: self.channel.basic_get(REPLIES, no_ack=True), PATIENCE_S)
        return json.loads(found.body), found.body, found.properties

    def close(self):
        self._server.stop()
        self._server.finish()
        rabbit.close(self.connection)
        self.bus.cleanup()


@pytest.fixture(scope='module')
def both(rabbitmq, written):
    with contextlib.ExitStack() as stack:
        made = []
        for is_direct in (False, True):
            made.append(Raw(rabbitmq, written, is_direct))
            stack.callback(made[-1].close)
        yield made


def without_ids(data, msg_id):
    """The bytes without the channel, and without ids that differ in each message."""
    return UNIQUE.sub(b'#', data.replace(msg_id.encode(), b'MSG'))[3:]


def without_traceback(text):
    """The text of an answer; the lines of a traceback are those of the server."""
    envelope = json.loads(text)
    inner = json.loads(envelope['oslo.message'])
    if inner['failure']:
        failure = json.loads(inner['failure'])
        assert failure['tb'][0].startswith('Traceback')
        inner['failure'] = json.dumps({**failure, 'tb': []})
    return json.dumps({**envelope, 'oslo.message': json.dumps(inner)}).encode()


@pytest.mark.parametrize('method, args', CALLS)
def test_an_answer_has_the_bytes_of_oslo_messaging(both, method, args):
    found = [one.call(method, args) for one in both]
    texts = [
        [without_ids(without_traceback(text), msg_id) for _, text, _ in answers]
        for msg_id, answers, _ in found
    ]
    assert texts[0] == texts[1]
    properties = [[kept for _, _, kept in answers] for _, answers, _ in found]
    assert properties[0] == properties[1]
    frames = [[without_ids(data, msg_id) for data in sent] for msg_id, _, sent in found]
    assert [len(sent) for sent in frames] == [1, 1]
    if method in ('echo', 'nothing', 'refuse', 'invalid'):
        assert frames[0] == frames[1]


def test_the_heartbeats(both):
    """Some in 2.5 s for a caller that waits 2 s, each as oslo.messaging sends it; how many, the
    machine decides."""
    found = [one.call('slow', {}, _timeout=2) for one in both]
    frames = [[without_ids(data, msg_id) for data in sent] for msg_id, _, sent in found]
    for sent in frames:
        *heartbeats, answer = sent
        assert heartbeats
        assert all(heartbeat == frames[0][0] for heartbeat in heartbeats)
        assert answer == frames[0][-1] != heartbeats[0]


def test_a_cast_has_no_answer(both):
    for one in both:
        one.publish({'method': 'echo', 'args': {'a': 1}, '_unique_id': 'c' * 32})
        _, answers, _ = one.call('nothing', {})
        assert len(answers) == 1


@pytest.mark.parametrize(
    'body',
    [b'', b'no json', b'[]', b'{"oslo.version": "3.0", "oslo.message": "{}"}', b'\xff\xfe'],
    ids=repr,
)
def test_what_is_no_message_is_dropped(both, body):
    for one in both:
        message = amqp.Message(body, content_type='application/json', content_encoding='utf-8')
        one.channel.basic_publish(message, 'nova', TOPIC)
        _, answers, _ = one.call('nothing', {})
        assert len(answers) == 1


DECLARED = {
    'plain': {},
    'durable': {'amqp_durable_queues': True},
    'auto-deleted': {'amqp_auto_delete': True},
    'quorum': {
        'rabbit_quorum_queue': True,
        'rabbit_transient_quorum_queue': True,
        'rabbit_quorum_delivery_limit': 7,
        'rabbit_quorum_max_memory_length': 1000,
        'rabbit_quorum_max_memory_bytes': 100_000,
    },
    'kept for good': {'rabbit_transient_queues_ttl': 0, 'enable_cancel_on_failover': True},
    'mirrored': {'rabbit_ha_queues': True, 'rabbit_qos_prefetch_count': 5},
    'stream': {
        'rabbit_stream_fanout': True,
        'rabbit_transient_quorum_queue': True,
        'rabbit_qos_prefetch_count': 10,
    },
}


@pytest.mark.parametrize('options', DECLARED.values(), ids=list(DECLARED))
def test_the_same_queues_are_declared(rabbitmq, options):
    with settings({f'oslo_messaging_rabbit.{name}': value for name, value in options.items()}):
        seen = [declared(rabbitmq, is_direct) for is_direct in (False, True)]
    assert seen[0] == seen[1]


def declared(rabbitmq, is_direct):
    """Queues, exchanges, bindings and consumers of a server, and the queues that it leaves."""
    url = rabbitmq.fresh()
    host = url.rpartition('/')[2]
    bus = rpc.transport(CONF, url)
    server = servers.server(bus, 'host', [Endpoint()], TOPIC, is_direct=is_direct)
    server.start()

    def facts(kind, *words):
        return sorted(
            json.dumps({word: one[word] for word in words}, sort_keys=True)
            for one in known(rabbitmq, f'{kind}/{host}')
        )

    def picture():
        return [
            facts('queues', 'name', 'durable', 'auto_delete', 'exclusive', 'arguments'),
            facts('exchanges', 'name', 'type', 'durable', 'auto_delete', 'arguments'),
            facts('bindings', 'source', 'destination', 'routing_key', 'arguments'),
            facts('consumers', 'queue', 'ack_required', 'consumer_tag', 'arguments', 'exclusive'),
        ]

    eventually(lambda: len(known(rabbitmq, f'consumers/{host}')) == 3)
    running = picture()
    server.stop()
    server.finish()
    bus.cleanup()
    eventually(lambda: not known(rabbitmq, f'consumers/{host}'))
    return [UNIQUE.sub(b'#', str(one).encode()) for one in (running, picture()[:3])]


def known(rabbitmq, path):
    found = rabbitmq.ask('GET', path)
    for one in found:
        if isinstance(one.get('queue'), dict):
            one['queue'] = one['queue']['name']
    return found


def test_threads_are_gone(both):
    """Nothing of the calls above is left running but the servers themselves."""
    assert [one.name for one in threading.enumerate() if '_watchdog' in one.name] == []

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
"""The direct server when connections break, messages come twice, and callers come in crowds."""

import bz2
import collections
import contextlib
import json
import threading
import time
import uuid
import zlib

import amqp
import oslo_messaging as messaging
import pytest
import trustme

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.engine.loop import Deferred, Loop
from nova_sched.rpc import rabbit, servers
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.messages import begins, expected, once
from nova_sched.tests.fixtures import process
from nova_sched.tests.fixtures.proxy import TO_CLIENT, Proxy
from nova_sched.tests.fixtures.rabbitmq import address
from nova_sched.tests.functional.harness import at_once, eventually
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each

TOPIC, PATIENCE_S = 'storm', 30.0
DURABLE = {
    'oslo_messaging_rabbit.amqp_durable_queues': True,
    'oslo_messaging_rabbit.rabbit_transient_quorum_queue': True,
}


class Endpoint:
    """Counts its calls by their name. ``hold`` lets them wait until ``go`` is set."""

    target = messaging.Target(version='1.0')

    def __init__(self):
        self.seen = collections.Counter()
        self.go = threading.Event()
        self.go.set()
        self.loop = Loop({'work': self._work}, 64)
        self.loop.start()

    def hold(self):
        self.go.clear()

    def _work(self, messages):
        self.go.wait(PATIENCE_S)
        for message in messages:
            self.seen[message.work] += 1
            message.answer(message.work)

    @expected
    @begins
    def decide(self, context, name):
        future = self.loop.send('work', name)
        return Deferred(future, future.result)

    @expected
    def block(self, context, name):
        self.go.wait(PATIENCE_S)
        self.seen[name] += 1
        return name

    @expected
    @once
    def plan(self, context, name):
        return self.block(context, name)


class Server:
    """A direct server with its endpoint on this URL."""

    def __init__(self, url, name='host', is_direct=True):
        self.bus = rpc.transport(CONF, url)
        self.endpoint = Endpoint()
        self.server = servers.server(
            self.bus, name, [self.endpoint], TOPIC, is_direct=is_direct, loop=self.endpoint.loop
        )
        self.server.start()
        self._is_ended = False

    def stop(self):
        self.server.stop()
        self.server.finish()
        self._is_ended = True

    def close(self):
        self.endpoint.go.set()
        if not self._is_ended:
            self.stop()
        self.endpoint.loop.stop()
        self.bus.cleanup()


class World:
    """A virtual host with servers, a client, and a look at its queues."""

    def __init__(self, broker, stack, url=None):
        self._broker, self._stack = broker, stack
        self.url = url or broker.fresh()
        self.name = self.url.rpartition('/')[2]
        self._bus = rpc.transport(CONF, self.url)
        stack.callback(self._bus.cleanup)

    def server(self, url=None, name='host', is_direct=True):
        made = Server(url or self.url, name, is_direct)
        self._stack.callback(made.close)
        return made

    def call(self, name, method='decide', **more):
        target = messaging.Target(exchange=rpc.EXCHANGE, topic=TOPIC, version='1.0')
        caller = messaging.get_rpc_client(self._bus, target, timeout=4 * PATIENCE_S)
        return caller.prepare(**more).call({}, method, name=name)

    def publish(self, message):
        """Send a message as it is."""
        self.publish_body(json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(message)}))

    def publish_body(self, body, **properties):
        connection = rabbit.connect(rabbit.cluster(self.url), 'raw')
        with contextlib.closing(connection):
            headers = {'content_type': 'application/json', 'content_encoding': 'utf-8'}
            sent = amqp.Message(body, **headers, **properties)
            connection.channel().basic_publish(sent, rpc.EXCHANGE, TOPIC)

    def cast(self, name, method='decide', **more):
        target = messaging.Target(exchange=rpc.EXCHANGE, topic=TOPIC, version='1.0')
        caller = messaging.get_rpc_client(self._bus, target)
        return caller.prepare(**more).cast({}, method, name=name)

    def calls(self, names, method='decide'):
        """Calls that are under way: (threads, answers by name)."""
        found = {}

        def work(name):
            try:
                found[name] = self.call(name, method)
            except Exception as error:  # noqa: BLE001, it is compared
                found[name] = error

        threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        return threads, found

    def proxy(self):
        proxy = self._stack.enter_context(Proxy(self._broker.port))
        return proxy, address(proxy.port, self.name)

    def channel(self):
        connection = rabbit.connect(rabbit.cluster(self.url), 'test')
        self._stack.callback(rabbit.close, connection)
        return connection.channel()

    def waiting(self):
        """Messages of the topic that are in its queue, delivered or not."""
        facts = self._broker.ask('GET', f'queues/{self.name}/{TOPIC}')
        return facts.get('messages')

    def drained(self):
        """Every message was acknowledged. The management API is seconds behind."""
        return self.waiting() == 0


@pytest.fixture
def world(rabbitmq):
    with contextlib.ExitStack() as stack:
        yield World(rabbitmq, stack)


@pytest.fixture
def server(world):
    return world.server()


def names(count):
    return [f'name-{number}' for number in range(count)]


def joined(threads):
    for thread in threads:
        thread.join(4 * PATIENCE_S)


def test_another_transport_is_refused_when_the_server_is_made():
    bus = rpc.transport(CONF, 'fake://')
    with pytest.raises(errors.BadConfig, match=r'\[scheduler\] rpc_server'):
        servers.server(bus, 'host', [Endpoint()], TOPIC, is_direct=True)
    bus.cleanup()


@pytest.mark.parametrize('method', ['decide', 'block', 'plan'])
def test_every_way_to_it(world, server, method):
    assert world.call('topic', method) == 'topic'
    assert world.call('own', method, server='host') == 'own'
    world.cast('cast', method)
    world.cast('all', method, fanout=True)
    eventually(lambda: len(server.endpoint.seen) == 4)
    eventually(world.drained)
    assert set(server.endpoint.seen.values()) == {1}


@pytest.mark.parametrize('method', ['decide', 'block'])
def test_a_lost_connection_while_calls_are_handled(world, method):
    """Each call is handled once and answered, though RabbitMQ delivers all of them again."""
    proxy, url = world.proxy()
    server = world.server(url)
    server.endpoint.hold()
    threads, found = world.calls(names(20), method)
    eventually(lambda: len(server.server._calls) == 20)
    proxy.reset()
    eventually(lambda: proxy.links == 0 or server.server._bus.session is None)
    eventually(lambda: server.server._bus.session is not None and proxy.links > 0)
    server.endpoint.go.set()
    joined(threads)
    assert found == {name: name for name in names(20)}
    assert server.endpoint.seen == dict.fromkeys(names(20), 1)
    eventually(world.drained)


def test_answers_that_were_decided_while_the_connection_was_lost(world):
    proxy, url = world.proxy()
    server = world.server(url)
    server.endpoint.hold()
    threads, found = world.calls(names(10))
    eventually(lambda: len(server.server._calls) == 10)
    proxy.cut()
    eventually(lambda: server.server._bus.session is None)
    server.endpoint.go.set()
    eventually(lambda: sum(server.endpoint.seen.values()) == 10)
    proxy.restore()
    joined(threads)
    assert found == {name: name for name in names(10)}
    assert server.endpoint.seen == dict.fromkeys(names(10), 1)
    eventually(world.drained)


def test_connections_that_are_lost_all_the_time(world):
    proxy, url = world.proxy()
    server = world.server(url)
    threads, found = world.calls(names(100))
    for _ in range(10):
        time.sleep(0.2)
        proxy.reset()
    joined(threads)
    assert found == {name: name for name in names(100)}
    assert server.endpoint.seen == dict.fromkeys(names(100), 1)
    eventually(world.drained)


def test_another_server_takes_what_a_lost_one_did_not_answer(world):
    proxy, url = world.proxy()
    lost = world.server(url, 'lost')
    lost.endpoint.hold()
    threads, found = world.calls(names(5))
    eventually(lambda: len(lost.server._calls) == 5)
    proxy.cut()
    other = world.server(name='other')
    joined(threads)
    assert found == {name: name for name in names(5)}
    assert other.endpoint.seen == dict.fromkeys(names(5), 1)
    proxy.restore()


def test_what_must_not_be_repeated_is_not_delivered_again(world):
    proxy, url = world.proxy()
    lost = world.server(url, 'lost')
    lost.endpoint.hold()
    threads, found = world.calls(['plan'], 'plan')
    eventually(lambda: len(lost.server._calls) == 1)
    eventually(world.drained)
    proxy.reset()
    other = world.server(name='other')
    eventually(lambda: lost.server._bus.session is not None)
    lost.endpoint.go.set()
    joined(threads)
    assert (found, other.endpoint.seen) == ({'plan': 'plan'}, {})


def test_confirms_that_are_late(world):
    """Without confirms nothing is acknowledged, and everything goes on after they come."""
    proxy, url = world.proxy()
    server = world.server(url)
    server.endpoint.hold()
    threads, found = world.calls(names(10))
    eventually(lambda: len(server.server._calls) == 10)
    proxy.blackhole(TO_CLIENT)
    server.endpoint.go.set()
    joined(threads)
    assert found == {name: name for name in names(10)}
    assert len(server.server._calls) == 10
    proxy.restore()
    eventually(lambda: not server.server._calls)
    eventually(world.drained)
    assert server.endpoint.seen == dict.fromkeys(names(10), 1)


def sent_raw(channel, name, reply_q):
    inner = {'method': 'decide', 'args': {'name': name}, 'version': '1.0'}
    inner |= {'_msg_id': name, '_reply_q': reply_q, '_unique_id': uuid.uuid4().hex}
    text = json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(inner)})
    message = amqp.Message(text, content_type='application/json', content_encoding='utf-8')
    channel.basic_publish(message, rpc.EXCHANGE, TOPIC)


def test_a_caller_that_is_gone(world, caplog):
    """Its answer is dropped after a while, and later ones at once. Others get theirs meanwhile."""
    with settings({'oslo_messaging_rabbit.kombu_missing_consumer_retry_timeout': 1}):
        server = world.server()
        channel = world.channel()
        sent_raw(channel, 'first', 'reply_gone')
        assert world.call('other') == 'other'
        eventually(lambda: 'Abandoning' in caplog.text)
        sent_raw(channel, 'second', 'reply_gone')
        eventually(lambda: "doesn't exist, drop reply to second" in caplog.text)
        eventually(world.drained)
        assert set(server.endpoint.seen) == {'first', 'other', 'second'}


def test_a_caller_that_comes_back(world):
    """As after a restart of the broker, when a caller creates its reply queue again."""
    world.server()
    channel = world.channel()
    sent_raw(channel, 'early', 'reply_late')
    time.sleep(1.0)
    channel.queue_declare('reply_late')
    found = eventually(lambda: channel.basic_get('reply_late', no_ack=True))
    inner = json.loads(json.loads(found.body)['oslo.message'])
    assert (inner['_msg_id'], inner['result']) == ('early', 'early')


CALL = {'method': 'decide', 'args': {'name': 'spoiled'}, 'version': '1.0'}


@each(
    'spoiled',
    [
        pytest.param({'_unique_id': ['x']}, id='a list as unique id'),
        pytest.param({'_unique_id': {}}, id='a mapping as unique id'),
        pytest.param({'_unique_id': 'x' * 300}, id='a long unique id'),
        pytest.param({'_reply_q': {'x': 1}}, id='a mapping as reply queue'),
        pytest.param({'_reply_q': 7}, id='a number as reply queue'),
        pytest.param({'_reply_q': 'q' * 300}, id='a long name of the reply queue'),
        pytest.param({'_reply_q': '\ud800'}, id='a name that no queue can have'),
        pytest.param({'_msg_id': ['x'], '_reply_q': 'away'}, id='a list as message id'),
        pytest.param({'_timeout': [60]}, id='a list as timeout'),
        pytest.param({'method': ['decide']}, id='a list as method'),
        pytest.param({'namespace': ['x']}, id='a list as namespace'),
        pytest.param({'args': ['name']}, id='a list as arguments'),
    ],
)
def test_a_spoiled_message_is_handled_once(world, server, caplog, spoiled):
    server.endpoint.seen.clear()
    world.publish({**CALL, '_msg_id': uuid.uuid4().hex, **spoiled})
    assert world.call('sound') == 'sound'
    assert server.endpoint.seen['spoiled'] <= 1
    assert 'connects again' not in caplog.text


def test_a_broker_that_takes_no_messages_for_a_while(rabbitmq, world, server):
    """Its connections are blocked; the answers are sent when they are not any more."""
    server.endpoint.hold()
    threads, found = world.calls(names(20), 'block')
    eventually(lambda: len(server.server._calls) == 20)
    rabbitmq.block(True)
    try:
        server.endpoint.go.set()
        eventually(lambda: len(server.endpoint.seen) == 20)
        time.sleep(3.0)
        assert found == {}
    finally:
        rabbitmq.block(False)
    joined(threads)
    assert found == {name: name for name in names(20)}
    assert set(server.endpoint.seen.values()) == {1}


def test_a_reply_queue_that_is_full_for_a_while(rabbitmq, world, server):
    """RabbitMQ refuses the answers; they are sent until it takes them."""
    assert world.call('first') == 'first'  # from now on the reply queue exists
    policy, limits = f'policies/{world.name}/full', {'max-length': 0, 'overflow': 'reject-publish'}
    full = {'pattern': '^reply_', 'definition': limits, 'apply-to': 'queues'}
    rabbitmq.ask('PUT', policy, full)
    threads, found = world.calls(names(5))
    eventually(lambda: len(server.endpoint.seen) == 6)
    time.sleep(2.0)
    assert found == {}
    rabbitmq.ask('DELETE', policy)
    joined(threads)
    assert found == {name: name for name in names(5)}
    assert set(server.endpoint.seen.values()) == {1}


def test_calls_over_tls(rabbitmq):
    with contextlib.ExitStack() as stack:
        world = World(rabbitmq, stack, rabbitmq.with_tls(rabbitmq.fresh()))
        world.server()
        assert at_once(world.call, names(100)) == names(100)
        long = 'x' * 1_000_000
        assert world.call(long) == long


@pytest.mark.parametrize('side', ['server', 'client'])
def test_certificates_are_checked_on_both_sides(rabbitmq, tmp_path, side):
    another = tmp_path / 'ca'
    trustme.CA().cert_pem.write_to_path(another)
    options = {'ssl_ca_file': str(another)}
    if side == 'client':
        options = {'ssl_cert_file': '', 'ssl_key_file': ''}
    bus = rpc.transport(CONF, rabbitmq.with_tls(rabbitmq.url, **options))
    cluster = direct_settings.of(bus).cluster
    with pytest.raises(errors.BrokerUnavailable, match=r'(?i)ssl|certificate|closed|reset'):
        rabbit.close(rabbit.connect(cluster, 'refused'))
    bus.cleanup()


# The same broker under a name that its certificate does not hold.
OTHER_NAME = '127.1'


def named(url, *hosts):
    """The URL with these hosts in place of its own one."""
    login, _, rest = url.removeprefix('rabbit://').partition('@')
    port, _, more = rest.partition(':')[2].partition('/')
    return f'rabbit://{",".join(f"{login}@{host}:{port}" for host in hosts)}/{more}'


def queues(url):
    return rabbit.cluster(url)


def direct(url):
    bus = rpc.transport(CONF, url)
    try:
        return direct_settings.of(bus).cluster
    finally:
        bus.cleanup()


@pytest.mark.parametrize('cluster', [queues, direct])
def test_the_name_of_each_broker_is_checked(rabbitmq, cluster):
    url = rabbitmq.with_tls(rabbitmq.url)
    alone, several = named(url, OTHER_NAME), named(url, OTHER_NAME, process.LOOPBACK, OTHER_NAME)
    for other in (alone, named(url, OTHER_NAME, OTHER_NAME)):
        with pytest.raises(errors.BrokerUnavailable, match='mismatch'):
            rabbit.connect(cluster(other), 'refused')
    told = cluster(several)
    for _ in range(8):  # whichever is tried first, and also after it was refused
        rabbit.close(rabbit.connect(told, 'accepted'))


def test_the_name_of_a_broker_can_be_given(rabbitmq):
    url = named(rabbitmq.with_tls(rabbitmq.url), OTHER_NAME)
    given = rabbit.cluster(f'{url}&ssl_server_hostname={process.LOOPBACK}')
    rabbit.close(rabbit.connect(given, 'accepted'))


@pytest.mark.parametrize('hosts', [(OTHER_NAME, process.LOOPBACK), (process.LOOPBACK, OTHER_NAME)])
def test_oslo_messaging_goes_on_to_the_next_broker(rabbitmq, monkeypatch, hosts):
    monkeypatch.setattr('random.shuffle', lambda _: None)
    with contextlib.ExitStack() as stack:
        world = World(rabbitmq, stack, named(rabbitmq.with_tls(rabbitmq.fresh()), *hosts))
        world.server()
        assert world.call('sound') == 'sound'


def test_a_thousand_callers(world, server):
    """Each of 1,000 calls that are sent at once is answered once, and acknowledged."""
    channel = world.channel()
    channel.queue_declare('reply_many')
    for name in names(1000):
        sent_raw(channel, name, 'reply_many')
    found = []

    def all_are_there():
        while (one := channel.basic_get('reply_many', no_ack=True)) is not None:
            found.append(json.loads(json.loads(one.body)['oslo.message'])['result'])
        return len(found) >= 1000

    eventually(all_are_there, 2 * PATIENCE_S)
    eventually(world.drained)
    assert sorted(found) == sorted(names(1000))
    assert server.endpoint.seen == dict.fromkeys(names(1000), 1)


def test_a_crowd_of_clients(world, server):
    assert at_once(world.call, names(200)) == names(200)
    assert server.endpoint.seen == dict.fromkeys(names(200), 1)


@pytest.mark.parametrize('method', ['decide', 'block'])
def test_stop_answers_what_was_taken(world, server, method):
    server.endpoint.hold()
    threads, found = world.calls(names(30), method)
    eventually(lambda: len(server.server._calls) == 30)
    server.server.stop()
    eventually(lambda: server.server._cancelled)
    late = world.calls(['late'], method)
    server.endpoint.go.set()
    server.server.finish()
    server._is_ended = True
    joined(threads)
    assert found == {name: name for name in names(30)}
    assert 'late' not in server.endpoint.seen  # it waits in its queue
    after = world.server(name='after')
    joined(late[0])
    assert (late[1], after.endpoint.seen) == ({'late': 'late'}, {'late': 1})
    eventually(world.drained)


def test_stop_without_a_broker_ends(world):
    proxy, url = world.proxy()
    server = world.server(url)
    server.endpoint.hold()
    threads, found = world.calls(['x'])
    eventually(lambda: len(server.server._calls) == 1)
    proxy.cut()
    eventually(lambda: server.server._bus.session is None)
    begin_s = time.monotonic()
    server.stop()
    assert time.monotonic() - begin_s < PATIENCE_S
    other = world.server(name='other')
    joined(threads)
    assert (found, other.endpoint.seen) == ({'x': 'x'}, {'x': 1})


def test_stop_before_the_broker_answers(world):
    proxy, url = world.proxy()
    proxy.cut()
    bus = rpc.transport(CONF, url)
    server = servers.server(bus, 'host', [Endpoint()], TOPIC, is_direct=True)
    starting = threading.Thread(target=server.start)
    starting.start()
    time.sleep(0.5)
    server.stop()
    starting.join(PATIENCE_S)
    server.finish()
    assert not starting.is_alive()
    bus.cleanup()


def test_a_broker_that_restarts(rabbitmq, world):
    with settings(DURABLE):
        server = world.server()
        assert world.call('before') == 'before'
        server.endpoint.hold()
        threads, found = world.calls(names(5))
        eventually(lambda: len(server.server._calls) == 5)
        rabbitmq.stop()
        try:
            eventually(lambda: server.server._bus.session is None)
            server.endpoint.go.set()
        finally:
            rabbitmq.start()
        joined(threads)
        assert found == {name: name for name in names(5)}
        assert server.endpoint.seen == dict.fromkeys([*names(5), 'before'], 1)
        assert world.call('after') == 'after'


def test_a_deleted_queue_is_declared_again(world, server):
    first = server.server._bus.session
    world.channel().queue_delete(TOPIC)
    eventually(lambda: server.server._bus.session not in (first, None))
    assert world.call('again') == 'again'


def test_quorum_queues(world):
    quorum = {
        'oslo_messaging_rabbit.rabbit_quorum_queue': True,
        'oslo_messaging_rabbit.rabbit_transient_quorum_queue': True,
    }
    with settings(quorum):
        server = world.server()
        assert at_once(world.call, names(20)) == names(20)
        eventually(world.drained)
        assert server.endpoint.seen == dict.fromkeys(names(20), 1)


def test_compressed_messages(world):
    with settings({'oslo_messaging_rabbit.kombu_compression': 'gzip'}):
        world.server()
        assert world.call('x' * 1000) == 'x' * 1000


@pytest.mark.parametrize('is_direct', [True, False], ids=['direct', 'oslo'])
def test_a_message_that_expands_without_end_costs_itself(world, caplog, is_direct):
    server = world.server(is_direct=is_direct)
    for body, how in (
        (zlib.compress(bytes(1_000_000_000), 9), 'application/x-gzip'),
        (bz2.compress(bytes(100_000_000)), 'bzip2'),
        (zlib.compress(b'{}')[:-1], 'application/x-gzip'),
        (b'{}', 'application/zstd'),
        (b'{}', 'unknown'),
    ):
        world.publish_body(body, application_headers={'compression': how})
    assert world.call('sound') == 'sound'
    eventually(world.drained)
    assert dict(server.endpoint.seen) == {'sound': 1}
    assert 'connects again' not in caplog.text

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
"""Connections to RabbitMQ: addresses, opening and sharing, sending, and the queues there.

Publishers send to the exchange of this project, to which each queue is bound by its name. Before a
queue is deleted, it is unbound, and then emptied. RabbitMQ acknowledges and loses messages that
arrive while it deletes a queue, so no message may be in transit to the queue by then.
"""

import contextlib
import dataclasses
import random
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import amqp
import kombu
import kombu.compression
from amqp import spec
from amqp.exceptions import (
    AccessRefused,
    AMQPError,
    MessageNacked,
    NotAllowed,
    NotFound,
    PreconditionFailed,
)

from nova_sched import errors, urls
from nova_sched.extensions.queues import brokers, conf
from nova_sched.rpc import guarded_kombu

Result = TypeVar('Result')

# Each of these errors closes the connection that raised it.
ERRORS = (AMQPError, MessageNacked, OSError)

CONNECT_S = 5.0  # for each host
CLOSE_S = 1.0
BATCH = 500  # commands that are sent before their answers are read
SILENCE_S = 10.0  # a broker that sends nothing for this time counts as unavailable
TRUE = ('1', 'true', 'yes', 'on')


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """One node of the broker. Without a user, RabbitMQ's `guest` is used."""

    name: str
    port: int | None
    user: str | None
    password: str | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class RabbitCluster:
    """A broker with its equivalent nodes; ``tls`` is for py-amqp, False without TLS.

    Without a ``server_hostname`` in it, each node's certificate must hold the node's own name.
    ``login_method`` is one of RabbitMQ's; None: py-amqp chooses one.
    """

    hosts: tuple[Host, ...]
    virtual_host: str
    tls: bool | Mapping[str, Any]
    login_method: str | None = None


def cluster(url: str, options: Mapping[str, Any] | None = None) -> RabbitCluster:
    """Return the broker of
    `rabbit://user:password@host:port,user:password@host:port/virtual_host`.

    ``options`` are those of [oslo_messaging_rabbit]. Only ssl, ssl_ca_file, ssl_cert_file,
    ssl_key_file and ssl_server_hostname are used; the query of the URL overrides them. Raises
    BadConfig.
    """
    urls.check(url, 'transport_url of the queues')
    try:
        parts = urllib.parse.urlsplit(url)
        hosts = tuple(_host(text) for text in parts.netloc.split(',') if text)
    except ValueError:
        # The URL holds a password, and so may the text of the error.
        why = f'it cannot be understood; {urls.ADVICE}'
        raise errors.BadConfig('transport_url of the queues', why) from None
    if parts.scheme not in ('rabbit', 'kombu', 'amqp'):
        raise errors.BadConfig(
            'transport_url of the queues', f'the scheme {parts.scheme!r} is not `rabbit`'
        )
    query = dict(urllib.parse.parse_qsl(parts.query))
    return RabbitCluster(
        hosts or (Host('localhost', None, None, None),),
        urllib.parse.unquote(parts.path[1:]) or '/',
        _tls({**(options or {}), **query}),
    )


def _host(text: str) -> Host:
    split = urllib.parse.urlsplit(f'//{text}')
    user, password = (
        part and urllib.parse.unquote(part) for part in (split.username, split.password)
    )
    return Host(split.hostname or 'localhost', split.port, user, password)


def _tls(options: Mapping[str, Any]) -> bool | dict[str, Any]:
    if str(options.get('ssl', '')).lower() not in TRUE:
        return False
    names = {
        'ssl_key_file': 'keyfile',
        'ssl_cert_file': 'certfile',
        'ssl_ca_file': 'ca_certs',
        'ssl_server_hostname': 'server_hostname',
    }
    return {word: options[name] for name, word in names.items() if options.get(name)} or True


def connect(broker: RabbitCluster, name: str, heartbeat_s: float = 0.0) -> amqp.Connection:
    """Return a connection to the first node that answers, in random order.

    Raises BrokerUnavailable if none answers, BrokerRefused if one refuses the account or the
    virtual host. With heartbeats, a broker that is only busy is never silent for a whole interval.
    A reconnect then would only add to its load.
    """
    silence_s = max(SILENCE_S, heartbeat_s)
    problem = errors.BrokerUnavailable('')
    for host in random.sample(broker.hosts, len(broker.hosts)):
        bus = kombu.Connection(
            host.name,
            port=host.port,
            userid=host.user,
            password=host.password,
            virtual_host=broker.virtual_host,
            ssl=broker.tls,
            login_method=broker.login_method,
            heartbeat=heartbeat_s,
            connect_timeout=CONNECT_S,
            transport=guarded_kombu.VerifyingTransport,
            transport_options={
                'client_properties': {'connection_name': name},
                'read_timeout': silence_s,
                'write_timeout': silence_s,
            },
        )
        try:
            return bus.transport.establish_connection()
        except (AccessRefused, NotAllowed) as error:
            problem = errors.BrokerRefused(f'{host.name}: {error.reply_text}')
        except ERRORS as error:
            if not isinstance(problem, errors.BrokerRefused):
                problem = errors.BrokerUnavailable(f'{host.name}: {error or type(error).__name__}')
    raise problem


def close(connection: amqp.Connection) -> None:
    """Close the connection, with a handshake if the broker answers soon."""
    with contextlib.suppress(*ERRORS):
        if (
            connection.connected
        ):  # py-amqp would reconnect to get the socket of a closed connection
            connection.sock.settimeout(CLOSE_S)
        connection.close()
    connection.collect()


class LinkPool:
    """Connections that several threads share, at most ``size`` at the same time.

    ``open_link`` opens one, or raises BrokerUnavailable; a link has ``close``.
    """

    def __init__(self, open_link: Callable[[], Any], size: int):
        self._open_link = open_link
        self._room = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._closed = False

    def run(self, work: Callable[[Any], Result]) -> Result:
        """Return ``work(link)``; if the link fails, the work is repeated once with a new one.

        Raises BrokerUnavailable; the work is then done or not.
        """
        with self._room:
            try:
                return self._once(self._take(), work)
            except ERRORS:
                pass  # it may have been idle when the broker restarted
            try:
                return self._once(self._open_link(), work)
            except ERRORS as error:
                raise errors.BrokerUnavailable(str(error) or type(error).__name__) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _take(self) -> Any:
        with self._lock:
            if self._closed:
                raise errors.BrokerUnavailable('the connections were closed')
            if self._idle:
                return self._idle.pop()
        return self._open_link()

    def _once(self, link: Any, work: Callable[[Any], Result]) -> Result:
        try:
            result = work(link)
        except BaseException:
            link.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append(link)
                return result
        link.close()
        return result


EXCHANGE = 'nova_sched'
PREFIX = 'nova_sched.'
SETTLE_S = 0.05  # seconds until RabbitMQ has enqueued the messages that it has routed
UNUSED_MS = 3_600_000

TRIES, REASON, SENT_MS = 'tries', 'reason', 'sent_ms'  # headers


def on_broker(queue: str) -> str:
    """Return the name of a queue on RabbitMQ."""
    return PREFIX + queue


def arguments(queue: str, queue_type: str, fallback_after_s: float) -> dict[str, Any]:
    """Return the arguments with which RabbitMQ declares a queue."""
    found: dict[str, Any] = {
        'x-queue-type': conf.CLASSIC if brokers.temporary(queue) else queue_type
    }
    if brokers.temporary(queue):
        found['x-expires'] = UNUSED_MS
    if brokers.always_expires(queue):
        found['x-message-ttl'] = milliseconds(fallback_after_s)
    if brokers.falls_back(queue):
        found |= {
            'x-dead-letter-exchange': '',
            'x-dead-letter-routing-key': on_broker(brokers.FALLBACK),
        }
        if queue_type == conf.QUORUM:
            found |= {'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish'}
    return found


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def message(
    body: bytes,
    tries: int = 0,
    reason: str | None = None,
    sent_ms: int | None = None,
    ttl_s: float | None = None,
) -> amqp.Message:
    """Return a message that survives a restart of the broker.

    With ``ttl_s`` it expires that many seconds after ``sent_ms``.
    """
    now_ms = int(time.time() * 1000)
    headers: dict[str, Any] = {TRIES: tries, SENT_MS: sent_ms or now_ms}
    if reason is not None:
        headers[REASON] = reason
    properties = {}
    if ttl_s is not None:
        left_s = ttl_s - (now_ms - headers[SENT_MS]) / 1000
        properties['expiration'] = str(milliseconds(min(left_s, ttl_s)))
    return amqp.Message(body, application_headers=headers, delivery_mode=2, **properties)


class Link:
    """A connection that sends, and creates and deletes queues. One thread at a time; raises
    ERRORS."""

    def __init__(self, connection: amqp.Connection, shape: Callable[[str], Mapping[str, Any]]):
        self._connection = connection
        self._shape = shape
        self._channel = connection.channel()
        self._channel.exchange_declare(EXCHANGE, 'direct', durable=True, auto_delete=False)
        self._channel.confirm_select()
        self._channel.events['basic_return'].add(self._on_return)
        self._returned = False
        self.declare([brokers.FALLBACK, brokers.RESULTS])

    def close(self) -> None:
        close(self._connection)

    def send(self, queue: str, content: amqp.Message) -> bool:
        """Return whether the queue exists; RabbitMQ has confirmed the message then."""
        self._returned = False
        self._channel.basic_publish_confirm(
            content,
            EXCHANGE,
            on_broker(queue),
            mandatory=True,
            timeout=SILENCE_S,
            confirm_timeout=SILENCE_S,
        )
        return not self._returned

    def _on_return(self, *_: Any) -> None:
        self._returned = True

    @contextlib.contextmanager
    def _aside(self) -> Iterator[Any]:
        """A channel for calls that RabbitMQ may answer by closing it; after an error the link is
        closed."""
        channel = self._connection.channel()
        yield channel
        channel.close()

    def declare(self, queues: Sequence[str]) -> list[str]:
        """Create and bind the queues that do not exist. Returns some of the existing ones that
        differ.

        A queue that differs costs a new channel only if the one before it does not differ. After
        one that differs, the next ones are only checked for existence, until one does not exist.
        """
        differ, at, passive = [], 0, False
        with self._aside() as channel:
            while at < len(queues):
                first = at
                at, refused = self._declare_some(channel, queues, at, passive)
                for name in map(on_broker, queues[first:at]):
                    channel.queue_bind(name, EXCHANGE, name, nowait=True)
                channel.basic_qos(0, 0, False)  # answered when all are bound
                if refused and not passive:
                    differ.append(queues[at])
                passive ^= refused
        return differ

    def _declare_some(
        self, channel: Any, queues: Sequence[str], at: int, passive: bool
    ) -> tuple[int, bool]:
        """Declare queues from ``at`` on. Returns where that stopped, and whether the next one is
        refused."""
        some = queues[at : at + BATCH]
        refusal: type[AMQPError] = NotFound if passive else PreconditionFailed
        for queue in some:
            words = (0, on_broker(queue), passive, True, False, False, False, self._shape(queue))
            channel.send_method(spec.Queue.Declare, 'BsbbbbbF', words)
        try:
            for _ in some:
                channel.wait(spec.Queue.DeclareOk)
                at += 1
        except refusal:
            return at, True  # RabbitMQ has ignored the commands after that one
        return at, False

    def facts(self, queue: str) -> brokers.QueueFacts | None:
        with self._aside() as channel:
            try:
                _, ready, consumers = channel.queue_declare(on_broker(queue), passive=True)
            except NotFound:
                return None
        return brokers.QueueFacts(queue, ready, consumers)

    def drop(self, queue: str, classic: bool, moved: Callable[[], None]) -> None:
        """Unbind, empty and delete a queue; ``moved`` is called for each message moved to
        fallback.

        ``classic``: RabbitMQ can check that the queue is empty when it deletes it. It raises
        AMQPNotImplementedError if that is a quorum queue.
        """
        name = on_broker(queue)
        with self._aside() as channel:
            try:
                channel.queue_unbind(name, EXCHANGE, name)
                self._empty(channel, name, moved)
                time.sleep(SETTLE_S)
                while True:
                    self._empty(channel, name, moved)
                    if self._delete(channel, name, classic):
                        break
            except NotFound:
                return
        if not classic:
            # Until its consumers are notified: if the queue were created again before, they
            # would get no messages from it.
            time.sleep(SETTLE_S)

    def _empty(self, channel: Any, name: str, moved: Callable[[], None]) -> None:
        while (found := channel.basic_get(name)) is not None:
            tries = headers(found).get(TRIES, 0)
            if not self.send(brokers.FALLBACK, message(body(found), tries, brokers.DROPPED)):
                raise errors.BrokerUnavailable('there is no fallback queue')
            channel.basic_ack(found.delivery_tag)
            moved()

    def _delete(self, channel: Any, name: str, classic: bool) -> bool:
        """Return whether it was deleted; False if a consumer has returned a message in the
        meantime."""
        try:
            channel.queue_delete(name, if_empty=classic)
        except PreconditionFailed:
            return False
        return True


def body(found: amqp.Message) -> bytes:
    """Return the body of a received message; py-amqp has text for an empty one."""
    return bytes(found.body or b'')


def plain_body(found: amqp.Message) -> bytes:
    """Return the body of a received message, which kombu may have compressed.

    Raises InvalidRequest for one that cannot be decompressed, or is too long then.
    """
    how = headers(found).get('compression')
    return guarded_kombu.expanded(body(found), how) if how else body(found)


def compressed(body: bytes, how: str) -> tuple[bytes, str]:
    """Return a compressed body, and the word for ``compression`` in its headers."""
    return kombu.compression.compress(body, how)


def headers(found: amqp.Message) -> Mapping[str, Any]:
    """Return the headers of a received message."""
    return found.properties.get('application_headers') or {}

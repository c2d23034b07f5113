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
"""Connections to RabbitMQ: addresses, opening and closing, bodies of messages, and the thread that
keeps one connection open."""

import contextlib
import dataclasses
import logging
import math
import random
import selectors
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import amqp
import kombu
import kombu.compression
from amqp.exceptions import (
    AccessRefused,
    AMQPError,
    MessageNacked,
    NotAllowed,
)

from nova_sched import errors, urls
from nova_sched.rpc import guarded_kombu

LOG = logging.getLogger(__name__)

# Each of these errors closes the connection that raised it.
ERRORS = (AMQPError, MessageNacked, OSError)

CONNECT_S = 5.0  # for each host
CLOSE_S = 1.0
SILENCE_S = 10.0  # a broker that sends nothing for this time counts as unavailable
TRUE = ('1', 'true', 'yes', 'on')
READ_BYTES = 65536  # bytes to read at once
MAX_FRAMES = 1000  # frames to read before other work is done
AGAIN_S = (
    0.25  # at most, until the first attempt to connect after a loss; after a failure, at least
)


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
    """Close the connection, with a handshake if the broker answers soon. Raises nothing."""
    try:
        if (
            connection.connected
        ):  # py-amqp would reconnect to get the socket of a closed connection
            connection.sock.settimeout(CLOSE_S)
        connection.close()
    except ERRORS:
        pass
    except Exception:  # of a callback: messages come until the broker has answered
        LOG.exception('A message failed while its connection was closed')
    finally:
        connection.collect()


def body(received: amqp.Message) -> bytes:
    """Return the body of a received message; py-amqp has text for an empty one."""
    return bytes(received.body or b'')


def plain_body(received: amqp.Message) -> bytes:
    """Return the body of a received message, which kombu may have compressed.

    Raises InvalidRequest for one that cannot be decompressed, or is too long then.
    """
    how = headers(received).get('compression')
    return guarded_kombu.expanded(body(received), how) if how else body(received)


def compressed(body: bytes, how: str) -> tuple[bytes, str]:
    """Return a compressed body, and the word for ``compression`` in its headers."""
    return kombu.compression.compress(body, how)


def headers(received: amqp.Message) -> Mapping[str, Any]:
    """Return the headers of a received message."""
    return received.properties.get('application_headers') or {}


class Session:
    """One connection of a BusThread, from its beginning to its end. For one thread; raises
    ERRORS."""

    def __init__(self, connection: amqp.Connection):
        self.connection = connection
        self._fileno = connection.sock.fileno()  # also needed after it was closed
        self._silence_s = max(SILENCE_S, connection.heartbeat or 0)
        # Let py-amqp read all that the socket has, in place of three reads for each frame.
        transport: Any = connection.transport
        receive = getattr(transport, '_quick_recv', None)
        if receive is not None and hasattr(transport, '_read_buffer'):
            transport._quick_recv = lambda count: receive(max(count, READ_BYTES))

    def fileno(self) -> int:
        return self._fileno

    @property
    def beat_s(self) -> float:
        """The negotiated interval of the heartbeats; an hour if there are none."""
        return self.connection.heartbeat or 3600.0

    def beat(self, rate: int) -> None:
        """Send heartbeats; call it ``rate`` times in each interval.

        Raises an error if the broker's heartbeats are missing.
        """
        self.connection.heartbeat_tick(rate)

    def read(self) -> None:
        """Read what the broker has sent; the first byte of it is available."""
        for _ in range(MAX_FRAMES):
            self.connection.blocking_read(self._silence_s)
            if not self.is_pending():
                return

    def is_pending(self) -> bool:
        """Whether more was read from the socket than was requested, or TLS has read more."""
        # The connection is in use: each error that closes it ends the session, too.
        if getattr(self.connection.transport, '_read_buffer', b''):
            return True
        pending = getattr(self.connection.sock, 'pending', None)
        return bool(pending and pending())

    def end(self) -> None:
        """Leave nothing of its own on the broker, and close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection. RabbitMQ delivers the unacknowledged messages again."""
        close(self.connection)


@dataclasses.dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds between attempts to connect: ``first_s``, then each ``step_s`` more, at most
    ``most_s``."""

    first_s: float = 0.25
    step_s: float = 0.5
    most_s: float = 5.0

    def after(self, pause_s: float) -> float:
        """Return the pause that follows one of ``pause_s``; 0: there was none."""
        return min(pause_s + self.step_s if pause_s else self.first_s, self.most_s)


Opened = TypeVar('Opened', bound=Session)


class BusUser(Generic[Opened]):
    """What a BusThread works for. The thread calls all of these methods."""

    def open(self, connection: amqp.Connection) -> Opened:
        """Declare and subscribe on a new connection. Raises ERRORS."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Return whether the thread ends now."""
        raise NotImplementedError

    def work(self) -> None:
        """Do what there is to do, without waiting. Called after each wait. Raises ERRORS."""

    def due_s(self) -> float:
        """Return when there is work even if nothing comes, by time.monotonic."""
        return math.inf

    def lost(self, session: Opened | None, error: Exception) -> None:
        """A session was lost, and is about to be closed; None: the broker refused ``open``."""

    def ended(self) -> None:
        """The thread has closed its session, and ends."""


class BusThread(Generic[Opened]):
    """A thread with one connection to RabbitMQ, which it opens again after each loss.

    In turns it waits for the broker, for ``rouse`` or for a due time, reads what has come, and
    lets its user work. ``session`` is what the user has opened on the connection, None without
    one. ``name`` begins the lines of the log. ``beats``: how often heartbeats are checked in each
    of their intervals.
    """

    def __init__(
        self,
        user: BusUser[Opened],
        connect: Callable[[], amqp.Connection],
        name: str,
        pauses: Pauses = Pauses(),
        beats: int = 4,
    ):
        self.session: Opened | None = None
        self._user, self._connect, self._name = user, connect, name
        self._pauses, self._beats = pauses, beats
        self._pause_s = self._opened_s = self._connect_at_s = self._beat_at_s = 0.0
        self._is_roused = False
        self._hear, self._wake = socket.socketpair()
        for end in (self._hear, self._wake):
            end.setblocking(False)
        self._all, self._roused = selectors.DefaultSelector(), selectors.DefaultSelector()
        for selector in (self._all, self._roused):
            selector.register(self._hear, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._run, name=f'nova-sched-bus {name}', daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def is_current(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    def rouse(self) -> None:
        """Let the thread look for work. In any thread."""
        if not self._is_roused:
            self._is_roused = True
            with contextlib.suppress(OSError):  # the thread has ended, and closed the socket
                self._wake.send(b'.')

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end; without a start, close what it has."""
        if self._thread.ident is None:
            self.close()
        else:
            self._thread.join(timeout_s)

    # In its thread; ``open`` and ``close`` also before its start.

    def open(self) -> None:
        """Connect. Raises BrokerUnavailable, and what the user raises."""
        connection = self._connect()
        try:
            session = self._user.open(connection)
        except BaseException as error:
            close(connection)
            if not isinstance(error, ERRORS):
                raise
            self._user.lost(None, error)
            why = str(error) or type(error).__name__
            raise errors.BrokerUnavailable(why) from error
        self.session = session
        self._all.register(session, selectors.EVENT_READ)
        self._opened_s, self._beat_at_s = time.monotonic(), 0.0
        LOG.info('%s is connected to the broker', self._name)

    def lose(self, error: Exception) -> None:
        """Drop the connection, if there is one."""
        session, self.session = self.session, None
        if session is None:
            return
        if isinstance(error, ERRORS):
            why = str(error) or type(error).__name__
            LOG.error('%s has lost its connection to the broker: %s', self._name, why)
        self._all.unregister(session)
        self._user.lost(session, error)
        session.close()
        now_s = time.monotonic()
        if now_s < self._opened_s + self._pauses.most_s:
            self._rest()  # what ends each session soon must not repeat at once
        else:
            self._pause_s, self._connect_at_s = 0.0, now_s + random.uniform(0.0, AGAIN_S)

    def nap(self, seconds: float) -> None:
        """Wait at most this long; ``rouse`` ends the wait, even if it was called before."""
        self._roused.select(seconds)

    def close(self) -> None:
        """End the session. Nothing works after it."""
        session, self.session = self.session, None
        if session is not None:
            self._all.unregister(session)
            try:
                session.end()
            except Exception as error:  # noqa: BLE001, callbacks run until the broker answers
                LOG.warning('%s did not leave the broker in good order: %s', self._name, error)
                session.close()
        for handle in (self._all, self._roused, self._hear, self._wake):
            handle.close()

    def _run(self) -> None:
        try:
            while not self._user.is_over():
                try:
                    self._turn()
                except ERRORS as error:
                    self.lose(error)
                except Exception as error:
                    LOG.exception('%s failed, and connects again', self._name)
                    self.lose(error)
                    self.nap(AGAIN_S)
        finally:
            try:
                self.close()
            finally:
                self._user.ended()

    def _turn(self) -> None:
        if self.session is None and time.monotonic() >= self._connect_at_s:
            try:
                self.open()
            except errors.BrokerUnavailable as error:
                LOG.error(
                    '%s cannot connect to the broker: %s. Trying again in %.1f s',
                    self._name,
                    error.why,
                    self._rest(),
                )
            except Exception:
                self._rest()
                raise
        self._wait()
        self._user.work()

    def _rest(self) -> float:
        """Make the next attempt after a pause; returns its seconds."""
        self._pause_s = self._pauses.after(self._pause_s)
        # Not all clients of a broker that comes back connect at once.
        wait_s = self._pause_s * random.uniform(0.5, 1.0)
        self._connect_at_s = time.monotonic() + wait_s
        return wait_s

    def _wait(self) -> None:
        """Wait for a frame, ``rouse`` or a due time, and read what has come."""
        session = self.session
        due_s = self._connect_at_s if session is None else self._beat_at_s
        until_s = min(due_s, self._user.due_s())
        if session is not None and session.is_pending():
            until_s = -math.inf
        ready = [key.fileobj for key, _ in self._all.select(max(0.0, until_s - time.monotonic()))]
        if self._hear in ready:
            with contextlib.suppress(BlockingIOError):
                self._hear.recv(4096)
            # After the bytes are gone: what comes in between is work that this turn sees.
            self._is_roused = False
        if session is None:
            return
        if session in ready or session.is_pending():
            session.read()
        now_s = time.monotonic()
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + session.beat_s / self._beats
            session.beat(self._beats)

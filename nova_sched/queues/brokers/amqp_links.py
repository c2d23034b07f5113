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
"""Connections to RabbitMQ: addresses from an oslo.messaging URL, opening and sharing of
connections."""

import contextlib
import dataclasses
import random
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import amqp
import kombu
from amqp.exceptions import AMQPError, MessageNacked

from nova_sched import errors

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
class Server:
    """A broker with its equivalent nodes; ``tls`` is for py-amqp, False without TLS."""

    hosts: tuple[Host, ...]
    virtual_host: str
    tls: bool | Mapping[str, Any]


def server(url: str, options: Mapping[str, Any] | None = None) -> Server:
    """Returns the broker of
    `rabbit://user:password@host:port,user:password@host:port/virtual_host`.

    ``options`` are those of [oslo_messaging_rabbit]. Only ssl, ssl_ca_file, ssl_cert_file,
    ssl_key_file and ssl_server_hostname are used; the query of the URL overrides them. Raises
    BadConfig.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        hosts = tuple(_host(text) for text in parts.netloc.split(',') if text)
    except ValueError:
        # The URL holds a password, and so may the text of the error.
        raise errors.BadConfig('transport_url of the queues', 'it cannot be understood') from None
    if parts.scheme not in ('rabbit', 'kombu', 'amqp'):
        raise errors.BadConfig(
            'transport_url of the queues', f'the scheme {parts.scheme!r} is not `rabbit`'
        )
    query = dict(urllib.parse.parse_qsl(parts.query))
    return Server(
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
    """Returns the TLS settings as RPC derives them: the host name is checked only if it
    is given."""
    if str(options.get('ssl', '')).lower() not in TRUE:
        return False
    names = {'ssl_key_file': 'keyfile', 'ssl_cert_file': 'certfile', 'ssl_ca_file': 'ca_certs'}
    found = {word: options[name] for name, word in names.items() if options.get(name)}
    if 'ca_certs' in found and options.get('ssl_server_hostname'):
        found['server_hostname'] = options['ssl_server_hostname']
    return found or True


def connect(broker: Server, name: str, heartbeat_s: float = 0.0) -> amqp.Connection:
    """Returns a connection to the first node that answers, in random order.

    Raises BrokerUnavailable if none answers. With heartbeats, a broker that is only busy is never
    silent for a whole interval. A reconnect then would only add to its load.
    """
    silence_s = max(SILENCE_S, heartbeat_s)
    why = ''
    for host in random.sample(broker.hosts, len(broker.hosts)):
        bus = kombu.Connection(
            host.name,
            port=host.port,
            userid=host.user,
            password=host.password,
            virtual_host=broker.virtual_host,
            ssl=broker.tls,
            heartbeat=heartbeat_s,
            connect_timeout=CONNECT_S,
            transport='pyamqp',
            transport_options={
                'client_properties': {'connection_name': name},
                'read_timeout': silence_s,
                'write_timeout': silence_s,
            },
        )
        try:
            return bus.transport.establish_connection()
        except ERRORS as error:
            why = f'{host.name}: {error or type(error).__name__}'
    raise errors.BrokerUnavailable(why)


def close(connection: amqp.Connection) -> None:
    """Close the connection, with a handshake if the broker answers soon."""
    with contextlib.suppress(*ERRORS):
        if (
            connection.connected
        ):  # py-amqp would reconnect to get the socket of a closed connection
            connection.sock.settimeout(CLOSE_S)
        connection.close()
    connection.collect()


class Pool:
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
        """Returns ``work(link)``; if the link fails, the work is repeated once with a new one.

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

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
"""Connections to RabbitMQ: addresses, opening and closing, and bodies of messages."""

import contextlib
import dataclasses
import random
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeVar

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

Result = TypeVar('Result')

# Each of these errors closes the connection that raised it.
ERRORS = (AMQPError, MessageNacked, OSError)

CONNECT_S = 5.0  # for each host
CLOSE_S = 1.0
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

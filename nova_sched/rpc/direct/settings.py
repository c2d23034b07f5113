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
"""What the direct server reads of the bus and of [oslo_messaging_rabbit], and the queues of an RPC
server, as oslo.messaging's driver declares them."""

import dataclasses
import logging
import ssl
import uuid
from collections.abc import Mapping
from typing import Any

from amqp.exceptions import NotFound, PreconditionFailed
from oslo_messaging._drivers import amqpdriver, impl_rabbit

from nova_sched import errors
from nova_sched.rpc.rabbit import BusThread, Host, Pauses, RabbitCluster, connect

LOG = logging.getLogger(__name__)

WHERE = '[scheduler] rpc_server'
# The versions that ssl_version may name, as in oslo.messaging's driver.
TLS_VERSIONS = {'tlsv1': ssl.PROTOCOL_TLSv1, 'sslv23': ssl.PROTOCOL_SSLv23}
OTHER_DURABILITY = "inequivalent arg 'durable'"


@dataclasses.dataclass(frozen=True)
class BusSettings:
    """One bus. ``rabbit`` is [oslo_messaging_rabbit]; options in the URL override it."""

    cluster: RabbitCluster
    rabbit: Any

    def thread(self, user, connection, name):
        """Return the BusThread of a user; ``connection`` is the name that RabbitMQ shows."""
        rabbit = self.rabbit
        pauses = Pauses(
            rabbit.rabbit_retry_interval, rabbit.rabbit_retry_backoff, rabbit.rabbit_interval_max
        )
        return BusThread(
            user,
            lambda: connect(self.cluster, connection, rabbit.heartbeat_timeout_threshold),
            name,
            pauses,
            max(rabbit.heartbeat_rate, 2) * 2,
        )


def of(bus):
    """Return the BusSettings of an oslo.messaging transport. Raises BadConfig if its driver is
    not the one for RabbitMQ, or for options that contradict each other."""
    brokers = cluster(bus)
    if brokers is None:
        kind = bus._driver._url.transport
        why = f'`direct` works with RabbitMQ only, and the transport_url is of {kind}://'
        raise errors.BadConfig(WHERE, f'{why}; set it to `oslo`')
    rabbit = bus._driver.conf.oslo_messaging_rabbit
    _check(rabbit)
    return BusSettings(brokers, rabbit)


def cluster(bus):
    """Return the RabbitCluster of a transport, None for a bus of another kind. Raises
    BadConfig."""
    driver = bus._driver
    url = driver._url
    if not isinstance(driver, impl_rabbit.RabbitDriver) or url.transport.startswith('kombu+'):
        return None
    rabbit = driver.conf.oslo_messaging_rabbit
    hosts = tuple(
        Host(host.hostname or 'localhost', host.port, host.username, host.password)
        for host in url.hosts
    )
    return RabbitCluster(
        hosts or (Host('localhost', None, None, None),),
        url.virtual_host or '/',
        _tls(rabbit),
        rabbit.rabbit_login_method,
    )


def _check(rabbit):
    """Refuse what oslo.messaging refuses. Raises BadConfig."""
    where = '[oslo_messaging_rabbit]'
    if rabbit.rabbit_quorum_queue and rabbit.rabbit_ha_queues:
        raise errors.BadConfig(where, 'rabbit_quorum_queue and rabbit_ha_queues are both set')
    if rabbit.rabbit_stream_fanout and rabbit.rabbit_qos_prefetch_count <= 0:
        raise errors.BadConfig(
            where, 'rabbit_stream_fanout needs a rabbit_qos_prefetch_count above 0'
        )
    if rabbit.rabbit_stream_fanout and not rabbit.rabbit_transient_quorum_queue:
        raise errors.BadConfig(where, 'rabbit_stream_fanout needs rabbit_transient_quorum_queue')


def _tls(rabbit) -> bool | Mapping[str, Any]:
    """The TLS settings of a connection, as oslo.messaging derives them."""
    if not rabbit.ssl:
        return False
    options: dict[str, Any] = {}
    if rabbit.ssl_version:
        try:
            options['ssl_version'] = TLS_VERSIONS[rabbit.ssl_version.lower()]
        except KeyError:
            why = f'{rabbit.ssl_version!r} is none of {", ".join(TLS_VERSIONS)}'
            raise errors.BadConfig('[oslo_messaging_rabbit] ssl_version', why) from None
    if rabbit.ssl_key_file:
        options['keyfile'] = rabbit.ssl_key_file
    if rabbit.ssl_cert_file:
        options['certfile'] = rabbit.ssl_cert_file
    if rabbit.ssl_ca_file:
        options |= {'ca_certs': rabbit.ssl_ca_file, 'cert_reqs': ssl.CERT_REQUIRED}
    return options or True


@dataclasses.dataclass(frozen=True)
class Subscription:
    """A queue that is bound to an exchange by its ``routing_key``.

    ``exchange_auto_delete`` and ``auto_delete``: RabbitMQ deletes the exchange or the queue with
    its last user. ``is_own``: the server deletes the queue when it ends. ``is_stream``: a queue
    that keeps its messages.
    """

    exchange: str
    kind: str
    queue: str
    routing_key: str
    durable: bool
    exchange_auto_delete: bool
    auto_delete: bool
    arguments: Mapping[str, Any]
    consumer_arguments: Mapping[str, Any]
    is_own: bool = False
    is_stream: bool = False


def of_server(rabbit, exchange, topic, server):
    """The Subscriptions of a server on a topic: the topic's queue, the server's own queue, and its
    copy of what is sent to all servers. ``rabbit`` is [oslo_messaging_rabbit]."""
    durable = rabbit.amqp_durable_queues or rabbit.rabbit_quorum_queue
    auto_delete = rabbit.amqp_auto_delete
    arguments = _arguments(rabbit, rabbit.rabbit_quorum_queue, 0)
    failover = {'x-cancel-on-ha-failover': True} if rabbit.enable_cancel_on_failover else {}
    shared = [
        Subscription(
            exchange, 'topic', name, name, durable, auto_delete, auto_delete, arguments, failover
        )
        for name in (topic, f'{topic}.{server}')
    ]
    fanout, ttl_s = f'{topic}_fanout', rabbit.rabbit_transient_queues_ttl
    is_stream = rabbit.rabbit_stream_fanout
    if is_stream:
        queue, arguments = fanout, {'x-queue-type': 'stream'}
        if ttl_s > 0:
            arguments['x-max-age'] = f'{ttl_s}s'
    else:
        if rabbit.use_queue_manager:
            names = amqpdriver.QManager(hostname=rabbit.hostname, processname=rabbit.processname)
            queue = f'{fanout}_{names.get()}'
        else:
            queue = f'{fanout}_{uuid.uuid4().hex}'
        arguments = _arguments(rabbit, rabbit.rabbit_transient_quorum_queue, ttl_s)
    copies = Subscription(
        fanout,
        'fanout',
        queue,
        topic,
        rabbit.rabbit_transient_quorum_queue or is_stream,
        exchange_auto_delete=True,
        auto_delete=False,
        arguments=arguments,
        consumer_arguments={} if is_stream else failover,
        is_own=not is_stream and not rabbit.use_queue_manager,
        is_stream=is_stream,
    )
    return [*shared, copies]


def _arguments(rabbit, is_quorum, unused_s):
    """The arguments of a queue. RabbitMQ deletes it when it was not used for ``unused_s``
    seconds; 0: never."""
    arguments: dict[str, Any] = {}
    if rabbit.rabbit_ha_queues:
        arguments['x-ha-policy'] = 'all'
    if is_quorum:
        arguments['x-queue-type'] = 'quorum'
        limits = {
            'x-delivery-limit': rabbit.rabbit_quorum_delivery_limit,
            'x-max-in-memory-length': rabbit.rabbit_quorum_max_memory_length,
            'x-max-in-memory-bytes': rabbit.rabbit_quorum_max_memory_bytes,
        }
        arguments |= {name: value for name, value in limits.items() if value}
    if unused_s > 0:
        arguments['x-expires'] = unused_s * 1000
    return arguments


def declare(connection, wanted):
    """Create and bind a queue and its exchange, on a channel that a refusal may close.

    A queue or exchange of the same name that is durable, or is not, stays as it is: another
    service of the cloud may have created it with other options.
    """
    try:
        _declare(connection, wanted)
    except PreconditionFailed as error:
        if OTHER_DURABILITY not in str(error):
            raise
        LOG.warning('%s exists with another durability: %s', wanted.queue, error)
        _declare(
            connection,
            dataclasses.replace(wanted, durable=False, exchange_auto_delete=wanted.auto_delete),
        )
    except NotFound as error:
        # A queue that is not durable, on a node of the broker that is down.
        LOG.warning('%s cannot be declared, and is deleted first: %s', wanted.queue, error)
        try:
            with connection.channel() as channel:
                channel.queue_delete(wanted.queue)
        except (NotFound, PreconditionFailed) as refusal:
            LOG.warning('%s cannot be deleted: %s', wanted.queue, refusal)
        _declare(connection, wanted)


def _declare(connection, wanted):
    with connection.channel() as channel:
        channel.exchange_declare(
            wanted.exchange,
            wanted.kind,
            durable=wanted.durable,
            auto_delete=wanted.exchange_auto_delete,
        )
        channel.queue_declare(
            wanted.queue,
            durable=wanted.durable,
            auto_delete=wanted.auto_delete,
            arguments=dict(wanted.arguments),
        )
        channel.queue_bind(wanted.queue, wanted.exchange, wanted.routing_key)

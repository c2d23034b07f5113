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
"""What the direct server reads of the bus and of [oslo_messaging_rabbit]."""

import dataclasses
import ssl
from collections.abc import Mapping
from typing import Any

from oslo_messaging._drivers import impl_rabbit

from nova_sched import errors
from nova_sched.rpc import amqp_link

WHERE = '[scheduler] rpc_server'
# The versions that ssl_version may name, as in oslo.messaging's driver.
TLS_VERSIONS = {'tlsv1': ssl.PROTOCOL_TLSv1, 'sslv23': ssl.PROTOCOL_SSLv23}


@dataclasses.dataclass(frozen=True)
class BusSettings:
    """One bus. ``rabbit`` is [oslo_messaging_rabbit]; options in the URL override it."""

    cluster: amqp_link.RabbitCluster
    rabbit: Any


def of(bus):
    """Returns the BusSettings of an oslo.messaging transport. Raises BadConfig if its driver is
    not the one for RabbitMQ, or for options that contradict each other."""
    found = cluster(bus)
    if found is None:
        kind = bus._driver._url.transport
        why = f'`direct` works with RabbitMQ only, and the transport_url is of {kind}://'
        raise errors.BadConfig(WHERE, f'{why}; set it to `oslo`')
    rabbit = bus._driver.conf.oslo_messaging_rabbit
    _check(rabbit)
    return BusSettings(found, rabbit)


def cluster(bus):
    """Returns the RabbitCluster of a transport, None for a bus of another kind. Raises
    BadConfig."""
    driver = bus._driver
    url = driver._url
    if not isinstance(driver, impl_rabbit.RabbitDriver) or url.transport.startswith('kombu+'):
        return None
    rabbit = driver.conf.oslo_messaging_rabbit
    hosts = tuple(
        amqp_link.Host(host.hostname or 'localhost', host.port, host.username, host.password)
        for host in url.hosts
    )
    return amqp_link.RabbitCluster(
        hosts or (amqp_link.Host('localhost', None, None, None),),
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
    found: dict[str, Any] = {}
    if rabbit.ssl_version:
        try:
            found['ssl_version'] = TLS_VERSIONS[rabbit.ssl_version.lower()]
        except KeyError:
            why = f'{rabbit.ssl_version!r} is none of {", ".join(TLS_VERSIONS)}'
            raise errors.BadConfig('[oslo_messaging_rabbit] ssl_version', why) from None
    if rabbit.ssl_key_file:
        found['keyfile'] = rabbit.ssl_key_file
    if rabbit.ssl_cert_file:
        found['certfile'] = rabbit.ssl_cert_file
    if rabbit.ssl_ca_file:
        found |= {'ca_certs': rabbit.ssl_ca_file, 'cert_reqs': ssl.CERT_REQUIRED}
    return found or True

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
"""The message bus: its transport, and the topics of RPC."""

import amqp.exceptions
import oslo_messaging as messaging

from nova_sched import errors, urls
from nova_sched.rpc import guarded_kombu, silence
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.rabbit import ERRORS, close, connect

EXCHANGE = 'nova'
TOPIC = 'scheduler'
SHADOW_TOPIC = 'scheduler-shadow'  # for questions to a scheduler that only watches


def transport(conf, url=None):
    """The transport of [DEFAULT] transport_url, on the exchange that Nova's services use. Raises
    BadConfig."""
    messaging.set_transport_defaults(EXCHANGE)
    silence.set_defaults()
    return checked_transport(
        '[DEFAULT] transport_url',
        lambda: messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=['nova_sched.errors']
        ),
        lambda: conf.transport_url if url is None else url,
    )


def checked_transport(where, make, url):
    """Return the transport that ``make()`` makes of ``url()``, without a connection. Raises
    BadConfig, without any part of a password."""
    guarded_kombu.install()
    example = 'a valid URL is rabbit://user:password@host:5672/'
    try:
        bus = make()
    except messaging.DriverLoadFailure as error:
        raise errors.BadConfig(where, f'{error}; {example}') from None
    except (messaging.InvalidTransportURL, ValueError):
        why = f'it cannot be understood; {example}; {urls.ADVICE}'
        raise errors.BadConfig(where, why) from None
    try:
        urls.check(url(), where)
    except errors.BadConfig:
        bus.cleanup()
        raise
    return bus


def try_once(bus):
    """Connect once to the bus, if it is RabbitMQ. Raises BrokerUnavailable, or BrokerRefused."""
    cluster = direct_settings.cluster(bus)
    if cluster is not None:
        close(connect(cluster, 'nova-sched check'))


def consumers(bus, queue=TOPIC):
    """Return how many consumers a queue has, 0 if there is no such queue; None if the bus is not
    RabbitMQ. Raises BrokerUnavailable, or BrokerRefused."""
    cluster = direct_settings.cluster(bus)
    if cluster is None:
        return None
    connection = connect(cluster, 'nova-sched check')
    try:
        return connection.channel().queue_declare(queue, passive=True).consumer_count
    except amqp.exceptions.NotFound:
        return 0
    except amqp.exceptions.AccessRefused as error:
        raise errors.BrokerRefused(str(error)) from error
    except ERRORS as error:
        raise errors.BrokerUnavailable(str(error) or type(error).__name__) from error
    finally:
        close(connection)

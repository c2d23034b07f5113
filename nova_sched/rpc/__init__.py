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
"""The message bus: its transport, its RPC servers, and their topics and namespaces."""

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.queues.brokers import amqp_link
from nova_sched.rpc import silence
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.direct.dispatcher import DirectDispatcher
from nova_sched.rpc.direct.server import DirectServer
from nova_sched.rpc.serializer import ServerSerializer
from nova_sched.rpc.serving import Dispatcher, DrainingServer

EXCHANGE = 'nova'
TOPIC = 'scheduler'
SHADOW_TOPIC = 'scheduler-shadow'  # for questions to a scheduler that only watches
TIMEOUT_S = 60.0  # the default of rpc_response_timeout


def transport(conf, url=None):
    """The transport of [DEFAULT] transport_url, on the exchange that Nova's services use. Raises
    BadConfig."""
    messaging.set_transport_defaults(EXCHANGE)
    silence.set_defaults()
    try:
        return messaging.get_rpc_transport(
            conf, url=url, allowed_remote_exmods=['nova_sched.errors']
        )
    except (messaging.DriverLoadFailure, messaging.InvalidTransportURL, ValueError) as error:
        why = f'{error}; a valid URL is rabbit://user:password@host:5672/'
        raise errors.BadConfig('[DEFAULT] transport_url', why) from None


def try_once(bus):
    """Connect once to the bus, if it is RabbitMQ. Raises BrokerUnavailable, or BrokerRefused."""
    cluster = direct_settings.cluster(bus)
    if cluster is not None:
        amqp_link.close(amqp_link.connect(cluster, 'nova-sched check'))


def server(
    bus,
    host,
    endpoints,
    topic=TOPIC,
    serializer=None,
    arrivals=None,
    is_direct=False,
    loop=None,
):
    """An RPC server for one process, on native or green threads as the process is.

    It is ended with ``stop`` and ``finish``. Without another ``serializer`` it takes versioned
    objects. ``arrivals`` (engine.received) returns the time at which a message was sent.
    ``is_direct``: a DirectServer, which needs RabbitMQ (it raises BadConfig for another bus), in
    place of oslo.messaging's. It works in turn with the ``loop`` (engine.loop) that decides its
    calls.
    """
    target = messaging.Target(exchange=EXCHANGE, topic=topic, server=host)
    serializer = serializer or ServerSerializer()
    policy = messaging.ExplicitRPCAccessPolicy
    # An option of oslo.messaging's clients, which it registers when the first one is made.
    timeout_s = getattr(bus.conf, 'rpc_response_timeout', TIMEOUT_S)
    if is_direct:
        dispatcher = DirectDispatcher(endpoints, serializer, policy, arrivals, timeout_s)
        return DirectServer(bus, target, dispatcher, loop)
    dispatcher = Dispatcher(endpoints, serializer, policy, arrivals, timeout_s)
    return DrainingServer(bus, target, dispatcher)

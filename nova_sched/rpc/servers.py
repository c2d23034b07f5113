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
"""RPC servers on the bus."""

import oslo_messaging as messaging
from oslo_messaging.rpc.server import RPCServer

from nova_sched.rpc import EXCHANGE, TOPIC
from nova_sched.rpc.direct.server import DirectServer
from nova_sched.rpc.messages import DirectDispatcher, Dispatcher, ServerSerializer

TIMEOUT_S = 60.0  # the default of rpc_response_timeout


class DrainingServer(RPCServer):
    """oslo.messaging's server, with a fix: the original leaves messages that it has taken off a
    queue when it is stopped under load.

    To close its connection it waits for a reply of the broker, and acknowledges each message that
    arrives before that reply. The broker does not deliver those again, so they are handled here.
    """

    def finish(self):
        """After ``stop``: answer all messages that were taken, and close the connection."""
        self.wait()
        while taken := self.listener._poll_style_listener.poll():
            self._process_incoming(taken)


def server(
    bus,
    host,
    endpoints,
    topic=TOPIC,
    serializer=None,
    pauses=None,
    is_direct=False,
    loop=None,
):
    """An RPC server for one process, on native or green threads as the process is.

    It is ended with ``stop`` and ``finish``. Without another ``serializer`` it takes versioned
    objects. ``pauses`` (engine.clock) tell how long the callers of messages wait.
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
        dispatcher = DirectDispatcher(endpoints, serializer, policy, pauses, timeout_s)
        return DirectServer(bus, target, dispatcher, loop)
    dispatcher = Dispatcher(endpoints, serializer, policy, pauses, timeout_s)
    return DrainingServer(bus, target, dispatcher)

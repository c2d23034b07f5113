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
"""oslo.messaging's RPC server, where it would lose a call or a thread."""

import oslo_messaging as messaging
from oslo_messaging.rpc.server import RPCServer


class Dispatcher(messaging.RPCDispatcher):
    """oslo.messaging's own, which goes on sending signs of life for a message that it has refused.

    It starts a thread for that before it looks for an endpoint, and ends it only where it found one.
    """

    def dispatch(self, incoming):
        if not self._is_served(incoming.message):
            incoming.client_timeout = None  # it is refused at once: nobody waits for signs of life
        return super().dispatch(incoming)

    def _is_served(self, message):
        method, version = message.get('method'), message.get('version', '1.0')
        return isinstance(method, str) and any(
            self._is_namespace(endpoint.target, message.get('namespace'))
            and self._is_compatible(endpoint.target, version)
            and hasattr(endpoint, method)
            and self.access_policy.is_allowed(endpoint, method)
            for endpoint in self.endpoints
        )


class Server(RPCServer):
    """oslo.messaging's own, which takes messages off a queue and leaves them when it is stopped under load.

    To close its connection it waits for a word of the broker, and acknowledges each message that comes
    before that word. Nobody else will see those again, so they are handled here.
    """

    def finish(self):
        """After ``stop``: answer all that was taken, and let go of the bus."""
        self.wait()
        while taken := self.listener._poll_style_listener.poll():
            self._process_incoming(taken)

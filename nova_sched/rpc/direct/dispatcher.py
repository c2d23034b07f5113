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
"""The dispatcher of the direct server: it does not wait for the engine."""

from nova_sched.engine.deferred import Deferred
from nova_sched.rpc.failures import answered
from nova_sched.rpc.serving import UNTRACED, Dispatcher, continued
from nova_sched.tracing import TRACER


class DirectDispatcher(Dispatcher):
    """``dispatch`` returns the answer, or a Deferred of it."""

    def dispatch(self, incoming):
        # The server sends the signs of life; the original would start a thread for them.
        incoming.client_timeout = None
        return super().dispatch(incoming)

    def begins(self, message):
        """Whether the message is for a method that does not wait."""
        return self._is_marked(message, 'begins')

    def is_once(self, message):
        """Whether the message is for a method that must not be repeated."""
        return self._is_marked(message, 'once')

    def _is_marked(self, message, mark):
        method, namespace = message.get('method'), message.get('namespace')
        return isinstance(method, str) and any(
            self._is_namespace(endpoint.target, namespace)
            and getattr(getattr(endpoint, method, None), mark, False)
            for endpoint in self.endpoints
            if hasattr(endpoint, 'target')
        )

    def _do_dispatch(self, endpoint, method, ctxt, args):
        context, given = self._read(ctxt, args)
        with continued(ctxt) if TRACER.sink else UNTRACED:
            found = getattr(endpoint, method)(context, **given)
        if not isinstance(found, Deferred):
            return self.serializer.serialize_entity(context, found)

        def finish():
            context.update_store()  # for the log of the thread that runs this
            with continued(ctxt) if TRACER.sink else UNTRACED, answered(method):
                return self.serializer.serialize_entity(context, found.result())

        return found.then(finish)

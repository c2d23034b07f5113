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
"""Objects and contexts between the wire and the endpoints."""

import oslo_messaging as messaging
from oslo_context.context import RequestContext

from nova_sched import objects, words
from nova_sched.objects import RequestSpec
from nova_sched.rpc.failures import answered
from nova_sched.rpc.received_spec import SpecKinds
from nova_sched.tracing import KEY, OSPROFILER, TRACER

# The key of a context of this package for the seconds that its caller waits for an answer.
TIMEOUT_KEY = 'nova_sched_patience_s'
# Keys that a context of this package sends; Nova's sends more, and all of them are accepted.
IGNORED = frozenset(['user_identity', 'service_catalog', TIMEOUT_KEY, KEY, OSPROFILER])


class Serializer(messaging.Serializer):
    """Versioned objects in any nest of plain values, and the request context.

    A context is made once for each message and stays with its thread, so that oslo.log shows the
    request id on every line. Its token is never logged. ``timeout_s`` is how many seconds a
    client waits.
    """

    def __init__(self, timeout_s=None):
        super().__init__()
        self._more = {} if timeout_s is None else {TIMEOUT_KEY: timeout_s}

    def serialize_entity(self, ctxt, entity):
        return objects.to_primitive(entity)

    def deserialize_entity(self, ctxt, entity):
        return objects.from_primitive(entity)

    def serialize_context(self, ctxt):
        plain = ctxt.to_dict() if isinstance(ctxt, RequestContext) else dict(ctxt or {})
        parent = TRACER.parent
        return {**plain, **self._more, **({} if parent is None else {KEY: parent.text})}

    def deserialize_context(self, ctxt):
        known = {name: value for name, value in (ctxt or {}).items() if name not in IGNORED}
        if not words.is_name(known.get('request_id')):
            known['request_id'] = None  # one is generated
        made = RequestContext.from_dict(known)
        made.timestamp = known.get('timestamp')  # of Nova's contexts, by the clock of its API
        return made


class PlainSerializer(Serializer):
    """The same for messages that have no objects. It takes a third of the time."""

    def serialize_entity(self, ctxt, entity):
        return entity


class ServerSerializer(Serializer):
    """The serializer of a server: reports an argument that cannot be read as an error of the
    sender."""

    def deserialize_entity(self, ctxt, entity):
        with answered('A message'):
            words.check_text(entity)
            return objects.from_primitive(entity)


class SchedulerSerializer(ServerSerializer):
    """The same for a scheduler: a RequestSpec becomes a ReceivedSpec if its kind is known."""

    def __init__(self):
        super().__init__()
        self._kinds = SpecKinds()

    def deserialize_entity(self, ctxt, entity):
        found = self._kinds.find(entity)
        if found is not None:
            return found
        found = super().deserialize_entity(ctxt, entity)
        return self._kinds.keep(entity, found) if isinstance(found, RequestSpec) else found

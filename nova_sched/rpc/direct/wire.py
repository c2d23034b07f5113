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
"""oslo.messaging's messages on the wire (envelope 2.0 around JSON), and one of them while it is
handled."""

import json
import time
import uuid

import amqp
from oslo_messaging._drivers import common
from oslo_serialization import jsonutils

from nova_sched.rpc import rabbit
from nova_sched.rpc.messages import MAX_WAIT_S

CONTEXT = '_context_'
# The same text as oslo.messaging's; to make an encoder for each message takes longer.
_encode = json.JSONEncoder(default=jsonutils.to_primitive).encode
_encode_plain = json.JSONEncoder().encode

PERSISTENT = 2
MAX_NAME_BYTES = 255  # bytes of a name in AMQP


def read(received):
    """Return the message of an amqp.Message, a mapping. Raises ValueError, or an error of
    oslo.messaging for an unknown version of the envelope."""
    envelope = json.loads(rabbit.plain_body(received))
    message = common.deserialize_msg(envelope)
    if not isinstance(message, dict):
        raise ValueError('the message is not a mapping')
    return message


def split(message):
    """Take the context and the words of oslo.messaging's driver out of a message.

    Returns the context, with ``client_timeout`` as the driver adds it; and by position ``msg_id``,
    ``reply_q`` and the unique id. What is missing is None. Raises ValueError for one of these that
    is not text, or that AMQP cannot carry as a name.
    """
    context = {}
    for key in [key for key in message if key.startswith(CONTEXT)]:
        context[key[len(CONTEXT) :]] = message.pop(key)
    context['client_timeout'] = message.pop('_timeout', None)
    return context, *(_name_of(message, word) for word in ('_msg_id', '_reply_q', '_unique_id'))


def _name_of(message, word):
    value = message.pop(word, None)
    if value is None or (isinstance(value, str) and len(value.encode()) <= MAX_NAME_BYTES):
        return value
    raise ValueError(f'{word} of the message is not a text of at most {MAX_NAME_BYTES} bytes')


def answer(msg_id, result=None, failure=None, ending=True):
    """The text of an answer. ``failure`` is a sys.exc_info(); ``ending`` False: a heartbeat."""
    serialized = None if failure is None else common.serialize_remote_exception(failure)
    inner = {
        'result': result,
        'failure': serialized,
        'ending': ending,
        '_msg_id': msg_id,
        '_unique_id': uuid.uuid4().hex,
    }
    return enveloped(inner)


def enveloped(message):
    """The text of a message in the envelope of oslo.messaging."""
    return _encode_plain({'oslo.version': '2.0', 'oslo.message': _encode(message)}).encode()


def to_amqp(text, compression=None):
    """An amqp.Message of such a text, with the properties that oslo.messaging gives it."""
    headers = {}
    if compression:
        text, headers['compression'] = rabbit.compressed(text, compression)
    return amqp.Message(
        text,
        content_type='application/json',
        content_encoding='utf-8',
        application_headers=headers,
        delivery_mode=PERSISTENT,
        priority=0,
    )


class Call:
    """One message, as the dispatcher takes it.

    ``message`` is the mapping of method, namespace, version and args; ``ctxt`` the context with
    the driver's words, as oslo.messaging's driver makes it. ``client_timeout`` is how many seconds
    its caller waits for a heartbeat. ``received``: see engine.clock.

    ``tags`` are the deliveries of it that are not acknowledged: (session, tag). ``text`` is the
    answer as soon as there is one. ``beat_s`` is how many seconds there are between heartbeats
    for its caller; None: it expects none.
    """

    __slots__ = (
        'beat_due_s',
        'beat_s',
        'client_timeout',
        'ctxt',
        'deferred',
        'message',
        'missing_until_s',
        'msg_id',
        'received',
        'reply_q',
        'since_s',
        'tags',
        'text',
        'unique_id',
    )

    def __init__(self, message):
        self.ctxt, self.msg_id, self.reply_q, self.unique_id = split(message)
        self.message = message
        self.client_timeout = self.ctxt['client_timeout']
        self.received = None
        self.deferred = None
        self.tags = []
        self.text = None
        self.since_s = time.monotonic()
        self.beat_s = _interval_s(self.client_timeout)
        self.beat_due_s = None
        self.missing_until_s = None

    def settle(self, session):
        """Acknowledge its deliveries with the session's next acknowledgements."""
        for owner, tag in self.tags:
            if owner is session:
                session.settle(tag)
        self.tags.clear()


def _interval_s(client_timeout):
    """The interval at which oslo.messaging's server sends heartbeats, if it sends any."""
    if type(client_timeout) not in (int, float) or not 2 <= client_timeout <= MAX_WAIT_S:
        return None
    return int(client_timeout) / 2

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
"""oslo.messaging's messages on the wire: envelope 2.0 around JSON."""

import json
import uuid

import amqp
from oslo_messaging._drivers import common
from oslo_serialization import jsonutils

from nova_sched.rpc import amqp_link

CONTEXT = '_context_'
# The same text as oslo.messaging's; to make an encoder for each message takes longer.
_encode = json.JSONEncoder(default=jsonutils.to_primitive).encode
_encode_plain = json.JSONEncoder().encode

PERSISTENT = 2
LONGEST_NAME = 255  # bytes of a name in AMQP


def read(found):
    """Returns the message of an amqp.Message, a mapping. Raises ValueError, or an error of
    oslo.messaging for an unknown version of the envelope."""
    envelope = json.loads(amqp_link.plain_body(found))
    message = common.deserialize_msg(envelope)
    if not isinstance(message, dict):
        raise ValueError('the message is no mapping')
    return message


def split(message):
    """Take the context and the words of oslo.messaging's driver out of a message.

    Returns the context, with ``client_timeout`` as the driver adds it; and by position ``msg_id``,
    ``reply_q`` and the unique id. What is missing is None. Raises ValueError for one of these that
    is no text, or that AMQP cannot carry as a name.
    """
    context = {}
    for key in [key for key in message if key.startswith(CONTEXT)]:
        context[key[len(CONTEXT) :]] = message.pop(key)
    context['client_timeout'] = message.pop('_timeout', None)
    return context, *(_name_of(message, word) for word in ('_msg_id', '_reply_q', '_unique_id'))


def _name_of(message, word):
    value = message.pop(word, None)
    if value is None or (isinstance(value, str) and len(value.encode()) <= LONGEST_NAME):
        return value
    raise ValueError(f'{word} of the message is no text of at most {LONGEST_NAME} bytes')


def answer(msg_id, result=None, failure=None, ending=True):
    """The text of an answer. ``failure`` is a sys.exc_info(); ``ending`` False: a sign of life."""
    told = None if failure is None else common.serialize_remote_exception(failure)
    inner = {
        'result': result,
        'failure': told,
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
        text, headers['compression'] = amqp_link.compressed(text, compression)
    return amqp.Message(
        text,
        content_type='application/json',
        content_encoding='utf-8',
        application_headers=headers,
        delivery_mode=PERSISTENT,
        priority=0,
    )

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
"""A client of the scheduler that costs little: one thread and one connection, without
oslo.messaging. It sends prepared text, with other ids, and only counts the answers."""

import time
import uuid

from nova_sched.rpc import rabbit
from nova_sched.rpc.direct import wire

INSTANCE = 'the instance of this call'
MESSAGE = 'the id of this call'
READ_S = 60.0  # without an answer


class RawClient:
    """Calls of ``select_destinations`` over a connection of its own."""

    def __init__(self, stack, url, exchange, topic, request):
        self._connection = rabbit.connect(rabbit.cluster(url), 'benchmark')
        stack.callback(self._connection.close)
        self._channel = self._connection.channel()
        self._channel.auto_decode = False  # bodies as bytes
        self._exchange, self._topic = exchange, topic
        self._replies = f'reply_{uuid.uuid4().hex}'
        self._channel.exchange_declare(self._replies, 'direct', durable=False, auto_delete=True)
        self._channel.queue_declare(self._replies, arguments={'x-expires': 600_000})
        self._channel.queue_bind(self._replies, self._replies, self._replies)
        self._channel.basic_consume(self._replies, no_ack=True, callback=self._take)
        message = {
            **{wire.CONTEXT + key: value for key, value in request['context'].items()},
            'method': 'select_destinations',
            'args': {**request['args'], 'instance_uuids': [INSTANCE]},
            'version': '4.5',
            '_msg_id': MESSAGE,
            '_reply_q': self._replies,
            '_unique_id': MESSAGE,
            '_timeout': READ_S,
        }
        self._text = wire.enveloped(message).decode()
        self._waiting: set[str] = set()
        self._answered = 0

    def calls_in(self, seconds, in_flight):
        """Return how many calls were answered, with ``in_flight`` calls under way all the
        time."""
        before, end_s = self._answered, time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            # To publish reads answers too.
            while len(self._waiting) < in_flight:
                self._send()
            self._connection.drain_events(timeout=READ_S)
        answered = self._answered - before
        while self._waiting:
            self._connection.drain_events(timeout=READ_S)
        return answered

    def _send(self):
        message_id = uuid.uuid4().hex
        text = self._text.replace(MESSAGE, message_id).replace(INSTANCE, str(uuid.uuid4()))
        self._waiting.add(message_id)
        self._channel.basic_publish(wire.to_amqp(text.encode()), self._exchange, self._topic)

    def _take(self, message):
        answer = wire.read(message)
        if answer['failure']:
            raise RuntimeError(answer['failure'])
        self._waiting.remove(answer['_msg_id'])
        self._answered += 1

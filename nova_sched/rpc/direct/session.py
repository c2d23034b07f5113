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
"""One connection of the direct server to RabbitMQ, from its beginning to its end."""

import collections
import dataclasses
import itertools
import logging
from typing import Any

from amqp import spec

from nova_sched.rpc import rabbit
from nova_sched.rpc.direct import settings

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True, eq=False)
class Sent:
    """A message that RabbitMQ has not confirmed yet. ``owner`` is the caller's own note."""

    queue: str
    text: bytes
    owner: Any
    is_returned: bool = False


class BrokerSession(rabbit.Session):
    """Takes messages, sends answers, and acknowledges. For one thread; raises rabbit.ERRORS.

    ``arrived`` are the amqp.Messages that were read. After ``read``, ``confirmed`` are the owners
    of the messages that RabbitMQ has put into a queue; ``returned`` are those of the messages
    whose queue does not exist, ``refused`` those that the queue does not take. ``offsets`` has the
    next message of each stream, by its queue.
    """

    def __init__(self, connection, wanted, prefetch):
        """Declare the wanted Subscriptions, and take at most ``prefetch`` messages of each before
        they are acknowledged."""
        super().__init__(connection)
        self.arrived: collections.deque[Any] = collections.deque()
        self.confirmed: list[Any] = []
        self.returned: list[Any] = []
        self.refused: list[Any] = []
        self.is_blocked = False
        self._wanted = wanted
        self._held: dict[int, bool] = {}  # tag: whether it is to be acknowledged, in their order
        self._settled = 0
        self._sent: dict[int, Sent] = {}
        self._numbers = itertools.count(1)
        self.offsets: dict[str, int] = {}
        connection.on_blocked = self._on_blocked
        connection.on_unblocked = self._on_unblocked
        for subscription in wanted:
            settings.declare(connection, subscription)
        self._channel = connection.channel()
        self._channel.auto_decode = False  # bodies as bytes
        self._channel.events['basic_return'].add(self._on_return)
        self._channel.events['basic_ack'].add(self._on_ack)
        self._channel.events['basic_nack'].add(self._on_nack)
        self._channel.confirm_select()
        self._channel.basic_qos(0, prefetch, False)

    def consume(self, offsets):
        """Begin to take messages; ``offsets`` are those of another session's ``offsets``."""
        for number, wanted in enumerate(self._wanted, 1):
            arguments = dict(wanted.consumer_arguments)
            if wanted.is_stream:
                arguments['x-stream-offset'] = offsets.get(wanted.queue, 'last')
            self._channel.basic_consume(
                wanted.queue, str(number), callback=self._take, arguments=arguments or None
            )

    @property
    def unconfirmed(self):
        """Owners of the messages that RabbitMQ has not confirmed yet."""
        return [sent.owner for sent in self._sent.values()]

    @property
    def unacknowledged(self):
        """How many messages were taken and not acknowledged."""
        return len(self._held)

    def send(self, queue, message, owner):
        """Send an amqp.Message to a queue. RabbitMQ confirms it later."""
        self._sent[next(self._numbers)] = Sent(queue, message.body, owner)
        self._channel.send_method(
            spec.Basic.Publish, 'Bssbb', (0, '', queue, True, False), message
        )

    def take(self):
        """Return the next message that has arrived."""
        message = self.arrived.popleft()
        offset = rabbit.headers(message).get('x-stream-offset')
        if offset is not None:
            number = int(message.delivery_info['consumer_tag'])
            self.offsets[self._wanted[number - 1].queue] = offset + 1
        return message

    def settle(self, tag):
        """Acknowledge a message with the next ``acknowledge``."""
        if self._held.get(tag) is False:
            self._held[tag] = True
            self._settled += 1

    def acknowledge(self):
        """Acknowledge all settled messages.

        One command acknowledges those before the first unsettled message. Each one after it is
        acknowledged by itself.
        """
        if not self._settled:
            return
        first = list(itertools.takewhile(self._held.__getitem__, self._held))
        if first:
            self._channel.basic_ack(first[-1], multiple=True)
        for tag in first:
            del self._held[tag]
        if len(first) < self._settled:
            for tag in [tag for tag, is_settled in self._held.items() if is_settled]:
                self._channel.basic_ack(tag)
                del self._held[tag]
        self._settled = 0

    def reject(self, tag):
        """Give up a message that cannot be read."""
        if self._held.pop(tag, None) is not None:
            self._channel.basic_reject(tag, requeue=False)

    def cancel(self):
        """Take no more messages. RabbitMQ has sent the last one when this returns; it is in
        ``arrived``."""
        for number in range(1, len(self._wanted) + 1):
            self._channel.basic_cancel(str(number), nowait=False)

    def end(self):
        """Delete the server's own queues, and close the connection."""
        for wanted in self._wanted:
            if wanted.is_own:
                self._channel.queue_delete(wanted.queue)
        self.close()

    # Called by py-amqp.

    def _take(self, message):
        self._held[message.delivery_tag] = False
        self.arrived.append(message)

    def _on_blocked(self, reason):
        LOG.error('The broker has blocked the connection: %s', reason)
        self.is_blocked = True

    def _on_unblocked(self):
        LOG.info('The broker has unblocked the connection')
        self.is_blocked = False

    def _on_return(self, _error, _exchange, routing_key, message):
        """RabbitMQ sends a message back before it confirms it."""
        text = rabbit.body(message)
        for sent in self._sent.values():
            if sent.queue == routing_key and sent.text == text:
                sent.is_returned = True

    def _on_ack(self, number, multiple):
        for sent in self._ended(number, multiple):
            (self.returned if sent.is_returned else self.confirmed).append(sent.owner)

    def _on_nack(self, number, multiple):
        self.refused += [sent.owner for sent in self._ended(number, multiple)]

    def _ended(self, number, multiple):
        if not multiple:
            return [self._sent.pop(number)] if number in self._sent else []
        numbers = list(itertools.takewhile(lambda sent: sent <= number, self._sent))
        return [self._sent.pop(ended) for ended in numbers]

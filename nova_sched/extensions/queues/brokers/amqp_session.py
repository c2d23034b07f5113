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
"""The subscriptions of one consumer during one connection to RabbitMQ."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import amqp
from amqp import spec
from amqp.exceptions import NotFound

from nova_sched.extensions.queues import brokers
from nova_sched.extensions.queues.brokers import amqp_link
from nova_sched.rpc import rabbit

MAX_MISSING = 100  # missing queues after which the rest is left for the next check


@dataclasses.dataclass(frozen=True, slots=True)
class DeliveryTag:
    """The origin of a delivery: the session, and its number in it. ``sent_ms`` is when it was
    first sent."""

    session: 'Session'
    number: int
    sent_ms: int | None
    expires: bool


class Session(rabbit.Session):
    """One channel with all subscriptions. For one thread; every method raises rabbit.ERRORS.

    ``whole``: RabbitMQ enforces the window over the whole channel, which classic queues support.
    Otherwise each subscription may deliver one message, and ends with it. Messages above the
    window are in ``excess``. The subscriptions are made again as soon as the window has free
    space.
    """

    def __init__(self, connection: amqp.Connection, window: int, whole: bool):
        super().__init__(connection)
        self.arrived: collections.deque[brokers.Delivery] = collections.deque()
        self.excess: list[brokers.Delivery] = []
        self.missing: dict[str, int] = {}  # queues that do not exist, with the wanted priority
        self._channel = connection.channel()
        self._channel.auto_decode = False  # bodies as bytes
        self._probes = connection.channel()
        self._window = window
        self._whole = whole
        self._inflight: set[int] = set()  # numbers of the unacknowledged messages
        self._open: dict[str, tuple[str, int]] = {}  # queue: its consumer tag, and priority
        self._spent: dict[
            str, int
        ] = {}  # queue whose subscription has delivered a message: priority
        self._queues: dict[str, str] = {}  # consumer tag: queue
        self._tags = itertools.count(1)
        self._limit()

    def window(self, count: int) -> None:
        self._window = count
        if self._whole:
            self._limit()

    def follow(self, changes: Mapping[str, int | None]) -> None:
        """Subscribe, and end subscriptions; messages from a queue that was ended become excess."""
        wanted = {queue: priority for queue, priority in changes.items() if priority is not None}
        new = {
            queue: priority
            for queue, priority in wanted.items()
            if self._priority(queue) != priority
        }
        self._end([queue for queue in changes if queue in new or queue not in wanted])
        self._begin(new)
        ended = [delivery for delivery in self.arrived if changes.get(delivery.queue, 0) is None]
        for delivery in ended:
            self.arrived.remove(delivery)
        self.excess += ended

    def holds(self, tag: DeliveryTag) -> bool:
        """Whether a delivery is of this session, and not acknowledged yet."""
        return tag.session is self and tag.number in self._inflight

    def ack(self, tag: DeliveryTag) -> None:
        self._inflight.discard(tag.number)
        self._channel.basic_ack(tag.number)

    def reject(self, tag: DeliveryTag) -> None:
        """Return a message to its place in its queue."""
        self._inflight.discard(tag.number)
        self._channel.basic_reject(tag.number, requeue=True)

    def _limit(self) -> None:
        """Send the window; the answer arrives when all earlier commands are done."""
        if self._whole:
            self._channel.basic_qos(0, self._window, True)
        else:
            self._channel.basic_qos(0, 1, False)

    def _priority(self, queue: str) -> int | None:
        if queue in self._open:
            return self._open[queue][1]
        return self._spent.get(queue, self.missing.get(queue))

    def _end(self, queues: Iterable[str]) -> None:
        """End subscriptions; messages that RabbitMQ sent before are read before this returns.

        Only the last command of a batch is answered, which is cheaper for both sides. Its answer
        arrives after all messages that were sent for the earlier ones.
        """
        tags = []
        for queue in queues:
            self._spent.pop(queue, None)
            self.missing.pop(queue, None)
            if queue in self._open:
                tags.append(self._open.pop(queue)[0])
        for some in _batches(tags):
            for tag in some:
                self._channel.send_method(spec.Basic.Cancel, 'sb', (tag, tag != some[-1]))
            # py-amqp removes the callback when it reads the answer.
            while some[-1] in self._channel.callbacks:
                self.connection.drain_events(self._silence_s)
            for tag in some:
                self._forget(tag)

    def _forget(self, tag: str) -> None:
        """Forget an ended subscription; py-amqp would reject its late messages at once."""
        self._queues.pop(tag, None)
        self._channel.callbacks.pop(tag, None)
        self._channel.cancel_callbacks.pop(tag, None)

    def _begin(self, wanted: Mapping[str, int]) -> None:
        """Subscribe to queues without a subscription; those that do not exist are recorded as
        missing."""
        if not (self._whole or len(self._inflight) < self._window):
            self._spent.update(wanted)
            return
        for some in _batches(self._present(wanted)):
            for queue in some:
                self._subscribe(queue, wanted[queue])
            self._limit()

    def _subscribe(self, queue: str, priority: int) -> None:
        tag = str(next(self._tags))
        self._open[queue] = tag, priority
        self._queues[tag] = queue
        self._channel.basic_consume(
            amqp_link.on_broker(queue),
            tag,
            nowait=True,
            callback=self._on_message,
            on_cancel=self._on_cancel,
            arguments={'x-priority': priority},
        )

    def _present(self, wanted: Mapping[str, int]) -> list[str]:
        """Return the queues that exist.

        Subscribing to a missing queue would close the channel, and all held messages would be
        delivered again. Therefore another channel checks first. It requests no answers: RabbitMQ
        only reads a table for each queue.
        """
        names = list(wanted)
        present: list[str] = []
        gone: list[str] = []
        at, ahead = 0, amqp_link.BATCH
        while at < len(names) and len(gone) < MAX_MISSING:
            some = names[at : at + ahead]
            count = self._first_absent(some)
            present += some[:count]
            gone += some[count : count + 1]
            at += min(count + 1, len(some))
            ahead = 1 if count < len(some) else min(2 * ahead, amqp_link.BATCH)
        # Queues that were not checked come first at the next check.
        self.missing |= {queue: wanted[queue] for queue in (*names[at:], *gone)}
        return present

    def _first_absent(self, queues: list[str]) -> int:
        """Return the position of the first missing queue; the number of queues if all exist."""
        try:
            for queue in queues:
                self._probes.queue_declare(amqp_link.on_broker(queue), passive=True, nowait=True)
            self._probes.basic_qos(0, 0, False)
        except NotFound as error:
            said = [f"'{amqp_link.on_broker(queue)}'" in str(error) for queue in queues]
            if True not in said:
                raise
            return said.index(True)
        return len(queues)

    def reopen(self) -> None:
        """Subscribe again to queues that have delivered their message, if the window has free
        space."""
        if self._spent and len(self._inflight) < self._window:
            spent, self._spent = self._spent, {}
            self._begin(spent)

    def retry(self) -> None:
        """Subscribe to the missing queues that exist now."""
        missing, self.missing = self.missing, {}
        self._begin(missing)

    def _on_cancel(self, tag: str) -> None:
        """Remove a subscription that RabbitMQ has ended because its queue was deleted."""
        queue = self._queues.pop(tag, '')
        if self._open.get(queue, ('', 0))[0] == tag:
            self.missing[queue] = self._open.pop(queue)[1]

    def _on_message(self, message: Any) -> None:
        info, properties = message.delivery_info, rabbit.headers(message)
        queue, number = self._queues[info['consumer_tag']], message.delivery_tag
        reason = properties.get(amqp_link.REASON) or properties.get('x-first-death-reason')
        delivery = brokers.Delivery(
            queue,
            rabbit.body(message),
            tries=properties.get(amqp_link.TRIES, 0),
            redelivered=info['redelivered'],
            reason=reason if queue == brokers.FALLBACK else None,
            tag=DeliveryTag(
                self, number, properties.get(amqp_link.SENT_MS), 'expiration' in message.properties
            ),
        )
        full = not self._whole and len(self._inflight) >= self._window
        self._inflight.add(number)
        if full:
            self.excess.append(delivery)
        else:
            self.arrived.append(delivery)
        if not self._whole:
            self._spend(info['consumer_tag'], queue)

    def _spend(self, tag: str, queue: str) -> None:
        if self._open.get(queue, ('', 0))[0] == tag:
            self._spent[queue] = self._open.pop(queue)[1]
            self._channel.basic_cancel(tag, nowait=True)
            self._forget(tag)


def _batches(items: list[str]) -> Iterable[list[str]]:
    return (items[at : at + amqp_link.BATCH] for at in range(0, len(items), amqp_link.BATCH))

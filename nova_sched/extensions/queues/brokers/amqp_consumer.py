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
"""A consumer on RabbitMQ: one thread with one connection, which it opens again after each loss.

A Session has the subscriptions during one connection; AmqpConsumer, its user, outlives it.
"""

import collections
import dataclasses
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from typing import Any

import amqp
from amqp import spec
from amqp.exceptions import AMQPNotImplementedError, NotFound

from nova_sched import errors
from nova_sched.extensions.queues import brokers
from nova_sched.extensions.queues.brokers import amqp_link
from nova_sched.rpc import rabbit

LOG = logging.getLogger(__name__)

MISSING_S = 3.0  # between checks for queues that do not exist
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
        # Queues whose subscription has delivered a message, with the priority.
        self._spent: dict[str, int] = {}
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
        for batch in _batches(tags):
            for tag in batch:
                self._channel.send_method(spec.Basic.Cancel, 'sb', (tag, tag != batch[-1]))
            # py-amqp removes the callback when it reads the answer.
            while batch[-1] in self._channel.callbacks:
                self.connection.drain_events(self._silence_s)
            for tag in batch:
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
        for batch in _batches(self._present(wanted)):
            for queue in batch:
                tag, priority = str(next(self._tags)), wanted[queue]
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
            self._limit()

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
            batch = names[at : at + ahead]
            count = self._first_absent(batch)
            present += batch[:count]
            gone += batch[count : count + 1]
            at += min(count + 1, len(batch))
            ahead = 1 if count < len(batch) else min(2 * ahead, amqp_link.BATCH)
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
            for position, queue in enumerate(queues):
                if f"'{amqp_link.on_broker(queue)}'" in str(error):
                    return position
            raise
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
        tag, number = info['consumer_tag'], message.delivery_tag
        queue = self._queues[tag]
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
        if not self._whole and self._open.get(queue, ('', 0))[0] == tag:
            self._spent[queue] = self._open.pop(queue)[1]
            self._channel.basic_cancel(tag, nowait=True)
            self._forget(tag)


def _batches(items: list[str]) -> Iterable[list[str]]:
    return (items[at : at + amqp_link.BATCH] for at in range(0, len(items), amqp_link.BATCH))


class AmqpConsumer(brokers.Consumer, rabbit.BusUser[Session]):
    """``connect`` opens a connection or raises BrokerUnavailable, as this constructor does.

    The consumer's thread does all work on the connection; other threads pass calls to it.
    ``send`` is AmqpBroker.publish. ``whole``: see Session. It is turned off permanently when
    RabbitMQ does not support it.
    """

    def __init__(
        self,
        connect: Callable[[], amqp.Connection],
        send: Callable[..., bool],
        deliver: Callable[[brokers.Delivery], None],
        name: str,
        whole: bool,
    ):
        self._send = send
        self._deliver = deliver
        self._name = name
        self._whole = whole
        self._wanted: dict[str, int] = {}
        self._window = 1
        self._inflight: set[DeliveryTag] = set()
        self._retry_at_s = 0.0
        self._orders: collections.deque[tuple[Callable[[], None], futures.Future[None]]] = (
            collections.deque()
        )
        self._stopping = False
        self._over = threading.Event()
        self._bus: rabbit.BusThread[Session] = rabbit.BusThread(self, connect, f'Consumer {name}')
        try:
            self._bus.open()
        except BaseException:
            self._bus.close()
            raise
        self._bus.start()

    # Called by other threads.

    def window(self, count: int) -> None:
        if count < 1:
            raise ValueError(f'a window of {count}')
        self._order(lambda: self._set_window(count))

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        changes = dict(wanted)
        self._order(lambda: self._follow(changes)).result()

    def ack(self, delivery: brokers.Delivery) -> None:
        if self._end(delivery):
            self._order(lambda: self._settle(delivery.tag, done=True))

    def put_back(self, delivery: brokers.Delivery, queue: str | None = None) -> None:
        if self._end(delivery):
            self._send_again(delivery, queue or delivery.queue, delivery.tries + 1)

    def stop(self) -> None:
        self._order(self._stop)
        if not self._bus.is_current():
            self._over.wait()

    def _order(self, work: Callable[[], None]) -> 'futures.Future[None]':
        """Run a call in the consumer's thread, at once if this is that thread. Returns a future of
        its end.

        After the thread has ended there is no session, so any thread may run a late call.
        """
        done: futures.Future[None] = futures.Future()
        self._orders.append((work, done))
        if self._bus.is_current() or self._over.is_set():
            self._obey()
        else:
            self._bus.rouse()
        return done

    def _end(self, delivery: brokers.Delivery) -> bool:
        """Whether the delivery was held until now, on the current connection."""
        try:
            self._inflight.remove(delivery.tag)  # one call, so that only one thread ends it
        except KeyError:
            return False
        return True

    def _send_again(
        self, delivery: brokers.Delivery, queue: str, tries: int, sent_ms: int | None = None
    ) -> None:
        """Send a copy and acknowledge the delivery; if that fails, return it to RabbitMQ
        unchanged."""
        expires = delivery.tag.expires and queue == delivery.queue
        try:
            sent = self._send(queue, delivery.body, tries, expires, sent_ms=sent_ms) or self._send(
                brokers.FALLBACK, delivery.body, tries, reason=brokers.DROPPED
            )
        except errors.BrokerUnavailable as error:
            LOG.warning('Consumer %s could not put a message back: %s', self._name, error)
            sent = False
        self._order(lambda: self._settle(delivery.tag, done=sent))

    # Called by the consumer's thread.

    def open(self, connection: amqp.Connection) -> Session:
        session = Session(connection, self._window, self._whole)
        session.follow(self._wanted)
        return session

    def lost(self, session: Session | None, error: Exception) -> None:
        """RabbitMQ delivers the held messages again."""
        if self._whole and isinstance(error, AMQPNotImplementedError):
            LOG.warning(
                'Some queues are quorum queues: several jobs may arrive at once, '
                'and are put back then. %s',
                error,
            )
            self._whole = False
        self._inflight.clear()

    def is_over(self) -> bool:
        return self._stopping

    def ended(self) -> None:
        self._over.set()
        self._obey()

    def due_s(self) -> float:
        session = self._bus.session
        if session is None:
            return math.inf
        if session.arrived or session.excess:  # read while waiting for an answer
            return -math.inf
        return self._retry_at_s if session.missing else math.inf

    def work(self) -> None:
        session = self._bus.session
        if session is not None and session.missing and time.monotonic() >= self._retry_at_s:
            self._retry_at_s = time.monotonic() + MISSING_S
            session.retry()
        self._obey()
        self._hand_over()

    def _obey(self) -> None:
        while True:
            try:
                work, done = self._orders.popleft()
            except IndexError:
                return
            try:
                work()
            except rabbit.ERRORS as error:
                self._bus.lose(error)
            finally:
                done.set_result(None)

    def _hand_over(self) -> None:
        """Pass new messages to the worker, and return those above the window."""
        while (session := self._bus.session) is not None and not self._stopping:
            if session.excess:
                delivery = session.excess.pop()
                self._send_again(delivery, delivery.queue, delivery.tries, delivery.tag.sent_ms)
            elif session.arrived:
                delivery = session.arrived.popleft()
                self._inflight.add(delivery.tag)
                try:
                    self._deliver(delivery)
                except Exception:  # an error in ``deliver`` must not end the connection
                    LOG.exception(
                        'Consumer %s failed on a message of %s', self._name, delivery.queue
                    )
            else:
                session.reopen()
                return

    # Calls that other threads pass on.

    def _set_window(self, count: int) -> None:
        self._window = count
        if self._bus.session is not None:
            self._bus.session.window(count)

    def _follow(self, changes: Mapping[str, int | None]) -> None:
        for queue, priority in changes.items():
            if priority is None:
                self._wanted.pop(queue, None)
            else:
                self._wanted[queue] = priority
        if self._bus.session is not None:
            self._bus.session.follow(changes)

    def _settle(self, tag: DeliveryTag, done: bool) -> None:
        """Acknowledge or reject; does nothing if the connection of the delivery was lost."""
        session = self._bus.session
        if session is not None and session.holds(tag):
            if done:
                session.ack(tag)
            else:
                session.reject(tag)

    def _stop(self) -> None:
        self._stopping = True

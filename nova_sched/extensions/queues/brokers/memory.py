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
"""The job broker within one process, for the embedded default: no message survives the process."""

import collections
import dataclasses
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from nova_sched.extensions.queues import brokers
from nova_sched.extensions.queues.brokers import Delivery

LOG = logging.getLogger(__name__)

TOP = 254  # higher priorities count as this one; 0 in the table means no subscription


@dataclasses.dataclass(slots=True)
class StoredMessage:
    """``number`` rises with each message; ``deadline_s`` is None for one that does not expire."""

    number: int
    body: bytes
    tries: int
    expires: bool
    deadline_s: float | None
    reason: str | None
    redelivered: bool = False


@dataclasses.dataclass(slots=True)
class MemoryQueue:
    """``row`` is its row in the priority table, ``served`` the consumer that got the last
    message."""

    name: str
    row: int
    served: int = -1
    ready: 'collections.OrderedDict[int, StoredMessage]' = dataclasses.field(
        default_factory=collections.OrderedDict
    )


def _no_receiver(_: Delivery) -> None:
    """The placeholder for a consumer that has left; it has no subscriptions."""


class Core:
    """All queues and consumers, without threads and waiting; not for several threads at once.

    ``clock`` gives seconds.

    A message goes to the open consumer of the highest priority, by turns among equal priorities. A
    consumer is open while its window has free space. Therefore a queue with waiting messages has
    no open consumer, and a consumer that opens takes the message that has waited longest. The
    priorities are a table of bytes, queue by consumer, so that ten thousand consumers of a queue
    are compared in one operation.
    """

    def __init__(self, clock: Callable[[], float], fallback_after_s: float):
        self._clock = clock
        self._fallback_after_s = fallback_after_s
        self._queues: dict[str, MemoryQueue] = {}
        self._waiting: dict[int, MemoryQueue] = {}  # by row: those with ready messages
        self._waiting_rows: np.ndarray | None = None
        # The priorities of consumers in queues that do not exist.
        self._absent: dict[str, dict[int, int]] = {}
        self._priority = np.zeros((16, 16), np.uint8)  # plus one; 0: no subscription
        self._open = np.zeros(16, np.uint8)
        self._receivers: list[Callable[[Delivery], None]] = []
        # By consumer, the queue and the message of each tag.
        self._held: list[dict[int, tuple[str, StoredMessage]]] = []
        self._windows: list[int] = []
        self._free_rows: list[int] = []
        self._free_consumers: list[int] = []
        self._rows = 0
        self._numbers, self._tags = itertools.count(), itertools.count(1)
        self._deadlines: list[tuple[float, int, str]] = []
        for name in (brokers.FALLBACK, brokers.RESULTS):
            self.declare(name)

    # Queues.

    def declare(self, name: str) -> None:
        if name in self._queues:
            return
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row, self._rows = self._rows, self._rows + 1
            if row == len(self._priority):
                self._grow(2 * row, len(self._open))
        self._queues[name] = MemoryQueue(name, row)
        for consumer, priority in self._absent.pop(name, {}).items():
            self._priority[row, consumer] = priority

    def drop(self, name: str) -> int:
        """Move the waiting messages to the fallback queue; returns their number."""
        queue = self._queues.pop(name, None)
        if queue is None:
            return 0
        row = self._priority[queue.row]
        if row.any():
            self._absent[name] = {int(number): int(row[number]) for number in np.flatnonzero(row)}
        row[:] = 0
        self._free_rows.append(queue.row)
        self._rest(queue.row)
        for message in queue.ready.values():
            self.publish(brokers.FALLBACK, message.body, message.tries, reason=brokers.DROPPED)
        return len(queue.ready)

    def facts(self, name: str) -> brokers.QueueFacts | None:
        queue = self._queues.get(name)
        if queue is None:
            return None
        return brokers.QueueFacts(
            name, len(queue.ready), int(np.count_nonzero(self._priority[queue.row]))
        )

    def publish(
        self,
        name: str,
        body: bytes,
        tries: int = 0,
        expires: bool = False,
        reason: str | None = None,
    ) -> bool:
        queue = self._queues.get(name)
        if queue is None:
            return False
        limited = brokers.always_expires(name) or (expires and brokers.falls_back(name))
        deadline_s = self._clock() + self._fallback_after_s if limited else None
        self._put(
            queue, StoredMessage(next(self._numbers), body, tries, expires, deadline_s, reason)
        )
        return True

    def expire(self) -> None:
        """Move expired messages to the fallback queue."""
        now_s = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, number, name = heapq.heappop(self._deadlines)
            queue = self._queues.get(name)
            if queue is not None and (message := self._take(queue, number)) is not None:
                self.publish(brokers.FALLBACK, message.body, message.tries, reason=brokers.EXPIRED)

    def next_deadline_s(self) -> float | None:
        """Return when to call ``expire``, possibly with nothing due then; None if nothing
        expires."""
        return self._deadlines[0][0] if self._deadlines else None

    # Consumers.

    def join(self, receive: Callable[[Delivery], None]) -> int:
        """Return a new consumer with a window of 1.

        ``receive`` is called for each of its messages, and must not call the core.
        """
        if self._free_consumers:
            consumer = self._free_consumers.pop()
        else:
            consumer = len(self._receivers)
            self._receivers.append(_no_receiver)
            self._held.append({})
            self._windows.append(1)
            if consumer == len(self._open):
                self._grow(len(self._priority), 2 * consumer)
        self._receivers[consumer] = receive
        self._windows[consumer] = 1
        self._open[consumer] = 1
        return consumer

    def leave(self, consumer: int) -> None:
        """End the subscriptions of a consumer; all messages that it holds are delivered again."""
        self._receivers[consumer] = _no_receiver
        self._open[consumer] = 0
        self._priority[:, consumer] = 0
        for priorities in self._absent.values():
            priorities.pop(consumer, None)
        for tag in sorted(self._held[consumer], reverse=True):
            self.give_back(consumer, tag, redelivered=True)
        self._free_consumers.append(consumer)

    def window(self, consumer: int, count: int) -> None:
        self._windows[consumer] = count
        self._reopen(consumer)

    def follow(self, consumer: int, changes: Mapping[str, int | None]) -> None:
        rows, priorities = [], []
        for name, priority in changes.items():
            value = 0 if priority is None else min(max(priority, 0), TOP) + 1
            queue = self._queues.get(name)
            if queue is not None:
                rows.append(queue.row)
                priorities.append(value)
            elif value:
                self._absent.setdefault(name, {})[consumer] = value
            else:
                self._absent.get(name, {}).pop(consumer, None)
        self._priority[rows, consumer] = priorities
        self._reopen(consumer)

    def holds(self, consumer: int, tag: int) -> bool:
        return tag in self._held[consumer]

    def ack(self, consumer: int, tag: int) -> None:
        del self._held[consumer][tag]
        self._reopen(consumer)

    def give_back(self, consumer: int, tag: int, redelivered: bool) -> None:
        """Undo a delivery, apart from marking the message as redelivered."""
        name, message = self._held[consumer].pop(tag)
        message.redelivered |= redelivered
        queue = self._queues.get(name)
        if queue is None:
            self.publish(brokers.FALLBACK, message.body, message.tries, reason=brokers.DROPPED)
        else:
            self._put(queue, message, first=True)
        self._reopen(consumer)

    def put_back(self, consumer: int, tag: int, name: str) -> None:
        """Send a copy to a queue, with ``tries`` increased."""
        before, message = self._held[consumer].pop(tag)
        expires = message.expires and name == before
        if not self.publish(name, message.body, message.tries + 1, expires):
            self.publish(brokers.FALLBACK, message.body, message.tries + 1, reason=brokers.DROPPED)
        self._reopen(consumer)

    def _grow(self, rows: int, consumers: int) -> None:
        before, self._priority = self._priority, np.zeros((rows, consumers), np.uint8)
        self._priority[: before.shape[0], : before.shape[1]] = before
        self._open = np.append(self._open, np.zeros(consumers - len(self._open), np.uint8))

    # Distribution.

    def _put(self, queue: MemoryQueue, message: StoredMessage, first: bool = False) -> None:
        queue.ready[message.number] = message
        if first:
            queue.ready.move_to_end(message.number, last=False)
        if message.deadline_s is not None:
            heapq.heappush(self._deadlines, (message.deadline_s, message.number, queue.name))
        if queue.row not in self._waiting:
            self._waiting[queue.row] = queue
            self._waiting_rows = None
            able = self._priority[queue.row] * self._open
            top = able.max()
            if top:  # the next one of the highest priority after the last that was served
                ties = np.flatnonzero(able == top)
                place = np.searchsorted(ties, queue.served, 'right') % len(ties)
                self._deliver(queue, int(ties[place]))

    def _take(self, queue: MemoryQueue, number: int) -> StoredMessage | None:
        """Take a message out of the ready ones; None if it is not among them."""
        message = queue.ready.pop(number, None)
        if not queue.ready:
            self._rest(queue.row)
        return message

    def _rest(self, row: int) -> None:
        if self._waiting.pop(row, None) is not None:
            self._waiting_rows = None

    def _deliver(self, queue: MemoryQueue, consumer: int) -> None:
        number, message = next(iter(queue.ready.items()))
        self._take(queue, number)
        queue.served = consumer
        held, tag = self._held[consumer], next(self._tags)
        held[tag] = queue.name, message
        self._open[consumer] = len(held) < self._windows[consumer]
        self._receivers[consumer](
            Delivery(
                queue.name, message.body, message.tries, message.redelivered, message.reason, tag
            )
        )

    def _reopen(self, consumer: int) -> None:
        """Fill the free space of the window with the messages that have waited longest."""
        if self._receivers[consumer] is _no_receiver:
            return
        self._open[consumer] = len(self._held[consumer]) < self._windows[consumer]
        while self._open[consumer] and self._waiting:
            if self._waiting_rows is None:
                self._waiting_rows = np.fromiter(self._waiting, np.int64, len(self._waiting))
            rows = self._waiting_rows
            queues = [self._waiting[row] for row in rows[self._priority[rows, consumer] > 0]]
            if not queues:
                return
            self._deliver(min(queues, key=lambda queue: next(iter(queue.ready))), consumer)


class MemoryBroker(brokers.Broker):
    """For several threads of one process. ``clock`` gives seconds in real time."""

    def __init__(
        self, fallback_after_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ):
        self.core = Core(clock, fallback_after_s)
        self.guard = threading.Lock()  # held while the core is used
        self.consumers: list[MemoryConsumer] = []
        self._clock = clock
        self._due = threading.Condition(self.guard)
        self._closed = False
        self._timer: threading.Thread | None = None

    def declare(self, queues: Iterable[str]) -> None:
        with self.guard:
            for queue in queues:
                self.core.declare(queue)

    def drop(self, queue: str) -> int:
        if queue == brokers.FALLBACK:
            raise ValueError(f'{queue} cannot be dropped')
        with self.guard:
            return self.core.drop(queue)

    def facts(self, queue: str) -> brokers.QueueFacts | None:
        with self.guard:
            return self.core.facts(queue)

    def publish(self, queue: str, body: bytes, tries: int = 0, expires: bool = False) -> bool:
        with self.guard:
            is_there = self.core.publish(queue, body, tries, expires)
            self.schedule_expiry()
        return is_there

    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'MemoryConsumer':
        return MemoryConsumer(self, deliver, name)

    def close(self) -> None:
        for consumer in list(self.consumers):
            consumer.stop()
        with self.guard:
            self._closed = True
            self._due.notify()

    def schedule_expiry(self) -> None:
        """Schedule the next expiry; called under the guard, after each change that may
        affect it."""
        if self._timer is None and self.core.next_deadline_s() is not None:
            self._timer = threading.Thread(target=self._expire, name='queues expire', daemon=True)
            self._timer.start()
        self._due.notify()

    def _expire(self) -> None:
        with self.guard:
            while not self._closed:
                self.core.expire()
                until_s = self.core.next_deadline_s()
                self._due.wait(None if until_s is None else max(0.0, until_s - self._clock()))


class MemoryConsumer(brokers.Consumer):
    """Calls ``deliver`` from a thread that it owns."""

    def __init__(self, owner: MemoryBroker, deliver: Callable[[Delivery], None], name: str):
        self._owner, self._core = owner, owner.core
        self._deliver, self._name = deliver, name
        self._inbox = collections.deque[Delivery]()  # received, not yet passed to ``deliver``
        self._arrived = threading.Condition(owner.guard)
        self._calling = threading.RLock()
        self._stopped = False
        with owner.guard:
            self._number = self._core.join(self._arrive)
            owner.consumers.append(self)
        self._start()

    def window(self, count: int) -> None:
        if count < 1:
            raise ValueError(f'a window of {count}')
        with self._owner.guard:
            if not self._stopped:
                self._core.window(self._number, count)

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        with self._owner.guard:
            if self._stopped:
                return
            self._core.follow(self._number, wanted)
            ended = [delivery for delivery in self._inbox if wanted.get(delivery.queue, 0) is None]
            for delivery in reversed(ended):
                self._inbox.remove(delivery)
                self._core.give_back(self._number, delivery.tag, redelivered=False)
            self._owner.schedule_expiry()
        self._settle()

    def ack(self, delivery: Delivery) -> None:
        with self._owner.guard:
            if self._holds(delivery):
                self._core.ack(self._number, delivery.tag)

    def put_back(self, delivery: Delivery, queue: str | None = None) -> None:
        with self._owner.guard:
            if self._holds(delivery):
                self._core.put_back(self._number, delivery.tag, queue or delivery.queue)
                self._owner.schedule_expiry()

    def stop(self) -> None:
        with self._owner.guard:
            if not self._stopped:
                self._stopped = True
                self._inbox.clear()
                self._core.leave(self._number)
                self._owner.consumers.remove(self)
                self._owner.schedule_expiry()
                self._wake()
        self._settle()

    def _holds(self, delivery: Delivery) -> bool:
        return not self._stopped and self._core.holds(self._number, delivery.tag)

    def _arrive(self, delivery: Delivery) -> None:
        self._inbox.append(delivery)
        self._wake()

    def _start(self) -> None:
        threading.Thread(target=self._run, name=f'queues {self._name}', daemon=True).start()

    def _wake(self) -> None:
        """Signal a new message in the inbox, or a stop; called under the guard."""
        self._arrived.notify()

    def _settle(self) -> None:
        """Wait until a running call of ``deliver`` has ended, unless that call made this one."""
        with self._calling:
            pass

    def _run(self) -> None:
        while True:
            with self._owner.guard:
                while not (self._inbox or self._stopped):
                    self._arrived.wait()
                if self._stopped:
                    return
            with self._calling:
                with self._owner.guard:
                    delivery = self._inbox.popleft() if self._inbox else None
                if delivery is None:
                    continue
                try:
                    self._deliver(delivery)
                except Exception:  # an error in ``deliver`` must not end the thread
                    LOG.exception(
                        'Consumer %s failed on a message of %s', self._name, delivery.queue
                    )

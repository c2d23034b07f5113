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
"""Job brokers within one process: with threads for the embedded default, and in simulated time."""

import abc
import collections
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova_sched.queues import brokers
from nova_sched.queues.brokers import Delivery
from nova_sched.queues.brokers.memory_core import Core

LOG = logging.getLogger(__name__)


class _Broker(brokers.Broker):
    """The common base of both brokers; ``guard`` is held while the core is used."""

    def __init__(self, clock: Callable[[], float], fallback_after_s: float, guard: Any):
        self.core = Core(clock, fallback_after_s)
        self.guard = guard
        self.consumers: list[_Consumer] = []

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
            there = self.core.publish(queue, body, tries, expires)
            self.look()
        return there

    def close(self) -> None:
        for consumer in list(self.consumers):
            consumer.stop()

    @abc.abstractmethod
    def look(self) -> None:
        """Schedule the next expiry; called under the guard, after each change that may
        affect it."""


class _Consumer(brokers.Consumer):
    def __init__(self, owner: _Broker, deliver: Callable[[Delivery], None]):
        self._owner = owner
        self._core = owner.core
        self._deliver = deliver
        self._inbox: collections.deque[Delivery] = (
            collections.deque()
        )  # received, not yet passed to ``deliver``
        self._stopped = False
        with owner.guard:
            self._number = self._core.join(self._arrive)
            owner.consumers.append(self)

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
            ended = [found for found in self._inbox if wanted.get(found.queue, 0) is None]
            for found in reversed(ended):
                self._inbox.remove(found)
                self._core.give_back(self._number, found.tag, redelivered=False)
            self._owner.look()
        self._settle()

    def ack(self, delivery: Delivery) -> None:
        with self._owner.guard:
            if self._holds(delivery):
                self._core.ack(self._number, delivery.tag)

    def put_back(self, delivery: Delivery, queue: str | None = None) -> None:
        with self._owner.guard:
            if self._holds(delivery):
                self._core.put_back(self._number, delivery.tag, queue or delivery.queue)
                self._owner.look()

    def stop(self) -> None:
        with self._owner.guard:
            if not self._stopped:
                self._stopped = True
                self._inbox.clear()
                self._core.leave(self._number)
                self._owner.consumers.remove(self)
                self._owner.look()
                self._wake()
        self._settle()

    def _holds(self, delivery: Delivery) -> bool:
        return not self._stopped and self._core.holds(self._number, delivery.tag)

    def _arrive(self, delivery: Delivery) -> None:
        self._inbox.append(delivery)
        self._wake()

    @abc.abstractmethod
    def _wake(self) -> None:
        """Signal a new message in the inbox, or a stop; called under the guard."""

    @abc.abstractmethod
    def _settle(self) -> None:
        """Wait until a running call of ``deliver`` has ended, unless that call made this one."""


class MemoryBroker(_Broker):
    """For several threads of one process. ``clock`` gives seconds in real time."""

    def __init__(
        self, fallback_after_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__(clock, fallback_after_s, threading.Lock())
        self._clock = clock
        self._due = threading.Condition(self.guard)
        self._closed = False
        self._timer: threading.Thread | None = None

    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'MemoryConsumer':
        return MemoryConsumer(self, deliver, name)

    def close(self) -> None:
        super().close()
        with self.guard:
            self._closed = True
            self._due.notify()

    def look(self) -> None:
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


class MemoryConsumer(_Consumer):
    """Calls ``deliver`` from a thread that it owns."""

    def __init__(self, owner: MemoryBroker, deliver: Callable[[Delivery], None], name: str):
        self._arrived = threading.Condition(owner.guard)
        self._calling = threading.RLock()
        super().__init__(owner, deliver)
        self._name = name
        threading.Thread(target=self._run, name=f'queues {name}', daemon=True).start()

    def _wake(self) -> None:
        self._arrived.notify()

    def _settle(self) -> None:
        with self._calling:
            pass

    def _run(self) -> None:
        while self._wait():
            with self._calling:
                with self._owner.guard:
                    found = self._inbox.popleft() if self._inbox else None
                if found is not None:
                    self._call(found)

    def _wait(self) -> bool:
        with self._owner.guard:
            while not (self._inbox or self._stopped):
                self._arrived.wait()
            return not self._stopped

    def _call(self, found: Delivery) -> None:
        try:
            self._deliver(found)
        except Exception:  # an error in ``deliver`` must not end the thread
            LOG.exception('Consumer %s failed on a message of %s', self._name, found.queue)


class SimulatedBroker(_Broker):
    """For one thread, in simulated time: each run does the same operations in the same order.

    ``clock`` gives seconds; ``after(seconds, call)`` schedules a call. Calls that are due at the
    same time run in the order in which they were scheduled. A message takes ``latency_s`` from the
    broker to a consumer. It supports ten thousand consumers of fifty thousand queues.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        after: Callable[[float, Callable[[], None]], Any],
        fallback_after_s: float = 30.0,
        latency_s: float = 0.0,
    ):
        super().__init__(clock, fallback_after_s, contextlib.nullcontext())
        self._clock = clock
        self._due_s = math.inf
        self.after = after
        self.latency_s = latency_s

    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'SimulatedConsumer':
        return SimulatedConsumer(self, deliver)

    def look(self) -> None:
        until_s = self.core.next_deadline_s()
        if until_s is not None and until_s < self._due_s:
            self._due_s = until_s
            self.after(max(0.0, until_s - self._clock()), self._expire)

    def _expire(self) -> None:
        self._due_s = math.inf
        self.core.expire()
        self.look()


class SimulatedConsumer(_Consumer):
    """Calls ``deliver`` at the due simulated time."""

    _owner: SimulatedBroker

    def _wake(self) -> None:
        if self._inbox:
            self._owner.after(self._owner.latency_s, self._call)

    def _settle(self) -> None:
        """Nothing runs in parallel with the caller."""

    def _call(self) -> None:
        if self._inbox:
            self._deliver(self._inbox.popleft())

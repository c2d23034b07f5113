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
"""The simulated broker of jobs, which counts the messages that a real one would transfer."""

import collections
from collections.abc import Callable, Mapping
from typing import Any

from nova_sched.queues.brokers import Delivery
from nova_sched.queues.brokers.memory import SimulatedBroker, SimulatedConsumer

PUBLISH = 'publish'
DELIVER = 'deliver'
ACK = 'ack'
CONSUME = 'consume'
CANCEL = 'cancel'
WINDOW = 'qos'


class Broker(SimulatedBroker):
    """``count`` has the commands by their AMQP names, ``kinds`` the published messages by kind of
    queue."""

    def __init__(
        self,
        clock: Callable[[], float],
        after: Callable,
        fallback_after_s: float,
        latency_s: float,
    ):
        super().__init__(clock, after, fallback_after_s, latency_s)
        self.count: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()

    def publish(self, queue: str, body: bytes, tries: int = 0, expires: bool = False) -> bool:
        self.sent(queue)
        return super().publish(queue, body, tries, expires)

    def sent(self, queue: str) -> None:
        self.count[PUBLISH] += 1
        self.kinds[queue.partition('.')[0]] += 1

    def consumer(self, deliver: Callable[[Delivery], None], name: str) -> 'Consumer':
        def counted(delivery: Delivery) -> None:
            self.count[DELIVER] += 1
            deliver(delivery)

        return Consumer(self, counted)


class Consumer(SimulatedConsumer):
    """Changes the priority: one subscription ends and another begins."""

    def __init__(self, owner: Broker, deliver: Callable[[Delivery], None]):
        super().__init__(owner, deliver)
        self._wire, self._subscribed = owner, set[str]()

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        count, there = self._wire.count, self._subscribed
        for queue, priority in wanted.items():
            if queue in there:
                count[CANCEL] += 1
            if priority is None:
                there.discard(queue)
            else:
                there.add(queue)
                count[CONSUME] += 1
        super().follow(wanted)

    def window(self, count: int) -> None:
        self._wire.count[WINDOW] += 1
        super().window(count)

    def ack(self, delivery: Delivery) -> None:
        self._wire.count[ACK] += 1
        super().ack(delivery)

    def put_back(self, delivery: Delivery, queue: Any = None) -> None:
        self._wire.count[ACK] += 1
        self._wire.sent(queue or delivery.queue)
        super().put_back(delivery, queue)

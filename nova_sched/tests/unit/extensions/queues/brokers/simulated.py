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
"""A broker in simulated time, for one thread."""

import math

from nova_sched.extensions.queues.brokers.memory import MemoryBroker, MemoryConsumer


class SimulatedBroker(MemoryBroker):
    """Each run does the same operations in the same order.

    ``clock`` gives seconds; ``after(seconds, call)`` schedules a call. Calls that are due at the
    same time run in the order in which they were scheduled. A message takes ``latency_s`` from the
    broker to a consumer."""

    def __init__(self, clock, after, fallback_after_s=30.0, latency_s=0.0):
        super().__init__(fallback_after_s, clock)
        self.after, self.latency_s = after, latency_s
        self._due_s = math.inf

    def consumer(self, deliver, name):
        return SimulatedConsumer(self, deliver, name)

    def schedule_expiry(self):
        until_s = self.core.next_deadline_s()
        if until_s is not None and until_s < self._due_s:
            self._due_s = until_s
            self.after(max(0.0, until_s - self._clock()), self._expire)

    def _expire(self):
        self._due_s = math.inf
        self.core.expire()
        self.schedule_expiry()


class SimulatedConsumer(MemoryConsumer):
    """Calls ``deliver`` when it is due."""

    def _start(self):
        """It needs no thread."""

    def _wake(self):
        if self._inbox:
            self._owner.after(self._owner.latency_s, self._call_next)

    def _settle(self):
        """Nothing runs in parallel with the caller."""

    def _call_next(self):
        if self._inbox:
            self._deliver(self._inbox.popleft())

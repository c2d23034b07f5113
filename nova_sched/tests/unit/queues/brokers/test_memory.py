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
"""The brokers within one process: with threads, and in simulated time."""

import pytest

from nova_sched.queues.brokers.memory import MemoryBroker, SimulatedBroker
from nova_sched.sim.clock import Clock
from nova_sched.tests.unit.queues.broker_battery import BrokerBattery, Stage, ThreadsBattery


class SimulatedStage(Stage):
    """Time that moves only when somebody waits for something."""

    def __init__(self, latency_s=0.0):
        self.clock = Clock()
        broker = SimulatedBroker(
            self.clock,
            lambda seconds, call: self.clock.at(self.clock() + seconds, call),
            fallback_after_s=30.0,
            latency_s=latency_s,
        )
        super().__init__(broker, fallback_after_s=30.0)

    def until(self, holds):
        for _ in range(1000):
            if holds():
                return
            self.rest(0.1)
        raise AssertionError('it does not become true')

    def rest(self, seconds=0.3):
        for call in self.clock.move(self.clock() + seconds):
            call()


def threads(fallback_after_s):
    made = Stage(MemoryBroker(fallback_after_s), fallback_after_s)
    made.quiet_s = 0.05
    yield made
    made.broker.close()


class TestThreads(ThreadsBattery):
    @pytest.fixture
    def stage(self):
        yield from threads(60.0)

    @pytest.fixture
    def hasty(self):
        yield from threads(0.3)


@pytest.mark.parametrize('latency_s', [0.0, 0.01], ids=['no latency', 'latency'])
class TestSimulated(BrokerBattery):
    @pytest.fixture
    def stage(self, latency_s):
        return SimulatedStage(latency_s)

    @pytest.fixture
    def hasty(self, latency_s):
        return SimulatedStage(latency_s)

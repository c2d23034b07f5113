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

import threading

import pytest

from nova_sched.queues.brokers import FALLBACK
from nova_sched.queues.brokers.memory import MemoryBroker, SimulatedBroker
from nova_sched.sim.replay import Clock
from nova_sched.tests.unit.queues.brokers.battery import (
    HERE,
    TINY,
    BrokerBattery,
    Stage,
    ThreadsBattery,
)


class SimulatedStage(Stage):
    """Time that moves only when a thread waits for something."""

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
        yield from threads(600.0)

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


@pytest.fixture
def stage():
    yield from threads(600.0)


def test_a_fault_of_a_callback_ends_nothing(stage, caplog):
    found = []
    consumer = stage.broker.consumer(lambda one: found.append(one) or 1 / 0, 'faulty')
    stage.broker.declare([HERE])
    consumer.follow({HERE: 0})
    for count in (1, 2):
        stage.broker.publish(HERE, b'')
        stage.until(lambda count=count: len(found) == count)
        consumer.ack(found[-1])
    assert f'Consumer faulty failed on a message of {HERE}' in caplog.text


def test_follow_waits_for_a_call_that_goes_on(stage):
    began, go_on, ended = threading.Event(), threading.Event(), []

    def deliver(_):
        began.set()
        go_on.wait(stage.timeout_s)
        ended.append(True)

    stage.broker.declare([HERE])
    stage.broker.publish(HERE, b'')
    consumer = stage.broker.consumer(deliver, 'slow')
    consumer.follow({HERE: 0})
    assert began.wait(stage.timeout_s)
    threading.Timer(0.05, go_on.set).start()
    consumer.follow({HERE: None})
    assert ended == [True]


def test_the_end_of_a_broker_ends_its_threads():
    for made in threads(600.0):
        made.broker.declare([TINY])
        made.broker.publish(TINY, b'')  # from now on a thread waits until it expires
        taker = made.taker(HERE)
        of = [
            one for one in threading.enumerate() if one.name in ('queues expire', 'queues taker')
        ]
    made.until(lambda: not any(one.is_alive() for one in of))
    assert len(of) >= 2
    taker.consumer.stop()


def test_a_message_takes_its_time_to_a_consumer():
    stage = SimulatedStage(latency_s=0.5)
    stage.broker.declare([HERE])
    taker = stage.taker(HERE)
    stage.broker.publish(HERE, b'')
    stage.rest(0.4)
    assert taker.found == []
    stage.rest(0.2)
    assert len(taker.found) == 1


def test_what_is_ended_while_it_is_on_its_way_does_not_come():
    stage = SimulatedStage(latency_s=0.5)
    stage.broker.declare([HERE])
    taker = stage.taker(HERE)
    stage.broker.publish(HERE, b'')
    taker.consumer.follow({HERE: None})
    stage.rest(1.0)
    assert taker.found == []
    assert stage.ready(HERE) == 1
    again = stage.taker(HERE).next()
    assert not again.redelivered


def test_nothing_comes_to_who_has_stopped():
    stage = SimulatedStage(latency_s=0.5)
    stage.broker.declare([HERE])
    taker = stage.taker(HERE)
    stage.broker.publish(HERE, b'')
    taker.consumer.stop()
    stage.rest(1.0)
    assert taker.found == []
    assert stage.ready(HERE) == 1


def test_a_message_expires_when_its_time_has_come():
    stage = SimulatedStage()
    stage.broker.declare([TINY])
    stage.broker.publish(TINY, b'1')
    stage.rest(10.0)
    stage.broker.publish(TINY, b'2')
    ready = []
    for seconds in (19.9, 0.2, 9.7, 0.3):
        stage.rest(seconds)
        ready.append((stage.ready(TINY), stage.ready(FALLBACK)))
    assert ready == [(2, 0), (1, 1), (1, 1), (0, 2)]

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
"""The broker within one process, with threads and in simulated time, and its core."""

import collections
import random
import threading

import pytest

from nova_sched.extensions.queues.brokers import FALLBACK, of_flavor, of_host
from nova_sched.extensions.queues.brokers.memory import TOP, Core, MemoryBroker
from nova_sched.extensions.simulator.replay import Clock
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.queues.brokers.battery import (
    HERE,
    TINY,
    BrokerBattery,
    Stage,
    ThreadsBattery,
)
from nova_sched.tests.unit.extensions.queues.brokers.simulated import SimulatedBroker

QUEUES = [*(of_flavor(f'f{n}') for n in range(6)), *(of_host(f'h{n}') for n in range(6))]


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


@table(
    'end, is_marked',
    {
        'the queue is ended': (lambda consumer: consumer.follow({HERE: None}), False),
        'the consumer stops': (lambda consumer: consumer.stop(), True),
    },
)
def test_what_is_on_its_way_does_not_come_after_the_end(end, is_marked):
    stage = SimulatedStage(latency_s=0.5)
    stage.broker.declare([HERE])
    taker = stage.taker(HERE)
    stage.broker.publish(HERE, b'')
    end(taker.consumer)
    stage.rest(1.0)
    assert taker.found == []
    assert stage.ready(HERE) == 1
    assert stage.taker(HERE).next().redelivered is is_marked


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


# The core: which consumer gets which message. Its rules hold for all operations in any order.


class World:
    """A core with consumers that do anything; knows by itself what each of them may get."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.now_s = 0.0
        self.core = Core(lambda: self.now_s, fallback_after_s=30.0)
        self.alive = {}  # consumer: its number in the core
        self.follows = collections.defaultdict(dict)  # consumer: queue: priority
        self.windows = {}
        self.held = collections.defaultdict(dict)  # consumer: tag: body
        self.giver = None  # who gives something back now: rather to others than to it again
        self.there = set()
        self.sent, self.ended = [], []
        self.names = iter(range(1_000_000))

    def join(self):
        name = next(self.names)
        self.windows[name] = 1
        self.alive[name] = self.core.join(lambda found, name=name: self.got(name, found))

    def got(self, name, found):
        held, priority = self.held[name], self.follows[name][found.queue]
        assert len(held) < self.windows[name]
        held[found.tag] = found.body
        for other in self.alive:
            if other not in (name, self.giver) and len(self.held[other]) < self.windows[other]:
                assert self.follows[other].get(found.queue, -1) <= priority

    def leave(self):
        if name := self.anyone():
            self.windows[name], self.follows[name] = 0, {}
            self.held.pop(name, None)
            number = self.alive.pop(name)
            self.core.leave(number)

    def follow(self):
        if name := self.anyone():
            some = self.chance.sample(QUEUES, self.chance.randint(1, 8))
            changes = {queue: self.chance.choice([None, 0, 1, 5, 254]) for queue in some}
            self.follows[name] |= changes
            self.follows[name] = {
                queue: p for queue, p in self.follows[name].items() if p is not None
            }
            self.core.follow(self.alive[name], changes)

    def window(self):
        if name := self.anyone():
            self.windows[name] = self.chance.randint(1, 5)
            self.core.window(self.alive[name], self.windows[name])

    def publish(self):
        queue, body = self.chance.choice(QUEUES), b'%d' % len(self.sent)
        there = self.core.publish(queue, body, expires=self.chance.random() < 0.5)
        assert there == (queue in self.there)
        if there:
            self.sent.append(body)

    def end(self):
        if (name := self.anyone()) and self.held[name]:
            tag = self.chance.choice(list(self.held[name]))
            body = self.held[name].pop(tag)
            what = self.chance.choice(['ack', 'put back', 'give back'])
            self.giver = None if what == 'ack' else name
            if what == 'ack':
                self.ended.append(body)
                self.core.ack(self.alive[name], tag)
            elif what == 'put back':
                self.core.put_back(self.alive[name], tag, self.chance.choice(QUEUES))
            else:
                self.core.give_back(self.alive[name], tag, redelivered=True)
            self.giver = None

    def declare(self):
        for queue in self.chance.sample(QUEUES, 3):
            self.there.add(queue)
            self.core.declare(queue)

    def drop(self):
        queue = self.chance.choice(QUEUES)
        self.there.discard(queue)
        self.core.drop(queue)

    def wait(self):
        self.now_s += self.chance.expovariate(1 / 10)
        self.core.expire()

    def anyone(self):
        return self.chance.choice(list(self.alive)) if self.alive else None

    def check(self):
        waiting = 0
        for queue in (*QUEUES, FALLBACK):
            facts = self.core.facts(queue)
            assert (facts is not None) == (queue in self.there or queue == FALLBACK)
            if facts is None:
                continue
            waiting += facts.ready
            followers = [name for name in self.alive if queue in self.follows[name]]
            assert facts.consumers == len(followers)
            if facts.ready:
                assert all(len(self.held[name]) >= self.windows[name] for name in followers)
        in_hand = [body for name in self.alive for body in self.held[name].values()]
        assert len(set(self.ended)) == len(self.ended)
        assert waiting + len(in_hand) + len(self.ended) == len(self.sent)


@pytest.mark.parametrize('seed', range(10))
def test_the_rules_hold_whatever_is_done(seed):
    world = World(seed)
    for _ in range(8):
        world.join()
    # About as many sends as ends, and now and then all else.
    doings = (
        [world.publish] * 6 + [world.end] * 10 + [world.follow] * 3 + [world.window, world.wait]
    )
    doings += [world.declare, world.join]
    rare = [world.leave, world.drop]
    for step in range(600):
        world.chance.choice(rare if step % 20 == 19 else doings)()
        world.check()
    assert len(world.ended) > 10


def test_messages_that_come_back_stand_where_they_were():
    found = []
    core = Core(lambda: 0.0, 30.0)
    core.declare(of_host('a'))
    for n in range(4):
        core.publish(of_host('a'), b'%d' % n)
    first = core.join(found.append)
    core.window(first, 3)
    core.follow(first, {of_host('a'): 0})
    core.leave(first)
    second = core.join(found.append)
    core.follow(second, {of_host('a'): 0})
    core.window(second, 4)
    assert [(one.body, one.redelivered) for one in found[3:]] == [
        (b'0', True),
        (b'1', True),
        (b'2', True),
        (b'3', False),
    ]


def test_what_was_in_the_hands_of_one_that_went_is_marked_for_good():
    found = []
    core = Core(lambda: 0.0, 30.0)
    core.declare(of_host('a'))
    core.publish(of_host('a'), b'')
    for redelivered in (True, False, False):
        consumer = core.join(found.append)
        core.follow(consumer, {of_host('a'): 0})
        core.follow(consumer, {of_host('a'): None})
        core.give_back(consumer, found[-1].tag, redelivered)
    core.follow(consumer, {of_host('a'): 0})
    assert [one.redelivered for one in found] == [False, True, True, True]


def test_those_that_wait_longest_are_served_first():
    found = []
    core = Core(lambda: 0.0, 30.0)
    queues = [of_host(name) for name in 'abc']
    for n in range(6):
        core.declare(queues[-n % 3])
        core.publish(queues[-n % 3], b'%d' % n)
    consumer = core.join(found.append)
    core.window(consumer, 10)
    core.follow(consumer, dict.fromkeys(queues, 3))
    assert [one.body for one in found] == [b'%d' % n for n in range(6)]


@pytest.mark.parametrize('low, high', [(0, 1), (-7, 1), (0, TOP), (1, 300), (TOP - 1, 100_000)])
def test_priorities_beyond_the_ends_are_those_at_the_ends(low, high):
    found = []
    core = Core(lambda: 0.0, 30.0)
    core.declare(of_host('a'))
    for priority in (low, high):
        consumer = core.join(lambda _, priority=priority: found.append(priority))
        core.follow(consumer, {of_host('a'): priority})
    core.publish(of_host('a'), b'')
    core.publish(of_host('a'), b'')
    assert found == [high, low]


@table('queue, stays', {'its own': ('a', False), 'another': ('b', True)})
def test_what_is_put_back_expires_in_its_own_queue_only(queue, stays):
    now_s, found = 0.0, []
    core = Core(lambda: now_s, 30.0)
    for name in 'ab':
        core.declare(of_host(name))
    core.publish(of_host('a'), b'', expires=True)
    consumer = core.join(found.append)
    core.follow(consumer, {of_host('a'): 0})
    core.follow(consumer, {of_host('a'): None})
    now_s = 20.0
    core.put_back(consumer, found[0].tag, of_host(queue))
    now_s = 49.9
    core.expire()
    assert (core.facts(of_host(queue)).ready, core.facts(FALLBACK).ready) == (1, 0)
    now_s = 50.0
    core.expire()
    assert (core.facts(of_host(queue)).ready, core.facts(FALLBACK).ready) == (
        int(stays),
        int(not stays),
    )

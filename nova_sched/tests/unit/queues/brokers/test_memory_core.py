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
"""Which consumer gets which message: the rules hold for all operations in any order."""

import collections
import random

import pytest

from nova_sched.queues.brokers import FALLBACK, of_flavor, of_host
from nova_sched.queues.brokers.memory_core import TOP, Core

QUEUES = [*(of_flavor(f'f{n}') for n in range(6)), *(of_host(f'h{n}') for n in range(6))]


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


def test_the_deadlines_are_known():
    now_s = 0.0
    core = Core(lambda: now_s, 30.0)
    core.declare(of_flavor('tiny'))
    assert core.next_deadline_s() is None
    core.publish(of_flavor('tiny'), b'')
    assert core.next_deadline_s() == 30.0
    now_s = 29.9
    core.expire()
    assert core.facts(FALLBACK).ready == 0
    now_s = 30.0
    core.expire()
    assert core.facts(FALLBACK).ready == 1
    assert core.next_deadline_s() is None


def test_those_of_one_priority_are_served_by_turns():
    found = []
    core = Core(lambda: 0.0, 30.0)
    core.declare(of_host('a'))
    for name in 'xyz':
        consumer = core.join(lambda _, name=name: found.append(name))
        core.window(consumer, 3)
        core.follow(consumer, {of_host('a'): 0})
    for _ in range(7):
        core.publish(of_host('a'), b'')
    assert ''.join(found) == 'xyzxyzx'


@pytest.mark.parametrize(
    'low, high',
    [(0, 1), (-7, 1), (0, TOP), (1, 300), (TOP - 1, 100_000)],
)
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


@pytest.mark.parametrize('queue, stays', [('a', False), ('b', True)], ids=['its own', 'another'])
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

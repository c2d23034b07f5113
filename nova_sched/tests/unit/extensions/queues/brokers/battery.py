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
"""What every broker of jobs must do: its tests inherit these, and have the fixtures.

``stage`` is a Stage where nothing falls back while a test lasts, ``hasty`` one where that comes
soon.
"""

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from nova_sched.extensions.queues.brokers import (
    DROPPED,
    EXPIRED,
    FALLBACK,
    Broker,
    Delivery,
    of_flavor,
    of_host,
)

TINY, LARGE, HERE = of_flavor('tiny'), of_flavor('large'), of_host('node-1')


class Stage:
    """A broker in real time, whose jobs fall back after ``fallback_after_s``."""

    timeout_s = 90.0
    quiet_s = 0.3  # what is to come has come by then

    def __init__(self, broker: Broker, fallback_after_s: float):
        self.broker = broker
        self.fallback_after_s = fallback_after_s

    def until(self, holds: Callable[[], object]) -> None:
        end_s = time.monotonic() + self.timeout_s
        while not holds():
            assert time.monotonic() < end_s, 'it does not become true'
            time.sleep(0.005)

    def rest(self, seconds: float = quiet_s) -> None:
        time.sleep(seconds)

    def taker(self, *queues: str, priority: int = 0, window: int = 1) -> 'Taker':
        return Taker(self, queues, priority, window)

    def ready(self, queue: str) -> int:
        facts = self.broker.facts(queue)
        return facts.ready if facts else 0


class Taker:
    """A consumer that keeps what comes."""

    def __init__(self, stage: Stage, queues: tuple[str, ...], priority: int, window: int):
        self.stage = stage
        self.found: list[Delivery] = []
        self._read = 0
        self.consumer = stage.broker.consumer(self.found.append, 'taker')
        self.consumer.window(window)
        self.consumer.follow(dict.fromkeys(queues, priority))

    def next(self) -> Delivery:
        """The next one, as soon as it comes."""
        self.stage.until(lambda: len(self.found) > self._read)
        self._read += 1
        return self.found[self._read - 1]

    def bodies(self, count: int) -> list[bytes]:
        """Of so many that come; none of them is acknowledged, and no more come."""
        self.stage.until(lambda: len(self.found) >= count)
        self.stage.rest()
        assert len(self.found) == count
        return [found.body for found in self.found]

    def drain(self, count: int) -> list[Delivery]:
        """So many, each acknowledged as it comes."""
        taken = []
        for _ in range(count):
            taken.append(self.next())
            self.consumer.ack(taken[-1])
        return taken


class BrokerBattery:
    def test_a_message_comes_as_it_was_sent_and_is_gone_when_it_is_acknowledged(self, stage):
        stage.broker.declare([TINY])
        assert stage.broker.publish(TINY, b'\x00one\xff')
        taker = stage.taker(TINY)
        found = taker.next()
        assert (found.queue, found.body, found.tries, found.redelivered, found.reason) == (
            TINY,
            b'\x00one\xff',
            0,
            False,
            None,
        )
        taker.consumer.ack(found)
        taker.consumer.stop()
        assert stage.taker(TINY).bodies(0) == []
        assert stage.ready(TINY) == 0

    def test_a_queue_that_is_not_there_takes_nothing(self, stage):
        assert not stage.broker.publish(TINY, b'lost')
        assert stage.broker.facts(TINY) is None
        stage.broker.declare([TINY])
        assert stage.broker.publish(TINY, b'kept')
        assert stage.ready(TINY) == 1

    def test_a_queue_that_is_declared_again_keeps_what_it_has(self, stage):
        stage.broker.declare([TINY, LARGE, TINY])
        stage.broker.publish(TINY, b'kept')
        stage.broker.declare([LARGE, TINY, HERE])
        assert stage.ready(TINY) == 1

    def test_results_and_fallback_are_always_there(self, stage):
        assert stage.broker.publish('results', b'one')
        assert stage.broker.publish(FALLBACK, b'one')
        found = stage.taker(FALLBACK).next()
        assert (found.body, found.reason) == (b'one', None)

    def test_consumers_are_counted(self, stage):
        stage.broker.declare([TINY])
        first, _ = stage.taker(TINY), stage.taker(TINY, LARGE)
        stage.until(lambda: stage.broker.facts(TINY).consumers == 2)
        first.consumer.follow({TINY: None})
        stage.until(lambda: stage.broker.facts(TINY).consumers == 1)

    def test_the_highest_priority_is_served_first(self, stage):
        stage.broker.declare([TINY])
        low, high = stage.taker(TINY, priority=1), stage.taker(TINY, priority=7)
        for body in (b'1', b'2', b'3'):
            stage.broker.publish(TINY, body)
        first = high.next()
        assert (first.body, low.next().body) == (b'1', b'2')
        high.consumer.ack(first)
        assert high.next().body == b'3'

    def test_a_priority_may_change(self, stage):
        stage.broker.declare([TINY])
        first, second = stage.taker(TINY, priority=1), stage.taker(TINY, priority=2)
        first.consumer.follow({TINY: 3})
        stage.broker.publish(TINY, b'1')
        stage.broker.publish(TINY, b'2')
        assert (first.next().body, second.next().body) == (b'1', b'2')

    def test_those_of_one_priority_are_served_by_turns(self, stage):
        stage.broker.declare([TINY])
        takers = [stage.taker(TINY) for _ in range(3)]
        for body in (b'1', b'2', b'3', b'4'):
            stage.broker.publish(TINY, body)
        assert {taker.next().body for taker in takers} == {b'1', b'2', b'3'}
        assert stage.ready(TINY) == 1
        takers[1].consumer.ack(takers[1].found[0])
        assert takers[1].next().body == b'4'

    def test_the_window_is_over_all_queues(self, stage):
        queues = [TINY, LARGE, HERE]
        stage.broker.declare(queues)
        sent = {f'{queue} {n}'.encode() for queue in queues for n in range(4)}
        for body in sorted(sent):
            stage.broker.publish(body.split()[0].decode(), body)
        taker = stage.taker(*queues, window=2)
        assert len(taker.bodies(2)) == 2
        taker.consumer.ack(taker.found[0])
        assert len(taker.bodies(3)) == 3
        taker.consumer.window(4)
        assert len(taker.bodies(5)) == 5
        for found in taker.found[1:5]:
            taker.consumer.ack(found)
        taker._read = 5
        taker.drain(7)
        assert {found.body for found in taker.found} == sent
        assert {found.tries for found in taker.found} == {0}
        assert len(taker.found) == len(sent)

    def test_a_narrower_window_lets_nothing_in_before_it_has_room(self, stage):
        stage.broker.declare([TINY, LARGE, HERE])
        taker = stage.taker(TINY, LARGE, HERE, window=2)
        for queue in (TINY, LARGE, HERE):
            stage.broker.publish(queue, queue.encode())
        assert len(taker.bodies(2)) == 2
        taker.consumer.window(1)
        taker.consumer.ack(taker.found[0])
        assert len(taker.bodies(2)) == 2
        taker.consumer.ack(taker.found[1])
        assert len(taker.bodies(3)) == 3

    def test_nothing_comes_from_a_queue_that_was_ended(self, stage):
        stage.broker.declare([TINY, LARGE])
        taker = stage.taker(TINY, LARGE, window=10)
        taker.consumer.follow({TINY: None})
        stage.broker.publish(TINY, b'not for it')
        stage.broker.publish(LARGE, b'for it')
        assert taker.bodies(1) == [b'for it']
        assert stage.taker(TINY).next().body == b'not for it'

    def test_what_follow_does_not_name_stays(self, stage):
        stage.broker.declare([TINY, LARGE])
        taker = stage.taker(TINY)
        taker.consumer.follow({LARGE: 3})
        stage.broker.publish(TINY, b'1')
        taker.consumer.ack(taker.next())
        stage.broker.publish(LARGE, b'2')
        assert taker.next().body == b'2'

    def test_a_queue_may_come_after_its_consumers(self, stage):
        taker = stage.taker(TINY, LARGE)
        stage.broker.declare([TINY])
        stage.broker.publish(TINY, b'1')
        assert taker.next().body == b'1'

    def test_what_is_put_back_is_counted_and_goes_behind(self, stage):
        stage.broker.declare([TINY])
        taker = stage.taker(TINY)
        stage.broker.publish(TINY, b'1')
        first = taker.next()
        stage.broker.publish(TINY, b'2')
        taker.consumer.put_back(first)
        assert [(found.body, found.tries) for found in taker.drain(2)] == [(b'2', 0), (b'1', 1)]
        assert not taker.found[-1].redelivered

    def test_what_is_put_back_may_go_to_another_queue(self, stage):
        stage.broker.declare([TINY, HERE])
        taker, other = stage.taker(TINY), stage.taker(HERE, FALLBACK, window=2)
        stage.broker.publish(TINY, b'1', tries=4)
        taker.consumer.put_back(taker.next(), HERE)
        assert (other.next().queue, other.found[0].tries) == (HERE, 5)
        taker.consumer.put_back(other.found[0])  # not its own
        other.consumer.put_back(other.found[0], of_host('nobody'))
        again = other.next()
        assert (again.queue, again.tries, again.reason) == (FALLBACK, 6, DROPPED)

    def test_who_goes_gives_back_what_it_holds(self, stage):
        stage.broker.declare([TINY])
        stage.broker.publish(TINY, b'1')
        stage.broker.publish(TINY, b'2')
        gone = stage.taker(TINY)
        held = gone.next()
        gone.consumer.stop()
        again = stage.taker(TINY, window=2)
        stage.until(lambda: len(again.found) == 2)
        assert {(found.body, found.redelivered) for found in again.found} == {
            (b'1', True),
            (b'2', False),
        }
        assert all(found.tries == 0 for found in again.found)
        for late in (gone.consumer.ack, gone.consumer.put_back):
            late(held)
        gone.consumer.follow({TINY: 0})
        gone.consumer.window(3)
        gone.consumer.stop()
        again.bodies(2)

    def test_who_acknowledges_twice_has_done_so_once(self, stage):
        stage.broker.declare([TINY])
        taker = stage.taker(TINY)
        stage.broker.publish(TINY, b'1')
        found = taker.next()
        for _ in range(3):
            taker.consumer.ack(found)
        taker.consumer.put_back(found)
        stage.broker.publish(TINY, b'2')
        assert taker.next().body == b'2'
        assert len(taker.bodies(2)) == 2

    def test_a_job_that_no_consumer_takes_falls_back(self, hasty):
        hasty.broker.declare([TINY])
        fallback = hasty.taker(FALLBACK)
        hasty.broker.publish(TINY, b'1', tries=2)
        found = fallback.next()
        assert (found.queue, found.body, found.tries, found.reason) == (FALLBACK, b'1', 2, EXPIRED)
        assert hasty.ready(TINY) == 0

    def test_a_job_in_hand_does_not_fall_back(self, hasty):
        hasty.broker.declare([TINY])
        fallback, taker = hasty.taker(FALLBACK), hasty.taker(TINY)
        hasty.broker.publish(TINY, b'1')
        taker.next()
        hasty.rest(hasty.fallback_after_s + 0.3)
        assert fallback.found == []
        taker.consumer.stop()
        assert fallback.next().reason == EXPIRED

    def test_a_message_for_one_host_falls_back_if_it_shall(self, hasty):
        hasty.broker.declare([HERE])
        fallback = hasty.taker(FALLBACK, window=2)
        hasty.broker.publish(HERE, b'stays')
        hasty.broker.publish(HERE, b'goes', expires=True)
        taker = hasty.taker(HERE)
        assert taker.next().body == b'stays'
        assert (fallback.next().body, fallback.found[0].reason) == (b'goes', EXPIRED)
        hasty.rest(hasty.fallback_after_s)
        taker.consumer.put_back(taker.found[0])
        assert taker.next().body == b'stays'
        assert len(fallback.found) == 1

    def test_what_waits_in_a_queue_that_ends_falls_back(self, stage):
        stage.broker.declare([TINY])
        for n in range(5):
            stage.broker.publish(TINY, b'%d' % n, tries=n)
        assert stage.broker.drop(TINY) == 5
        assert stage.broker.facts(TINY) is None
        assert not stage.broker.publish(TINY, b'too late')
        found = stage.taker(FALLBACK).drain(5)
        assert [(one.body, one.tries, one.reason) for one in found] == [
            (b'%d' % n, n, DROPPED) for n in range(5)
        ]
        assert stage.broker.drop(TINY) == 0

    def test_consumers_lose_a_queue_that_ends_and_keep_the_others(self, stage):
        stage.broker.declare([TINY, LARGE])
        taker = stage.taker(TINY, LARGE, window=3)
        stage.broker.publish(TINY, b'held')
        held = taker.next()
        stage.broker.drop(TINY)
        taker.consumer.ack(held)
        stage.broker.publish(LARGE, b'1')
        assert taker.next().body == b'1'
        taker.consumer.follow({TINY: None})
        stage.broker.declare([TINY])
        stage.broker.publish(TINY, b'not for it')
        taker.bodies(2)

    def test_a_queue_that_comes_back_is_consumed_from_again(self, stage):
        stage.broker.declare([TINY])
        taker = stage.taker(TINY)
        stage.broker.drop(TINY)
        stage.broker.declare([TINY])
        stage.broker.publish(TINY, b'1')
        assert taker.next().body == b'1'

    def test_a_callback_may_call_the_consumer(self, stage):
        stage.broker.declare([TINY, LARGE])
        found = []

        def deliver(delivery):
            found.append(delivery.body)
            consumer.follow({TINY: None, LARGE: 2})
            consumer.window(2)
            consumer.ack(delivery)
            if len(found) < 3:
                stage.broker.publish(LARGE, b'more')

        consumer = stage.broker.consumer(deliver, 'reentrant')
        stage.broker.publish(TINY, b'1')
        stage.broker.publish(TINY, b'not for it')
        consumer.follow({TINY: 1})
        stage.until(lambda: found == [b'1', b'more', b'more'])
        stage.rest()
        consumer.stop()
        assert len(found) == 3
        assert stage.ready(TINY) == 1

    @pytest.mark.parametrize('count', [0, -1])
    def test_a_window_without_room_is_refused(self, stage, count):
        with pytest.raises(ValueError, match='window'):
            stage.taker().consumer.window(count)

    def test_the_fallback_queue_stays(self, stage):
        with pytest.raises(ValueError, match=FALLBACK):
            stage.broker.drop(FALLBACK)


class ThreadsBattery(BrokerBattery):
    """For brokers that several threads use. ``exact``: only messages that a consumer held are
    marked as redelivered."""

    exact = True

    def test_nothing_comes_after_follow_has_returned(self, stage):
        """While a sender sends without end."""
        stage.broker.declare([HERE])
        came, late, ended, over = [], [], threading.Event(), threading.Event()

        def deliver(found):
            (late if ended.is_set() else came).append(found)
            consumer.ack(found)

        def send():
            while not over.is_set():
                stage.broker.publish(HERE, b'.')

        consumer = stage.broker.consumer(deliver, 'flickers')
        consumer.window(5)
        sender = threading.Thread(target=send)
        sender.start()
        for _ in range(40):
            before = len(came)
            consumer.follow({HERE: 1})
            stage.until(lambda before=before: len(came) > before)
            consumer.follow({HERE: None})
            ended.set()
            time.sleep(0.01)
            ended.clear()
        over.set()
        sender.join()
        consumer.stop()
        assert late == []

    def test_many_queues_are_ended_at_once(self, stage):
        """While a sender sends to all of them."""
        queues = [of_host(f'n{number}') for number in range(100)]
        stage.broker.declare(queues)
        came, late, ended, over = [], [], threading.Event(), threading.Event()
        sent = itertools.count()

        def deliver(found):
            (late if ended.is_set() else came).append(found)
            consumer.ack(found)

        def send():
            while not over.is_set():
                stage.broker.publish(queues[next(sent) % len(queues)], b'.')

        consumer = stage.broker.consumer(deliver, 'flickers')
        consumer.window(20)
        sender = threading.Thread(target=send)
        sender.start()
        for _ in range(10):
            before = len(came)
            consumer.follow(dict.fromkeys(queues, 1))
            stage.until(lambda before=before: len(came) > before + 20)
            consumer.follow(dict.fromkeys(queues))
            ended.set()
            time.sleep(0.01)
            ended.clear()
        over.set()
        sender.join()
        consumer.stop()
        assert late == []
        assert not (self.exact and any(found.redelivered for found in came))
        left = next(sent) - len(came)
        stage.until(lambda: sum(map(stage.ready, queues)) == left)

    def test_an_end_loses_nothing_of_what_is_sent_meanwhile(self, stage):
        stage.broker.declare([TINY])
        sent: list[bytes] = []
        refused = threading.Event()

        def send(thread):
            n = 0
            while stage.broker.publish(TINY, b'%d-%d' % (thread, n)):
                sent.append(b'%d-%d' % (thread, n))
                n += 1
            refused.set()

        senders = [threading.Thread(target=send, args=(thread,)) for thread in range(3)]
        for sender in senders:
            sender.start()
        stage.until(lambda: len(sent) > 30)
        moved = stage.broker.drop(TINY)
        for sender in senders:
            sender.join()
        assert refused.is_set()
        assert moved <= len(sent)
        found = stage.taker(FALLBACK, window=100).drain(len(sent))
        assert sorted(one.body for one in found) == sorted(sent)

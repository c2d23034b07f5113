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
"""Tests of the loop: batches by kind and in order, what is handled again, what fails, and how it
ends; answers that are made later; work on the store that is repeated."""

import random
import threading
import time
import types
from concurrent.futures import Future

import pytest

from nova_sched import errors
from nova_sched.engine import Settings
from nova_sched.engine.clock import Received, handling
from nova_sched.engine.cycle import PollRequired
from nova_sched.engine.groups.member_resolver import ReplanRequired
from nova_sched.engine.loop import IDLE_S, MAX_BUSY, Deferred, Loop, StoreRetry
from nova_sched.tests.rows import each, table


class Handler:
    """Answers each message with its work in capitals; notes each batch as one word."""

    def __init__(self):
        self.batches = []

    def __call__(self, messages):
        self.batches.append(''.join(message.work for message in messages))
        for message in messages:
            message.answer(message.work.upper())


class Fussy(Handler):
    """Raises for a batch that has a 'x' in it, before it answers any message."""

    def __init__(self, error=ZeroDivisionError):
        super().__init__()
        self.error = error

    def __call__(self, messages):
        if any(message.work == 'x' for message in messages):
            self.batches.append('!' + ''.join(message.work for message in messages))
            raise self.error('x')
        super().__call__(messages)


class Again(Handler):
    """Wants each message twice."""

    def __call__(self, messages):
        late = [message for message in messages if message.attempts]
        super().__call__(late)
        again = [message for message in messages if not message.attempts]
        for message in again:
            message.attempts += 1
        self.batches[-1] += '+' + ''.join(message.work for message in again)
        return again


def sent(loop, kind, words):
    return [loop.send(kind, word) for word in words]


def results(futures):
    return ''.join(future.result(60) for future in futures)


class TestTurns:
    def test_what_waits_is_one_batch(self):
        handler = Handler()
        loop = Loop({'a': handler}, 64)
        futures = sent(loop, 'a', 'pqr')
        loop.turn()
        assert (handler.batches, results(futures)) == (['pqr'], 'PQR')

    def test_what_comes_before_a_batch_may_fail(self):
        def fails():
            raise KeyError('of a later release')

        handler = Handler()
        loop = Loop({'a': handler}, 64, fails)
        loop.start()
        futures = [loop.send('a', word) for word in 'pq']
        assert results(futures) == 'PQ'
        loop.stop()

    def test_a_message_that_nobody_waits_for_is_not_handled(self):
        handler = Handler()
        loop = Loop({'a': handler}, 64)
        with handling(Received(is_over=lambda: True)):
            late = loop.send('a', 'p')
        loop.send('a', 'q')
        loop.turn()
        assert handler.batches == ['q']
        with pytest.raises(errors.Outdated, match='The call came too late'):
            late.result(0)

    def test_no_more_than_a_batch_at_once(self):
        handler = Handler()
        loop = Loop({'a': handler}, 2)
        sent(loop, 'a', 'pqrst')
        for _ in range(3):
            loop.turn()
        assert handler.batches == ['pq', 'rs', 't']

    def test_runs_of_one_kind_are_handled_together_and_in_order(self):
        log = []

        def handler(kind):
            def handle(messages):
                log.append((kind, ''.join(message.work for message in messages)))
                for message in messages:
                    message.answer(None)

            return handle

        loop = Loop({'a': handler('a'), 'b': handler('b')}, 64)
        for kind, word in ('ap', 'aq', 'br', 'as', 'bt', 'bu'):
            loop.send(kind, word)
        loop.turn()
        assert log == [('a', 'pq'), ('b', 'r'), ('a', 's'), ('b', 'tu')]

    def test_what_comes_again_is_handled_before_what_is_new(self):
        handler = Again()
        loop = Loop({'a': handler}, 64)
        first = sent(loop, 'a', 'pq')
        loop.turn()
        second = sent(loop, 'a', 'rs')
        loop.turn()
        assert handler.batches == ['+pq', 'pq+rs']
        assert results(first) == 'PQ'
        loop.turn()
        assert results(second) == 'RS'

    def test_what_is_new_is_handled_before_what_was_paused(self):
        log, new = [], []

        class Paused(Handler):
            def __call__(self, messages):
                log.append('paused')
                (message,) = messages
                message.rest = True
                return [message]

        class Plain(Handler):
            def __call__(self, messages):
                log.append('plain')
                super().__call__(messages)

        loop = Loop({'paused': Paused(), 'plain': Plain()}, 64)
        loop.send('paused', 'p')
        for _ in range(3):
            new += sent(loop, 'plain', 'q')
            loop.turn()
        assert log == ['paused', 'plain', *['plain', 'paused'] * 2]
        assert results(new) == 'QQQ'

    def test_what_comes_again_counts_for_the_size_of_a_batch(self):
        handler = Again()
        loop = Loop({'a': handler}, 3)
        futures = sent(loop, 'a', 'pqrst')
        for _ in range(4):
            loop.turn()
        assert handler.batches == ['+pqr', 'pqr+', '+st', 'st+']
        assert results(futures) == 'PQRST'


class TestFaults:
    def test_only_the_message_at_fault_fails(self):
        handler = Fussy()
        loop = Loop({'a': handler}, 64)
        futures = sent(loop, 'a', 'pxq')
        loop.turn()
        assert handler.batches == ['!pxq', 'p', '!x', 'q']
        assert results([futures[0], futures[2]]) == 'PQ'
        with pytest.raises(ZeroDivisionError):
            futures[1].result(0)

    def test_when_the_store_is_away_all_of_them_fail_at_once(self):
        handler = Fussy(errors.StoreUnavailable)
        loop = Loop({'a': handler}, 64)
        futures = sent(loop, 'a', 'pxq')
        loop.turn()
        assert handler.batches == ['!pxq']
        assert [type(future.exception(0)) for future in futures] == [errors.StoreUnavailable] * 3

    def test_what_was_answered_before_the_fault_stays_answered(self):
        calls = []

        def handle(messages):
            calls.append(len(messages))
            messages[0].answer('done')
            if len(messages) > 1:
                raise ZeroDivisionError

        loop = Loop({'a': handle}, 64)
        futures = sent(loop, 'a', 'pqr')
        loop.turn()
        assert [future.result(0) for future in futures] == ['done'] * 3
        assert calls == [3, 1, 1]


class Gate(Handler):
    """Holds its first batch until the test opens it."""

    def __init__(self):
        super().__init__()
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, messages):
        self.entered.set()
        assert self.open.wait(60)
        super().__call__(messages)


class TestThread:
    def test_messages_of_many_threads_are_all_answered(self):
        handler = Handler()
        loop = Loop({'a': handler}, 8)
        loop.start()
        found = []
        threads = [
            threading.Thread(
                target=lambda word=word: found.append(results(sent(loop, 'a', word * 20)))
            )
            for word in 'pqrs'
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loop.stop()
        assert sorted(found) == ['P' * 20, 'Q' * 20, 'R' * 20, 'S' * 20]
        assert sum(map(len, handler.batches)) == 80

    def test_stop_answers_what_waits(self):
        gate = Gate()
        loop = Loop({'a': gate, 'b': Again()}, 2)
        loop.start()
        futures = sent(loop, 'a', 'p')
        assert gate.entered.wait(60)
        futures += sent(loop, 'a', 'qrstu') + sent(loop, 'b', 'vw')
        stopper = threading.Thread(target=loop.stop)
        stopper.start()
        while not loop.hurried:
            pass
        gate.open.set()
        stopper.join(60)
        assert [future.done() for future in futures] == [True] * 8
        assert results(futures) == 'PQRSTUVW'

    def test_it_moves_without_work_and_not_while_a_handler_hangs(self):
        gate = Gate()
        loop = Loop({'a': gate}, 2)
        loop.start()
        idle_s = loop.moved_s
        while loop.moved_s == idle_s:
            time.sleep(0.01)
        sent(loop, 'a', 'p')
        assert gate.entered.wait(60)
        hung_s = loop.moved_s
        time.sleep(2 * IDLE_S)
        assert loop.moved_s == hung_s
        loop.pause(0)  # as a handler does that waits for the store
        assert loop.moved_s > hung_s
        gate.open.set()
        loop.stop()

    def test_what_comes_after_the_stop_is_refused(self):
        loop = Loop({'a': Handler()}, 64)
        loop.start()
        loop.stop()
        with pytest.raises(RuntimeError, match='stopped'):
            loop.send('a', 'p').result(60)

    def test_a_loop_that_never_ran_refuses_too(self):
        loop = Loop({'a': Handler()}, 64)
        waiting = loop.send('a', 'p')
        loop.stop()
        for future in (waiting, loop.send('a', 'q')):
            with pytest.raises(RuntimeError, match='stopped'):
                future.result(60)

    def test_stop_twice(self):
        loop = Loop({'a': Handler()}, 64)
        loop.start()
        loop.stop()
        loop.stop()
        with pytest.raises(RuntimeError, match='stopped'):
            loop.send('a', 'p').result(60)

    def test_no_message_is_lost_between_the_last_turn_and_the_end(self):
        """A sender gets an answer or a refusal while the loop ends, and never waits for
        ever."""
        for _ in range(50):
            loop = Loop({'a': Handler()}, 4)
            loop.start()
            futures = []
            sender = threading.Thread(
                target=lambda loop=loop, futures=futures: futures.extend(sent(loop, 'a', 'p' * 50))
            )
            sender.start()
            loop.stop()
            sender.join()
            answers = [future.exception(10) or future.result() for future in futures]
            assert len(answers) == 50
            assert all(answer == 'P' or isinstance(answer, RuntimeError) for answer in answers)

    @each('end', ['hurry', 'stop'])
    def test_a_pause_ends_in_a_hurry(self, end):
        loop = Loop({'a': lambda messages: loop.pause(60) or messages[0].answer(loop.hurried)}, 64)
        loop.start()
        future = loop.send('a', 'p')
        getattr(loop, end)()
        assert future.result(60)
        loop.stop()


class TestBatches:
    def test_gathered_messages_are_one_batch(self):
        handler = Handler()
        loop = Loop({'a': handler}, 64)
        with loop.gathering():
            futures = sent(loop, 'a', 'pqr')
            loop.turn()
            assert handler.batches == []
        loop.turn()
        assert (handler.batches, results(futures)) == (['pqr'], 'PQR')

    def test_only_the_messages_of_the_thread_are_gathered(self):
        handler = Handler()
        loop = Loop({'a': handler}, 64)
        with loop.gathering():
            other = threading.Thread(target=loop.send, args=('a', 'z'))
            other.start()
            other.join()
            loop.send('a', 'y')
            loop.turn()
        loop.turn()
        assert handler.batches == ['z', 'y']

    def test_messages_that_were_gathered_for_an_ended_loop_fail(self):
        loop = Loop({'a': Handler()}, 64)
        loop.start()
        with loop.gathering():
            (future,) = sent(loop, 'a', 'p')
            loop.stop()
        with pytest.raises(RuntimeError, match='stopped'):
            future.result(60)

    def test_a_follower_is_called_after_each_batch(self):
        seen, handler = [], Handler()
        loop = Loop({'a': handler}, 2)
        loop.follow(lambda: seen.append((list(handler.batches), loop.is_busy)))
        assert not loop.is_busy
        sent(loop, 'a', 'pqr')
        assert loop.is_busy
        loop.turn()
        loop.turn()
        assert seen == [(['pq'], True), (['pq', 'r'], False)]

    def test_messages_to_handle_again_keep_it_busy(self):
        loop = Loop({'a': Again()}, 64)
        sent(loop, 'a', 'p')
        loop.turn()
        assert loop.is_busy
        loop.turn()
        assert not loop.is_busy

    def test_its_thread_knows_itself(self):
        found, loop = [], Loop({'a': Handler()}, 64)
        loop.follow(lambda: found.append(loop.is_current()))
        loop.start()
        sent(loop, 'a', 'p')[0].result(60)
        loop.stop()
        assert (found[0], loop.is_current()) == (True, False)


# Answers that are made later.


def decided(result=None, error=None):
    """A Future of the loop that has ended."""
    future = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


def test_it_waits_for_its_future():
    future = Future()
    made = Deferred(future, lambda: future.result() * 2)
    assert made.waits()
    future.set_result(21)
    assert (made.waits(), made.result()) == (False, 42)


def test_a_refusal_does_not_wait():
    future = decided(error=errors.NoValidHost('full'))
    made = Deferred(future, future.result)
    assert not made.waits()
    with pytest.raises(errors.NoValidHost):
        made.result()


REQUEST = types.SimpleNamespace(member_placement=types.SimpleNamespace(member='g.a'))


@each(
    'error',
    [ReplanRequired(REQUEST), PollRequired(errors.NoValidHost('full'))],
    ids=['plan', 'look'],
)
def test_what_the_loop_has_left_to_its_caller_waits(error):
    assert Deferred(decided(error=error), lambda: ['host']).waits()


def test_what_is_made_of_it_waits_as_it_does():
    future = decided(1)
    for is_slow in True, False:
        made = Deferred(future, future.result, is_slow)
        then = made.then(lambda made=made: made.result() + 1)
        assert (then.future, then.waits(), then.result()) == (future, is_slow, 2)


# Work on the store.

AWAY, TAKEN = errors.StoreUnavailable('away'), errors.StoreBusy('a deadlock')


def store_retry():
    loop = types.SimpleNamespace(hurried=False, pause=lambda seconds: None)
    context = types.SimpleNamespace(
        settings=Settings, random=random.Random(1), figures=types.SimpleNamespace(busy=0)
    )
    return StoreRetry(loop, context)


def working(*troubles):
    """Work that meets these troubles, one each time, and is done then."""
    left = list(troubles)

    def work():
        if left:
            raise left.pop(0)
        return 'done'

    return work


@table(
    'troubles',
    {
        'none': [],
        'others in the way': [TAKEN] * (MAX_BUSY - 1),
        'a long outage': [AWAY] * (3 * MAX_BUSY),
        'others in the way after a long outage': [AWAY] * (3 * MAX_BUSY) + [TAKEN] * 3,
        'and before it': [TAKEN] * (MAX_BUSY - 1) + [AWAY] + [TAKEN] * (MAX_BUSY - 1),
    },
)
def test_it_is_done_in_the_end(troubles):
    assert store_retry().until_done(working(*troubles)) == 'done'


def test_it_gives_up_where_others_are_always_in_the_way():
    with pytest.raises(errors.StoreBusy):
        store_retry().until_done(working(*[TAKEN] * MAX_BUSY))

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
"""The single thread that owns the host state: every read or change of it is a message to this
loop. Its answers come later, and its work on the store is repeated until the store accepts it."""

import contextlib
import dataclasses
import itertools
import logging
import operator
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from nova_sched import errors
from nova_sched.engine.clock import CURRENT, NO_CALL, Received
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)

IDLE_S = 0.5  # until a loop without work shows that it lives
UNAWAITED = 'its caller has stopped waiting for the answer'
STORE = (errors.StoreUnavailable, errors.StoreFull)  # not caused by a message
# A transaction that another one stops is attempted this often. The n-th pause is up to n times
# that long, in seconds.
MAX_BUSY, BUSY_PAUSE_S = 20, 0.002
AWAY = 'away'  # a kind of problem: the database does not answer


class WorkRequired(Exception):
    """What the loop returns in place of an answer: work that takes time must be done first, by the
    thread of the caller."""


@dataclasses.dataclass(slots=True, eq=False)
class Message:
    """Work for the loop. ``kind`` selects the handler, which gets adjacent messages of one kind
    together.

    ``attempts`` counts failed attempts. ``is_store_read``: the store was read after the
    last attempt, so a refusal may stand. ``rest`` is the work that a paused decision has left
    (state.vocab.Unfinished), ``pauses`` how often it was paused. ``is_begun``: its wait was
    measured. ``received`` is the bus message that asks for the work.
    """

    kind: str
    work: Any
    received: Received = NO_CALL
    future: Future = dataclasses.field(default_factory=Future)
    attempts: int = 0
    is_store_read: bool = False
    is_begun: bool = False
    rest: Any = None
    pauses: int = 0
    since_s: float = dataclasses.field(default_factory=lambda: time.monotonic())

    def answer(self, result):
        self.future.set_result(result)

    def fail(self, error):
        self.future.set_exception(error)


class Loop:
    """Takes all waiting messages as a batch and passes runs of one kind to their handler.

    ``handlers`` maps a kind to a function of a list of messages. The function answers or fails
    each, and returns those that must be handled again, before any newer one. A handler that raises
    has changed nothing. ``before`` is called before each batch. ``moved_s``: when the loop last
    moved, in monotonic seconds.
    """

    def __init__(self, handlers, max_batch, before=lambda: None):
        self._handlers = handlers
        self._before = before
        self._max_batch = max_batch
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._again: list[Message] = []
        self._left = 0  # messages of the batch that no handler has had
        self._gathering = threading.local()
        self._after = lambda: None
        self._is_busy = False
        self.moved_s = time.monotonic()
        self._hurried = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-engine', daemon=True)

    @property
    def hurried(self):
        return self._hurried.is_set()

    @property
    def is_busy(self):
        """Whether the loop handles a batch, or is about to."""
        return self._is_busy or not self._queue.empty()

    @property
    def has_waiting(self):
        """Whether messages wait for the end of those that a handler has now."""
        return bool(self._left) or not self._queue.empty()

    def is_current(self):
        """Whether this is the loop's thread."""
        return threading.current_thread() is self._thread

    def follow(self, after):
        """Call ``after`` in the loop's thread after each batch. It must not wait."""
        self._after = after

    def hurry(self):
        """Messages are handled as before, but handlers no longer wait for external systems."""
        self._hurried.set()

    def pause(self, seconds):
        """Wait, at most until ``hurry`` is called."""
        self.moved_s = time.monotonic()
        self._hurried.wait(seconds)

    def start(self):
        self._thread.start()

    def stop(self):
        """Handle the waiting messages, then end. Later messages fail."""
        self.hurry()
        self._stopping.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._end()

    def send(self, kind, work):
        """Put a message into the queue and return its Future."""
        message = Message(kind, work, CURRENT.get())
        gathered = getattr(self._gathering, 'messages', None)
        if gathered is not None:
            gathered.append(message)
        else:
            self._queue.put(message)
            if self._ended.is_set():
                self._refuse_rest()
        return message.future

    @contextlib.contextmanager
    def gathering(self):
        """In this block, the messages of this thread wait; at its end the loop gets them all, and
        handles them as one batch."""
        self._gathering.messages = []
        try:
            yield
        finally:
            gathered, self._gathering.messages = self._gathering.messages, None
            for message in gathered:
                self._queue.put(message)
            if self._ended.is_set():
                self._refuse_rest()

    def turn(self, timeout_s=0.0):
        """Handle one batch. Waits ``timeout_s`` seconds for its first message."""
        self.moved_s = time.monotonic()
        batch = self._take(timeout_s)
        self._is_busy = True
        try:
            if batch:
                # The messages are handled whatever comes of it: the store judges what is made of
                # an old state.
                try:
                    self._before()
                except Exception:
                    LOG.exception(
                        'The engine is not ready for a batch; it goes on with what it knows'
                    )
            awaited, again = [], list[Message]()
            for message in batch:
                if message.received.is_over():
                    message.fail(errors.Outdated('The call', UNAWAITED))
                else:
                    awaited.append(message)
            # In their order, except that those that are only to go on come last.
            by_kind = itertools.groupby(awaited, operator.attrgetter('kind'))
            runs = [list(run) for _, run in by_kind]
            runs.sort(key=lambda run: all(message.rest is not None for message in run))
            self._left = len(awaited)
            for run in runs:
                self._left -= len(run)
                again += self._run_handler(run[0].kind, run)
            self._again = again
        finally:
            self._is_busy = bool(self._again)
            self._after()

    def _run(self):
        while not self._stopping.is_set() or self._again or not self._queue.empty():
            self.turn(IDLE_S)
        self._end()

    def _take(self, timeout_s):
        """Messages to handle again, and messages that arrived in the meantime.

        Paused messages do not count: any number of them lets others through.
        """
        batch = list(self._again)
        most = self._max_batch + sum(message.rest is not None for message in batch)
        try:
            if not batch:
                batch.append(self._queue.get(timeout=timeout_s))
            while len(batch) < most:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return [message for message in batch if message is not None]

    def _run_handler(self, kind, messages):
        try:
            return self._handlers[kind](messages) or []
        except Exception as error:
            waiting = [message for message in messages if not message.future.done()]
            if len(messages) > 1 and not isinstance(error, STORE):
                # One of them caused the error; the other messages must not fail with it.
                return [
                    again for message in waiting for again in self._run_handler(kind, [message])
                ]
            if isinstance(error, STORE):
                LOG.error('%s; %d messages of kind %s are refused', error, len(waiting), kind)
            else:
                LOG.exception('The engine failed on %d messages of kind %s', len(waiting), kind)
            for message in waiting:
                message.fail(error)
            return []

    def _end(self):
        self._ended.set()
        self._refuse_rest()

    def _refuse_rest(self):
        try:
            while True:
                message = self._queue.get_nowait()
                if message is not None:
                    message.fail(RuntimeError('the scheduler has stopped'))
        except queue.Empty:
            pass


@dataclasses.dataclass(frozen=True, slots=True)
class Deferred:
    """The answer of a call, which may not be there yet.

    ``future`` ends when the loop has decided; ``result()`` waits for that, and returns the answer
    or raises. ``is_slow``: that waits for something else too, even if the loop has decided.
    """

    future: Future
    result: Callable[[], Any]
    is_slow: bool = False

    def waits(self):
        """Whether ``result`` would wait now."""
        if self.is_slow or not self.future.done():
            return True
        return isinstance(self.future.exception(), WorkRequired)

    def then(self, finish):
        """The Deferred of the result of ``finish``, which is called once this answer is
        available."""
        return Deferred(self.future, finish, self.is_slow)


class StoreRetry:
    """Waits for the store in the ``loop``; ``Loop.hurry`` ends the wait."""

    def __init__(self, loop, context):
        self._loop = loop
        self._settings, self._random = context.settings, context.random
        self._figures = context.figures
        self._problems = Problems(LOG)

    def until_done(self, work, *args):
        """Run work on the store. While the database is down: log it, wait, and run the work again.

        After a deadlock, the work is repeated after a short random pause, so that the same
        transactions do not collide again. Raises StoreBusy after MAX_BUSY deadlocks, and
        StoreUnavailable if the loop must not wait.
        """
        failures = busy = 0
        while True:
            try:
                result = work(*args)
                if self._problems.known:
                    self._problems.end(AWAY, 'The database answers again')
                return result
            except errors.StoreBusy:
                busy += 1
                if busy == MAX_BUSY:
                    raise
                self._figures.busy += 1
                self._loop.pause(self._random.uniform(0, BUSY_PAUSE_S * busy))
            except errors.StoreUnavailable as error:
                failures, busy = failures + 1, 0  # deadlocks before the outage do not count
                if failures == 1:
                    continue  # a connection that had timed out
                if self._loop.hurried:
                    raise
                self._problems.begin(AWAY, '%s; requests wait until it does', error)
                self._loop.pause(self._settings().retry_interval_s)

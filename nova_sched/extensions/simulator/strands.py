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
"""Processes in simulated time: many strands of work that wait for each other, in one thread.

A strand runs until it waits. Then the event that is due next runs, so that the same events always
have the same order. A process may be paused: its strands go on later, with what they held.
"""

import contextlib
import heapq
import itertools
import math
import random
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Timeline:
    """Simulated time, in seconds from 0, and the events to come.

    ``after_each`` is called after each event. ``run`` raises the errors of events and strands.
    """

    def __init__(self, after_each: Callable[[], None] = lambda: None):
        self.now_s = 0.0
        self.events = 0
        self.after_each = after_each
        self.hub = getcurrent()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._error: Exception | None = None

    def at(self, after_s: float, what: Callable[[], None]) -> None:
        """Call ``what`` in so many seconds."""
        heapq.heappush(self._due, (self.now_s + after_s, next(self._order), what))

    def run(self, until_s: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run the events until that time, or until ``is_over``."""
        while self._due and self._due[0][0] <= until_s and not is_over():
            self.now_s, _, what = heapq.heappop(self._due)
            self.events += 1
            what()
            if self._error is not None:
                raise self._error
            self.after_each()
        if not is_over():
            self.now_s = max(self.now_s, until_s)

    def fail(self, error: Exception) -> None:
        self._error = self._error or error


class Strand(greenlet):
    """One strand of work of a process."""

    def __init__(self, process: 'Process', work: Callable, args: tuple):
        super().__init__(parent=process.timeline.hub)
        self._process, self._work, self._args = process, work, args
        self._waits = 0

    def run(self) -> None:
        try:
            self._work(*self._args)
        except GreenletExit:
            pass
        finally:
            self._process.strands.pop(self, None)

    def go_on(self, turn: int) -> None:
        """Run until it waits again; later, if the process is paused. Only the first call of one
        turn counts."""
        process = self._process
        if self.dead or turn != self._waits or self not in process.strands:
            return
        left_s = process.paused_until_s - process.timeline.now_s
        if left_s > 0:
            process.timeline.at(left_s, lambda: self.go_on(turn))
            return
        self.switch()

    def wait(self) -> None:
        """Let the others run until ``go_on`` is called with the turn that ``turn`` has given."""
        self._process.timeline.hub.switch()
        self._waits += 1

    @property
    def turn(self) -> int:
        return self._waits


class Process:
    """A process: its strands stop together while it is paused, and end together when it is
    killed."""

    def __init__(self, timeline: Timeline, name: str):
        self.timeline, self.name = timeline, name
        self.paused_until_s = 0.0
        self.strands: dict[Strand, None] = {}
        self.is_alive = True

    def start(self, work: Callable, *args: Any) -> None:
        """Start a strand, as the next event; none if the process was killed."""
        if not self.is_alive:
            return
        strand = Strand(self, work, args)
        self.strands[strand] = None
        self.timeline.at(0.0, lambda: strand.go_on(0))

    def pause(self, seconds: float) -> None:
        """Run nothing of it for so long. A strand of it that calls this goes on until it waits."""
        self.paused_until_s = max(self.paused_until_s, self.timeline.now_s + seconds)

    @property
    def is_paused(self) -> bool:
        return self.paused_until_s > self.timeline.now_s

    def kill(self) -> None:
        """End all of its strands where they are."""
        self.is_alive = False
        strands, self.strands = list(self.strands), {}
        own = getcurrent()
        for strand in strands:
            if strand is not own and strand:  # a strand that has not begun needs no end
                strand.parent = own  # it comes back here
                strand.throw(GreenletExit)
        if own in strands:
            raise GreenletExit


def wait(timeline: Timeline, seconds: float) -> None:
    """Let simulated time pass in this strand."""
    strand = getcurrent()
    turn = strand.turn
    timeline.at(seconds, lambda: strand.go_on(turn))
    strand.wait()


class Signal:
    """What strands wait for; it may be set at any time, and is cleared by who has waited."""

    def __init__(self, timeline: Timeline):
        self._timeline = timeline
        self._waiting: list[tuple[Strand, int]] = []
        self.is_set = False

    def set(self) -> None:
        self.is_set = True
        waiting, self._waiting = self._waiting, []
        for strand, turn in waiting:
            self._timeline.at(0.0, lambda strand=strand, turn=turn: strand.go_on(turn))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set. Returns whether it is."""
        if not self.is_set:
            strand = getcurrent()
            turn = strand.turn
            self._waiting.append((strand, turn))
            if timeout_s is not None:
                self._timeline.at(timeout_s, lambda: strand.go_on(turn))
            strand.wait()
        return self.is_set


@contextlib.contextmanager
def names_from(chance: random.Random):
    """In this block, new UUIDs come from the random numbers of the simulation."""
    uuid4 = uuid.uuid4
    uuid.uuid4 = lambda: uuid.UUID(int=chance.getrandbits(128), version=4)
    try:
        yield
    finally:
        uuid.uuid4 = uuid4


# The threads of the product, as strands.


def here() -> Process:
    """The process of this strand."""
    return getcurrent()._process


class Semaphore:
    """As threading.Semaphore. Those who wait for it get it in the order of their turns."""

    def __init__(self, value: int) -> None:
        self._left = value
        self._free = Event()

    def acquire(self, timeout: float = math.inf) -> bool:
        until_s = None
        while not self._left:
            timeline = here().timeline
            until_s = timeline.now_s + timeout if until_s is None else until_s
            if timeline.now_s >= until_s:
                return False
            self._free.wait(None if until_s == math.inf else until_s - timeline.now_s)
        self._left -= 1
        self._free.clear()
        return True

    def release(self) -> None:
        self._left += 1
        self._free.set()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Lock(Semaphore):
    """As threading.Lock."""

    def __init__(self) -> None:
        super().__init__(1)


class Condition(Lock):
    """A threading.Condition that no strand waits for."""

    def notify_all(self) -> None:
        """Do nothing: no strand waits."""


class Event:
    """As threading.Event."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Signal] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for strand in waiting:
            strand.set()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            woken = Signal(here().timeline)
            self._waiting.append(woken)
            woken.wait(timeout)
            if woken in self._waiting:
                self._waiting.remove(woken)
        return self._is_set


class Thread:
    """As threading.Thread, of the process that starts it."""

    def __init__(self, target: Callable, **_: Any):
        self._target = target

    def start(self) -> None:
        here().start(self._target)


class Pool:
    """As concurrent.futures.ThreadPoolExecutor, with as many workers as there is work."""

    def __init__(self, *_: Any):
        pass

    def submit(self, work: Callable, *args: Any) -> Future:
        future: Future = Future()
        here().start(self._run, future, work, args)
        return future

    def map(self, work: Callable, *items: Iterable) -> Iterable:
        futures = [self.submit(work, *args) for args in zip(*items, strict=True)]
        return (future.result() for future in futures)

    @staticmethod
    def _run(future: Future, work: Callable, args: tuple) -> None:
        try:
            result = work(*args)
        except Exception as error:  # noqa: BLE001 - who asks for the result gets it
            future.set_exception(error)
        else:
            future.set_result(result)


@contextlib.contextmanager
def threads_in(timeline: Timeline, modules: Mapping[str, Iterable[Any]]):
    """In this block, what these modules use of ``threading``, ``time`` and ``concurrent`` is of
    the simulation, and a strand that waits for a Future lets the others run."""

    def result(future: Future, timeout: float | None = None) -> Any:
        if not future.done() and isinstance(getcurrent(), Strand):
            done = Signal(timeline)
            future.add_done_callback(lambda _: done.set())
            done.wait(timeout)
        return of_threads(future, 0.0)

    of_threads = Future.result
    pools = types.SimpleNamespace(ThreadPoolExecutor=Pool)
    simulated = {
        'threading': types.SimpleNamespace(
            Semaphore=Semaphore, Lock=Lock, Condition=Condition, Event=Event, Thread=Thread
        ),
        'time': types.SimpleNamespace(monotonic=lambda: timeline.now_s),
        'concurrent': types.SimpleNamespace(futures=pools),
    }
    real = [(module, name, getattr(module, name)) for name, of in modules.items() for module in of]
    for module, name, _ in real:
        setattr(module, name, simulated[name])
    Future.result = result  # type: ignore[method-assign]
    try:
        yield
    finally:
        Future.result = of_threads  # type: ignore[method-assign]
        for module, name, before in real:
            setattr(module, name, before)

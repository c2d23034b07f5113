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
"""The steps of a job in sequence, and their runners: threads, or simulated time.

A job is a generator. It yields each slow operation as a Call, and gets its return value or its
exception. All code between two steps is fast. Therefore one thread can run many thousand jobs at
the same time.
"""

import abc
import dataclasses
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

LOG = logging.getLogger(__name__)

DRIVER, CLAIMS, BROKER = 'driver', 'claims', 'broker'  # the called component


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentCall:
    """A call to another component; ``what`` is one of DRIVER, CLAIMS, BROKER."""

    what: str
    do: Callable[[], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A pause in seconds."""

    seconds: float


Step = ComponentCall | Pause
Steps = Generator[Step, Any, Any]


class Runner(abc.ABC):
    """Runs the steps of many jobs at the same time."""

    @abc.abstractmethod
    def start(self, steps: Steps) -> None:
        """Start steps soon, but not before this returns, since the caller may hold a lock."""

    @abc.abstractmethod
    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call after some seconds."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Run no more steps, and make no more calls; does not wait for running ones."""


class Threads(Runner):
    """Each job has a thread while it lasts; none of them delays the end of the process."""

    def __init__(self, name: str = 'nova-sched-job'):
        self._name = name
        self._stopped = threading.Event()
        self._timers = set[threading.Timer]()

    def start(self, steps: Steps) -> None:
        threading.Thread(target=self._walk, args=(steps,), name=self._name, daemon=True).start()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(timer)
            if not self._stopped.is_set():
                call()

        timer = threading.Timer(seconds, due)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def stop(self) -> None:
        self._stopped.set()
        for timer in list(self._timers):
            timer.cancel()

    def _walk(self, steps: Steps) -> None:
        take, given = steps.send, None
        while not self._stopped.is_set():
            try:
                step = take(given)
            except StopIteration:
                return
            except Exception:
                LOG.exception('A job has ended with an unexpected error')
                return
            if isinstance(step, Pause):
                self._stopped.wait(step.seconds)
                take, given = steps.send, None
            else:
                take, given = _done(steps, step)


class Simulated(Runner):
    """Jobs in simulated time, all in the thread that advances it.

    ``after(seconds, call)`` schedules a call. ``takes(call)`` returns the seconds that a Call
    takes; its effect is at their end. A Call that takes none is done at once.
    """

    def __init__(
        self,
        after: Callable[[float, Callable[[], None]], Any],
        takes: Callable[[ComponentCall], float],
    ):
        self._after, self._takes = after, takes
        self._stopped = False

    def start(self, steps: Steps) -> None:
        self._after(0.0, lambda: self._walk(steps))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._after(seconds, lambda: None if self._stopped else call())

    def stop(self) -> None:
        self._stopped = True

    def _walk(self, steps: Steps, ended: ComponentCall | None = None) -> None:
        """Continue after a Call whose time is over, until the next step that takes time."""
        if self._stopped:
            return
        take, given = (steps.send, None) if ended is None else _done(steps, ended)
        while not self._stopped:
            try:
                step = take(given)
            except StopIteration:
                return
            seconds = step.seconds if isinstance(step, Pause) else self._takes(step)
            call = None if isinstance(step, Pause) else step
            if seconds > 0:
                self._after(seconds, lambda: self._walk(steps, call))  # noqa: B023, it returns at once
                return
            take, given = (steps.send, None) if call is None else _done(steps, call)


def _done(steps: Steps, call: ComponentCall) -> tuple[Callable[[Any], Step], Any]:
    """Run a call. Returns the function that passes its outcome to the steps, and the outcome."""
    try:
        return steps.send, call.do()
    except Exception as error:  # noqa: BLE001, the job handles each error
        return steps.throw, error

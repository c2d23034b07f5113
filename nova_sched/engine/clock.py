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
"""Time in a process: the store's clock between two reads, pauses in which the process did not run,
and whether the callers of messages still wait.

A call whose caller has left is not carried out. That saves work: no claim depends on it. The
thread that handles a message gets it from ``CURRENT``.

A process does not run while a signal stops it, while its machine is suspended, or when it is
starved.
"""

import contextlib
import contextvars
import dataclasses
import functools
import logging
import math
import threading
import time
from collections.abc import Callable

from nova_sched import errors

LOG = logging.getLogger(__name__)

TELL_S = 2.0  # a change of this process's clock offset that is logged
TICK_S = 0.25  # interval at which a running process reads the clock
STILL_S = 3.0  # a longer gap counts as a pause


# Seconds that never go back, and continue while the machine is suspended.
boottime = functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """One message. ``is_over`` returns whether its caller has stopped waiting."""

    is_over: Callable[[], bool] = lambda: False


NO_CALL = Received()  # of work that no caller waits for
# The message that this thread handles.
CURRENT: contextvars.ContextVar[Received] = contextvars.ContextVar('received', default=NO_CALL)


@contextlib.contextmanager
def handling(received):
    """Handle a message in this thread."""
    token = CURRENT.set(received)
    try:
        yield
    finally:
        CURRENT.reset(token)


class StoreClock:
    """Calling it returns the store's time, in seconds since the epoch.

    This does not depend on this process's own clock. ``ask`` reads the store's clock. Between
    reads, ``moments`` (seconds that never go back) measures the time. The result is never behind
    the store, and ahead by at most the time of one answer. ``wall`` is the process's own clock;
    ``offset_s`` is how far it is ahead of the store's. With ``every_s``, a call reads the store if
    the last answer is older than that; otherwise only ``read_store`` does.
    """

    def __init__(self, ask, moments=boottime, wall=time.time, every_s=math.inf):
        self._ask, self._moments, self._wall = ask, moments, wall
        self._every_s, self._due = every_s, moments() if every_s < math.inf else math.inf
        self._ahead_s = wall() - moments()
        self._told_s = 0.0
        self.offset_s = 0.0

    def __call__(self):
        now = self._moments()
        if now >= self._due:
            self._due = now + self._every_s
            with contextlib.suppress(errors.StoreUnavailable):
                self.read_store()
        return now + self._ahead_s

    def at(self, moment):
        """The store's time at a moment, one of ``moments``."""
        return moment + self._ahead_s

    def read_store(self):
        """Read the store's clock, and warn if this process's own clock is wrong. Raises
        StoreUnavailable."""
        moment_s = self._moments()
        self._ahead_s = self._ask() - moment_s
        self.offset_s = self._wall() - self.at(self._moments())
        if abs(self.offset_s - self._told_s) > TELL_S:
            self._told_s = self.offset_s
            LOG.warning(
                'The clock of this process is %+.1f s off that of the database', self.offset_s
            )


class Pauses:
    """The pauses of this process. Its methods may be called from any thread.

    After a pause, some work is not worth doing, and the host state is old. Whether a pause is
    noticed decides nothing else. ``count`` is the number of pauses so far.
    """

    def __init__(self, moments=boottime):
        self._moments = moments
        self._last = math.inf  # the last tick
        self._begin = self._end = -math.inf
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-pauses', daemon=True)
        self.count = 0

    def start(self, watch=True):
        """Record pauses from now on: those that a thread detects (``watch``), and those that
        ``tick`` does."""
        self._last = self._moments()
        if watch:
            self._thread.start()

    def stop(self):
        self._leaving.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._leaving.wait(TICK_S):
            self.tick()

    def tick(self):
        """Record that this process runs. Returns the current moment."""
        with self._lock:
            now = self._moments()
            if now - self._last > STILL_S:
                self._note(self._last, now)
            self._last = now
        return now

    def found(self, seconds):
        """Record a pause of this length that has just ended, and that no clock of this machine has
        shown."""
        with self._lock:
            now = self._moments()
            self._note(now - seconds, now)

    def _note(self, begin, end):
        LOG.warning(
            'This process stood still for %.1f s; it reads the database again', end - begin
        )
        self._begin, self._end = begin, end
        self.count += 1

    def received(self, timeout_s=None, silence_s=None):
        """The Received of a message that was just taken off the bus.

        Its caller waits for ``timeout_s`` seconds in total, and for ``silence_s`` seconds after
        the last heartbeat of this process; None: without a limit. A message that is taken after a
        pause is new: it may have waited for as long as that, but nothing tells, and its caller is
        more likely to wait than not.
        """
        taken = self.tick()

        def is_over():
            waited_s = self.tick() - taken
            silent_s = self._end - self._begin if self._end > taken else 0.0
            return (timeout_s is not None and waited_s > timeout_s) or (
                silence_s is not None and silent_s > silence_s
            )

        return Received(is_over)

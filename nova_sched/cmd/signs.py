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
"""The signs of life of a daemon's workers, in memory that its processes share."""

import multiprocessing
import os
import time

import psutil

PID, ALIVE_S, RELOADS, FIELDS = 0, 1, 2, 3  # of a slot
LOCK_S = 1.0  # a worker that was killed may have kept the lock


class Signs:
    """Each of ``count`` workers writes to its slot, and the daemon's first process reads all.

    ``reloads`` counts the reloads that the daemon was told to make; ``accepted`` is the number of
    the last one whose configuration was valid. A worker that starts has the options of reload
    ``applied``. Make it before the fork.
    """

    def __init__(self, count, clock=time.monotonic):
        self._told = multiprocessing.RawArray('q', 2)
        self._slots = [multiprocessing.RawArray('d', FIELDS) for _ in range(count)]
        self._lock = multiprocessing.Lock()
        self._mine = None
        self._clock = clock
        self.applied = 0

    @property
    def reloads(self):
        return self._told[0]

    @property
    def accepted(self):
        return self._told[1]

    # In a worker.

    def begin(self):
        """Take a slot: of a worker that has ended, or one that is free."""
        is_locked = self._lock.acquire(timeout=LOCK_S)
        try:
            self._mine = next(slot for slot in self._slots if not _is_alive(slot))
            self._mine[:] = [os.getpid(), 0.0, self.applied]
        finally:
            if is_locked:
                self._lock.release()

    def give(self, alive_s):
        """``alive_s``: when the worker's loop last moved, in monotonic seconds; 0 while it
        starts."""
        self._mine[ALIVE_S] = alive_s

    def reloaded(self, number):
        """This worker has applied the options of that reload. Does nothing in another process."""
        if self._mine is not None:
            self._mine[RELOADS] = number

    # In the first process.

    def want_reload(self):
        self._told[0] += 1

    def apply(self, is_valid):
        """This process has read the configuration of the last reload."""
        self.applied = self.reloads
        if is_valid:
            self._told[1] = self.reloads

    @property
    def ready(self):
        """The number of workers that are ready."""
        return sum(bool(slot[ALIVE_S]) for slot in self._living())

    @property
    def is_reloaded(self):
        """Whether every worker has the options of the last reload."""
        return all(slot[RELOADS] >= self.reloads for slot in self._living())

    @property
    def silence_s(self):
        """Seconds since the loop of some worker has moved; a worker that starts does not count."""
        signs = [slot[ALIVE_S] for slot in self._living() if slot[ALIVE_S]]
        return max(0.0, self._clock() - min(signs)) if signs else 0.0

    def _living(self):
        return [slot for slot in self._slots if _is_alive(slot)]


def _is_alive(slot):
    return bool(slot[PID]) and psutil.pid_exists(int(slot[PID]))

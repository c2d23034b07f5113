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
"""The store's clock, as a process knows it between two reads."""

import contextlib
import logging
import math
import time

from nova_sched import errors

LOG = logging.getLogger(__name__)

TELL_S = 2.0  # a change of this process's clock offset that is logged


def boottime():
    """Seconds that never go back, and continue while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class StoreClock:
    """Calling it returns the store's time, in seconds since the epoch.

    This does not depend on this process's own clock. ``ask`` reads the store's clock. Between
    reads, ``moments`` (seconds that never go back) measures the time. The result is never behind
    the store, and ahead by at most the time of one answer. ``wall`` is the process's own clock;
    ``offset_s`` is how far it is ahead of the store's. With ``every_s``, a call reads the store if
    the last answer is older than that; otherwise only ``look`` does.
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
                self.look()
        return self.at(now)

    def at(self, moment):
        """The store's time at a moment, one of ``moments``."""
        return moment + self._ahead_s

    def look(self):
        """Read the store's clock, and warn if this process's own clock is wrong. Returns seconds
        since the epoch. Raises StoreUnavailable."""
        asked = self._moments()
        now_s = self._ask()
        self._ahead_s = now_s - asked
        self.offset_s = self._wall() - self.at(self._moments())
        if abs(self.offset_s - self._told_s) > TELL_S:
            self._told_s = self.offset_s
            LOG.warning(
                'The clock of this process is %+.1f s off that of the database', self.offset_s
            )
        return now_s

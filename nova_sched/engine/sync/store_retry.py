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
"""Repeats work on the store until the store accepts it."""

import logging

from nova_sched import errors
from nova_sched.logs import Problems

LOG = logging.getLogger(__name__)

# A transaction that another one stops is attempted this often. The n-th pause is up to n times
# that long, in seconds.
BUSY, BUSY_PAUSE_S = 20, 0.002
AWAY = 'away'  # the kind of problem


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
        transactions do not collide again. Raises StoreBusy after BUSY deadlocks, and
        StoreUnavailable if the loop must not wait.
        """
        failures = busy = 0
        while True:
            try:
                found = work(*args)
                self._problems.end(AWAY, 'The database answers again')
                return found
            except errors.StoreBusy:
                busy += 1
                if busy == BUSY:
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

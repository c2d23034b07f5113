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

LOG = logging.getLogger(__name__)

# A transaction that another one stops is attempted this often. The n-th pause is up to n times
# that long, in seconds.
BUSY, BUSY_PAUSE_S = 20, 0.002


class StoreRetry:
    """Waits for the store in the ``loop``; ``Loop.hurry`` ends the wait."""

    def __init__(self, loop, context):
        self._loop = loop
        self._settings, self._random = context.settings, context.random
        self._figures = context.figures
        self._away = False  # whether the database did not answer last time

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
                self._tell(None)
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
                self._tell(error)
                self._loop.pause(self._settings().retry_interval_s)

    def _tell(self, error):
        """Log that the database is down, and that it answers again: each once."""
        if error is not None and not self._away:
            LOG.error('%s; requests wait until it does', error)
        elif error is None and self._away:
            LOG.info('The database answers again')
        self._away = error is not None

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
"""The schedulers that share a database: each signs in a table that it is alive, and finds its
place there."""

import logging
import time
import uuid

from nova_sched import errors
from nova_sched.db.schedulers import SchedulerFacts

LOG = logging.getLogger(__name__)

SIGN_S = 3.0  # each process signs so often
SILENT_S = 12.0  # and counts as gone when it has not for so long
KEPT_S = 3600.0  # its row is kept for so long after that


class SchedulerMembership:
    """This process among the others; without a ``store`` (SqlSchedulers) it is alone.

    ``clock`` is the store's. ``standing`` is its place among those alive, in order of their UUIDs,
    and their number.
    """

    def __init__(self, store=None, host='', pid=0, clock=time.time, monotonic=time.monotonic):
        self.uuid = str(uuid.uuid4())
        self._store = store
        self._host, self._pid = host, pid
        self._clock, self._monotonic = clock, monotonic
        self._started_s = clock()
        # Of each process its latest sign, and when that was new here.
        self._signs: dict[str, tuple[float | None, float]] = {}
        self.standing = (0, 1)

    @property
    def is_alone(self):
        return self.standing[1] == 1

    def sign(self, figures):
        """Give a sign of life, with figures (a mapping of plain values), and see who else does.

        Raises StoreUnavailable.
        """
        if self._store is None:
            return
        now_s = self._clock()
        self._store.write(
            SchedulerFacts(self.uuid, self._host, self._pid, self._started_s, now_s, figures)
        )
        # The clocks of two machines may differ: that a sign is a new one tells more than its time.
        moment_s = self._monotonic()
        before, self._signs = self._signs, {}
        for one in self._store.alive(now_s - KEPT_S):
            sign = before.get(one.uuid, (None, 0.0))
            self._signs[one.uuid] = sign if sign[0] == one.seen_s else (one.seen_s, moment_s)
        alive = sorted(
            name for name, (_, new_s) in self._signs.items() if moment_s - new_s < SILENT_S
        )
        self.standing = (alive.index(self.uuid), len(alive)) if self.uuid in alive else (0, 1)

    def forget(self):
        """Drop the rows of processes that are gone for long. Raises StoreUnavailable."""
        if self._store is not None:
            self._store.forget(self._clock() - KEPT_S)

    def leave(self):
        """This process ends."""
        if self._store is None:
            return
        try:
            self._store.remove(self.uuid)
        except errors.SchedError as error:
            LOG.warning(
                '%s; this scheduler stays in the list of schedulers until its row is purged', error
            )

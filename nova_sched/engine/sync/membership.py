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
"""The schedulers that share a database: each writes heartbeats to a table, and reads its
position there."""

import logging
import time
import uuid

import psutil

from nova_sched import errors
from nova_sched.db.schedulers import SchedulerFacts

LOG = logging.getLogger(__name__)

HEARTBEAT_S = 3.0  # interval of the heartbeats of each process
SILENT_S = 12.0  # a process without a heartbeat for this long counts as gone
KEPT_S = 3600.0  # its row is kept for this long after that


class SchedulerMembership:
    """The membership of this process; without a ``store`` (SqlSchedulers) it is the only
    scheduler.

    ``clock`` is the store's. ``position_and_count`` is its position among the live schedulers, in
    order of their UUIDs, and their number.
    """

    def __init__(self, store=None, host='', pid=0, clock=time.time, monotonic=time.monotonic):
        self.uuid = str(uuid.uuid4())
        self._store = store
        self._host, self._pid = host, pid
        self._clock, self._monotonic = clock, monotonic
        self._started_s = clock()
        # The latest heartbeat of each process, and the local time when it was new.
        self._heartbeats: dict[str, tuple[float | None, float]] = {}
        self.position_and_count = (0, 1)
        self.hosts = frozenset([host])  # of the live schedulers

    def heartbeat(self, figures):
        """Write a heartbeat, with figures (a mapping of plain values), and read those of all
        schedulers.

        Raises StoreUnavailable.
        """
        if self._store is None:
            return
        now_s = self._clock()
        if not self._heartbeats:
            # Drop the rows of processes of this host that were killed: this one may replace them.
            # A live process whose row is dropped by mistake, because it has process IDs of its
            # own, writes it again with its next heartbeat.
            for row in self._store.alive(now_s - KEPT_S):
                is_other = row.host == self._host and row.pid != self._pid
                if is_other and not psutil.pid_exists(row.pid):
                    self._store.remove(row.uuid)
        self._store.write(
            SchedulerFacts(self.uuid, self._host, self._pid, self._started_s, now_s, figures)
        )
        # The clocks of two machines may differ, so a new heartbeat counts, and not its time.
        moment_s = self._monotonic()
        before, self._heartbeats = self._heartbeats, {}
        rows = self._store.alive(now_s - KEPT_S)
        for row in rows:
            last = before.get(row.uuid, (None, 0.0))
            self._heartbeats[row.uuid] = last if last[0] == row.seen_s else (row.seen_s, moment_s)
        alive = sorted(
            name for name, (_, new_s) in self._heartbeats.items() if moment_s - new_s < SILENT_S
        )
        self.hosts = frozenset(row.host for row in rows if row.uuid in alive) | {self._host}
        self.position_and_count = (
            (alive.index(self.uuid), len(alive)) if self.uuid in alive else (0, 1)
        )

    def forget(self):
        """Drop the rows of processes that ended long ago. Raises StoreUnavailable."""
        if self._store is not None:
            self._store.forget(self._clock() - KEPT_S)

    def leave(self):
        """Remove this process from the list, when it ends."""
        if self._store is None:
            return
        try:
            self._store.remove(self.uuid)
        except errors.SchedError as error:
            LOG.warning(
                '%s; this scheduler stays in the list of schedulers until its row is purged', error
            )

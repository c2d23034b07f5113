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
"""What one scheduler has counted, and the total of all schedulers."""

import logging
import threading

from nova_sched import errors

LOG = logging.getLogger(__name__)


class SharedTotal:
    """Counts of a ``kind`` (as in ``db.shared_counts.SharedCounts``), which is ``store``'s.

    ``scheduler`` is the UUID of this one there. Without a store, the total is that of this
    process. ``what`` they count, for logs. ``total`` is that of the last ``exchange``, and
    ``new`` are the counts of this scheduler since. One thread calls ``exchange``; any thread calls
    the rest.
    """

    def __init__(self, kind, what, scheduler='', store=None):
        self._kind, self._what = kind, what
        self._scheduler, self._store = scheduler, store
        self.total, self.new = kind(), kind()
        # What the store gets next: a batch keeps its number until the store has it.
        self._batch, self._serial, self._is_away = kind(), 0, False
        self._lock = threading.Lock()

    @property
    def now(self):
        """A copy of the total with the counts of this scheduler since."""
        found = self._kind()
        with self._lock:
            for counts in (self.total, self._batch, self.new):
                found.merge(counts)
        return found

    def add(self, *counted):
        """Count: the arguments are those of the kind's ``add``."""
        with self._lock:
            self.new.add(*counted)

    def exchange(self):
        """Store what was counted, and read what all schedulers have counted."""
        with self._lock:
            if self._store is None:
                self.total.merge(self.new)
                self.new = self._kind()
                return
            if self.new and not self._batch:
                self._batch, self.new = self.new, self._kind()
                self._serial += 1
        try:
            if self._batch:
                self._store.add(self._scheduler, self._serial, self._batch)
                # The batch counts with the total as soon as that is read.
                with self._lock:
                    self.total.merge(self._batch)
                    self._batch = self._kind()
            self.total = self._store.total()
            self._is_away = False
        except errors.StoreBusy:
            pass  # the batch is stored the next time
        except errors.SchedError as error:
            if not self._is_away:
                LOG.warning('%s; %s is not shared until it does', error, self._what)
            self._is_away = True

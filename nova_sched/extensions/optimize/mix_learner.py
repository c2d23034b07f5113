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
"""Learns the mix of requests, and makes the tables of FragmentationWeigher from it, in parallel
with the loop."""

import collections
import logging
import threading
import time

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.fragmentation import Overview
from nova_sched.extensions.optimize.fragmentation_weigher import FragmentationWeigher
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.mix import Mix, size_of
from nova_sched.extensions.optimize.packing.prices import yield_processor
from nova_sched.extensions.optimize.packing.scores import Scores
from nova_sched.extensions.optimize.packing.tables import Tables

LOG = logging.getLogger(__name__)

OPTION = FragmentationWeigher.option
EARLY = (20, 50, 100, 200, 400, 800)  # requests after which the tables are made again at first
EVERY = 500  # requests between two refreshes later
GROWN = 0.1  # the tables are made again too when the number of hosts has changed by this share
WAITING = 4096  # requests that wait to be counted; of more, only the latest are
POLL_S = 1.0  # the thread checks this often whether there is something to do
WRITE_S = 60.0  # counts wait this long at most until they are stored
SHOWN = 5  # sizes in the figures
SEED = 20.0  # requests that the flavors count for, as long as fewer were seen


class SharedMix:
    """What this scheduler has counted, and the total of all schedulers.

    ``store`` is a ``mixes.SqlMixes``; ``scheduler`` is the UUID of this one there. Without a
    store, the total is that of this process. ``total`` is that of the last ``exchange``, and
    ``new`` are the counts of this scheduler since. One thread calls ``exchange``; any thread calls
    the rest.
    """

    def __init__(self, scheduler='', store=None):
        self._scheduler, self._store = scheduler, store
        self.total, self.new = Mix(), Mix()
        # What the store gets next: a batch keeps its number until the store has it.
        self._batch, self._serial, self._is_away = Mix(), 0, False
        self._lock = threading.Lock()

    @property
    def now(self):
        """A copy of the total with the counts of this scheduler since."""
        total = Mix()
        with self._lock:
            for counts in (self.total, self._batch, self.new):
                total.merge(counts)
        return total

    def add(self, sizes):
        """Count sizes."""
        with self._lock:
            self.new.add(sizes)

    def exchange(self):
        """Store what was counted, and read what all schedulers have counted."""
        with self._lock:
            if self._store is None:
                self.total.merge(self.new)
                self.new = Mix()
                return
            if self.new and not self._batch:
                self._batch, self.new = self.new, Mix()
                self._serial += 1
        try:
            if self._batch:
                self._store.add(self._scheduler, self._serial, self._batch)
                # The batch counts with the total as soon as that is read.
                with self._lock:
                    self.total.merge(self._batch)
                    self._batch = Mix()
            self.total = self._store.total()
            self._is_away = False
        except errors.StoreBusy:
            pass  # the batch is stored the next time
        except errors.SchedError as error:
            if not self._is_away:
                LOG.warning('%s; the mix of requests is not shared until it does', error)
            self._is_away = True


class MixLearner:
    """Counts requests by size, and refreshes the weighers of the rules.

    ``call`` runs a function in the loop. ``store`` is a ``mixes.SqlMixes``, which all
    schedulers share; ``scheduler`` is the UUID of this one there. Without it, the mix is that of
    this process. ``seed`` returns the requests of the flavors. ``learns``: whether requests are to
    be counted; not while the multiplier is 0 and no aggregate sets it. ``listen`` is called when
    that changes, with the function that is to get the requests, or None. ``figures`` are those of
    ``fragmentation.Overview`` at the last refresh, none before.
    """

    def __init__(
        self, hosts, call, scheduler='', store=None, seed=None, listen=lambda learn: None
    ):
        self._hosts, self._call, self._store, self._seed = hosts, call, store, seed
        self._asked: collections.deque = collections.deque(maxlen=WAITING)
        self._seen, self._refreshed, self._hosts_then = 0, -1, 0
        self._shared = SharedMix(scheduler, store)
        self._next_exchange_s = 0.0
        self.learns, self._listen, self._listening = False, listen, threading.Lock()
        self.figures: dict[str, object] = {}
        self._weighers: list[FragmentationWeigher] = []
        self._scores: Scores | None = None
        self._leaving, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-mix', daemon=True)

    @property
    def is_used(self):
        """Whether any host is weighed by FragmentationWeigher."""
        return bool(self._weighers) and (
            bool(CONF.filter_scheduler[OPTION]) or OPTION in self._hosts.aggregates.keys
        )

    @property
    def is_due(self):
        """Whether so much has changed that the tables are made again."""
        if self._refreshed < 0:
            return True
        if abs(len(self._hosts) - self._hosts_then) > GROWN * self._hosts_then:
            return True
        seen = self._seen + len(self._asked)
        early = any(self._refreshed < count <= seen for count in EARLY)
        return early or seen - self._refreshed >= EVERY

    def follow(self, rules):
        """Refresh the weighers of these rules from now on. Runs in the loop."""
        self._weighers = [
            weigher for weigher in rules.weighers if isinstance(weigher, FragmentationWeigher)
        ]
        for weigher in self._weighers:
            weigher.use(self._scores)
        self._listen_if_used()

    def _listen_if_used(self):
        with self._listening:  # the loop and the thread of this learner
            if self.learns != self.is_used:
                self.learns = not self.learns
                self._listen(self.learn if self.learns else None)

    def learn(self, requests):
        """Count these requests later. From any thread."""
        self._asked.extend(request for request in requests if not request.is_rebuild)
        if len(self._asked) >= EVERY:
            self._wake.set()

    def start(self):
        self._thread.start()

    def stop(self):
        """Store what was counted, and end."""
        self._leaving.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._leaving.is_set():
            try:
                self._listen_if_used()
                if self.learns and self.is_due:
                    self.exchange()
                    self.refresh(yield_processor)
                elif self._asked and time.monotonic() >= self._next_exchange_s:
                    self.exchange()
            except Exception:
                if not self._leaving.is_set():
                    LOG.exception('The tables of FragmentationWeigher stay as they were')
                    self._leaving.wait(WRITE_S)
            self._wake.wait(POLL_S)
            self._wake.clear()
        self.exchange()

    def count(self):
        """Count the requests that wait."""
        requests = [self._asked.popleft() for _ in range(len(self._asked))]
        self._shared.add([size_of(request, self._hosts.child_classes) for request in requests])
        self._seen += len(requests)

    def exchange(self):
        """Store what was counted, and read what all schedulers have counted."""
        self.count()
        self._next_exchange_s = time.monotonic() + WRITE_S
        self._shared.exchange()

    def refresh(self, pause=lambda: None):
        """Make the tables from the mix and the hosts of now, and give them to the weighers.

        ``pause`` is called several times.
        """
        self.count()
        seen, mix = self._seen, self._with_flavors(self._shared.now)
        resources = self._call(read_resources, self._hosts)
        packing = CONF.compute.packing_host_numa_cells_allocation_strategy
        tables = Tables(mix, resources, pause, packing)
        self.figures = {'fragmentation': Overview(tables, resources, mix.counts).plain(SHOWN)}
        scores = Scores(tables, resources)
        scores.prepare(mix.counts, pause)
        self._scores, self._refreshed, self._hosts_then = scores, seen, len(resources)
        for weigher in self._weighers:
            weigher.use(scores)

    def mix_of_now(self):
        """A Mix as ``refresh`` would take now; of the store, if this scheduler counts nothing.
        From any thread."""
        counts_itself = self.learns or self._store is None
        return self._with_flavors(self._shared.now if counts_itself else self._store.total())

    def _with_flavors(self, mix):
        """This Mix; as long as it is small, each flavor counts in it, too."""
        if mix.total >= SEED or self._seed is None:
            return mix
        flavors = Mix()
        try:
            requests = self._seed()
        except errors.SchedError as error:
            LOG.warning('%s; the mix of requests starts without the flavors', error)
        else:
            flavors.add(size_of(request, self._hosts.child_classes) for request in requests)
        if flavors:
            mix.merge(flavors, SEED / flavors.total)
        return mix

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
"""Learns how long servers last, for ExitTimeWeigher, in parallel with the loop."""

import collections
import logging
import threading
import time

from nova_sched.conf import CONF
from nova_sched.engine.shared_total import SharedTotal
from nova_sched.lifetimes.ends import Ends
from nova_sched.lifetimes.survival import Survival
from nova_sched.packing.prices import yield_processor
from nova_sched.state import lifetime
from nova_sched.weighers.exit_time import ExitTimeWeigher

LOG = logging.getLogger(__name__)

OPTION = ExitTimeWeigher.option
EVERY_S = 3600.0  # between two estimates of how long servers last
SHOW_S = 300.0  # between two estimates of when those that run will end
WRITE_S = 300.0  # ends wait this long at most until they are stored
LOOK_S = 5.0  # the thread looks this often whether there is something to do
WAITING = 16384  # ends that wait to be counted; of more, only the latest are
AT_ONCE = 32  # nodes that the loop looks at in one go


class EndLearner:
    """Counts ends of servers, and keeps the expected ends of hosts up to date.

    ``call`` runs a function in the loop. ``clock`` is the store's. ``store`` is a
    ``db.lifetimes.SqlLifetimes``, which all schedulers share; ``scheduler`` is the UUID of this
    one there. Without it, only this process knows what it has counted.
    """

    def __init__(self, cluster, call, clock, scheduler='', store=None):
        self._cluster, self._call, self._clock = cluster, call, clock
        self._ended: collections.deque = collections.deque(maxlen=WAITING)
        self._shared = SharedTotal(
            Ends, 'what is known of how long servers last', scheduler, store
        )
        self._is_enabled = False
        self._done_s: dict[str, float] = {}
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-ends', daemon=True)

    @property
    def is_used(self):
        """Whether ends are to be learned, and any host is weighed by them."""
        wanted = CONF.filter_scheduler
        return (
            self._is_enabled
            and wanted.learned_ends
            and (bool(wanted[OPTION]) or OPTION in self._cluster.hosts.aggregates.keys)
        )

    def follow(self, rules):
        """Learn for these rules from now on. Runs in the loop."""
        self._is_enabled = any(isinstance(one, ExitTimeWeigher) for one in rules.weighers)

    def learn(self, claims):
        """Count these claims, which have just ended. Runs in the loop.

        Only a server that was built, and is nowhere else, has ended.
        """
        if self._cluster.hosts.survival is None:
            return
        now_s = self._clock()
        self._ended.extend(
            (lifetime.kind_of(claim), now_s - lifetime.began_s(claim), now_s)
            for claim in claims
            if claim.is_confirmed and not self._cluster.claims_of(claim.consumer_uuid)
        )

    def start(self):
        self._thread.start()

    def stop(self):
        """Store what was counted, and end."""
        self._leaving.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._leaving.is_set():
            try:
                self.turn(yield_processor)
            except Exception:
                if not self._leaving.is_set():
                    LOG.exception('The expected ends of servers stay as they were')
                    self._leaving.wait(SHOW_S)
            self._leaving.wait(LOOK_S)
        if self._cluster.hosts.survival is not None:
            self._exchange()

    def turn(self, pause=lambda: None):
        """Do what is due. ``pause`` is called several times."""
        hosts = self._cluster.hosts
        if not self.is_used:
            if hosts.survival is not None:
                self._done_s.clear()
                self._show(None, pause)
            return
        if self._is_due('exchange', WRITE_S):
            self._exchange()
        if self._is_due('estimate', EVERY_S):
            self._show(self._estimate(), pause)
            self._done_s['show'] = self._clock()
        elif self._is_due('show', SHOW_S):
            self._show(hosts.survival, pause)

    def _is_due(self, what, every_s):
        """Whether something was done so long ago, or the clock was set back. It is done then."""
        now_s = self._clock()
        if 0.0 <= now_s - self._done_s.get(what, -every_s) < every_s:
            return False
        self._done_s[what] = now_s
        return True

    def _exchange(self):
        """Count the ends that wait, store them, and read those of all schedulers."""
        for _ in range(len(self._ended)):
            self._shared.add(*self._ended.popleft())
        self._shared.exchange()

    def _estimate(self):
        """The Survival of now."""
        now_s, kinds, ages_s = self._clock(), [], []
        for node in self._cluster.snapshot():
            for claim in list(node.claims.values()):
                if claim.is_confirmed:
                    kinds.append(lifetime.kind_of(claim))
                    ages_s.append(now_s - lifetime.began_s(claim))
        begin_s = time.monotonic()
        ends = self._shared.now
        found = Survival(ends.with_running(kinds, ages_s, now_s))
        LOG.debug(
            'Estimated how long servers last, from ends that count %.0f and %d servers that run, '
            'in %.2f s',
            ends.total,
            len(kinds),
            time.monotonic() - begin_s,
        )
        return found

    def _show(self, survival, pause):
        """Expect the ends of servers by this Survival from now on; None: those that are known."""
        self._call(setattr, self._cluster.hosts, 'survival', survival)
        first = 0
        while self._call(self._show_some, first):
            first += AT_ONCE
            pause()

    def _show_some(self, first):
        """Set the expected ends of some hosts. Returns whether there are more. Runs in the
        loop."""
        hosts = self._cluster.hosts
        hosts.now_s = self._clock()
        some = hosts.nodes[first : first + AT_ONCE]
        for node in some:
            hosts.exit_s[node.row] = node.exit_s
        return len(hosts.nodes) > first + len(some)

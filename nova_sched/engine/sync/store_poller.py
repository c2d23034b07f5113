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
"""Polls the store in parallel with the loop, and reports changes of other schedulers to the
loop."""

import logging
import threading

from nova_sched import errors
from nova_sched.engine.sync.membership import HEARTBEAT_S

LOG = logging.getLogger(__name__)

# Exclusive domains without claims end as often: within half a minute, with the time of two polls.
EXPIRE_INTERVAL_S = 20.0
# Heartbeats that other schedulers received are read this often, at least, and several times
# before a host without them counts as down.
FULL_POLL_S = 15.0
POLLS_BEFORE_DOWN = 4
HEAL_S = 0.05  # nodes that are known to be stale are read this often, at most


class StorePoller:
    """A thread that finds nodes that other schedulers have changed, so that the loop need not read
    all.

    ``tell`` runs a method of StateSync in the loop, by name.
    Correctness does not depend on the interval: the store validates claims, and a late poll only
    causes more lost commits. ``also`` runs as often as overdue claims are ended, but in this
    thread. ``heartbeat`` runs in this thread too, every few seconds. While ``wake`` is set, there
    are stale nodes to read.
    """

    def __init__(self, context, tell, also=lambda: None, heartbeat=lambda: None, wake=None):
        self._cluster, self._store = context.cluster, context.store
        self._settings, self._figures = context.settings, context.figures
        self._monotonic = context.monotonic
        self._tell, self._also, self._heartbeat = tell, also, heartbeat
        self._wake = threading.Event() if wake is None else wake
        self._away = False
        self._seen = {}
        self._next_expiry = self._next_full = 0.0
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-watch', daemon=True)

    def start(self):
        self._thread.start()

    def leave(self):
        self._leaving.set()
        self._wake.set()

    def join(self):
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        polled_s, heartbeat_s = self._monotonic(), float('-inf')
        while not self._leaving.is_set():
            next_poll = polled_s + self._settings().refresh_interval_s
            next_heartbeat = heartbeat_s + HEARTBEAT_S
            now = self._monotonic()
            if now >= next_poll:
                self.poll()
                polled_s = self._monotonic()
            elif now >= next_heartbeat:
                self._try(self._heartbeat)
                heartbeat_s = self._monotonic()
            elif self._wake.wait(min(next_poll, next_heartbeat) - now) and not self._leaving.wait(
                HEAL_S
            ):
                self._try(lambda: self._tell('heal'))

    def _try(self, work):
        """Do some work. Returns whether the store can be asked for more."""
        try:
            work()
            self._away = False
        except errors.StoreUnavailable as error:
            if not self._away:
                LOG.warning('%s; changes of other schedulers are not seen until it does', error)
            self._away = True
        except Exception:
            self._away = False
            if not self._leaving.is_set():
                LOG.exception('A poll of the store failed; it is repeated')
        return not self._away

    def poll(self):
        """One poll: the loop learns which nodes differ and which hosts sent heartbeats, and
        ends overdue claims. A step that fails keeps no other one from being done."""
        if self._try(self._read_changes) and self._monotonic() >= self._next_expiry:
            self._next_expiry = self._monotonic() + EXPIRE_INTERVAL_S
            if self._try(self._end_overdue):
                self._try(self._also)

    def _end_overdue(self):
        # The loop does other work in between.
        while self._tell('expire') and not self._leaving.is_set():
            pass

    def _read_changes(self):
        # Commits of this scheduler raise its digest meanwhile, so changes of other schedulers may
        # stay hidden until the next poll.
        before = self._cluster.digest
        if (
            before <= self._store.digest() <= self._cluster.digest
            and self._monotonic() < self._next_full
        ):
            self._tell('catch_up', [], {})
            self._polled(0)
        else:
            enough_s = self._settings().service_down_time_s / POLLS_BEFORE_DOWN
            self._next_full = self._monotonic() + min(FULL_POLL_S, enough_s)
            self._poll_all()

    def _poll_all(self):
        heads = self._store.heads()
        # Read in parallel with the loop, which writes them: a node that changes at this moment is
        # found stale, and read again.
        nodes = {node.uuid: node.generation for node in self._cluster.snapshot()}
        stale = [uuid for uuid, (generation, _) in heads.items() if nodes.get(uuid) != generation]
        stale += [uuid for uuid in nodes if uuid not in heads]
        seen = {
            uuid: seen_s for uuid, (_, seen_s) in heads.items() if self._seen.get(uuid) != seen_s
        }
        self._tell('catch_up', stale, seen)
        self._polled(len(stale))
        self._seen.update(seen)

    def _polled(self, stale):
        self._figures.stale_nodes, self._figures.polled_s = stale, self._monotonic()

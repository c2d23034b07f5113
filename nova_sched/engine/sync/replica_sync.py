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
"""Keeps the host state up to date: applies change events of other schedulers, and announces
changes here.

Change events only save time. The database is authoritative: a change that was not received, or
that does not follow on the host state, is read from there.
"""

import collections
import itertools
import logging
import threading
import time

from nova_sched.engine.sync.changes import Commit

LOG = logging.getLogger(__name__)

AT_ONCE_S = 0.01  # change events are applied for this long, then other messages are handled
WAITING = 1000  # change events that wait to be applied, at most
SOME = 100  # nodes that are read at once


class ReplicaSync:
    """Announces the loop's changes, and applies those of other schedulers. ``turn()`` schedules a
    call of ``take``.

    All methods but ``receive`` run in the loop. ``wake`` is set while ``look`` has something to
    read.
    """

    def __init__(self, context, turn=lambda: None, at_once_s=AT_ONCE_S):
        self._cluster, self._clock = context.cluster, context.clock
        self.publisher, self.figures = context.publisher, context.figures
        self.publisher.figures = self.figures
        self._turn, self._at_once_s = turn, at_once_s
        self._waiting: collections.deque = collections.deque()
        self._has_turn = False
        # Nodes that must be read, each with the generation that it has by now, if that is known.
        self._stale: dict[str, int | None] = {}
        self._tables = False  # whether small tables have changed
        self.wake = threading.Event()

    # Changes of this scheduler.

    def committed(self, done):
        """Announce one commit.

        ``done`` has for each placement that was won its claims, the claims of the same consumers
        that ended with it, and the generations of its nodes before and after.
        """
        raised = {uuid: pair for _, _, generations in done for uuid, pair in generations.items()
                  if pair[0] != pair[1]}  # fmt: skip
        nodes = {uuid: pair for uuid, pair in raised.items() if self._generation(uuid) == pair[1]}
        # The other nodes differed from the host state, or their generation is not known now.
        looks: dict[str, int | None] = {
            uuid: pair[1] for uuid, pair in raised.items() if uuid not in nodes
        }
        left = (claim.node_uuid for _, ended, _ in done for claim in ended)
        looks |= dict.fromkeys(uuid for uuid in left if uuid not in raised)
        self.must_look(looks)
        if self.publisher.is_heard and (nodes or looks):
            self.publisher.tell([self._commit(nodes, done)] if nodes else (), looks)

    def _commit(self, nodes, done):
        claims = (claim for made, ended, _ in done for claim in (*made, *ended))
        consumers = tuple(dict.fromkeys(claim.consumer_uuid for claim in claims))
        held = (claim for consumer in consumers for claim in self._cluster.claims_of(consumer))
        return Commit(nodes, consumers, tuple(claim for claim in held if claim.node_uuid in nodes))

    def reported(self, facts):
        """Announce a node's report, before it is applied here."""
        uuid = facts.report.node_uuid
        if self._generation(uuid) != facts.generation:
            self.publisher.tell(looks={uuid: facts.generation})

    def changed(self, nodes):
        """Announce nodes that the store changed in another way. They must be read here, too."""
        looks = dict.fromkeys(nodes)
        if looks:
            self.must_look(looks)
            self.publisher.tell(looks=looks)

    def tables_changed(self):
        """Announce a change of services, aggregates or instance lists."""
        self.publisher.tell(tables=True)

    # Changes of other schedulers.

    def receive(self, event):
        """Queue a ChangeEvent of another scheduler, from any thread. Does not wait. Events beyond
        WAITING are dropped."""
        if len(self._waiting) >= WAITING:
            self.figures.news_dropped += 1
            return
        self._waiting.append(event)
        if not self._has_turn:
            self._call()

    def _call(self):
        self._has_turn = True
        self._turn()

    def take(self, messages):
        """Apply the queued change events. One message to the loop covers all of them."""
        self._has_turn, end_s = False, time.monotonic() + self._at_once_s
        while self._waiting:
            self._apply(self._waiting.popleft())
            if time.monotonic() > end_s:
                break
        if self._waiting:
            self._call()
        for message in messages:
            message.answer(None)

    def _apply(self, event):
        for commit in event.commits:
            try:
                self._follow(commit)
            except Exception:
                LOG.exception(
                    'A commit of another scheduler cannot be applied; its nodes are read'
                )
                self.must_look(dict.fromkeys(commit.nodes))
        self.must_look({uuid: generation for uuid, generation in event.looks.items()
                         if not self._has_reached(uuid, generation)})  # fmt: skip
        if event.tables:
            self._tables = True
            self.wake.set()
        self.figures.news_heard += 1
        self.figures.news_lag_s = max(0.0, self._clock() - event.made_s)

    def _follow(self, commit):
        """Apply a commit to the nodes that are as they were before it.

        A node is read from the store if a commit in between is missing, or if its generation here
        is unknown. Change events that arrive twice, or after such a read, are ignored.
        """
        cluster, after = self._cluster, {}
        for uuid, (before, now) in commit.nodes.items():
            if self._generation(uuid) == before:
                after[uuid] = now
            elif not self._has_reached(uuid, now):
                self.must_look({uuid: now})
        for consumer in commit.consumers:
            for claim in cluster.claims_of(consumer):
                if claim.node_uuid in after:
                    cluster.drop(claim)
        for claim in commit.claims:
            if claim.node_uuid in after:
                cluster.add(claim)
        for uuid, generation in after.items():
            cluster.node(uuid).generation = generation

    # Reads.

    def look(self, catch_up):
        """Read some of the nodes that are known to have changed, by ``catch_up(nodes, {})``."""
        self.wake.clear()
        self._stale = {uuid: generation for uuid, generation in self._stale.items()
                       if not self._has_reached(uuid, generation)}  # fmt: skip
        some = list(itertools.islice(self._stale, SOME))
        if some or self._tables:
            catch_up(some, {})
        self._tables = False
        for uuid in some:
            del self._stale[uuid]
        if self._stale:
            self.wake.set()

    def forget(self):
        """Drop all change events: all changes in the store were read."""
        self._waiting.clear()
        self._stale.clear()
        self._tables = False

    def must_look(self, nodes):
        if nodes:
            self._stale |= nodes
            self.wake.set()

    def _generation(self, uuid):
        node = self._cluster.node(uuid)
        return None if node is None else node.generation

    def _has_reached(self, uuid, generation):
        """Whether the host state of the node is of a generation, or later."""
        known = self._generation(uuid)
        return known is not None and generation is not None and known >= generation

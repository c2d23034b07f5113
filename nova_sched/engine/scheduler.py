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
"""The scheduler: assembles the components of the engine, and has the methods that the APIs
call."""

import dataclasses
import logging
import time

from nova_sched import errors
from nova_sched.engine.candidates import Candidates
from nova_sched.engine.claim_service import ClaimService
from nova_sched.engine.clock import STILL_S, Pauses, StoreClock
from nova_sched.engine.cycle import Batches, Order
from nova_sched.engine.explain import capacity
from nova_sched.engine.explain.decision_log import DecisionLog
from nova_sched.engine.explain.questions import Questions
from nova_sched.engine.figures import Figures, Minute
from nova_sched.engine.groups import outsiders
from nova_sched.engine.groups.member_resolver import MemberResolver, ReplanRequired
from nova_sched.engine.groups.member_state import Library
from nova_sched.engine.groups.operations import Groups
from nova_sched.engine.groups.plans import Plans
from nova_sched.engine.loop import Loop
from nova_sched.engine.place import Placer
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.engine.sync.replica_sync import ReplicaSync
from nova_sched.engine.sync.state_sync import StateSync
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.engine.sync.store_retry import StoreRetry
from nova_sched.groups.topology import Locator, Topology

LOG = logging.getLogger(__name__)

PLACE, REPORT, CALL, RULES, NEWS = 'place', 'report', 'call', 'rules', 'news'


class Scheduler:
    """The interface of the engine. Its public methods may be called from any thread, and wait for
    the loop.

    ``settings`` is a function that returns the current Settings. ``clock`` (seconds since the
    epoch) replaces the store's clock where time is simulated. ``pauses`` detects that this process
    was stopped. ``topology`` has the levels for groups, ``solver`` (groups.exact.worker) solves
    hard group problems. Without ``decision_log``, decisions are recorded in this process. Without
    ``candidates``, these are kept in this process. ``news`` (a ChangePublisher) announces changes
    to other schedulers, ``membership`` lists them.
    """

    def __init__(
        self,
        cluster,
        store,
        rules,
        settings,
        random,
        clock=None,
        max_batch=64,
        decision_log=None,
        candidates=None,
        news=None,
        membership=None,
        topology=None,
        solver=None,
        pauses=None,
    ):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        if clock is None:
            clock = StoreClock(store.now_s)
        elif not isinstance(clock, StoreClock) and store.clock is None:
            store.clock = clock
        self._clock = clock
        self.pauses = Pauses() if pauses is None else pauses
        self._pauses_known, self._knows_clock = self.pauses.count, False
        self._placer = Placer(cluster, rules, random)
        self.figures = Figures()
        self._membership = membership or SchedulerMembership()
        self.replica_sync = ReplicaSync(cluster, news, self._turn_to_news, self.figures, clock)
        handlers = {
            REPORT: self._report,
            CALL: self._call,
            RULES: self._follow,
            NEWS: self.replica_sync.take,
        }
        self.loop = Loop(handlers, max_batch, self._wake_up)
        self._store_retry = StoreRetry(self.loop, settings, random, self.figures)
        self.state_sync = StateSync(cluster, store, settings, clock, self.replica_sync)
        topology = topology or Topology()
        cluster.hosts.lasting_stats = topology.stats
        store.locator = Locator(topology, lambda: settings().default_zone)
        library = Library(store)
        plans = Plans(
            cluster,
            store,
            self.state_sync,
            self._placer,
            self.replica_sync,
            topology,
            settings,
            clock,
        )
        member_resolver = MemberResolver(cluster, plans, library)
        self.claim_service = ClaimService(
            cluster, store, self.state_sync, self.replica_sync, member_resolver, settings
        )
        self.groups = Groups(
            cluster, store, plans, library, topology, self.call, settings, clock, solver
        )
        self.questions = Questions(cluster, self._placer, settings, clock)
        self.decision_log = decision_log or DecisionLog()
        self._batches = Batches(
            cluster,
            store,
            self._placer,
            self.state_sync,
            self.replica_sync,
            self._store_retry,
            self.decision_log,
            self.figures,
            settings,
            clock,
            lambda: self.standing,
            member_resolver,
        )
        handlers[PLACE] = self._batches.place
        until_done = self._store_retry.until_done
        self.candidates = Candidates(
            self.place,
            until_done,
            self.state_sync,
            self.claim_service,
            settings,
            clock,
            candidates,
        )
        beside = {
            'also': self._forget,
            'sign': self._sign,
            'wake': self.replica_sync.wake,
            'figures': self.figures,
        }
        self._store_poller = StorePoller(cluster, store, settings, self._ask, **beside)
        self._minute = Minute(self.figures)

    def start(self):
        """Read the store, then take messages. Raises StoreUnavailable."""
        self._look_at_clock()
        # Before the store is read: other schedulers announce their changes from now on.
        self._membership.sign(self._figures())
        self.state_sync.refresh()
        self.pauses.start()
        self.loop.start()
        self.decision_log.start()
        self.replica_sync.publisher.start()
        self._store_poller.start()

    def leave(self):
        """Answer pending messages now. Those that wait for the database fail with
        StoreUnavailable."""
        self.loop.hurry()

    def stop(self):
        """Answer pending messages and take no more."""
        self._store_poller.leave()
        self.loop.stop()
        self._store_poller.join()
        self.replica_sync.publisher.stop()
        self.decision_log.stop()
        self.groups.close()
        self.pauses.stop()
        self._membership.leave()

    @property
    def clock(self):
        """The store's clock: calling it gives seconds since the epoch."""
        return self._clock

    @property
    def uuid(self):
        """The UUID of this scheduler among those that share the store."""
        return self._membership.uuid

    @property
    def standing(self):
        """(position, count): the position of this scheduler, from 0, among the live schedulers
        that share the store, and their number."""
        return self._membership.standing

    # The API.

    def place(self, requests, alternates=False, claim=True, context=None, ranked=0):
        """Choose and claim a host for each request of one call, all or nothing.

        Returns a list of Selected for each request: the chosen host, then alternates. Raises
        NoValidHost.
        """
        order = Order(requests, alternates, claim, context, ranked)
        for _ in range(self._settings().plan_attempts):
            try:
                return self.loop.send(PLACE, order).result()
            except ReplanRequired as member:
                if not claim:
                    path = member.request.member_placement.member
                    raise errors.MemberRefused(
                        path, 'its group would be replanned for it'
                    ) from None
                self.groups.settle(member.request)
                order = dataclasses.replace(order, settled=True)
        raise errors.TooManyConflicts(self._settings().plan_attempts)

    def report(self, report):
        """Apply a node's report. Returns NodeFacts: the accepted report, the claims and the
        unclaimed usage."""
        return self.loop.send(REPORT, report).result()

    def call(self, work, *args):
        """Call a method of ``state_sync``, ``claim_service`` or ``questions`` in the loop."""
        return self.loop.send(CALL, (work, args)).result()

    def capacity(self, request):
        """How many more instances like this one fit, one after the other, if nothing else changes.

        Returns a mapping: ``total``; ``at_least``, whether the numbers are lower bounds because
        counting was cut short; ``hosts``, the number of hosts that take any; ``zones``, a number
        by zone name; ``aggregates``, the ``id``, ``name`` and ``total`` of each. A host in several
        zones or aggregates counts in each. Members of an affinity group without a host have to
        share one: each number is then that of the host that takes most.
        """
        room, end = self.call(self.questions.room, request), time.monotonic() + capacity.BUDGET_S
        while room.kinds is not None and time.monotonic() < end:
            if self.call(self.questions.try_some, room):
                break
        return capacity.summed(room)

    def follow(self, rules):
        """Use these rules from the next batch on. Does not wait: returns a Future."""
        return self.loop.send(RULES, rules)

    def hear(self, news):
        """Queue a ChangeEvent of another scheduler. Does not wait."""
        self.replica_sync.hear(news)

    def _turn_to_news(self):
        self.loop.send(NEWS, None)

    def _ask(self, method, *args):
        """Call a method of ``state_sync`` by name, for the store poller."""
        return self.call(getattr(self.state_sync, method), *args)

    def _forget(self):
        self.decision_log.forget(self._clock() - self._settings().explain_retention_s)
        self.candidates.forget()
        self._membership.forget()
        self._store.forget_groups()
        self.groups.mend_fences()

    def _sign(self):
        """Write a sign of life, for the store poller. Once a minute, log the figures if anything
        happened."""
        self._look_at_clock()
        self._membership.sign(self._figures())
        self._minute.tell(self.standing)

    def _look_at_clock(self):
        """Read the store's clock. Time that passed there and not here is a suspension of the
        machine.

        An outage of the store while this process runs is not a pause.
        """
        if not isinstance(self._clock, StoreClock):
            return
        before_s = self._clock.at(0.0)
        self._clock.look()
        missed_s = self._clock.at(0.0) - before_s
        if self._knows_clock and missed_s > STILL_S:
            self.pauses.found(missed_s)
        self._knows_clock = True

    def _figures(self):
        return {
            **self.figures.plain(),
            'clock_offset_s': round(getattr(self._clock, 'offset_s', 0.0), 3),
        }

    # The loop.

    def _wake_up(self):
        """Before each batch: after a pause, drop the queued change events and read the whole
        store.

        The store validates decisions from before the pause like any other.
        """
        self.pauses.tick()
        count = self.pauses.count
        if count == self._pauses_known:
            return
        try:
            self._store_retry.until_done(self._look_at_clock)
            self._store_retry.until_done(self.state_sync.refresh)
        except errors.StoreUnavailable as error:
            LOG.warning('%s; the host state may be as old as the pause', error)
        else:
            self.replica_sync.forget()
            self._pauses_known = count

    # Handlers: these run in the loop.

    def _report(self, messages):
        good = []
        for message in messages:
            try:
                self.state_sync.check_owner(message.work)
                good.append(message)
            except errors.Invalid as error:
                message.fail(error)
        if good:
            told = [message.work for message in good]
            before = outsiders.carried(self._cluster, {report.node_uuid for report in told})
            found = self._store_retry.until_done(self._store.report, told)
            for message, facts in zip(good, found, strict=True):
                self.replica_sync.reported(facts)
                self.state_sync.adopt(facts)
                message.answer(facts)
            outsiders.tell(self._cluster, self._store, before)

    def _call(self, messages):
        for message in messages:
            work, args = message.work
            try:
                message.answer(self._store_retry.until_done(work, *args))
            except errors.SchedError as error:
                message.fail(error)
            except Exception as error:
                LOG.exception('The engine failed on %s', getattr(work, '__name__', work))
                message.fail(error)

    def _follow(self, messages):
        self._placer.follow(messages[-1].work)
        for message in messages:
            message.answer(None)

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
"""The scheduler: builds the components of the engine, and has the methods that the APIs call."""

import dataclasses
import importlib.metadata
import itertools
import logging
from collections import ChainMap
from types import MappingProxyType

from nova_sched import errors
from nova_sched.engine import measuring, time_slice
from nova_sched.engine.calls import Calls
from nova_sched.engine.candidates import HostOffers
from nova_sched.engine.claim_service import ClaimService
from nova_sched.engine.clock import STILL_S, StoreClock
from nova_sched.engine.cycle import PLACE, WRITTEN, Cycle, Order, PollRequired
from nova_sched.engine.explain import callers, capacity, reasons
from nova_sched.engine.explain.decision_log import REFUSED, pass_on
from nova_sched.engine.explain.questions import Questions
from nova_sched.engine.figures import MinuteLog
from nova_sched.engine.groups import outsiders
from nova_sched.engine.groups.member_resolver import MemberResolver, ReplanRequired
from nova_sched.engine.groups.member_state import Library
from nova_sched.engine.groups.operations import GroupOperations
from nova_sched.engine.groups.plans import Plans
from nova_sched.engine.loop import Deferred, Loop, StoreRetry
from nova_sched.engine.place import Placer
from nova_sched.engine.room_figures import RoomFigures
from nova_sched.engine.sync.nova_hosts import NovaHosts
from nova_sched.engine.sync.state_sync import StateSync
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.extension import Part, Seams
from nova_sched.groups.topology import DomainLocator
from nova_sched.measures.catalogue import MEASURES
from nova_sched.tracing import TRACER

LOG = logging.getLogger(__name__)

RELEASE = importlib.metadata.version('nova-sched')

REPORT, CALL, RULES = 'report', 'call', 'rules'
SELECT = 'select_destinations'  # the name of traces


class Scheduler:
    """The interface of the engine. Its public methods may be called from any thread, and wait for
    the loop.

    ``extensions`` maps names to Extensions; ``parts`` has what each does in this process. One that
    fails to begin is logged, and left out, unless it raises BadConfig.
    """

    def __init__(self, context, extensions=MappingProxyType({})):
        self.context = context
        self._cluster, self._store = context.cluster, context.store
        self._settings = context.settings
        self.pauses = context.pauses
        self.figures, self.decision_log = context.figures, context.decision_log
        self._pauses_known, self._knows_clock = self.pauses.count, False
        context.cluster.hosts.lasting_stats = context.topology.stats
        context.store.locator = DomainLocator(
            context.topology, lambda: self._settings().default_zone
        )
        context.store.lifetime_s = lambda: self._settings().pending_ttl_s or 0.0

        handlers = {REPORT: self._report, RULES: self._follow}
        self.loop = Loop(handlers, context.max_batch, self._wake_up)
        self._until_done = StoreRetry(self.loop, context).until_done
        handlers[CALL] = Calls(context.cluster.hosts, self.loop, self._until_done).run
        self.placer = Placer(context.cluster, context.rules, context.random)
        self.state_sync = StateSync(context)
        self.nova_hosts = NovaHosts(context, self.state_sync)
        library, plans = Library(context.store), Plans(context, self.state_sync, self.placer)
        members = MemberResolver(context.cluster, plans, library, self._until_done)
        cycle = Cycle(context, self.loop, self.placer, self.state_sync, members, self._until_done)
        handlers |= {PLACE: cycle.run, WRITTEN: cycle.written}
        self.claim_service = ClaimService(context, self.state_sync, members)
        self.groups = GroupOperations(context, plans, library, self.call)
        self.questions = Questions(context, self.placer)
        self.candidates = HostOffers(
            context, self.place, self._until_done, self.state_sync, self.claim_service
        )
        self._store_poller = StorePoller(
            context, self._ask, self._forget, self._heartbeat, self.state_sync.wake
        )
        self._minute = MinuteLog(context.figures)
        self._room = RoomFigures(context, lambda work: self.loop.send(CALL, (work, ())))
        context.seams = Seams()
        self.parts = dict(self._begin_parts(extensions))
        for name, part in self.parts.items():
            context.seams.join(name, part)

    def _begin_parts(self, extensions):
        for name, extension in extensions.items():
            try:
                part = extension.begin(self)
                if part is None:
                    continue
                if not isinstance(part, Part):
                    raise TypeError(f'{part!r} is not a Part')
                part.follow(self.context.rules)
                yield name, part
            except errors.BadConfig:
                raise
            except Exception:
                LOG.exception('The extension %s cannot begin; it is left out', name)

    def _each_part(self, method, *args, kind=bool):
        """Call a method of all parts. Return what they return, each as a ``kind`` (list or dict).
        What one raises is logged, and the others follow. Raises BadConfig if one does."""
        results = []
        for name, part in self.parts.items():
            try:
                results.append(kind(getattr(part, method)(*args)))
            except errors.BadConfig:
                raise
            except Exception:
                LOG.exception('The extension %s failed: %s', name, method)
        return results

    def start(self):
        """Read the store, then take messages. Raises StoreUnavailable."""
        self._read_clock()
        self.context.membership.heartbeat(self._figures())
        self.state_sync.refresh()
        self.pauses.start()
        self.loop.start()
        self.decision_log.start()
        self._store_poller.start()
        self._each_part('start')
        MEASURES.follow('filters', measuring.count_steps)
        MEASURES.follow('room', self._room.refresh)

    def leave(self):
        """Answer pending messages now. Those that wait for the database fail with
        StoreUnavailable."""
        self._each_part('leave')
        self.loop.hurry()

    def endpoints(self, bus):
        """What the extensions have the RPC server serve on this bus. Called once, before it
        listens."""
        return list(itertools.chain.from_iterable(self._each_part('endpoints', bus, kind=list)))

    def stop(self):
        """Answer pending messages and take no more."""
        MEASURES.forget('room')
        self._store_poller.leave()
        self.loop.hurry()  # threads of extensions may wait for the loop
        self._each_part('stop')
        self.loop.stop()
        self._store_poller.join()
        self.decision_log.stop()
        self.groups.close()
        self.pauses.stop()
        self.context.membership.leave()

    @property
    def clock(self):
        """The store's clock: calling it gives seconds since the epoch."""
        return self.context.clock

    @property
    def position_and_count(self):
        """(position, count): the position of this scheduler, from 0, among the live schedulers
        that share the store, and their number."""
        return self.context.membership.position_and_count

    @property
    def sharing(self):
        """The hosts of the live schedulers that share the store."""
        return self.context.membership.hosts

    @property
    def has_hosts(self):
        """Whether any compute node is known."""
        return len(self._cluster) > 0

    # The API.

    def place(self, requests, alternates=False, claim=True, context=None, ranked=0):
        """Choose and claim a host for each request of one call, all or nothing.

        Returns a list of Selected for each request: the chosen host, then alternates. Raises
        NoValidHost.
        """
        return self.begin_place(requests, alternates, claim, context, ranked).result()

    def begin_place(self, requests, alternates=False, claim=True, context=None, ranked=0):
        """As ``place``, but does not wait: returns a Deferred."""
        poll_due = self.context.before_refusal is not None
        trace = None
        if TRACER.sink is not None:
            trace = TRACER.begin(SELECT, instances=len(requests))
        order = Order(requests, alternates, claim, context, ranked, poll_due=poll_due, trace=trace)
        future = self.loop.send(PLACE, order)
        if trace is not None:
            trace.attributes['request_id'] = order.request_id or ''
            trace.end_with(future)
        return Deferred(future, lambda: self._wait_for(order, future))

    def _send_again(self, order):
        """Send the loop an order once more, with a trace of its own. Returns its Future."""
        trace = order.trace and order.trace.again()
        future = self.loop.send(PLACE, dataclasses.replace(order, trace=trace))
        if trace is not None:
            trace.end_with(future)
        return future

    def _wait_for(self, order, future):
        """The answer to an order, after the work that the loop has left to its caller's thread."""
        try:
            return future.result()
        except ReplanRequired as error:
            request, refusal = error.request, None
        except PollRequired as error:
            request, refusal = None, error.refusal
        if request is not None:
            return self._place_replanned(order, request)
        requests = self.context.before_refusal(order.requests, refusal)
        order = dataclasses.replace(order, requests=requests, poll_due=False)
        return self._wait_for(order, self._send_again(order))

    def for_caller(self, refusal, context):
        """The NoValidHost with the text that the caller may pass on to a tenant."""
        return callers.for_caller(refusal, context.request_id, self._settings().tell_callers)

    def _place_replanned(self, order, request):
        """Place an order after its member's group was replanned for it, repeatedly if need be."""
        attempts = self._settings().plan_attempts
        for _ in range(attempts):
            if not order.claim:
                path = request.member_placement.member
                raise errors.MemberRefused(path, 'its group would be replanned for it')
            self._replan(order, request)
            order = dataclasses.replace(order, replanned=True)
            try:
                return self._send_again(order).result()
            except ReplanRequired as error:
                request = error.request
        raise errors.TooManyConflicts(attempts)

    def _replan(self, order, request):
        try:
            self.groups.replan_for(request)
        except errors.NoValidHost as refusal:
            details = reasons.bare(refusal.reason, len(self._cluster), 1)
            pass_on(self.context, self._settings(), order, REFUSED, lambda: details)
            raise

    def report(self, report):
        """Apply a node's report. Returns NodeFacts: the accepted report, the claims and the
        unclaimed usage."""
        return self.begin_report(report).result()

    def begin_report(self, report):
        """As ``report``, but does not wait: returns a Future."""
        return self.loop.send(REPORT, report)

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
        room = self.call(self.questions.room, request)
        while not self.call(self.questions.try_some, room):
            pass
        return capacity.summed(room)

    def follow(self, rules):
        """Use these rules from the next batch on. Does not wait: returns a Future."""
        return self.loop.send(RULES, rules)

    def _ask(self, method, *args):
        """Call a method of ``state_sync`` by name, for the store poller."""
        return self.call(getattr(self.state_sync, method), *args)

    def _forget(self):
        settings = self._settings()
        before_s = self.context.clock() - settings.explain_retention_s
        self.decision_log.forget(before_s, settings.explain_most_placed)
        self.candidates.forget()
        self.context.membership.forget()
        self._store.forget_groups()
        self.groups.mend_domains()

    def _heartbeat(self):
        """Write a heartbeat, for the store poller. Once a minute, log the figures if anything
        happened."""
        self._read_clock()
        self.context.membership.heartbeat(self._figures())
        self._minute.tell(self.position_and_count)

    def _read_clock(self):
        """Read the store's clock. Time that passed there and not here is a suspension of the
        machine.

        An outage of the store while this process runs is not a pause.
        """
        if not isinstance(self.context.clock, StoreClock):
            return
        before_s = self.context.clock.at(0.0)
        self.context.clock.read_store()
        missed_s = self.context.clock.at(0.0) - before_s
        if self._knows_clock and missed_s > STILL_S:
            self.pauses.found(missed_s)
        self._knows_clock = True

    def _figures(self):
        return {
            **dict(ChainMap(*self._each_part('figures', kind=dict))),
            **self.figures.plain(),
            'clock_offset_s': round(getattr(self.context.clock, 'offset_s', 0.0), 3),
            'release': RELEASE,
        }

    # The loop.

    def _wake_up(self):
        """After a pause, before the next batch: read the changes in the store.

        The store validates decisions from before the pause like any other.
        """
        self.pauses.tick()
        count = self.pauses.count
        if count == self._pauses_known:
            return
        try:
            self._until_done(self._read_clock)
            self._until_done(self.state_sync.refresh)
        except errors.StoreUnavailable as error:
            LOG.warning('%s; the host state may be as old as the pause', error)
        else:
            self._pauses_known = count

    # Handlers: these run in the loop.

    def _report(self, messages):
        good, begin_s = [], time_slice.hold_clock()
        for message in messages:
            try:
                self.state_sync.check_owner(message.work)
                good.append(message)
            except errors.Invalid as error:
                message.fail(error)
        if good:
            reports = [message.work for message in good]
            before = outsiders.carried(self._cluster, {report.node_uuid for report in reports})
            node_facts = self._until_done(self._store.report, reports)
            for message, facts in zip(good, node_facts, strict=True):
                self.state_sync.adopt(facts)
                message.answer(facts)
            outsiders.tell(self._cluster, self._store, before)
        if MEASURES.is_on:
            measuring.record_hold(REPORT, (time_slice.hold_clock() - begin_s) / len(messages))

    def _follow(self, messages):
        self.placer.follow(messages[-1].work)
        self._each_part('follow', messages[-1].work)
        for message in messages:
            message.answer(None)

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
"""The scheduler: takes messages, decides in batches, commits their claims together, answers each."""

import collections
import dataclasses
import logging
import time
from typing import Any

from nova_sched import errors
from nova_sched.engine import capacity, explain
from nova_sched.engine.books import Books
from nova_sched.engine.loop import Loop, Message
from nova_sched.engine.place import Placer
from nova_sched.engine.questions import Questions
from nova_sched.engine.trails import PLACED, REFUSED, Trails, trail
from nova_sched.engine.watch import Watch

LOG = logging.getLogger(__name__)

PLACE, REPORT, CALL, RULES = 'place', 'report', 'call', 'rules'
LATEST = 32768  # decisions whose times are kept


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One request on its way through the engine: for one instance or several.

    ``claim`` False only asks: nothing stays booked. ``context`` is oslo.context's, for the log.
    """

    requests: list
    alternates: bool = False
    claim: bool = True
    context: Any = None

    @property
    def request_id(self):
        return getattr(self.context, 'request_id', None)


def _latest():
    return collections.deque(maxlen=LATEST)


@dataclasses.dataclass(slots=True)
class Figures:
    """Counts since the start, and what the latest decisions took, in seconds.

    ``decided_s`` is filters, weighers and booking of one request; ``answered_s`` all of its time in the
    engine, from the queue until its claims are durable.
    """

    placed: int = 0
    refused: int = 0
    conflicts: int = 0
    batches: int = 0
    decided_s: collections.deque = dataclasses.field(default_factory=_latest)
    answered_s: collections.deque = dataclasses.field(default_factory=_latest)


class Scheduler:
    """Everything behind the doors. Its public methods may be called from any thread, and wait for the loop.

    ``settings`` is a function that returns the current Settings; ``clock`` gives seconds since the epoch.
    Without ``trails`` they are kept in this process.
    """

    def __init__(self, cluster, store, rules, settings, random, clock=time.time, max_batch=64, trails=None):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._clock = clock
        self._placer = Placer(cluster, rules, random)
        handlers = {PLACE: self._place, REPORT: self._report, CALL: self._call, RULES: self._follow}
        self.loop = Loop(handlers, max_batch)
        self.books = Books(cluster, store, settings, clock)
        self.questions = Questions(cluster, self._placer, settings, clock)
        self.trails = trails or Trails()
        self._watch = Watch(cluster, store, settings, self._ask, self._forget)
        self.figures = Figures()
        self._away = False  # whether the database did not answer last time

    def start(self):
        """Learn what the store knows, then take messages. Raises StoreUnavailable."""
        self.books.refresh()
        self.loop.start()
        self.trails.start()
        self._watch.start()

    def leave(self):
        """Answer what is in flight now: with StoreUnavailable, where the database does not answer."""
        self.loop.hurry()

    def stop(self):
        """Answer what is in flight and take no more."""
        self._watch.leave()
        self.loop.stop()
        self._watch.join()
        self.trails.stop()

    # Doors.

    def place(self, requests, alternates=False, claim=True, context=None):
        """Choose and claim a host for each request of one call, all or nothing.

        Returns for each a list of Selected: the chosen host, then alternates. Raises NoValidHost.
        """
        return self.loop.send(PLACE, Order(requests, alternates, claim, context)).result()

    def report(self, report):
        """Take a node's report. Returns NodeFacts: what was accepted, the claims and the foreign use."""
        return self.loop.send(REPORT, report).result()

    def call(self, work, *args):
        """Run a function (of ``books`` or ``questions``) in the loop and return what it returns."""
        return self.loop.send(CALL, (work, args)).result()

    def capacity(self, request):
        """How many more instances like this one fit, one after the other, if nothing else changes.

        ``total``; ``at_least``, whether that is only what could be counted in time; ``hosts`` that take any;
        ``zones``, name to number; ``aggregates``: ``id``, ``name``, ``total`` of each. A host in several
        zones or aggregates counts in each. The members of an affinity group that is nowhere yet have to go to
        one host: then each number is that of the host that takes most.
        """
        room, end = self.call(self.questions.room, request), time.monotonic() + capacity.BUDGET_S
        while room.kinds is not None and time.monotonic() < end:
            if self.call(self.questions.try_some, room):
                break
        return capacity.summed(room)

    def follow(self, rules):
        """Decide by these rules from the next batch on. Does not wait: returns a Future."""
        return self.loop.send(RULES, rules)

    def _ask(self, method, *args):
        """Have the books do something, by name, for the watch."""
        return self.call(getattr(self.books, method), *args)

    # Handlers: these run in the loop.

    def _place(self, messages):
        """Decide each on what the earlier ones left, commit all claims at once, answer each."""
        settings = self._settings()
        self._cluster.hosts.now_s = self._clock()
        self.figures.batches += 1
        now, later = _apart(messages)
        decided = [(message, decision) for message in now
                   if (decision := self._decide(message, settings)) is not None]  # fmt: skip
        outcomes = self._commit([decision for _, decision in decided])
        lost = [(*pair, outcome) for pair, outcome in zip(decided, outcomes, strict=True) if not outcome.won]
        picked = [self._placement(decision) for _, decision, _ in lost]
        again = self._take_back(lost, settings)
        for (message, decision), outcome in zip(decided, outcomes, strict=True):
            if outcome.won:
                self.books.follow(outcome.generations)
                self._placed(message, decision, settings)
        # Only now: nodes may have left, and rows that answers are made of would move.
        self._persist(self.books.learn, picked)
        return again + later

    def _decide(self, message, settings):
        """The decision, if it has claims to commit; None if the message has its answer already."""
        order, begin_s = message.work, time.perf_counter()
        noted = self.trails.sampled(settings.explain_sample)
        try:
            chosen_by = _spread(settings, message.attempts)
            decision = self._placer.decide(
                order.requests, chosen_by, order.alternates, order.request_id, noted
            )
            if order.claim and decision.claims:
                return decision
            self._only_asked(message, decision, settings)
        except errors.NoValidHost as error:
            self.figures.refused += 1
            message.fail(error)
            self._log(message, error.trail, explain.in_short(error.details))
            self._keep(order, REFUSED, error.details, settings)
        except errors.SchedError as error:
            message.fail(error)  # a rule says what is wrong with the request, or with an option
        except Exception as error:
            LOG.exception('Request %s failed in a rule', order.request_id)
            message.fail(error)
        finally:
            self.figures.decided_s.append(time.perf_counter() - begin_s)
        return None

    def _only_asked(self, message, decision, settings):
        """Answer a request that claims nothing; those after it see no trace of it."""
        try:
            self._placed(message, decision, settings)
        finally:
            self._placer.undo(decision)

    def _placed(self, message, decision, settings):
        hosts = dict.fromkeys(self._cluster.hosts.nodes[row].host for row in decision.rows)
        answer = self._placer.answer(decision, settings, message.work.alternates)
        self.figures.placed += len(decision.rows)
        message.answer(answer)
        # Nobody waits for the rest.
        self._log(message, decision.trail, 'chose ' + ', '.join(hosts))
        if decision.noted:
            self._keep(message.work, PLACED, explain.placement(decision, answer), settings)

    def _keep(self, order, outcome, details, settings):
        """Have the trail of a decision kept."""
        if settings.explain_retention_s:
            self.trails.keep(trail(order, outcome, self._clock(), details))

    def _forget(self):
        self.trails.forget(self._clock() - self._settings().explain_retention_s)

    def _commit(self, decisions):
        """Each decision's outcome. If the store cannot take them, none of them stays booked."""
        if not decisions:
            return []
        try:
            return self._persist(self._store.commit, list(map(self._placement, decisions)))
        except Exception:
            for decision in decisions:
                self._placer.undo(decision)
            raise

    def _placement(self, decision):
        return self.books.placement(decision.claims)

    def _take_back(self, lost, settings):
        """Undo lost decisions, learn the true use of their nodes, and return what is decided again.

        All are undone before any use is corrected: each of them still stands on the nodes of the others.
        """
        for _, decision, _ in lost:
            self._placer.undo(decision)
        for _, _, outcome in lost:
            self.books.correct(outcome.used)
        return [message for message, decision, _ in lost if self._may_try_again(message, decision, settings)]

    def _may_try_again(self, message, decision, settings):
        self.figures.conflicts += 1
        if message.attempts + 1 < settings.max_claim_attempts:
            message.attempts += 1
            return True
        self.figures.refused += 1
        error = errors.TooManyConflicts(message.attempts + 1)
        message.fail(error)
        self._log(message, decision.trail, 'others took each first')
        self._keep(message.work, REFUSED, explain.conflict(decision, error.reason), settings)
        return False

    def _persist(self, work, *args):
        """Do the store's work; while the database is away, say so, wait, and do it again."""
        failures = 0
        while True:
            try:
                found = work(*args)
                self._tell(None)
                return found
            except errors.StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    continue  # a lock that took too long, or a connection that had died of age
                if self.loop.hurried:
                    raise
                self._tell(error)
                self.loop.pause(self._settings().retry_interval_s)

    def _report(self, messages):
        good = []
        for message in messages:
            try:
                self.books.check_owner(message.work)
                good.append(message)
            except errors.Invalid as error:
                message.fail(error)
        if good:
            found = self._persist(self._store.report, [message.work for message in good], self._clock())
            for message, facts in zip(good, found, strict=True):
                self.books.adopt(facts)
                message.answer(facts)

    def _call(self, messages):
        for message in messages:
            work, args = message.work
            try:
                message.answer(self._persist(work, *args))
            except errors.SchedError as error:
                message.fail(error)
            except Exception as error:
                LOG.exception('The engine failed on %s', getattr(work, '__name__', work))
                message.fail(error)

    def _follow(self, messages):
        self._placer.follow(messages[-1].work)
        for message in messages:
            message.answer(None)

    def _tell(self, error):
        """Say that the database went away, and that it is back: each once."""
        if error is not None and not self._away:
            LOG.error('%s; requests wait until it does', error)
        elif error is None and self._away:
            LOG.info('The database answers again')
        self._away = error is not None

    def _log(self, message, trail, what):
        """One line for each decision, and its time among the figures."""
        order, took_s = message.work, time.monotonic() - message.since_s
        self.figures.answered_s.append(took_s)
        LOG.info(
            'Decided %s: %d instances, first %s; hosts %d -> %d, %s; attempt %d, %.1f ms',
            order.request_id or '-',
            len(order.requests),
            order.requests[0].instance_uuid,
            len(self._cluster),
            trail[-1].left if trail else 0,
            what,
            message.attempts + 1,
            took_s * 1000,
            extra={'context': order.context},
        )


def _spread(settings, losses):
    """Settings by which one who has lost chooses: among more of the best hosts each time.

    Schedulers that all want the very best one would run after it together again and again.
    """
    if not losses:
        return settings
    return dataclasses.replace(settings, subset_size=max(settings.subset_size, 4**losses))


def _apart(messages):
    """Messages that share no instance, and those that must wait because an earlier one is about the same."""
    seen, now, later = set[str](), list[Message](), list[Message]()
    for message in messages:
        instances = {request.instance_uuid for request in message.work.requests}
        (now if seen.isdisjoint(instances) else later).append(message)
        seen |= instances
    return now, later

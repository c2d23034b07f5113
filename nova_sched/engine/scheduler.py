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

import dataclasses
import logging
import time
from typing import Any

from nova_sched import errors
from nova_sched.engine import capacity, explain, slices
from nova_sched.engine.books import Books
from nova_sched.engine.candidates import Candidates
from nova_sched.engine.crowd import Crowd
from nova_sched.engine.figures import Figures, Minute
from nova_sched.engine.freshness import Freshness
from nova_sched.engine.loop import Loop, Message
from nova_sched.engine.place import Placer
from nova_sched.engine.questions import Questions
from nova_sched.engine.trails import PLACED, REFUSED, Trails, trail
from nova_sched.engine.watch import Watch

LOG = logging.getLogger(__name__)

PLACE, REPORT, CALL, RULES, NEWS = 'place', 'report', 'call', 'rules', 'news'
LOSSES = 3  # after so many lost claims a request is decided on a new look at the store
# A transaction that others stop is made again this often, after a pause of up to as many times that long.
BUSY, BUSY_PAUSE_S = 20, 0.002


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One request on its way through the engine: for one instance or several.

    ``claim`` False only asks: nothing stays booked. ``context`` is oslo.context's, for the log. ``ranked``:
    so many of the best hosts for each instance are the answer, in place of alternates. ``made_s``: when it
    came, in seconds since the epoch.
    """

    requests: list
    alternates: bool = False
    claim: bool = True
    context: Any = None
    ranked: int = 0
    made_s: float = dataclasses.field(default_factory=time.time)

    @property
    def request_id(self):
        return getattr(self.context, 'request_id', None)


class Scheduler:
    """Everything behind the doors. Its public methods may be called from any thread, and wait for the loop.

    ``settings`` is a function that returns the current Settings; ``clock`` gives seconds since the epoch.
    Without ``trails`` they are kept in this process, and so are ``candidates`` without a store of them.
    ``news`` (a Herald) tells other schedulers what is done here, ``crowd`` knows who they are.
    """

    def __init__(
        self,
        cluster,
        store,
        rules,
        settings,
        random,
        clock=time.time,
        max_batch=64,
        trails=None,
        candidates=None,
        news=None,
        crowd=None,
    ):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._clock = clock
        self._random = random
        self._placer = Placer(cluster, rules, random)
        self.figures = Figures()
        self._crowd = crowd or Crowd()
        self.fresh = Freshness(cluster, news, self._turn_to_news, self.figures, clock)
        handlers = {PLACE: self._place, REPORT: self._report, CALL: self._call, RULES: self._follow}
        self.loop = Loop({**handlers, NEWS: self.fresh.take}, max_batch)
        self.books = Books(cluster, store, settings, clock, self.fresh)
        self.questions = Questions(cluster, self._placer, settings, clock)
        self.trails = trails or Trails()
        self.candidates = Candidates(self.place, self._persist, self.books, settings, clock, candidates)
        beside = {'also': self._forget, 'sign': self._sign, 'wake': self.fresh.wake, 'figures': self.figures}
        self._watch = Watch(cluster, store, settings, self._ask, **beside)
        self._minute = Minute(self.figures)
        self._doubted = []  # (message, error): refused, by what is known here
        self._away = False  # whether the database did not answer last time

    def start(self):
        """Learn what the store knows, then take messages. Raises StoreUnavailable."""
        self._crowd.sign(self.figures.plain())  # before all is read: who does not see us yet need not tell us
        self.books.refresh()
        self.loop.start()
        self.trails.start()
        self.fresh.herald.start()
        self._watch.start()

    def leave(self):
        """Answer what is in flight now: with StoreUnavailable, where the database does not answer."""
        self.loop.hurry()

    def stop(self):
        """Answer what is in flight and take no more."""
        self._watch.leave()
        self.loop.stop()
        self._watch.join()
        self.fresh.herald.stop()
        self.trails.stop()
        self._crowd.leave()

    @property
    def uuid(self):
        """This scheduler's among those that share the store."""
        return self._crowd.uuid

    @property
    def crowd(self):
        """(place, count): how many schedulers share the store and are alive; its place among them, from 0."""
        return self._crowd.standing

    # Doors.

    def place(self, requests, alternates=False, claim=True, context=None, ranked=0):
        """Choose and claim a host for each request of one call, all or nothing.

        Returns for each a list of Selected: the chosen host, then alternates. Raises NoValidHost.
        """
        return self.loop.send(PLACE, Order(requests, alternates, claim, context, ranked)).result()

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

    def hear(self, news):
        """Take what another scheduler tells (News). Does not wait."""
        self.fresh.hear(news)

    def _turn_to_news(self):
        self.loop.send(NEWS, None)

    def _ask(self, method, *args):
        """Have the books do something, by name, for the watch."""
        return self.call(getattr(self.books, method), *args)

    # Handlers: these run in the loop.

    def _place(self, messages):
        """Decide each on what the earlier ones left, commit all claims at once, answer each."""
        settings = self._settings()
        self._cluster.hosts.now_s = self._clock()
        self.figures.batches += 1
        now, later = self._next(messages)
        decided = [(message, decision) for message in now
                   if (decision := self._decide(message, settings)) is not None]  # fmt: skip
        outcomes = self._commit([decision for _, decision in decided])
        lost = [(*pair, outcome) for pair, outcome in zip(decided, outcomes, strict=True) if not outcome.won]
        again = self._take_back(lost, settings)
        for (message, decision), outcome in zip(decided, outcomes, strict=True):
            if outcome.won:
                self.books.follow(outcome.generations)
                self._placed(message, decision, settings)
        self.fresh.committed([
            (decision.claims, decision.lifted, outcome.generations)
            for (_, decision), outcome in zip(decided, outcomes, strict=True)
            if outcome.won
        ])  # fmt: skip
        # Only now: nodes may have left, and rows that answers are made of would move.
        self.books.learn([outcome for _, _, outcome in lost])
        return again + self._doubt(settings) + later

    def _next(self, messages):
        """The messages to decide now, and those that wait for the next turn.

        Who has lost again and again, and would run after one host after the other, is decided alone, on what
        the store says at this moment: until a whole batch is decided, others would be quicker.
        """
        unlucky = next((message for message in messages if message.attempts >= LOSSES), None)
        if unlucky is None:
            return _apart(messages)
        self._persist(self.books.look_again)
        return [unlucky], [message for message in messages if message is not unlucky]

    def _doubt(self, settings):
        """Look at the store before anybody is refused; returns the messages to decide again.

        What is seen here may be older than what others did. If nothing is, the refusals stand.
        """
        doubted, self._doubted = self._doubted, []
        if not doubted:
            return []
        changed = self._persist(self.books.look_again)
        self.figures.retries += len(doubted) if changed else 0
        for message, error in doubted:
            message.looked = True
            if not changed:
                self._refuse(message, error, settings)
        return [message for message, _ in doubted] if changed else []

    def _refuse(self, message, error, settings):
        self.figures.refused += 1
        message.fail(error)
        self._log(message, error.trail, explain.in_short(error.details))
        self._keep(message.work, REFUSED, error.details, settings)

    def _decide(self, message, settings):
        """The decision, if it has claims to commit; None if the message has its answer already."""
        order, begin_s = message.work, time.perf_counter()
        noted = self.trails.sampled(settings.explain_sample)
        try:
            chosen_by = slices.settings_for(settings, self.crowd, message.attempts)
            decision = self._placer.decide(
                order.requests,
                chosen_by,
                order.alternates,
                order.request_id,
                noted,
                order.ranked,
                order.made_s,
            )
            if order.claim and decision.claims:
                return decision
            self._only_asked(message, decision, settings)
        except errors.NoValidHost as error:
            if message.looked:
                self._refuse(message, error, settings)
            else:
                self._doubted.append((message, error))
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
        self.candidates.forget()
        self._crowd.forget()
        self._store.forget_groups()

    def _sign(self):
        """A sign of life, for the watch; and once a minute, if anything happened, a line of figures."""
        self._crowd.sign(self.figures.plain())
        self._minute.tell(self.crowd)

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
        return self.books.placement(decision.claims, decision.requests, (), decision.lifted)

    def _take_back(self, lost, settings):
        """Undo lost decisions, and return what is decided again."""
        for _, decision, _ in lost:
            self._placer.undo(decision)
        return [message for message, decision, _ in lost if self._may_try_again(message, decision, settings)]

    def _may_try_again(self, message, decision, settings):
        self.figures.conflicts += 1
        if message.attempts + 1 < settings.max_claim_attempts:
            message.attempts += 1
            self.figures.retries += 1
            return True
        self.figures.refused += 1
        error = errors.TooManyConflicts(message.attempts + 1)
        message.fail(error)
        self._log(message, decision.trail, 'others took each first')
        self._keep(message.work, REFUSED, explain.conflict(decision, error.reason), settings)
        return False

    def _persist(self, work, *args):
        """Do the store's work; while the database is away, say so, wait, and do it again.

        Who was stopped by a deadlock comes back at once, but not at the same moment as the other one.
        """
        failures = 0
        while True:
            try:
                found = work(*args)
                self._tell(None)
                return found
            except errors.StoreUnavailable as error:
                failures += 1
                if isinstance(error, errors.StoreBusy) and failures < BUSY:
                    self.figures.busy += 1
                    self.loop.pause(self._random.uniform(0, BUSY_PAUSE_S * failures))
                    continue
                if failures == 1:
                    continue  # a connection that had died of age
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
                self.fresh.reported(facts)
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


def _apart(messages):
    """Messages that share no instance, and those that must wait because an earlier one is about the same."""
    seen, now, later = set[str](), list[Message](), list[Message]()
    for message in messages:
        instances = {request.instance_uuid for request in message.work.requests}
        (now if seen.isdisjoint(instances) else later).append(message)
        seen |= instances
    return now, later

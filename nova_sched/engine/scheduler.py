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
from nova_sched.claims import Placement
from nova_sched.engine.books import Books
from nova_sched.engine.loop import Loop
from nova_sched.engine.place import Placer

LOG = logging.getLogger(__name__)

PLACE, REPORT, CALL = 'place', 'report', 'call'


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


@dataclasses.dataclass(slots=True)
class Figures:
    """Counts since the start."""

    placed: int = 0
    refused: int = 0
    conflicts: int = 0
    batches: int = 0


class Scheduler:
    """Everything behind the doors. Its public methods may be called from any thread, and wait for the loop.

    ``settings`` is a function that returns the current Settings; ``clock`` gives seconds since the epoch.
    """

    def __init__(self, cluster, store, rules, settings, random, clock=time.time, max_batch=64):
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._clock = clock
        self._placer = Placer(cluster, rules, random)
        self._loop = Loop(
            {PLACE: self._place, REPORT: self._report, CALL: self._call}, self._upkeep, max_batch
        )
        self.books = Books(cluster, store, settings, clock)
        self.figures = Figures()

    def start(self):
        """Learn what the store knows, then take messages. Raises StoreUnavailable."""
        self.books.refresh()
        self._loop.start()

    def stop(self):
        """Answer what is in flight and take no more."""
        self._loop.stop()

    # Doors.

    def place(self, requests, alternates=False, claim=True, context=None):
        """Choose and claim a host for each request of one call, all or nothing.

        Returns for each a list of Selected: the chosen host, then alternates. Raises NoValidHost.
        """
        return self._loop.send(PLACE, Order(requests, alternates, claim, context)).result()

    def report(self, report):
        """Take a node's report. Returns NodeFacts: what was accepted, the claims and the foreign use."""
        return self._loop.send(REPORT, report).result()

    def call(self, work, *args):
        """Run a function (of ``books``) in the loop and return what it returns."""
        return self._loop.send(CALL, (work, args)).result()

    # Handlers: these run in the loop.

    def _place(self, messages):
        """Decide each on what the earlier ones left, commit all claims at once, answer each."""
        settings = self._settings()
        self._cluster.hosts.now_s = self._clock()
        self.figures.batches += 1
        decided = [(message, decision) for message in messages
                   if (decision := self._decide(message, settings)) is not None]  # fmt: skip
        outcomes = self._commit(decided)
        again = []
        for (message, decision), outcome in zip(decided, outcomes, strict=True):
            if outcome is None or outcome.won:
                self._won(message, decision, outcome, settings)
            elif not self._lost(message, decision, outcome, settings):
                again.append(message)
        return again

    def _decide(self, message, settings):
        order = message.work
        try:
            return self._placer.decide(order.requests, settings, order.alternates, order.request_id)
        except errors.NoValidHost as error:
            self.figures.refused += 1
            self._log(message, error.trail, None)
            message.fail(error)
        except Exception as error:
            LOG.exception('Request %s failed in a rule', order.request_id)
            message.fail(error)
        return None

    def _commit(self, decided):
        """Each decision's outcome; None where there was nothing to claim."""
        claims = [decision.claims if message.work.claim else () for message, decision in decided]
        placements = [Placement(one) for one in claims if one]
        found = iter(self._persist(self._store.commit, placements) if placements else ())
        return [next(found) if one else None for one in claims]

    def _persist(self, work, *args):
        """Do the store's work; while the database is away, say so, wait, and do it again."""
        told = False
        while True:
            try:
                return work(*args)
            except errors.StoreUnavailable as error:
                if self._loop.stopping:
                    raise
                if not told:
                    LOG.error('%s; requests wait until it does', error)
                told = True
                time.sleep(self._settings().retry_interval_s)

    def _won(self, message, decision, outcome, settings):
        if outcome is not None:
            self.books.follow(outcome.generations)
        self.figures.placed += len(decision.rows)
        self._log(message, decision.trail, [self._cluster.hosts.nodes[row].host for row in decision.rows])
        answer = self._placer.answer(decision, settings, message.work.alternates)
        if not message.work.claim:
            self._placer.undo(decision)
        message.answer(answer)

    def _lost(self, message, decision, outcome, settings):
        """Take a lost decision back and learn the true use. Returns whether that was the last try."""
        self.figures.conflicts += 1
        self._placer.undo(decision)
        self.books.correct(outcome.used)
        message.attempts += 1
        if message.attempts < settings.max_claim_attempts:
            return False
        self.figures.refused += 1
        message.fail(errors.TooManyConflicts(message.attempts))
        return True

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

    def _upkeep(self):
        try:
            self.books.upkeep()
        except errors.StoreUnavailable as error:
            LOG.warning('%s; what other schedulers do is not seen until it does', error)

    def _log(self, message, trail, chosen):
        """One line for each decision."""
        order = message.work
        LOG.info(
            'Decided %s: %d instances, first %s; hosts %d -> %d, %s; attempt %d, %.1f ms',
            order.request_id or '-',
            len(order.requests),
            order.requests[0].instance_uuid,
            trail[0].seen if trail else len(self._cluster),
            trail[-1].left if trail else 0,
            'chose ' + ', '.join(dict.fromkeys(chosen))
            if chosen
            else f'none after {trail[-1].name if trail else "-"}',
            message.attempts + 1,
            (time.monotonic() - message.since_s) * 1000,
            extra={'context': order.context},
        )

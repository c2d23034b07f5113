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
"""Batches of orders: each is decided on the state that the one before left, all are committed at
once, each is answered."""

import dataclasses
import itertools
import logging
import time
from typing import Any

from nova_sched import errors
from nova_sched.engine import slices
from nova_sched.engine.explain import reasons
from nova_sched.engine.explain.decision_log import PLACED, REFUSED, record
from nova_sched.engine.groups.member_resolver import (
    MEMBER,
    ReplanRequired,
    group_of,
    is_member,
    member_of,
)
from nova_sched.engine.loop import Message

LOG = logging.getLogger(__name__)

LOSSES = 3  # after this many lost claims a request is decided after a new read of the store


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One call in the engine: requests for one or several instances.

    ``claim`` False: no claim is kept. ``context`` is the oslo.context of the call, for the log.
    ``ranked``: the number of best hosts that each instance gets as answer, in place of alternates.
    ``settled``: the group of its members was replanned for it.
    """

    requests: list
    alternates: bool = False
    claim: bool = True
    context: Any = None
    ranked: int = 0
    settled: bool = False

    @property
    def request_id(self):
        return getattr(self.context, 'request_id', None)


class Batches:
    """Handles batches of orders, in the loop. ``standing`` returns this scheduler's position and
    the number of schedulers."""

    def __init__(
        self,
        cluster,
        store,
        placer,
        state_sync,
        replica_sync,
        store_retry,
        decision_log,
        figures,
        settings,
        clock,
        standing,
        member_resolver,
    ):
        self._cluster = cluster
        self._store = store
        self._placer = placer
        self._state_sync = state_sync
        self._replica_sync = replica_sync
        self._store_retry = store_retry
        self._decision_log = decision_log
        self._figures = figures
        self._settings = settings
        self._clock = clock
        self._standing = standing
        self._member_resolver = member_resolver

    def place(self, messages):
        """Decide each order on the state that the earlier ones left, commit all claims at once,
        answer each. Returns the messages to decide again."""
        settings = self._settings()
        self._cluster.hosts.now_s = self._clock()
        self._figures.batches += 1
        now, later = self._next(messages)
        doubted: list = []  # (message, error): refused on the host state
        decided = [
            (message, made)
            for message, requests in self._resolve(now)
            if (made := self._decide(message, requests, settings, doubted)) is not None
        ]
        outcomes = self._commit([decision for _, decision in decided])
        lost = [
            (*pair, outcome)
            for pair, outcome in zip(decided, outcomes, strict=True)
            if not outcome.won
        ]
        again = self._take_back(lost, settings) if lost else []
        for (message, decision), outcome in zip(decided, outcomes, strict=True):
            if outcome.won:
                self._state_sync.follow(outcome)
                self._answer(message, decision, settings)
        self._replica_sync.committed([
            (decision.claims, decision.lifted, outcome.generations)
            for (_, decision), outcome in zip(decided, outcomes, strict=True)
            if outcome.won
        ])  # fmt: skip
        # Only now: this may remove nodes, and change the rows that the answers are made of.
        self._state_sync.refenced(outcomes)
        if lost:
            self._state_sync.learn([outcome for _, _, outcome in lost])
        if doubted:
            again += self._doubt(doubted, settings, bool(lost))
        return again + later

    def _next(self, messages):
        """The messages to decide now, and those that wait for the next batch.

        A request that has lost LOSSES times is decided alone, right after a read of the store. In
        a whole batch it would be committed later, and other schedulers would claim its hosts
        first.
        """
        unlucky = next((message for message in messages if message.attempts >= LOSSES), None)
        if unlucky is None:
            return _apart(messages)
        self._store_retry.until_done(self._state_sync.look_again)
        return [unlucky], [message for message in messages if message is not unlucky]

    def _doubt(self, doubted, settings, freed):
        """Read the store before requests are refused. Returns the messages to decide again.

        The host state may be older than the store. If the store has no changes, the refusals
        stand. They do not stand if they were decided on claims of this batch that were undone
        since (``freed``).
        """
        changed = self._store_retry.until_done(self._state_sync.look_again) or freed
        self._figures.retries += len(doubted) if changed else 0
        for message, error in doubted:
            message.looked = not freed
            if not changed:
                self._refuse(message, error, settings)
        return [message for message, _ in doubted] if changed else []

    def _refuse(self, message, error, settings):
        self._figures.refused += 1
        message.fail(error)
        details, what = error.details, error.reason
        if details is None:
            details = reasons.bare(error.reason, len(self._cluster), len(message.work.requests))
        else:
            what = reasons.in_short(details)
        self._log(message, error.steps, what)
        self._keep(message.work, REFUSED, details, settings)

    def _decide(self, message, requests, settings, doubted):
        """The decision, if it has claims to commit; None if the message was answered or added to
        ``doubted``."""
        order, begin_s = message.work, time.perf_counter()
        noted = self._decision_log.sampled(settings.explain_sample)
        try:
            chosen_by = slices.settings_for(settings, self._standing(), message.attempts)
            decision = self._placer.decide(
                requests,
                chosen_by,
                order.alternates,
                order.request_id,
                noted,
                order.ranked,
                message.received,
                order.claim,
            )
            if order.claim and decision.claims:
                return decision
            self._only_asked(message, decision, settings)
        except ReplanRequired as error:
            message.fail(error)
        except errors.NoValidHost as error:
            if message.looked:
                self._refuse(message, error, settings)
            else:
                doubted.append((message, error))
        except errors.SchedError as error:
            message.fail(error)  # invalid request or option, found by a rule
        except Exception as error:
            LOG.exception('Request %s failed in a rule', order.request_id)
            message.fail(error)
        finally:
            self._figures.decided_s.append(time.perf_counter() - begin_s)
        return None

    def _resolve(self, messages):
        """The messages that can be decided, each with its requests. Requests for group members are
        resolved.

        All are resolved before anything is claimed. Reading a group may update nodes from the
        store, and change rows.
        """
        if not any(
            is_member(request) for message in messages for request in message.work.requests
        ):
            return [(message, message.work.requests) for message in messages]
        looks: dict = {}
        for work in (self._look, self._resolved):
            found = [(message, done) for message in messages
                     if (done := self._try(message, work, looks)) is not None]  # fmt: skip
            messages = [message for message, _ in found]
        return found

    def _try(self, message, work, *args):
        """The result of the work on the message's order; None if the message has failed."""
        try:
            return work(message.work, *args)
        except (ReplanRequired, errors.SchedError) as error:
            message.fail(error)
        except Exception as error:
            LOG.exception('Request %s failed while its group was read', message.work.request_id)
            message.fail(error)
        return None

    def _look(self, order, looks):
        """Read the groups of the order's members."""
        members = [request for request in order.requests if is_member(request)]
        if members and len(order.requests) > 1:
            raise errors.MemberRefused(
                str(members[0].hint(MEMBER)), 'several servers cannot be one member'
            )
        for request in members:
            if group_of(request) not in looks:
                looks[group_of(request)] = self._store_retry.until_done(
                    self._member_resolver.look, request
                )
        return True

    def _resolved(self, order, looks):
        """The order's requests; those for group members have their placement."""
        return [
            self._member_resolver.resolved(request, order.settled, looks[group_of(request)])
            if is_member(request)
            else request
            for request in order.requests
        ]

    def _only_asked(self, message, decision, settings):
        """Answer a request that keeps no claims. Its claims are undone before the next request is
        decided."""
        try:
            self._placed(message, decision, settings)
        finally:
            self._placer.undo(decision)

    def _answer(self, message, decision, settings):
        """Answer a committed decision. A failure here does not affect the other decisions."""
        try:
            self._placed(message, decision, settings)
        except Exception as error:
            LOG.exception(
                'Request %s was placed, but its answer cannot be built', message.work.request_id
            )
            message.fail(error)

    def _placed(self, message, decision, settings):
        hosts = dict.fromkeys(self._cluster.hosts.nodes[row].host for row in decision.rows)
        answer = self._placer.answer(decision, settings, message.work.alternates)
        self._figures.placed += len(decision.rows)
        message.answer(answer)
        # The caller does not wait for the log and the record.
        self._log(message, decision.steps, 'chose ' + ', '.join(hosts))
        if decision.noted:
            self._keep(message.work, PLACED, reasons.placement(decision, answer), settings)

    def _keep(self, order, outcome, details, settings):
        """Record a decision."""
        if settings.explain_retention_s:
            self._decision_log.keep(record(order, outcome, self._clock(), details))

    def _commit(self, decisions):
        """The outcome of each decision. If the store fails, all decisions are undone."""
        if not decisions:
            return []
        try:
            return self._store_retry.until_done(
                self._store.commit, list(map(self._placement, decisions))
            )
        except Exception:
            for decision in decisions:
                self._placer.undo(decision)
            raise

    def _placement(self, decision):
        known = (self._cluster.claims_of(request.instance_uuid) for request in decision.requests)
        unplaced = not any(claim.is_confirmed for claim in itertools.chain(*known))
        return self._state_sync.placement(
            decision.claims,
            decision.requests,
            decision.releases,
            decision.lifted,
            unplaced=unplaced,
        )

    def _take_back(self, lost, settings):
        """Undo lost decisions, and return the messages to decide again."""
        for _, decision, _ in lost:
            self._placer.undo(decision)
        return [
            message
            for message, decision, _ in lost
            if self._may_try_again(message, decision, settings)
        ]

    def _may_try_again(self, message, decision, settings):
        self._figures.conflicts += 1
        if message.attempts + 1 < settings.max_claim_attempts:
            message.attempts += 1
            message.looked = False
            self._figures.retries += 1
            return True
        self._figures.refused += 1
        error = errors.TooManyConflicts(message.attempts + 1)
        message.fail(error)
        self._log(message, decision.steps, 'another request claimed each host first')
        self._keep(message.work, REFUSED, reasons.conflict(decision, error.reason), settings)
        return False

    def _log(self, message, steps, what):
        """Log one line for each decision, and record its duration."""
        order, took_s = message.work, time.monotonic() - message.since_s
        self._figures.answered_s.append(took_s)
        LOG.info(
            'Decided %s: %d instances, first %s; hosts %d -> %d, %s; attempt %d, %.1f ms',
            order.request_id or '-',
            len(order.requests),
            order.requests[0].instance_uuid,
            len(self._cluster),
            steps[-1].left if steps else 0,
            what,
            message.attempts + 1,
            took_s * 1000,
            extra={'context': order.context},
        )


def _apart(messages):
    """Messages that share no instance and no group member, and those that must wait for an earlier
    message about the same one."""
    seen, now, later = set[object](), list[Message](), list[Message]()
    for message in messages:
        instances = {request.instance_uuid for request in message.work.requests}
        instances |= {
            member_of(request) for request in message.work.requests if is_member(request)
        }
        (now if seen.isdisjoint(instances) else later).append(message)
        seen |= instances
    return now, later

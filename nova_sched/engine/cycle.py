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
"""The way of an order from the loop to its answer: decided, committed, answered.

Orders that wait at the same time share a batch.
"""

import dataclasses
import logging
import time
from typing import Any

from nova_sched import errors
from nova_sched.claims import ClaimSelector, PlacementOutcome
from nova_sched.engine.answer import Answers, selections
from nova_sched.engine.decide import settings_for
from nova_sched.engine.groups.member_resolver import ReplanRequired, member_of
from nova_sched.engine.loop import Message, WorkRequired
from nova_sched.engine.measuring import Watch
from nova_sched.engine.place import Decision, allows
from nova_sched.engine.time_slice import TimeSlice
from nova_sched.engine.writer import GONE, outcome_of
from nova_sched.measures import catalogue
from nova_sched.measures.catalogue import MEASURES
from nova_sched.state.request import RequestedDestination
from nova_sched.state.vocab import Unfinished
from nova_sched.tracing import TRACER, Trace

LOG = logging.getLogger(__name__)

MAX_PAUSES = 4  # of one decision; then it goes on to its end
MAX_LOSSES = 3  # after this many lost claims a request is decided after a new read of the store
PLACE, WRITTEN = 'place', 'written'  # kinds of messages
NOT_WRITTEN = 'Placement did not take the allocations.'  # what a tenant reads of a refusal
UNANSWERED = 'Request %s was placed, but its answer cannot be built'


class PollRequired(WorkRequired):
    """No host was found, but hosts may have changed: ``refusal`` (NoValidHost) stands only if none
    is found after a poll."""

    def __init__(self, refusal):
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One call in the engine: requests for one or several instances.

    ``claim`` False: no claim is kept. ``context`` is the oslo.context of the call, for the log.
    ``ranked``: the number of best hosts that each instance gets as answer, in place of alternates.
    ``replanned``: the group of its members was replanned for it. ``poll_due``: the hosts have to
    be polled before it is refused. ``trace`` is a tracing.Trace; None: the request is not
    traced.
    """

    requests: list
    alternates: bool = False
    claim: bool = True
    context: Any = None
    ranked: int = 0
    replanned: bool = False
    poll_due: bool = False
    trace: Trace | None = None

    @property
    def request_id(self):
        return getattr(self.context, 'request_id', None)


@dataclasses.dataclass(slots=True)
class Attempt:
    """One attempt to place a message's order.

    It ends without a ``decision`` if the message was answered, if the decision was paused (the
    message has a ``rest``), or with a ``refusal`` (NoValidHost) that stands only if the host state
    is current. ``outcome`` is the store's result for the decision's claims, ``answer`` has a list
    of Selected for each instance.
    """

    message: Message
    decision: Decision | None = None
    refusal: errors.NoValidHost | None = None
    outcome: PlacementOutcome | None = None
    answer: list | None = None


class Cycle:
    """Places orders, a batch at a time. Runs in the loop only.

    ``until_done`` runs work on the store, and waits while the store is down. Without a writer of
    the context, callers are answered as soon as the store has their claims.
    """

    def __init__(self, context, loop, placer, state_sync, members, until_done):
        self._context, self._cluster = context, context.cluster
        self._loop, self._placer, self._state_sync = loop, placer, state_sync
        self._members, self._until_done = members, until_done
        self._writer = context.writer
        self._answers = Answers(context)
        self._slice = TimeSlice(self._others_wait, context.monotonic)
        self._has_waiting, self._paused = False, set[Message]()
        self._watch = Watch(self._slice)
        # (watch,) while metrics are shown or requests may be traced; else nothing is called.
        self._watching: tuple[Watch, ...] = ()

    def run(self, messages):
        """Decide each order on the state that the earlier ones left, commit all claims at once,
        answer each. Returns the messages to decide again."""
        settings, figures = self._context.settings(), self._context.figures
        self._cluster.hosts.now_s = self._context.clock()
        figures.batches += 1
        now, later = self._select(messages)
        self._watching = (self._watch,) if MEASURES.is_on or TRACER.sink else ()
        for watch in self._watching:
            watch.begun(now)
        self._slice.end_s = None
        self._has_waiting = len(now) > 1
        orders = [(message, message.work.requests) for message in now]
        if any(request.is_member for _, requests in orders for request in requests):
            orders = self._members.resolve_batch(now)
        attempts = [self._decide(message, requests, settings) for message, requests in orders]
        for watch in self._watching:
            watch.hold()
        won, lost = self._commit([attempt for attempt in attempts if attempt.decision])
        for attempt in lost:
            self._placer.undo(attempt.decision)
        for attempt in won:
            self._answer(attempt, settings)
        # After the answers: this may remove nodes, and change the rows that answers are made of.
        self._state_sync.committed(
            [attempt.outcome for attempt in won], [attempt.outcome for attempt in lost]
        )
        again = [attempt.message for attempt in lost if self._retry_or_refuse(attempt, settings)]
        if refused := [attempt for attempt in attempts if attempt.refusal]:
            again += self._confirm_refusals(refused, settings, bool(lost))
        if self._paused:
            self._has_waiting = bool(again) or any(message.rest is None for message in later)
            if now:
                self._slice.let()
            self._judge_rest(later)
        paused = [attempt.message for attempt in attempts if attempt.message.rest is not None]
        self._paused.update(paused)
        for watch in self._watching:
            watch.record_hold(PLACE, len(messages))
        return again + paused + later

    # Before the decision.

    def _select(self, messages):
        """The messages to decide now, and those that wait for the next batch.

        A request that has lost MAX_LOSSES times is decided alone, right after a read of the store.
        In a whole batch it would be committed later, and other schedulers would claim its hosts
        first. Otherwise those are decided that share no instance and no group member with an
        earlier message. Paused messages of earlier batches are earlier than these.
        """
        unlucky = next((message for message in messages if message.attempts >= MAX_LOSSES), None)
        if unlucky is not None:
            self._until_done(self._state_sync.poll_again)
            return [unlucky], [message for message in messages if message is not unlucky]
        self._paused = {message for message in self._paused if not message.future.done()}
        seen, now, later = set[object](), list[Message](), list[Message]()
        waiting = self._paused.difference(messages)
        for message in (*waiting, *messages):
            requests = message.work.requests
            instances = {request.instance_uuid for request in requests}
            instances |= {member_of(request) for request in requests if request.is_member}
            if message not in waiting:
                is_ready = message.rest is None and seen.isdisjoint(instances)
                (now if is_ready else later).append(message)
            seen |= instances
        return now, later

    # The decision.

    def _decide(self, message, requests, settings):
        """Decide a message's order on the host state. Returns the Attempt.

        Its claims are in the host state then, but not in the store.
        """
        order, begin_s = message.work, time.perf_counter()
        attempt, hosts = Attempt(message), self._cluster.hosts
        position_and_count = self._context.membership.position_and_count
        if message.attempts or position_and_count[1] > 1:
            settings = settings_for(settings, position_and_count, message.attempts)
        try:
            # A request that lost often is alone in its batch: a pause would delay the next ones.
            may_pause = message.attempts < MAX_LOSSES and message.pauses < MAX_PAUSES
            hosts.pause = self._slice.is_over if may_pause else None
            hosts.asked_s = message.since_s
            for watch in self._watching:
                watch.hold()
            if self._writer is not None:
                requests = [self._repeated(request, order.request_id) for request in requests]
            decision = self._placer.decide(
                requests,
                settings,
                want_alternates=order.alternates,
                request_id=order.request_id,
                noted=self._context.decision_log.sampled(
                    settings.explain_sample, settings.explain_per_second
                ),
                ranked=order.ranked,
                claiming=order.claim,
                # A claim that is written elsewhere belongs to the call that writes it.
                repeatable=self._writer is None,
            )
            for tell in self._context.seams.decided:
                tell(order, decision)
            if order.claim and decision.claims:
                attempt.decision = decision
            else:
                self._answer_unclaimed(message, decision, settings)
        except errors.NoValidHost as error:
            for tell in self._context.seams.decided:
                tell(order, error)
            if message.is_store_read:
                self._refuse(message, error, settings)
            else:
                attempt.refusal = error
        except Unfinished as error:
            message.rest = error.rest
            message.pauses += 1
        except (ReplanRequired, errors.SchedError) as error:
            message.fail(error)  # invalid request or option, found by a rule
        except Exception as error:
            LOG.exception('Request %s failed in a rule', order.request_id)
            message.fail(error)
        finally:
            hosts.pause = hosts.asked_s = None
            end_s = time.perf_counter()
            if message.rest is None:
                self._context.figures.decided_s.append(end_s - begin_s)
            for watch in self._watching:
                watch.record_hold(PLACE)
                watch.decided(attempt, begin_s, end_s)
        return attempt

    def _repeated(self, request, request_id):
        """Return the request, restricted to the node of the confirmed claim that an earlier copy
        of its call has: one call gets one host."""
        for claim in self._cluster.claims_of(request.instance_uuid):
            is_copy = claim.is_confirmed and claim.is_of(request_id)
            if is_copy and allows(request, self._cluster.node(claim.node_uuid)):
                return self._directed(request, claim.node_uuid)
        return request

    def _judge_rest(self, messages):
        """Judge what the first paused decision among the messages has left, until the slice ends,
        then the next one's. Those with nothing left are decided in the next batch."""
        for message in [message for message in messages if message.rest is not None]:
            try:
                message.rest()
                message.rest = None
            except Unfinished as error:
                message.rest = error.rest
                break
            except Exception:  # a rule failed: the decision fails too, and tells the caller
                LOG.debug('The rest of a decision failed', exc_info=True)
                message.rest = None

    def _others_wait(self):
        return self._has_waiting or self._loop.has_waiting

    def _answer_unclaimed(self, message, decision, settings):
        """Answer a request that keeps no claims. Its claims are undone before the next request is
        decided."""
        try:
            answer = selections(self._placer, decision, settings, message.work.alternates)
            self._answers.placed(message, decision, answer, settings)
        finally:
            self._placer.undo(decision)

    # The commit.

    def _commit(self, attempts):
        """The attempts that won, and those that lost. If the store fails, all are undone."""
        if not attempts:
            return [], []
        begin_s, placements = time.perf_counter(), []
        try:
            for attempt in attempts:
                decision = attempt.decision
                placements.append(
                    self._state_sync.placement(
                        decision.claims,
                        decision.requests,
                        decision.replaced,
                        [
                            consumption.before
                            for consumption in decision.consumptions
                            if consumption.before
                        ],
                    )
                )
            outcomes = self._until_done(self._context.store.commit, placements)
            outcomes = [
                outcome
                if not attempt.decision.replaced or self._lives_on(attempt.decision, outcome)
                else PlacementOutcome(False)
                for attempt, outcome in zip(attempts, outcomes, strict=True)
            ]
        except Exception:
            for attempt in attempts:
                self._placer.undo(attempt.decision)
            raise
        end_s = time.perf_counter()
        for attempt, outcome in zip(attempts, outcomes, strict=True):
            attempt.outcome = outcome
            for tell in self._context.seams.committed:
                tell(attempt.message.work, outcome)
        for watch in self._watching:
            watch.committed(attempts, begin_s, end_s)
        return [attempt for attempt in attempts if attempt.outcome.won], [
            attempt for attempt in attempts if not attempt.outcome.won
        ]

    def _lives_on(self, decision, outcome):
        """Renew the claims of earlier requests that a decision repeats. Returns whether none of
        them has expired."""
        lifetime_s = self._context.settings().pending_ttl_s
        return not outcome.won or all(
            self._until_done(self._context.store.renew_claim, claim, lifetime_s)
            for claim in decision.repeated
        )

    # After the commit.

    def _answer(self, attempt, settings):
        """Answer a committed decision. A failure here does not affect the other decisions."""
        message, decision = attempt.message, attempt.decision
        begin_s = time.perf_counter()
        try:
            answer = selections(self._placer, decision, settings, message.work.alternates)
            for watch in self._watching:
                watch.built(message, begin_s, time.perf_counter())
            writing = self._writer and self._writer.write(
                decision, _stored(attempt), answer, message
            )
            if writing is None:
                self._answers.placed(message, decision, answer, settings)
            else:
                attempt.answer = answer
                for watch in self._watching:
                    watch.writing(message, writing)
                writing.add_done_callback(lambda done: self._send_written(attempt, done))
        except Exception as error:
            LOG.exception(UNANSWERED, message.work.request_id)
            message.fail(error)

    def _send_written(self, attempt, done):
        """Send the loop a message: the writer has written the attempt's decision, or has failed.
        Runs in a thread of the writer."""

        def fail(sent):
            if sent.exception() is not None and not attempt.message.future.done():
                attempt.message.fail(sent.exception())

        self._loop.send(WRITTEN, (attempt, outcome_of(done))).add_done_callback(fail)

    def written(self, messages):
        """Answer the decisions that the writer has written, and end the claims of the other ones.

        A decision that came back late, after its claims were replaced or its caller left, is
        refused.

        Returns the messages to decide again.
        """
        settings, again, answered = self._context.settings(), [], []
        self._watching = (self._watch,) if MEASURES.is_on else ()
        for watch in self._watching:
            watch.hold()
        for message in messages:
            attempt, outcome = message.work
            try:
                if outcome.won and self._answer_written(attempt, outcome, settings):
                    answered += [claim for claim in _stored(attempt) if not claim.is_confirmed]
                elif self._undo_written(attempt, outcome, settings):
                    again.append(attempt.message)
            except errors.NoValidHost as error:
                self._answers.refused(attempt.message, error, settings)
            except errors.SchedError as error:
                attempt.message.fail(error)
            except Exception as error:
                # The loop must not handle it again: the writer knows what became of it.
                LOG.exception(UNANSWERED, attempt.message.work.request_id)
                if not attempt.message.future.done():
                    attempt.message.fail(error)
            message.answer(None)
        try:
            # Their allocations are written: the next read of a node that does not find one ends
            # its claim.
            self._until_done(self._state_sync.allocated, answered)
        except errors.StoreUnavailable as error:  # a read that finds the allocations confirms them
            LOG.debug('%s', error)
        for watch in self._watching:
            watch.record_hold(WRITTEN, len(messages))
        return again

    def _answer_written(self, attempt, outcome, settings):
        """Answer a decision that was written, if its claims are still there, and its caller too.
        Return whether it did; else the writer takes back what it has written.

        Raises NoValidHost and StoreUnavailable.
        """
        message, future = attempt.message, attempt.message.future
        try:
            has_claims = self._has_claims(attempt)
            if message.received.is_over():  # the store may have been away
                raise errors.NoValidHost(GONE, attempt.decision.steps, for_tenants=GONE)
            if has_claims:
                self._answers.placed(message, attempt.decision, attempt.answer, settings)
            return has_claims
        except errors.NoValidHost:
            self._end_claims(attempt)
            raise
        finally:
            # Its caller has the answer even if the log or the record of it fails.
            outcome.end(future.done() and future.exception() is None)

    def _undo_written(self, attempt, outcome, settings):
        """End the claims of a decision that was not written, or has lost one since. Return whether
        its order is decided again; else its caller is answered."""
        message = attempt.message
        self._end_claims(attempt, outcome.taken_back)
        if outcome.refusal is not None:
            refusal = errors.NoValidHost(
                outcome.refusal, attempt.decision.steps, for_tenants=NOT_WRITTEN
            )
            self._answers.refused(message, refusal, settings)
            return False
        if outcome.elsewhere:
            requests = [
                self._directed(request, outcome.elsewhere.get(request.instance_uuid))
                for request in message.work.requests
            ]
            message.work = dataclasses.replace(message.work, requests=requests)
        return self._retry_or_refuse(attempt, settings)

    def _directed(self, request, node_uuid):
        """A request that is restricted to one node. Raises NoValidHost if the node is unknown."""
        if node_uuid is None:
            return request
        node = self._cluster.node(node_uuid)
        if node is None:
            raise errors.NoValidHost(
                f'Instance {request.instance_uuid} has allocations on node {node_uuid}, which '
                'this scheduler does not know.'
            )
        destination = request.destination or RequestedDestination()
        destination = dataclasses.replace(destination, host=node.host, node=node.nodename)
        return dataclasses.replace(request, destination=destination)

    def _has_claims(self, attempt):
        """Return whether the store still has the claims of a decision: a read from before the
        write may have ended one that it had taken over. Those that are there are written again,
        so that such a read does not end them from now on.

        While the writer wrote, a later call may have replaced a claim that the decision made, or
        this may have expired. Then raises Superseded: the store decides which answer is the last
        one.
        """
        taken = []
        for made, claim in zip(attempt.decision.claims, _stored(attempt), strict=True):
            if claim.name != made.uuid:
                taken.append(claim)
                continue
            stored = self._until_done(self._context.store.claims, claim.consumer_uuid)
            if not any(current.has_uuid(claim.name) for current in stored):
                raise errors.Superseded(claim.consumer_uuid)
        kept = self._until_done(self._state_sync.allocated, taken)
        return all(any(current.has_uuid(claim.name) for current in kept) for claim in taken)

    def _end_claims(self, attempt, is_gone=False):
        """End the claims of a decision in the store. Those that were confirmed in the meantime
        stay, unless what confirmed them ``is_gone``. Of a resize in place only the time is over:
        the next read of its node tells which size runs. That tells too what becomes of a claim
        that the decision has taken over.

        Raises StoreUnavailable.
        """
        store = self._context.store
        for made, stored in zip(attempt.decision.claims, _stored(attempt), strict=True):
            if stored.resizing:
                self._until_done(store.renew_claim, stored, 0.0)
                continue
            meant = ClaimSelector(made.uuid, unconfirmed=not is_gone)
            edit = self._until_done(store.release, [made.key], meant)
            self._state_sync.dropped(edit.ended, 'could not be written elsewhere')
            self._state_sync.caught_up_with(edit.claims)

    def _retry_or_refuse(self, attempt, settings):
        """Prepare a lost attempt for the next batch, or answer its caller.

        Returns whether it is decided again.
        """
        message, figures = attempt.message, self._context.figures
        figures.conflicts += 1
        catalogue.CONFLICTS.add()
        if message.attempts + 1 >= settings.max_claim_attempts:
            self._answers.lost(message, attempt.decision, settings)
            return False
        message.attempts += 1
        message.is_store_read = False
        figures.retries += 1
        catalogue.RETRIES.add()
        return True

    def _confirm_refusals(self, refused, settings, freed):
        """Read the store before requests are refused. Returns the messages to decide again.

        The host state may be older than the store. If the store has no changes, the refusals
        stand. They do not stand if they were decided on claims of this batch that were undone
        since (``freed``).
        """
        changed = self._until_done(self._state_sync.poll_again) or freed
        self._context.figures.retries += len(refused) if changed else 0
        catalogue.RETRIES.add(by=len(refused) if changed else 0)
        for attempt in refused:
            attempt.message.is_store_read = not freed
            if not changed:
                self._refuse(attempt.message, attempt.refusal, settings)
        return [attempt.message for attempt in refused] if changed else []

    def _refuse(self, message, refusal, settings):
        """Answer an order for which the host state has no host."""
        if message.work.poll_due:
            message.fail(PollRequired(refusal))
        else:
            self._answers.refused(message, refusal, settings)


def _stored(attempt):
    """Return the claims of an attempt's decision as the store had them after the commit: its own,
    or those that its instances had there before, which it has resized or taken over."""
    stored = {claim.key: claim for claim in attempt.outcome.claims}
    return [stored.get(claim.key, claim) for claim in attempt.decision.claims]

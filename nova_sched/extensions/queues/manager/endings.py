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
"""Ends jobs: reads what is told of a job, writes its row, and does what follows from that.

Several records tell of one server: the row of its job, its claims, its node, its quota, the answer
to the caller. Each may be behind the others, a message may come late or twice, and a manager may
stop between two steps. Two records decide, and the others follow:

- which worker has built or moved the server: its claim. One worker confirms it, and for that the
  claim must still be there. What a worker tells is believed if the claims show it;
- whether the job is wanted: its row, which leaves ``queued`` once, by compare-and-set.

::

    queued --- done by a worker, or a claim is confirmed ---> done
           --- given up ------------------------------------> failed
           --- deleted before it was built -----------------> cancelled

A create is given up in its row first, and then its pending claims end; no confirmed claim ends
here. If a worker builds the server after all, its result leads to a delete. A move is given up in
its claims first: no worker can confirm them then. If one is confirmed already, the move is done.
Another manager may move it meanwhile: it claims, and then counts an attempt in the row. So either
the claim is taken back, or the row is not as it was, or that manager finds that the job has ended.

The rows of the deletes that follow, and the quota, are written with the row of the job. The steps
after that are repeated whenever the end is told again, and change nothing then.
"""

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.db.jobs import CANCELLED, FAILED, QUEUED, JobEntry, SqlJobTable
from nova_sched.extensions.queues import jobs, messages
from nova_sched.extensions.queues.brokers import Delivery
from nova_sched.extensions.queues.messages import Sender
from nova_sched.measures.catalogue import JOBS_ENDED
from nova_sched.objects.job import CREATE, DELETE, DONE, RESIZE, QueueJob, QueueResult
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class FollowUp:
    """A delete on ``host``. ``keeps_quota``: the instance's quota is not of that server."""

    host: str
    keeps_quota: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Consequences:
    """``answer`` is the outcome that the caller is told. ``unclaims``: the pending claims end that
    were there before the row was written. ``ends_quota``: so does what the instance holds."""

    answer: str
    deletes: tuple[FollowUp, ...] = ()
    unclaims: bool = False
    ends_quota: bool = False


def transition(
    entry: JobEntry,
    job: QueueJob,
    outcome: str,
    host: str | None,
    entries: Callable[[], Sequence[JobEntry]],
) -> tuple[str, Consequences]:
    """Return the state of the row after DONE or FAILED was told, and what follows.

    ``host`` is where it was done. ``entries()`` returns all jobs of the instance, oldest first.
    """
    state = outcome if entry.state == QUEUED else entry.state
    answer = DONE if state == DONE else FAILED
    if outcome == FAILED:
        is_first = entry.state == QUEUED
        return state, Consequences(
            answer,
            unclaims=entry.kind == CREATE and (is_first or state == CANCELLED),
            ends_quota=state == CANCELLED,
        )
    if entry.kind == DELETE:
        return state, Consequences(answer, ends_quota=job.source is None and state == FAILED)
    assert host is not None
    return state, Consequences(answer, tuple(_deletes(entry, job, host, entries)))


def _deletes(
    entry: JobEntry, job: QueueJob, host: str, entries: Callable[[], Sequence[JobEntry]]
) -> Iterator[FollowUp]:
    """Yield the deletes that follow a build or a move to ``host``; ``entry`` is as it was before
    that was told."""
    if entry.kind != CREATE:
        if job.source and job.source != host:
            yield FollowUp(job.source, keeps_quota=True)  # the remains
        if jobs.is_deleted(entries(), since=entry):
            yield FollowUp(host)
    elif entry.state == CANCELLED:
        yield FollowUp(host)
    elif entry.state != QUEUED:
        # It was given up; or it was done before, and a redelivered job has built it again.
        of_instance = entries()
        is_unwanted = entry.state == FAILED or jobs.is_deleted(of_instance, since=entry)
        if is_unwanted and not jobs.is_wanted_again(of_instance, since=entry):
            yield FollowUp(host, keeps_quota=True)


def settled(claims: Sequence[Any]) -> list[Any]:
    """Return the confirmed claims of an instance, except those of moves that may be reverted."""
    return [
        claim
        for claim in claims
        if claim.state == CONFIRMED and (not claim.move or len(claims) == 1)
    ]


def arrived(job: QueueJob, claims: Sequence[Any]) -> Any:
    """Return the confirmed claim on a host to which the job has brought the instance, or None."""
    return next((claim for claim in settled(claims) if claim.host != job.source), None)


class Endings:
    """Ends jobs, each once, even if its end is told several times.

    ``read(spec, instance_uuid)`` returns the Request of a RequestSpec. Every method raises
    StoreUnavailable, BrokerUnavailable or NoAnswer, and may be called again then.
    """

    def __init__(
        self,
        job_table: SqlJobTable,
        claims: Any,
        sender: Sender,
        read: Callable[[Any, str], Request],
        clock: Callable[[], float],
    ):
        self._job_table, self._claims, self._sender = job_table, claims, sender
        self._read, self._clock = read, clock

    def take(self, delivery: Delivery) -> None:
        """Process a worker's result of a job. Raises Invalid, also if the result is about another
        job than its row."""
        result = messages.read_result(delivery.body)
        entry = self._job_table.find(result.job.uuid)
        if entry is None:
            LOG.warning(
                'Job %s, which host %s has done, is not in the job table',
                result.job.uuid,
                result.host,
            )
            return
        result.job = jobs.as_stored(entry, result.job)  # type: ignore[attr-defined]
        if result.outcome == DONE:
            if result.host is None:
                raise errors.MalformedObject('QueueResult.host', 'it is missing')
            if entry.kind != DELETE:
                claims = settled(self._claims.show(result.job.instance_uuid))
                claim = next((claim for claim in claims if claim.host == result.host), None)
                if claim is None:
                    LOG.warning(
                        'Job %s is not done: the claims do not show its instance on host %s',
                        entry.uuid,
                        result.host,
                    )
                    return
                result = _done_at(result.job, claim, result.tries)
        self._end(result, entry)

    def end_if_there(self, job: QueueJob) -> bool:
        """End a create or move as done if its instance runs on the target. Return whether it
        does."""
        claim = arrived(job, self._claims.show(job.instance_uuid))
        if claim is not None:
            self._end(_done_at(job, claim))
        return claim is not None

    def end_if_resized(self, job: QueueJob) -> bool:
        """End a resize as done if its instance has the new size. Return whether it has."""
        claim = self._resized(job, self._claims.show(job.instance_uuid))
        if claim is not None:
            self._end(_done_at(job, claim))
        return claim is not None

    def _resized(self, job: QueueJob, claims: Sequence[Any]) -> Any:
        wanted = jobs.amounts(self._read(job.spec, job.instance_uuid))
        for claim in claims:
            if (
                claim.state == CONFIRMED
                and not claim.move
                and jobs.amounts_of_claim(claim.resources) == wanted
            ):
                return claim
        return None

    def give_up(self, job: QueueJob, why: str) -> None:
        """End the job as failed, unless it is done by now; it is not tried again."""
        self._end(messages.result(job, FAILED, len(job.tried), why))

    def again(self, job: QueueJob, entry: JobEntry) -> None:
        """Do what follows from the end of a job, as its row has it: an earlier attempt may have
        stopped before that, and no worker may have the job any more."""
        why = entry.why or jobs.DELETED
        self._end(messages.result(job, FAILED, entry.tries, why), entry)

    def _end(self, result: QueueResult, entry: JobEntry | None = None) -> None:
        """The only way in which workers and managers end a job: its row is written, if it is still
        queued, and what follows is done, whoever has written it."""
        job: QueueJob = result.job
        claims: Sequence[Any] = ()
        entry = entry or self._job_table.find(job.uuid)
        while entry is not None:
            if result.outcome == FAILED and (entry.state == QUEUED or entry.kind == CREATE):
                result, claims = self._checked(result, entry)
            state, then = transition(
                entry, job, result.outcome, result.host, lambda: self._entries(job)
            )
            ended = entry if entry.state != QUEUED else self._settle(entry, result, state, then)
            if ended is not None:
                self._follow(ended, result, then, claims)
                return
            entry = self._job_table.find(job.uuid)

    def _checked(self, result: QueueResult, entry: JobEntry) -> tuple[QueueResult, Sequence[Any]]:
        """What is told of a job that is given up, after a read of the claims: if one is confirmed,
        the job was done, wanted or not. Returns the claims, too.

        A move is given up in its claims, here: no worker can confirm them any more.
        """
        job = result.job
        if entry.kind == DELETE:
            return result, ()
        if entry.kind in jobs.MOVES:
            messages.take_back(self._claims, job, entry.kind)
        claims = self._claims.show(job.instance_uuid)
        claim = arrived(job, claims)
        if claim is None and entry.kind == RESIZE and result.host is None:
            claim = self._resized(job, claims)
        return (result if claim is None else _done_at(job, claim)), claims

    def _settle(
        self, entry: JobEntry, result: QueueResult, state: str, then: Consequences
    ) -> JobEntry | None:
        """Write the row of a queued job, with the instance's quota and the rows of the jobs that
        follow. Returns it, or None if another manager has written it."""
        job: QueueJob = result.job
        facts: dict[str, Any] = {}
        if entry.kind in jobs.MOVES:
            facts = {'amounts': self._size(job, state)}
            if state == FAILED:
                facts['seen'] = entry.tries  # another attempt may have claimed since the read
        elif entry.kind == DELETE:
            facts = {'release': state == DONE and job.source is None, 'known': self._creates(job)}
        elif state == FAILED:
            facts = {'release': True}
        ended = self._job_table.settle(
            entry.uuid,
            state,
            self._clock(),
            host=None if entry.kind == CREATE and state == FAILED else result.host,
            tries=result.tries,
            why=None if state == DONE else result.why or 'no reason was given',
            failures=job.failures,
            follow=[
                jobs.entry(self._delete(job, follow_up), self._clock(), follow_up.host)
                for follow_up in then.deletes
            ],
            **facts,
        )
        if ended is not None:
            JOBS_ENDED.add(state)
        return ended

    def _size(self, job: QueueJob, state: str) -> dict[str, int] | None:
        """Return the instance's amounts after a move: the new ones if it was done, else those
        before it, if they are known."""
        spec = job.spec if state == DONE else jobs.last_size(self._entries(job))
        if spec is not None:
            return jobs.amounts(self._read(spec, job.instance_uuid))
        claims = self._claims.show(job.instance_uuid)
        return jobs.amounts_of_claim(claims[0].resources) if claims else None

    def _entries(self, job: QueueJob) -> Sequence[JobEntry]:
        return self._job_table.of_instance(job.instance_uuid)

    def _creates(self, job: QueueJob) -> Sequence[str]:
        return [entry.uuid for entry in self._entries(job) if entry.kind == CREATE]

    # What follows. It may be done twice.

    def _follow(
        self, entry: JobEntry, result: QueueResult, then: Consequences, claims: Sequence[Any]
    ) -> None:
        job = result.job
        for follow_up in then.deletes:
            self._send_delete(job, follow_up, again=entry.kind == CREATE)
        for claim in claims if then.unclaims else ():
            if claim.state == PENDING:
                # This ends none that is confirmed meanwhile.
                with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                    self._claims.abort_claim(job.instance_uuid, claim.host, claim=claim.name)
        if then.ends_quota:
            self._job_table.end_hold(job.instance_uuid, known=self._creates(job))
        if entry.kind == DELETE and entry.state == DONE and job.source is None:
            # It may have moved while its delete was on its way to the source.
            entries = self._entries(job)
            has_moved = any(other.kind in jobs.MOVES and other.state == DONE for other in entries)
            if has_moved and not jobs.is_wanted_again(entries, since=entry):
                for claim in self._claims.show(job.instance_uuid):
                    if claim.state == CONFIRMED and claim.host != entry.host:
                        self._send_delete(job, FollowUp(claim.host))
        if entry.state == result.outcome:
            self._sender.answer(result)
        elif then.answer == DONE:
            self._sender.answer(messages.result(job, DONE, 0, host=entry.host))
        else:
            self._sender.deny(job, jobs.DELETED if entry.state == CANCELLED else entry.why or '')

    def _delete(self, job: QueueJob, follow_up: FollowUp, number: int = 0) -> QueueJob:
        caller = jobs.Caller(
            project_id=job.project_id, user_id=job.user_id, request_id=job.request_id
        )
        uuid = jobs.follow_up(job.uuid, follow_up.host, number)
        source = follow_up.host if follow_up.keeps_quota else None
        fields = {'source': source, 'claimed': job.kind == CREATE}
        return jobs.new(DELETE, uuid, job.instance_uuid, caller, self._clock(), **fields)

    def _send_delete(self, job: QueueJob, follow_up: FollowUp, again: bool = False) -> None:
        """Send the delete that follows an ended job, unless it was done.

        With ``again``, another one is sent then: a redelivered create may have built the instance
        once more. The source of a move may have the instance again for another reason.
        """
        for number in itertools.count():
            delete = self._delete(job, follow_up, number)
            (entry,) = self._job_table.open([jobs.entry(delete, self._clock(), follow_up.host)])
            if entry.state == QUEUED:
                self._sender.to_host(delete, follow_up.host)
            if entry.state == QUEUED or not again:
                return


def _done_at(job: QueueJob, claim: Any, tries: int = 0) -> QueueResult:
    where = {'host': claim.host, 'nodename': claim.nodename, 'claim': claim}
    return messages.result(job, DONE, tries, **where)

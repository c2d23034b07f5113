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
"""The consequences of a job's end: the job table is updated, quota is released, the caller is
answered."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.db.jobs import CANCELLED, FAILED, QUEUED, JobEntry, SqlJobTable
from nova_sched.measures.catalogue import JOBS_ENDED
from nova_sched.objects.job import CREATE, DELETE, DONE, MIGRATE, QueueJob, QueueResult
from nova_sched.queues import jobs, messages
from nova_sched.queues.brokers import Delivery
from nova_sched.queues.messages import Sender
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)


class Endings:
    """Settles jobs, each once, even if its end is reported several times.

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
        """Process a worker's result of a job. Raises Invalid."""
        result = messages.read_result(delivery.body)
        if result.outcome == DONE:
            self.done(result)
        else:
            self.failed(result)

    def is_there(self, job: QueueJob) -> bool:
        """Whether the instance of a create or move runs on its target. Settles the job as done if
        so."""
        for claim in self._claims.show(job.instance_uuid):
            if claim.state == CONFIRMED and claim.host != job.source and not claim.move:
                self._done_at(job, claim)
                return True
        return False

    def is_resized(self, job: QueueJob) -> bool:
        """Whether an instance has the size of a finished resize job. Settles the job as done if
        so."""
        wanted = jobs.amounts(self._read(job.spec, job.instance_uuid))
        for claim in self._claims.show(job.instance_uuid):
            if (
                claim.state == CONFIRMED
                and not claim.move
                and jobs.amounts_of_claim(claim.resources) == wanted
            ):
                self._done_at(job, claim)
                return True
        return False

    def _done_at(self, job: QueueJob, claim: Any) -> None:
        where = {'host': claim.host, 'nodename': claim.nodename, 'claim': claim}
        self.done(QueueResult(job=job, outcome=DONE, tries=0, why=None, **where))

    def give_up(self, job: QueueJob, why: str) -> None:
        """Settle the job as failed; it is not tried again."""
        where = {'host': None, 'nodename': None, 'claim': None}
        self.failed(QueueResult(job=job, outcome=FAILED, tries=len(job.tried), why=why, **where))

    # Done.

    def done(self, result: QueueResult) -> None:
        """Settle a job that was done on ``result.host``."""
        job, quota = result.job, self._quota_when_done(result.job)
        entry, is_told_again = self._settle(
            job, DONE, host=result.host, tries=result.tries, **quota
        )
        if entry is None:
            LOG.warning(
                'Job %s, which host %s has done, is not in the job table', job.uuid, result.host
            )
        elif job.kind == CREATE and entry.state != DONE:
            self._unwanted(entry, job, result.host)
            self._sender.deny(job, jobs.DELETED)
            return
        elif job.kind == CREATE and is_told_again:
            self._built_again(entry, job, result.host)
        elif job.kind == MIGRATE:
            self._moved(entry, job, result.host)
        self._sender.answer(result)

    def _quota_when_done(self, job: QueueJob) -> dict[str, Any]:
        if job.kind == DELETE:
            return {'release': job.source is None}
        if job.kind in jobs.MOVES:
            return {'amounts': jobs.amounts(self._read(job.spec, job.instance_uuid))}
        return {}

    def _settle(self, job: QueueJob, state: str, **facts: Any) -> tuple[JobEntry | None, bool]:
        """Returns the current entry, None if there is none, and whether it was settled before."""
        settled = self._job_table.settle(
            job.uuid, state, self._clock(), failures=job.failures, **facts
        )
        if settled is None:
            return self._job_table.find(job.uuid), True
        JOBS_ENDED.add(state)
        return settled, False

    def _unwanted(self, entry: JobEntry, job: QueueJob, host: str) -> None:
        """Delete a server that is not wanted any more on the host that built it."""
        if entry.state == CANCELLED:
            self.delete(job, host)
        elif not jobs.is_wanted_again(self._job_table.of_instance(job.instance_uuid), since=entry):
            self.delete(job, host, source=host)

    def _built_again(self, entry: JobEntry, job: QueueJob, host: str) -> None:
        """Delete a server that a redelivered job has built again after its delete.

        A worker ended before it acknowledged the job, and another one got it too. If the server
        was deleted in between, the second worker could still build it.
        """
        entries = self._job_table.of_instance(job.instance_uuid)
        if jobs.is_deleted(entries, since=entry) and not jobs.is_wanted_again(
            entries, since=entry
        ):
            self.delete(job, host, source=host, again=True)

    def _moved(self, entry: JobEntry, job: QueueJob, host: str) -> None:
        """Delete the remains at the source; also on the new host, if the instance was deleted
        meanwhile."""
        if job.source and job.source != host:
            self.delete(job, job.source, source=job.source)
        if jobs.is_deleted(self._job_table.of_instance(job.instance_uuid), since=entry):
            self.delete(job, host)

    def delete(
        self, job: QueueJob, host: str, source: str | None = None, again: bool = False
    ) -> None:
        """Send the delete that follows an ended job, once.

        With ``again``, it is sent even if it was done before. With a ``source`` the instance's
        quota stays.
        """
        caller = jobs.Caller(
            project_id=job.project_id, user_id=job.user_id, request_id=job.request_id
        )
        now_s, uuid = self._clock(), jobs.follow_up(job.uuid, host)
        gone = jobs.new(DELETE, uuid, job.instance_uuid, caller, now_s, source=source)
        (entry,) = self._job_table.open([jobs.entry(gone, now_s, host)])
        if again or entry.state == QUEUED:
            self._sender.to_host(gone, host)

    # Failed.

    def failed(self, result: QueueResult) -> None:
        """Settle a job that failed, and end its claim."""
        job, entry = result.job, self._job_table.find(result.job.uuid)
        if entry is not None and entry.state == QUEUED:
            host, quota = self._undone(result)
            why = result.why or 'no reason was given'
            entry, _ = self._settle(job, FAILED, host=host, tries=result.tries, why=why, **quota)
        if entry is not None and entry.state == CANCELLED:
            self.cancelled(job)
        else:
            self._sender.answer(result)

    def _undone(self, result: QueueResult) -> tuple[str | None, dict[str, Any]]:
        """End the job's claim. Returns the host of the failure, if any, and the instance's new
        quota."""
        if result.job.kind == CREATE:
            self._unclaim(self._claims.show(result.job.instance_uuid))
            return None, {'release': True}
        return result.host, self._old_size(result.job) if result.job.kind in jobs.MOVES else {}

    def cancelled(self, job: QueueJob) -> None:
        """End a cancelled create that no worker will take any more, and release its quota."""
        claims = self._claims.show(job.instance_uuid)
        built = [one.host for one in claims if one.state == CONFIRMED]
        if built:
            self.delete(job, built[0])
        else:
            self._unclaim(claims)
            self._job_table.end_hold(job.instance_uuid)
        self._sender.deny(job, jobs.DELETED)

    def _unclaim(self, claims: Sequence[Any]) -> None:
        """End the claims of a create that are not confirmed. A worker that still builds it detects
        that when it confirms."""
        for one in claims:
            with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                self._claims.abort_claim(one.instance_uuid, one.host, claim=one.name)

    def _old_size(self, job: QueueJob) -> dict[str, Any]:
        """Revert a move. Returns the instance's amounts after that, if they are known."""
        messages.take_back(self._claims, job.instance_uuid)
        spec = jobs.last_size(self._job_table.of_instance(job.instance_uuid))
        if spec is not None:
            return {'amounts': jobs.amounts(self._read(spec, job.instance_uuid))}
        claims = self._claims.show(job.instance_uuid)
        return {'amounts': jobs.amounts_of_claim(claims[0].resources)} if claims else {}

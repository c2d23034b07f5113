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
"""Enters jobs into the job table before they are sent; a repeated request joins the
existing job."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.db.jobs import CANCELLED, DONE, FAILED, QUEUED, JobEntry, QuotaHold, SqlJobTable
from nova_sched.extensions.queues import jobs
from nova_sched.objects.job import CREATE, QueueJob


@dataclasses.dataclass(frozen=True, slots=True)
class EnteredJob:
    """A job as it is in the job table; one that is not new was sent by an earlier call."""

    job: QueueJob
    entry: JobEntry
    is_new: bool

    @property
    def uuid(self) -> str:
        return self.job.uuid

    @property
    def instance_uuid(self) -> str:
        return self.job.instance_uuid

    @property
    def is_over(self) -> bool:
        return self.entry.state == DONE


class JobEntries:
    """Creates the entries of jobs. ``limits(project_id)`` are those of a project, by resource."""

    def __init__(
        self,
        job_table: SqlJobTable,
        limits: Callable[[str], Mapping[str, int]],
        claims: Any,
        clock: Callable[[], float],
    ):
        self._job_table, self._limits, self._claims, self._clock = job_table, limits, claims, clock

    def enter(
        self, job: QueueJob, host: str, amounts: Mapping[str, int] | None = None
    ) -> EnteredJob:
        """Enter one job to a host. Raises QuotaExceeded.

        With ``amounts``, the quota usage of its instance is raised to these.
        """
        return self._open([job], amounts, host)[0]

    def creates(
        self,
        make: Callable[[str, int], QueueJob],
        instance_uuids: Sequence[str],
        amounts: Mapping[str, int],
    ) -> list[EnteredJob]:
        """Enter a job for each instance, of ``make(instance_uuid, number)``, all or none.

        An instance that failed before, or that was deleted, gets a job of a higher number. One
        that was deleted before it was built is refused with NoValidHost. Raises QuotaExceeded.
        """
        entered: dict[str, EnteredJob] = {}
        numbers = dict.fromkeys(instance_uuids, 0)
        try:
            while missing := [uuid for uuid in instance_uuids if uuid not in entered]:
                for entry in self._open([make(uuid, numbers[uuid]) for uuid in missing], amounts):
                    if entry.is_new or not self._is_past(entry):
                        entered[entry.instance_uuid] = entry
                    numbers[entry.instance_uuid] += 1
        except errors.SchedError:
            for entry in entered.values():
                if entry.is_new:
                    self._job_table.settle(
                        entry.uuid, FAILED, self._clock(), why='never sent', release=True
                    )
            raise
        return [entered[uuid] for uuid in instance_uuids]

    def cancel(self, instance_uuid: str) -> tuple[JobEntry | None, list[JobEntry]]:
        """Cancel the queued create of an instance. Returns the create, or None and all of its
        entries."""
        while True:
            if cancelled := self._job_table.cancel(instance_uuid, self._clock()):
                return cancelled, []
            entries = self._job_table.of_instance(instance_uuid)
            if not any(entry.kind == CREATE and entry.state == QUEUED for entry in entries):
                return None, entries  # else it was entered between the two calls

    def _is_past(self, entered: EnteredJob) -> bool:
        """Whether an earlier job does not concern the current instance."""
        if entered.entry.state == CANCELLED:
            raise errors.NoValidHost(jobs.DELETED)
        if entered.is_over:
            return not any(
                claim.state == CONFIRMED for claim in self._claims.show(entered.instance_uuid)
            )
        return entered.entry.state == FAILED

    def _open(
        self,
        queue_jobs: Sequence[QueueJob],
        amounts: Mapping[str, int] | None,
        host: str | None = None,
    ) -> list[EnteredJob]:
        now_s = self._clock()
        entries = [jobs.entry(job, now_s, host) for job in queue_jobs]
        holds = [
            QuotaHold(job.instance_uuid, job.project_id, amounts)
            for job in queue_jobs
            if amounts is not None and job.project_id is not None
        ]
        opened = self._job_table.open(entries, holds, self._limits)
        return [
            EnteredJob(job, entry, entry is own)
            for job, entry, own in zip(queue_jobs, opened, entries, strict=True)
        ]

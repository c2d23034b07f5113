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
"""Periodic cleanup: jobs whose messages were lost, cancelled creates, old entries."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.db.jobs import CANCELLED, QUEUED, JobEntry, SqlJobTable
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS, Broker, of_host
from nova_sched.extensions.queues.manager.endings import Endings
from nova_sched.extensions.queues.messages import Sender
from nova_sched.objects.job import CREATE, DELETE

LOG = logging.getLogger(__name__)

BATCH = 200  # jobs that are checked in one run


@dataclasses.dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """``lost_after_s``: a job without a result for so long may be lost, if no messages wait.

    ``longest_s`` is the longest that a job may take. ``retention_s`` is how long an ended job is
    kept.
    """

    lost_after_s: float = 120.0
    longest_s: float = 3600.0
    retention_s: float = 86400.0


class JobUpkeep:
    """A periodic check of all jobs, by each manager; concurrent checks have the same effect as
    one. ``moved()`` is called for each job."""

    def __init__(
        self,
        job_table: SqlJobTable,
        claims: Any,
        broker: Broker,
        sender: Sender,
        endings: Endings,
        settings: Callable[[], UpkeepSettings],
        clock: Callable[[], float],
        moved: Callable[[], None] = lambda: None,
    ):
        self.lost = 0
        self._moved = moved
        self._job_table, self._claims, self._broker = job_table, claims, broker
        self._sender, self._endings, self._settings, self._clock = sender, endings, settings, clock

    def check(self) -> None:
        """Run one check. Raises StoreUnavailable, BrokerUnavailable or NoAnswer; the next run
        continues."""
        now_s, settings = self._clock(), self._settings()
        if not any(self._waits(queue) for queue in (FALLBACK, RESULTS)):
            before_s = now_s - settings.lost_after_s
            for entry in self._job_table.overdue(before_s, BATCH):
                self._moved()
                try:
                    self._one(entry, now_s - entry.created_s > settings.longest_s)
                except errors.Invalid as error:
                    # Another release's, perhaps: it does not stop the rest.
                    LOG.error('Job %s cannot be read, and stays as it is: %s', entry.uuid, error)
                self._job_table.touch([entry.uuid], now_s)
        self._job_table.forget(now_s - settings.retention_s)

    def _waits(self, queue: str) -> bool:
        facts = self._broker.facts(queue)
        return facts is not None and facts.ready > 0

    def _one(self, entry: JobEntry, is_old: bool) -> None:
        """Check a job without a result, or one that was cancelled and whose instance holds
        quota."""
        job = jobs.of_entry(entry)
        if entry.state == CANCELLED:
            entries = self._job_table.of_instance(entry.instance_uuid)
            if not any(other.kind == DELETE and other.state == QUEUED for other in entries):
                self._endings.again(job, entry)  # else its delete goes its own way
        elif entry.kind == DELETE:
            if entry.host and not self._waits(of_host(entry.host)):
                self._again(entry)
                self._sender.to_host(job, entry.host)
        elif self._endings.end_if_there(job):
            LOG.info('Job %s was done, and its result was lost', entry.uuid)
        elif entry.kind == CREATE:
            if not self._claims.show(entry.instance_uuid):
                self._again(entry)
                self._sender.to_fallback(job)
        elif is_old and not self._endings.end_if_resized(job):
            self._again(entry)
            self._endings.give_up(job, 'its outcome is unknown')

    def _again(self, entry: JobEntry) -> None:
        self.lost += 1
        LOG.warning(
            'The message of job %s was lost: %s of %s', entry.uuid, entry.kind, entry.instance_uuid
        )

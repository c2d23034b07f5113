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
"""Passes jobs to the scheduler that no worker has taken, or that queues cannot handle."""

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Callable, Collection
from typing import Any

from nova_sched import errors, objects
from nova_sched.claim import CONFIRMED, MIGRATION, PENDING
from nova_sched.claim import RESIZE as RESIZE_MOVE
from nova_sched.db.jobs import QUEUED, SqlJobTable
from nova_sched.extensions.queues import jobs, messages
from nova_sched.extensions.queues.brokers import DROPPED, EXPIRED, Delivery
from nova_sched.extensions.queues.manager.endings import Endings
from nova_sched.extensions.queues.messages import AWAY, NO_ROOM, Place, Sender, place_of
from nova_sched.objects.job import CREATE, DELETE, MIGRATE, RESIZE, QueueJob

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class FallbackSettings:
    """``max_attempts`` is the most hosts tried for one job; ``fallback_after_s`` is quoted in
    reasons."""

    max_attempts: int = 3
    fallback_after_s: int = 30


class Fallback:
    """Takes the jobs of the fallback queue. Each ends here, or goes to a host from the
    scheduler."""

    def __init__(
        self,
        job_table: SqlJobTable,
        claims: Any,
        scheduler: Any,
        sender: Sender,
        endings: Endings,
        settings: Callable[[], FallbackSettings],
    ):
        self._job_table, self._claims, self._scheduler = job_table, claims, scheduler
        self._sender, self._endings, self._settings = sender, endings, settings

    def take(self, delivery: Delivery) -> None:
        """Raise Invalid for a message that is not a job, and the errors of Endings."""
        message_job = messages.read_job(delivery.body)
        entry = self._job_table.find(message_job.uuid)
        if entry is None:
            LOG.warning(
                'Job %s, which no worker has taken, is not in the job table', message_job.uuid
            )
            return
        job = jobs.as_stored(entry, message_job)
        messages.context(job).update_store()  # log lines have the ID of that request
        if entry.state != QUEUED:
            self._endings.again(job, entry)
        elif not self._return_to_node(job, delivery):
            self._decide(job, self._why(job, delivery))

    def _return_to_node(self, job: QueueJob, delivery: Delivery) -> bool:
        """Send the job again to a chosen node that is only busy, as long as its claim exists
        there. Return whether there is such a node."""
        if delivery.reason != EXPIRED or job.kind == DELETE:
            return False
        if job.claimed:
            claims = self._claims.show(job.instance_uuid)
            hosts = [
                claim.host
                for claim in claims
                if claim.host != job.source and (claim.state == PENDING or claim.move)
            ]
        else:
            hosts = [job.source] if job.kind == RESIZE and job.source in job.tried else []
        return any(
            self._sender.has_worker(host) and self._sender.to_node(job, host) for host in hosts
        )

    def _why(self, job: QueueJob, delivery: Delivery) -> str:
        """Return the first part of a refusal's reason: why the job is here."""
        if job.tried:
            return f'it failed on {", ".join(job.tried)}; '
        if delivery.reason == EXPIRED:
            return f'{jobs.NOT_TAKEN}{self._settings().fallback_after_s} s; '
        if delivery.reason == DROPPED:
            return jobs.NOT_OFFERED
        return f'{delivery.tries} nodes have given it back; ' if delivery.tries else ''

    def _decide(self, job: QueueJob, why: str) -> None:
        if job.kind == DELETE:
            self._endings.give_up(job, f'{why}the node cannot delete it')
        elif not self._endings.end_if_there(job):
            place = self._create if job.kind == CREATE else self._move
            try:
                place(job)
            except errors.NoValidHost as refusal:
                self._endings.give_up(job, why + refusal.reason)
            except errors.MaxRetriesExceeded as exhausted:
                self._endings.give_up(job, jobs.EXHAUSTED + exhausted.args[1])
            except errors.SchedError as error:
                if isinstance(error, AWAY):
                    raise
                self._endings.give_up(job, why + str(error))

    # Creates.

    def _create(self, job: QueueJob) -> None:
        """Raise NoValidHost or MaxRetriesExceeded."""
        if job.claimed:
            self._note(job, [claim.host for claim in self._claims.show(job.instance_uuid)])
        while True:
            places = self._places(job, job.tried)
            if job.tried and self._end_if_built(job):
                return
            if at := self._sender.to_first(job, places, messages.context(job)):
                LOG.info('Job %s goes to host %s, as the scheduler decided', job.uuid, at[0])
                return

    def _end_if_built(self, job: QueueJob) -> bool:
        """End the job as done if a host that was tried has built the instance after all, before
        the scheduler chose another one. Return whether it has.

        The scheduler then takes the request, which ignores that host, for a move. No node knows
        of its claim yet, so the claim ends. A build that was not confirmed by then never is: the
        scheduler's claim has replaced its claim.
        """
        claims = self._claims.show(job.instance_uuid)
        if not any(claim.state == CONFIRMED for claim in claims):
            return False
        for claim in claims:
            if claim.state == PENDING:
                with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                    self._claims.abort_claim(job.instance_uuid, claim.host, claim=claim.uuid)
        return self._endings.end_if_there(job)

    def _places(self, job: QueueJob, without: Collection[str], spec: Any = None) -> list[Place]:
        """Return the scheduler's hosts: the claimed one, and alternates."""
        tried = [host for host in job.tried if host != job.source]
        if len(tried) >= self._settings().max_attempts:
            raise errors.MaxRetriesExceeded(job.instance_uuid, ', '.join(tried))
        spec = copy.deepcopy(job.spec) if spec is None else spec
        ignored = spec.ignore_hosts if 'ignore_hosts' in spec else None
        spec.ignore_hosts = [*(ignored or []), *without]
        (selections,) = self._scheduler.select_destinations(
            spec, [job.instance_uuid], context=messages.context(job)
        )
        return [place_of(selection) for selection in selections]

    @staticmethod
    def _note(job: Any, hosts: Collection[str]) -> None:
        """Record that the job was tried on these hosts."""
        job.tried = [*job.tried, *(host for host in hosts if host not in job.tried)]

    # Moves.

    def _move(self, job: Any) -> None:
        """Resize in place if possible, or move to another host. Raises as _create does.

        The claims of earlier attempts are ended.
        """
        entry = self._job_table.find(job.uuid)
        kind = (
            job.kind if entry is None else entry.kind
        )  # the job itself may be a migration by now
        hosts = messages.take_back(self._claims, job, kind)
        if job.kind == RESIZE:
            if job.source in job.tried:
                raise errors.NoValidHost(f'host {job.source} has not taken it')
            if self._resize_in_place(job):
                return
            job.kind = MIGRATE
        self._note(job, hosts)
        move = RESIZE_MOVE if kind == RESIZE else MIGRATION
        while True:
            places = self._places(job, [job.source, *job.tried])
            try:
                self._claims.resize_claim(
                    job.spec, job.instance_uuid, *places[0], move, context=messages.context(job)
                )
            except NO_ROOM as short:
                LOG.info('Job %s is not for host %s any more: %s', job.uuid, places[0][0], short)
                self._note(job, [places[0][0]])
            else:
                # After the claim: whoever gives the job up takes it back, or finds this attempt.
                if not self._job_table.attempt(job.uuid):
                    messages.take_back(self._claims, job, kind)
                    return
                if at := self._sender.to_first(job, places, messages.context(job)):
                    LOG.info('Job %s goes from host %s to host %s', job.uuid, job.source, at[0])
                    return
            messages.take_back(self._claims, job, kind)

    def _resize_in_place(self, job: Any) -> bool:
        """Send the resize to the instance's host, if it is allowed and passes the filters in the
        new size."""
        ignored = job.spec.ignore_hosts if 'ignore_hosts' in job.spec else None
        if job.source.lower() in {host.lower() for host in ignored or ()}:
            return False
        here = copy.deepcopy(job.spec)
        wanted: Any = here.requested_destination or objects.Destination()
        wanted.host, here.requested_destination = job.source, wanted
        try:
            self._places(job, (), here)
        except errors.NoValidHost as refusal:
            LOG.info('Job %s: not in place: %s', job.uuid, refusal.reason)
            return False
        job.tried = [*job.tried, job.source]
        # The job is not marked as claimed: a node without capacity must only refuse it, and
        # must not end the instance's claim.
        if self._sender.to_node(job, job.source):
            return True
        messages.take_back(self._claims, job, RESIZE)
        return False

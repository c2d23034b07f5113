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
"""Places servers for a conductor, through queues or through the scheduler, with the same
answers."""

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nova_sched import errors, objects
from nova_sched.claim import CONFIRMED
from nova_sched.db.jobs import CANCELLED, FAILED, QUEUED, JobEntry, SqlJobTable
from nova_sched.engine.answer import ALLOCATION_VERSION
from nova_sched.engine.explain import callers
from nova_sched.extensions.queues import jobs
from nova_sched.extensions.queues.brokers import Broker
from nova_sched.extensions.queues.conductor import routing
from nova_sched.extensions.queues.conductor.job_entries import EnteredJob, JobEntries
from nova_sched.extensions.queues.conductor.waiting import JobEnd, Waiting
from nova_sched.extensions.queues.messages import AWAY, Sender, place_of
from nova_sched.objects.job import CREATE, DELETE, MIGRATE, RESIZE, QueueJob
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

FOR_TENANTS = (jobs.NOT_TAKEN, jobs.NOT_OFFERED)  # reasons that tell them no host

Sends = list[Callable[[], Any]]
Chosen = Mapping[str, Sequence[Any]]  # Selections by instance


@dataclasses.dataclass(frozen=True, slots=True)
class RouterSettings:
    """``enabled`` False: `place` only calls the scheduler.

    ``cell_uuid`` is that of servers from queues. ``concerns`` are the scheduler options on which
    placement depends. ``timeout_s`` is how long a caller waits; ``query_s`` how long for an answer
    before the first query of the job table, ``joined_query_s`` the same for a job that another
    call has sent. ``tell_callers`` is what a failure says (engine.explain.callers).
    """

    cell_uuid: str
    enabled: bool = True
    timeout_s: float = 1800.0
    query_s: float = 5.0
    joined_query_s: float = 0.5
    concerns: routing.Concerns = routing.NOTHING
    tell_callers: str = 'rules'


class Router:
    """The interface for a conductor; may be called from any thread, also concurrently.

    ``read(spec, instance_uuid)`` returns the Request of a RequestSpec, or raises Invalid.
    ``source`` has the current ``catalogue``. A repeated call joins the job in progress, and after
    NoAnswer the job continues. Every method may raise StoreUnavailable, BrokerUnavailable or
    NoAnswer.
    """

    def __init__(
        self,
        job_table: SqlJobTable,
        limits: Callable[[str], Mapping[str, int]],
        broker: Broker,
        scheduler: Any,
        claims: Any,
        source: Any,
        settings: Callable[[], RouterSettings],
        read: Callable[[Any, str], Request],
        name: str,
        clock: Callable[[], float] = time.time,
    ):
        self._job_table, self._scheduler, self._claims = job_table, scheduler, claims
        self._source, self._settings, self._read, self._clock = source, settings, read, clock
        self._entries = JobEntries(job_table, limits, claims, clock)
        self._sender = Sender(broker, claims)
        self._waiting = Waiting(broker, name, job_table.find)

    def start(self) -> None:
        """Consume answers. Raises BrokerUnavailable."""
        self._waiting.start()

    def stop(self) -> None:
        self._waiting.stop()

    # Create.

    def place(
        self,
        spec_obj: Any,
        instance_uuids: Sequence[str],
        return_alternates: bool = True,
        context: Any = None,
    ) -> list[list[Any]]:
        """Return a list of Selection for each instance; the server runs on the first.

        All instances are placed, or none. Raises QuotaExceeded, NoValidHost and
        MaxRetriesExceeded.
        """
        settings = self._settings()
        if not settings.enabled:
            select = self._scheduler.select_destinations
            return select(spec_obj, instance_uuids, return_alternates, context=context)
        request = self._read(spec_obj, instance_uuids[0])
        way = routing.route(request, spec_obj, self._source.catalogue, settings.concerns)
        queue = way.queue.name if way.queue else None
        LOG.info(
            '%s: by %s',
            ', '.join(instance_uuids),
            f'queue {queue}' if queue else f'scheduler, {way.reason}',
        )
        caller = jobs.Caller.of(context, spec_obj, self._waiting.queue)

        def make(uuid: str, number: int) -> QueueJob:
            job_uuid = jobs.uuid_of(CREATE, uuid, number)
            return jobs.new(CREATE, job_uuid, uuid, caller, self._clock(), spec_obj, queue=queue)

        entered = self._entries.creates(make, instance_uuids, jobs.amounts(request))
        with self._waiting.expecting([job.uuid for job in entered]):
            new = [job.job for job in entered if job.is_new]
            unsent: Sends = []
            chosen: Chosen = {}
            if queue is not None:
                unsent = [
                    send for job in new if (send := self._unsent(self._sender.to_flavor, job))
                ]
            elif new:
                chosen = self._choose(spec_obj, entered, new, context)
                unsent = self._send_along(new, chosen, context) if chosen else []
            outcomes = self._all_or_none(entered, unsent)
        kept = chosen if return_alternates else {}
        return [self._selections(spec_obj, job, outcomes[job.uuid], kept) for job in entered]

    def _choose(
        self, spec: Any, entered: Sequence[EnteredJob], new: Sequence[QueueJob], context: Any
    ) -> Chosen:
        """Return the scheduler's hosts for the new instances. Raises NoValidHost; the jobs are
        then settled as failed.

        A job that another one has ended meanwhile, or built, is not denied: its row decides.
        """
        uuids = [job.instance_uuid for job in new]
        try:
            selections = self._scheduler.select_destinations(spec, uuids, context=context)
        except errors.SchedError as refusal:
            if not isinstance(refusal, AWAY):  # else the outcome is unknown, and the jobs continue
                why = refusal.reason if isinstance(refusal, errors.NoValidHost) else str(refusal)
                settled = [
                    self._job_table.settle(job.uuid, FAILED, self._clock(), why=why, release=True)
                    for job in new
                ]
                if not all(settled):
                    LOG.info('Some of %s were built before this refusal: %s', uuids, why)
                    return {}
                self._undo(job.instance_uuid for job in entered if not job.is_new)
            raise
        return dict(zip(uuids, selections, strict=True))

    def _send_along(self, new: Iterable[QueueJob], chosen: Chosen, context: Any) -> Sends:
        """Send jobs to the hosts that were chosen.

        A job that the broker does not accept is left to the queue manager, because the state of
        its claim is unknown.
        """
        unsent: Sends = []
        for job in new:
            places = [place_of(selection) for selection in chosen[job.instance_uuid]]
            try:
                if self._sender.to_first(job, places, context) is None:
                    self._sender.to_fallback(job)
            except AWAY as away:
                LOG.warning('Job %s is sent later: %s', job.uuid, away)
                unsent.append(functools.partial(self._sender.to_fallback, job))
        return unsent

    def _all_or_none(self, jobs_entered: Sequence[EnteredJob], unsent: Sends) -> dict[str, JobEnd]:
        """Return the outcome of each job. If one failed, deletes the others and raises
        its error."""
        entered = {job.uuid: job for job in jobs_entered}
        outcomes = {job.uuid: JobEnd.of_entry(job.entry) for job in jobs_entered if job.is_over}
        for outcome in self._outcomes([job for job in jobs_entered if not job.is_over], unsent):
            outcomes[outcome.job_uuid] = outcome
            if not outcome.is_done:
                lost = entered.pop(outcome.job_uuid)
                self._undo(job.instance_uuid for job in entered.values())
                raise self._failure(lost, outcome)
        return outcomes

    def _undo(self, instance_uuids: Iterable[str]) -> None:
        for uuid in instance_uuids:
            try:
                self.delete(uuid, wait=False)
            except errors.NotFound:
                LOG.debug('Instance %s has ended already', uuid)
            except errors.SchedError as error:
                LOG.error(
                    'Instance %s is not wanted any more, and cannot be deleted: %s', uuid, error
                )

    def _selections(
        self, spec: Any, entered: EnteredJob, outcome: JobEnd, chosen: Chosen
    ) -> list[Any]:
        """Return the host where it runs, and the scheduler's alternates that were not tried."""
        offered = chosen.get(entered.instance_uuid, ())
        for number, selection in enumerate(offered):
            if selection.service_host == outcome.host:
                return list(offered[number:])
        uuid = entered.instance_uuid
        claim = outcome.claim
        if claim is None:
            claims = self._claims.show(uuid)
            on_host = (claim for claim in claims if claim.host == outcome.host)
            claim = next(on_host, None)
        if claim is None:
            raise errors.NoValidHost(f'Instance {uuid} was built, and is deleted already.')
        selection = objects.Selection(
            compute_node_uuid=claim.compute_node_uuid,
            service_host=claim.host,
            nodename=claim.nodename,
            cell_uuid=self._settings().cell_uuid,
            limits=objects.SchedulerLimits(**dict.fromkeys(objects.SchedulerLimits.fields)),
            allocation_request=claim.allocation_request,
            allocation_request_version=ALLOCATION_VERSION,
            availability_zone=spec.availability_zone if 'availability_zone' in spec else None,
        )
        return [selection]

    # Delete.

    def delete(self, instance_uuid: str, context: Any = None, wait: bool = True) -> None:
        """Delete a server, and release its quota when that is done. Cancels a build that is
        queued.

        Waits for the end unless ``wait`` is False. Raises NotFound for an unknown instance, and
        BuildFailed if its node cannot delete it.
        """
        cancelled, entries = self._entries.cancel(instance_uuid)
        if cancelled:
            LOG.info('Instance %s is deleted before it was built', instance_uuid)
            self._unsent(
                lambda job: self._sender.deny(job, jobs.DELETED), jobs.of_entry(cancelled)
            )
            return
        # After the entries: an instance that they record as built has a claim, unless it is gone.
        claims = self._claims.show(instance_uuid, context=context)
        if not claims and not entries:
            raise errors.NotFound(f'Instance {instance_uuid}')
        creates = [entry for entry in entries if entry.kind == CREATE]
        is_built = any(claim.state == CONFIRMED for claim in claims)
        if creates and creates[-1].state == CANCELLED and not is_built:
            return  # a worker that builds it is told to delete it
        caller = jobs.Caller.of(context, next(iter(claims), None), self._waiting.queue)
        job, host = self._delete_job(instance_uuid, claims, entries, caller)
        if job is None:
            # It has failed, or the instance or its node is gone; unless it was just requested
            # again.
            self._job_table.end_hold(instance_uuid, known=[entry.uuid for entry in creates])
            return
        entered = self._entries.enter(job, host)
        with self._waiting.expecting([entered.uuid]):
            unsent = (
                self._unsent(lambda job: self._sender.to_host(job, host), job)
                if entered.is_new
                else None
            )
            if wait:
                self._one_outcome(entered, [unsent] if unsent else [])

    def _delete_job(
        self,
        instance_uuid: str,
        claims: Sequence[Any],
        entries: Sequence[JobEntry],
        caller: jobs.Caller,
    ) -> tuple[QueueJob | None, str]:
        """Return the delete in progress, or a new one, and its host; None if the instance has no
        host."""
        deletes = [entry for entry in entries if entry.kind == DELETE and jobs.is_wanted(entry)]
        for entry in deletes:
            if entry.state == QUEUED:
                return jobs.of_entry(entry), entry.host or ''
        if not claims:
            return None, ''
        uuid = jobs.uuid_of(DELETE, instance_uuid, len(deletes))
        return jobs.new(DELETE, uuid, instance_uuid, caller, self._clock()), _home(claims).host

    # Move.

    def resize(self, spec_obj: Any, instance_uuid: str, context: Any = None) -> list[Any]:
        """Give a server the size of ``spec_obj``. Returns Selections as ``place`` does.

        The server stays on its host, unless ``ignore_hosts`` contains that host, it lacks
        capacity, or a filter refuses it. Otherwise the server moves to another host. Raises
        NotFound, QuotaExceeded, NoValidHost and MaxRetriesExceeded; the server is unchanged then.
        """
        return self._move(RESIZE, spec_obj, instance_uuid, context)

    def migrate(self, spec_obj: Any, instance_uuid: str, context: Any = None) -> list[Any]:
        """Move a server to another host. Raises as ``resize`` does."""
        return self._move(MIGRATE, spec_obj, instance_uuid, context)

    def _move(self, kind: str, spec: Any, instance_uuid: str, context: Any) -> list[Any]:
        claims = self._claims.show(instance_uuid, context=context)
        if not claims:
            raise errors.NotFound(f'Instance {instance_uuid}')
        host = _home(claims).host
        earlier = [
            entry for entry in self._job_table.of_instance(instance_uuid) if entry.kind == kind
        ]
        uuid = jobs.uuid_of(kind, instance_uuid, sum(entry.state != QUEUED for entry in earlier))
        caller = jobs.Caller.of(context, spec, self._waiting.queue)
        job = jobs.new(kind, uuid, instance_uuid, caller, self._clock(), spec, source=host)
        entered = self._entries.enter(job, host, jobs.amounts(self._read(spec, instance_uuid)))
        with self._waiting.expecting([entered.uuid]):
            # The scheduler decides about all moves, so they go to the queue manager.
            unsent = self._unsent(self._sender.to_fallback, job) if entered.is_new else None
            outcome = self._one_outcome(entered, [unsent] if unsent else [])
        return self._selections(spec, entered, outcome, {})

    # Send and wait.

    def _unsent(self, send: Callable[[QueueJob], Any], job: QueueJob) -> Callable[[], Any] | None:
        """Send a job; if the broker does not accept it, returns the call to repeat later."""
        try:
            send(job)
        except errors.BrokerUnavailable as away:
            LOG.warning('Job %s is sent later: %s', job.uuid, away)
            return lambda: send(job)
        return None

    def _one_outcome(self, entered: EnteredJob, unsent: Sends) -> JobEnd:
        outcome = next(iter(self._outcomes([entered], unsent)))
        if not outcome.is_done:
            raise self._failure(entered, outcome)
        return outcome

    def _failure(self, entered: EnteredJob, outcome: JobEnd) -> errors.SchedError:
        return failure(entered.entry, outcome, self._settings().tell_callers)

    def _outcomes(self, entered: Sequence[EnteredJob], unsent: Sends) -> Iterable[JobEnd]:
        settings = self._settings()
        query_s = (
            settings.query_s if all(job.is_new for job in entered) else settings.joined_query_s
        )
        return self._waiting.each(
            [job.uuid for job in entered], unsent, settings.timeout_s, query_s
        )


def _home(claims: Sequence[Any]) -> Any:
    """Return the claim on the instance's current host; during a move it has another on the
    target."""
    return min(claims, key=lambda claim: (claim.state != CONFIRMED, bool(claim.move)))


def failure(entry: JobEntry, outcome: JobEnd, tell: str) -> errors.SchedError:
    """Return the error of a job. Unless ``tell`` (engine.explain.callers) is ALL it names no host
    of a create or a move, and has no words of a driver about them."""
    why = outcome.why or 'No reason was given.'
    if outcome.state == CANCELLED:
        return errors.NoValidHost(jobs.DELETED)
    if entry.kind == DELETE:
        return errors.BuildFailed(outcome.host, why)
    if why.startswith(jobs.EXHAUSTED):
        hosts = why.removeprefix(jobs.EXHAUSTED) if tell == callers.ALL else 'as many as allowed'
        return errors.MaxRetriesExceeded(entry.instance_uuid, hosts)
    if tell == callers.ALL or why == jobs.DELETED:
        return errors.NoValidHost(why)
    # Without the hosts on which the job has failed: the scheduler's part, which has the id of the
    # request, and the harmless part before it.
    before, start, refusal = why.partition(errors.NOT_ENOUGH)
    if not refusal:
        return errors.NoValidHost(callers.with_id(errors.NOT_ENOUGH, entry.request_id))
    harmless = before if before.startswith(FOR_TENANTS) else ''
    return errors.NoValidHost(harmless + start + refusal)

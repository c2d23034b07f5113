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
"""The steps for each kind of job with their calls, and the resulting action for its message."""

import contextlib
import functools
import json
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from nova_sched import errors
from nova_sched.claim import CONFIRMED, MIGRATION
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS, of_flavor, of_host
from nova_sched.extensions.queues.drivers import Driver
from nova_sched.extensions.queues.messages import NO_ROOM
from nova_sched.extensions.queues.node import NodeApi, NodeClaims
from nova_sched.extensions.queues.node.inflight import (
    Drop,
    Ending,
    JobThreads,
    PutBack,
    SendOn,
    Task,
)
from nova_sched.objects.job import (
    CREATE,
    DELETE,
    DONE,
    FAILED,
    MIGRATE,
    RESIZE,
    QueueJob,
)
from nova_sched.state.request import Request
from nova_sched.tracing import TRACER

LOG = logging.getLogger(__name__)

TIMEOUT_S = 60.0  # for an answer of the claims before the build; then another worker may try
RETRY_S = 2.0  # seconds before a call to the claims without an answer is repeated
NO_ANSWER = (errors.NoAnswer, errors.StoreUnavailable, errors.StoreFull)


class JobSteps:
    """The job types on one node.

    ``read(spec, instance_uuid)`` returns the Request of a RequestSpec, or raises Invalid.
    ``takes(request)`` is whether the filters keep the node for it: a queue only determines the
    flavor, not the project or the image. ``took(task)`` is called once the node holds the job's
    resources; before that the worker accepts no other job.
    """

    def __init__(
        self,
        node_api: NodeApi,
        claims: NodeClaims,
        driver: Driver,
        read: Callable[[Any, str], Request],
        takes: Callable[[Request], bool],
        took: Callable[[Task], None],
        threads: JobThreads,
    ):
        self._node_api, self._claims, self._driver = node_api, claims, driver
        self._threads = threads
        self._read, self._takes, self._took = read, takes, took
        self._kinds = {
            CREATE: self._arrive,
            MIGRATE: self._arrive,
            RESIZE: self._resize,
            DELETE: self._delete,
        }

    def run(self, task: Task) -> Ending:
        """Do a job. Return the action for its message."""
        try:
            return self._kinds[task.job.kind](task)
        except errors.Invalid as error:
            return self._failed(task, str(error))

    def recover(self, instance_uuid: str) -> None:
        """Settle an instance whose build was in progress when the process ended.

        It was built, or its job is delivered again. Raises BuildFailed if it cannot be removed.
        """
        if self._end_unless_confirmed(instance_uuid):
            LOG.info(
                'Instance %s was built before the end of the last process: it is kept',
                instance_uuid,
            )
            self._node_api.keep(instance_uuid)
            return
        LOG.info(
            'Instance %s was not built before the end of the last process: removed', instance_uuid
        )
        self._drive(self._driver.destroy, None, instance_uuid)
        self._node_api.undo(instance_uuid)

    def _end_unless_confirmed(self, instance_uuid: str) -> bool:
        """End the claim of an instance here unless it is confirmed. Return whether it is.

        A call of the last process that would confirm it may still be on its way.
        """
        while (claim := self._here(self._show(instance_uuid))) is not None:
            if claim.state == CONFIRMED:
                return True
            with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                self._abort_claim(instance_uuid, claim.name)
        return False

    # An instance that arrives: new, or from another host.

    def _arrive(self, task: Task) -> Ending:
        move = MIGRATION if task.job.kind == MIGRATE else None
        if move and task.job.source == self._node_api.host:
            return self._refused(task, 'its instance is to leave this host')
        if self._node_api.holds(task.uuid):
            claims = self._show(task.uuid)
            if not self._has_left(task.uuid, claims):
                return self._built_before(task, self._here(claims))
            LOG.info('Job %s: what is left of %s here is removed', task.job.uuid, task.uuid)
            try:
                self._remove(task)
            except errors.BuildFailed as error:
                return self._not_built(task, error)
        request = self._read(task.job.spec, task.uuid)
        if not task.job.claimed and not self._takes(request):
            return self._refused(task, 'the filters do not keep this node for it')
        try:
            self._node_api.begin(request, move)
        except errors.ComputeResourcesUnavailable as short:
            return self._refused(task, str(short))
        try:
            self._took(task)
            self._claim(task, move)
            claims = self._build(task)
        except Exception as error:  # noqa: BLE001, an unknown error is raised again
            self._node_api.undo(task.uuid, isinstance(error, errors.BuildFailed))
            return self._not_built(task, error)
        self._node_api.keep(task.uuid)
        return self._done(task, claims)

    def _built_before(self, task: Task, claim: Any) -> Ending:
        """The message was delivered again: only the answer or the acknowledgement was missing.
        ``claim`` is the one here, or None."""
        self._took(task)
        if claim is not None and claim.state == CONFIRMED and not claim.move:
            return self._done(task, [claim])
        try:
            return self._done(task, self._confirm(task))
        except (errors.ClaimNotFound, errors.Outdated) as error:
            LOG.warning('Job %s is dropped, its instance is here: %s', task.job.uuid, error)
            return Drop()

    def _has_left(self, instance_uuid: str, claims: Sequence[Any]) -> bool:
        """Return whether its claims show that an instance runs on another host, so that what this
        node has of it are remains. It may be on its way back, by a claim that has not brought what
        is here."""
        here = self._here(claims)
        if not any(claim.state == CONFIRMED and claim is not here for claim in claims):
            return False
        if here is None:
            return True
        name = self._node_api.claim_name(instance_uuid)
        if here.state != CONFIRMED:
            return name != here.name
        return bool(here.move) and name not in (None, here.name)

    def _remove(self, task: Task) -> None:
        """Remove all that is here of an instance. Raises BuildFailed."""
        self._drive(self._driver.destroy, task.job, task.uuid)
        self._node_api.destroy(task.uuid)

    def _claim(self, task: Task, move: str | None) -> None:
        """Claim the node, or find the claim of a job that was claimed before.

        Raises ClaimNotFound if that job has no claim here any more, and AlreadyPlaced if another
        worker has built or moved the instance.
        """
        if task.job.claimed:
            # Without a claim here, its message is late or was delivered twice, and the instance is
            # elsewhere or deleted: it would be built, and removed when it cannot be confirmed.
            task.claim = self._claim_here(task).name
            return
        wanted = task.job.spec, task.uuid, self._node_api.host, self._node_api.nodename
        if move is None:
            claim = functools.partial(self._claims.instance_claim, *wanted, new=True)
        else:
            claim = functools.partial(self._claims.resize_claim, *wanted, move)
        # A new node is unknown before its first report was accepted.
        held = self._ask_claims(claim, TIMEOUT_S, (*NO_ANSWER, errors.NodeNotFound))
        task.claim = held.name
        if move is None:
            return
        # Another worker may have moved it meanwhile. This is checked late: that worker's claim has
        # ended with this one, unless it was confirmed before.
        for held in self._show(task.uuid, TIMEOUT_S):
            if held.state == CONFIRMED and held.host not in (task.job.source, self._node_api.host):
                self._abort(task)
                raise errors.AlreadyPlaced(task.uuid, held.host)

    def _build(self, task: Task) -> list[Any]:
        """Have the driver build it, and confirm that. Returns its claims after that."""
        job, driver = task.job, self._driver
        trace = TRACER.begin('build', job=job.uuid, kind=job.kind, instance=task.uuid)
        error: BaseException | None = None
        try:
            if job.kind == CREATE:
                self._drive(driver.create, job, job.spec)
            else:
                self._drive(driver.migrate, job, job.spec, job.source)
            return self._confirm(task)
        except Exception as raised:
            error = raised
            try:
                self._drive(driver.destroy, job, task.uuid)
            except errors.BuildFailed as failed:
                LOG.error('The remains of instance %s cannot be removed: %s', task.uuid, failed)
            raise
        finally:
            if trace is not None:
                trace.end(error)

    def _not_built(self, task: Task, error: Exception) -> Ending:
        """Return the action for a job whose instance was undone."""
        job: Any = task.job
        match error:
            case errors.AlreadyPlaced():
                return self._done(task, [], error.args[1])
            case errors.ClaimNotFound() | errors.Outdated():
                if job.claimed and not self._has_successor(task):
                    LOG.info('Job %s: its claim has ended: %s', job.uuid, error)
                    job.alternates = None
                    return self._elsewhere(task)
                LOG.info('Job %s: another worker has taken over; it is undone here', job.uuid)
                return Drop()
            case errors.BuildFailed():
                LOG.warning('Job %s: %s', task.job.uuid, error)
                _keep(task, error)
                return self._elsewhere(task)
            case errors.ComputeResourcesUnavailable() | errors.NodeNotFound():
                return self._refused(task, str(error))
            case _ if isinstance(error, NO_ANSWER):
                return self._refused(task, str(error))
        raise error

    def _has_successor(self, task: Task) -> bool:
        """Return whether the instance has a claim that another message of its job may be about."""
        return any(claim.host != task.job.source for claim in self._show(task.uuid))

    def _refused(self, task: Task, why: str) -> Ending:
        """The node refuses the job: another subscriber of its queue may take it, or the
        alternates."""
        LOG.info('Job %s is not for this node: %s', task.job.uuid, why)
        if task.job.claimed:
            return self._elsewhere(task)
        # No other worker consumes from this node's own queue.
        return (
            SendOn(FALLBACK, task.job)
            if task.delivery.queue == of_host(self._node_api.host)
            else PutBack()
        )

    def _elsewhere(self, task: Task) -> Ending:
        """The job has failed here: send it to the next alternate, or to the fallback queue."""
        job: Any = task.job
        host = self._node_api.host
        job.tried = [*job.tried, host]
        left = _alternates(job) if job.claimed else []
        context = messages.context(job)
        if left and task.claim is None:
            task.claim = self._claim_name(task)
        while left:
            (other, nodename), *left = left
            moved = job.spec, task.uuid, host, other, nodename
            try:
                call = functools.partial(self._claims.claim_alternate, *moved, context=context)
                self._ask_claims(functools.partial(call, claim=task.claim))
            except NO_ROOM as short:
                LOG.info('Job %s is not for host %s: %s', job.uuid, other, short)
                continue
            except (errors.ClaimNotFound, errors.Outdated) as error:
                LOG.info('Job %s has no claim here to move: %s', job.uuid, error)
                break
            job.alternates = json.dumps(left)
            return SendOn(of_host(other), job)
        self._abort(task)
        job.claimed, job.alternates = False, None
        return SendOn(FALLBACK, job)

    # An instance that is here.

    def _resize(self, task: Task) -> Ending:
        if not self._node_api.holds(task.uuid):
            return self._failed(task, f'the instance is not on host {self._node_api.host}')
        job = task.job
        # An earlier process was cut off in a resize: either size may run.
        is_doubtful = self._node_api.has_two_sizes(task.uuid)
        try:
            self._node_api.resize(self._read(job.spec, task.uuid))
        except errors.ComputeResourcesUnavailable as short:
            return self._away(task, short)
        try:
            self._took(task)
            if not job.claimed:
                wanted = job.spec, task.uuid, self._node_api.host, self._node_api.nodename
                resized = self._ask_claims(lambda: self._claims.resize_claim(*wanted))
                task.claim = resized.name
            self._drive(self._driver.resize, job, job.spec)
        except (*NO_ROOM, errors.ClaimNotFound, errors.Outdated, errors.BuildFailed) as error:
            if not is_doubtful:
                self._node_api.revert_resize(task.uuid)
            return self._not_resized(task, error)
        try:
            ending = self._done(task, self._confirm(task))
        except (errors.ClaimNotFound, errors.Outdated) as error:
            ending = self._failed(task, str(error))
        # It has its new size, whatever has become of its claim.
        self._node_api.confirm_resize(task.uuid)
        return ending

    def _not_resized(self, task: Task, error: errors.SchedError) -> Ending:
        """Return the action for a job whose instance the driver has not resized."""
        match error:
            case errors.ClaimNotFound() | errors.Outdated():
                return self._failed(task, str(error))
            case errors.BuildFailed():
                if (name := self._claim_name(task)) is not None:
                    try:
                        self._ask_claims(lambda: self._claims.revert_claim(task.uuid, claim=name))
                    except (errors.ClaimNotFound, errors.Outdated) as gone:
                        LOG.debug('Instance %s has no claim of two sizes: %s', task.uuid, gone)
                _keep(task, error)
                return self._failed(task, error.why)
        return self._away(task, error)

    def _away(self, task: Task, short: Exception) -> Ending:
        """The new size does not fit here: another host gets the instance and moves it
        from here."""
        LOG.info('Job %s: instance %s cannot be resized here: %s', task.job.uuid, task.uuid, short)
        job: Any = task.job
        job.kind, job.source = MIGRATE, self._node_api.host
        if job.claimed:
            return self._elsewhere(task)
        return SendOn(FALLBACK if job.queue is None else of_flavor(job.queue), job)

    def _delete(self, task: Task) -> Ending:
        self._took(task)
        # Before it is destroyed: a claim that is made here later is of another server.
        claims = self._show(task.uuid)
        if task.job.source is not None and not task.job.claimed:  # only the remains of a move
            if not self._has_left(task.uuid, claims):
                return self._failed(task, 'its claims do not show the instance on another host')
        elif (here := self._here(claims)) is not None:
            task.claim = here.name
        try:
            self._remove(task)
        except errors.BuildFailed as error:
            _keep(task, error)
            return self._failed(task, error.why)
        if task.claim is not None:
            self._abort(task, confirmed=True)
        return self._done(task, [])

    # Answers.

    def _done(self, task: Task, claims: list[Any], host: str | None = None) -> SendOn:
        """Return the outcome for this host, or for another ``host``, whose nodename is unknown."""
        done = messages.result(
            task.job,
            DONE,
            task.delivery.tries,
            host=host or self._node_api.host,
            nodename=None if host else self._node_api.nodename,
            claim=claims[0] if claims else None,
        )
        return SendOn(RESULTS, done)

    def _failed(self, task: Task, why: str) -> SendOn:
        LOG.warning('Job %s has failed: %s', task.job.uuid, why)
        where = self._node_api.host, self._node_api.nodename
        return SendOn(RESULTS, messages.result(task.job, FAILED, task.delivery.tries, why, *where))

    # Calls to the claims and to the driver.

    def _ask_claims(
        self,
        call: Callable[[], Any],
        timeout_s: float = math.inf,
        passing: tuple[type[errors.SchedError], ...] = NO_ANSWER,
    ) -> Any:
        """Return the answer of the claims; repeats the call until they answer.

        Raises their refusal, unless that is ``passing``; NoAnswer after ``timeout_s`` seconds.
        """
        waited_s = 0.0
        while True:
            try:
                return self._threads.call(call)
            except Exception as error:
                if isinstance(error, errors.SchedError) and not isinstance(error, passing):
                    raise
                if waited_s >= timeout_s:
                    raise errors.NoAnswer('claims', str(error)) from error
                if not waited_s:
                    LOG.warning('The claims are asked again until they answer: %s', error)
            self._threads.pause(RETRY_S)
            waited_s += RETRY_S

    def _show(self, instance_uuid: str, timeout_s: float = math.inf) -> list[Any]:
        """Return the claims of an instance, oldest first."""
        return self._ask_claims(lambda: self._claims.show(instance_uuid), timeout_s)

    def _here(self, claims: Sequence[Any]) -> Any:
        """Return the claim on this host, or None."""
        return next((claim for claim in claims if claim.host == self._node_api.host), None)

    def _claim_here(self, task: Task) -> Any:
        """Return the instance's claim on this host. Raises ClaimNotFound."""
        claim = self._here(self._show(task.uuid))
        if claim is None:
            raise errors.ClaimNotFound(f'instance {task.uuid} on host {self._node_api.host}')
        return claim

    def _claim_name(self, task: Task) -> str | None:
        """Return the name of the job's claim, or of the one that is here; None without one."""
        try:
            return task.claim or self._claim_here(task).name
        except errors.ClaimNotFound:
            return None

    def _confirm(self, task: Task) -> list[Any]:
        """Confirm the instance's claim here, which decides which worker has built it.

        Raises ClaimNotFound and Outdated.
        """
        name = task.claim or self._claim_here(task).name
        self._node_api.built(task.uuid, name)
        confirm = self._claims.confirm_claim
        return self._ask_claims(lambda: confirm(task.uuid, self._node_api.host, claim=name))

    def _abort(self, task: Task, confirmed: bool = False) -> None:
        """End its claim on this host, if there is one. ``confirmed``: also a confirmed one."""
        if (name := self._claim_name(task)) is None:
            return
        try:
            self._abort_claim(task.uuid, name, confirmed)
        except (errors.ClaimNotFound, errors.Outdated) as error:
            LOG.debug('Instance %s has no such claim here: %s', task.uuid, error)

    def _abort_claim(self, instance_uuid: str, name: str, confirmed: bool = False) -> None:
        """Raise ClaimNotFound and Outdated."""
        abort, host = self._claims.abort_claim, self._node_api.host
        self._ask_claims(lambda: abort(instance_uuid, host, claim=name, confirmed=confirmed))

    def _drive(self, call: Callable[..., None], *args: Any) -> None:
        """Call a method of the driver. Raises BuildFailed for each error of the driver."""
        try:
            self._threads.call(call, *args)
        except errors.BuildFailed:
            raise
        except Exception as error:
            LOG.exception('The driver has failed with an unexpected error')
            raise errors.BuildFailed(
                self._node_api.host, f'{type(error).__name__}: {error}'
            ) from error


def _keep(task: Task, error: errors.BuildFailed) -> None:
    """Keep what the driver has said with the job."""
    job: Any = task.job
    job.failures = messages.with_failure(job.failures if 'failures' in job else None, error)


def _alternates(job: QueueJob) -> list[tuple[str, str]]:
    """Return (host, nodename) of the remaining alternates; none if they cannot be read."""
    try:
        return [
            (str(host), str(nodename)) for host, nodename in json.loads(job.alternates or '[]')
        ]
    except (ValueError, TypeError, RecursionError):
        LOG.warning('The alternates of job %s cannot be read: %.200s', job.uuid, job.alternates)
        return []

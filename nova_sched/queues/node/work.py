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
"""The steps for each kind of job, and the resulting action for its message."""

import dataclasses
import json
import logging
from collections.abc import Callable, Generator
from typing import Any

from nova_sched import errors
from nova_sched.objects.claim import CONFIRMED, MIGRATION
from nova_sched.objects.job import (
    CREATE,
    DELETE,
    DONE,
    FAILED,
    MIGRATE,
    RESIZE,
    QueueJob,
    QueueResult,
)
from nova_sched.queues.broker import FALLBACK, RESULTS, of_flavor, of_host
from nova_sched.queues.drivers import Driver
from nova_sched.queues.node.asking import NO_ANSWER, Asking
from nova_sched.queues.node.hands import Task
from nova_sched.queues.node.site import Claims, Site
from nova_sched.queues.node.steps import BROKER, Call, Step
from nova_sched.queues.sending import NO_ROOM
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

PATIENCE_S = 60.0  # for an answer of the claims before the build; then another worker may try


@dataclasses.dataclass(frozen=True, slots=True)
class Send:
    """Another message replaces this one, which is then acknowledged."""

    queue: str
    message: QueueJob | QueueResult


@dataclasses.dataclass(frozen=True, slots=True)
class PutBack:
    """The message is returned for another worker."""


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """The message is acknowledged without an answer."""


Ending = Send | PutBack | Drop
Course = Generator[Step, Any, Ending]


class Work:
    """The job types on one node.

    ``read(spec, instance_uuid)`` returns the Request of a RequestSpec, or raises Invalid.
    ``takes(request)`` is whether the filters keep the node for it: a queue only determines the
    flavor, not the project or the image. ``took(task)`` is called, as a step, once the node holds
    the job's resources; before that the worker accepts no other job.
    """

    def __init__(
        self,
        site: Site,
        claims: Claims,
        driver: Driver,
        read: Callable[[Any, str], Request],
        takes: Callable[[Request], bool],
        took: Callable[[Task], None],
    ):
        self._site, self._claims, self._driver = site, claims, driver
        self._ask = Asking(claims, driver, site.host)
        self._read, self._takes, self._took = read, takes, took
        self._courses = {
            CREATE: self._arrive,
            MIGRATE: self._arrive,
            RESIZE: self._resize,
            DELETE: self._delete,
        }

    def course(self, task: Task) -> Course:
        """The steps of a job."""
        try:
            return (yield from self._courses[task.job.kind](task))
        except errors.Invalid as error:
            return self._failed(task, str(error))

    def recover(self, instance_uuid: str) -> Generator[Step, Any, None]:
        """Settle an instance whose build was in progress when the process ended.

        It was built, or its job is delivered again. Raises BuildFailed if it cannot be removed.
        """
        claims = yield from self._ask.claims(lambda: self._claims.show(instance_uuid))
        if any(one.state == CONFIRMED and one.host == self._site.host for one in claims):
            LOG.info(
                'Instance %s was built before the end of the last process: it is kept',
                instance_uuid,
            )
            self._site.keep(instance_uuid)
            return
        LOG.info(
            'Instance %s was not built before the end of the last process: removed', instance_uuid
        )
        yield from self._ask.driver(lambda: self._driver.destroy(None, instance_uuid))
        self._site.undo(instance_uuid)

    # An instance that arrives: new, or from another host.

    def _arrive(self, task: Task) -> Course:
        move = MIGRATION if task.job.kind == MIGRATE else None
        if move and task.job.source == self._site.host:
            return (yield from self._refused(task, 'its instance is to leave this host'))
        if self._site.holds(task.uuid):
            return (yield from self._built_before(task))
        request = self._read(task.job.spec, task.uuid)
        if not task.job.claimed and not self._takes(request):
            return (yield from self._refused(task, 'the filters do not keep this node for it'))
        try:
            self._site.begin(request, move)
        except errors.ComputeResourcesUnavailable as short:
            return (yield from self._refused(task, str(short)))
        try:
            yield Call(BROKER, lambda: self._took(task))
            yield from self._claim(task, move)
            claims = yield from self._build(task)
        except Exception as error:  # noqa: BLE001, an unknown error is raised again
            self._site.undo(task.uuid, isinstance(error, errors.BuildFailed))
            return (yield from self._not_built(task, error))
        self._site.keep(task.uuid)
        return self._done(task, claims)

    def _built_before(self, task: Task) -> Course:
        """The message was redelivered: only the answer or the acknowledgement was missing."""
        yield Call(BROKER, lambda: self._took(task))
        try:
            return self._done(task, (yield from self._ask.confirm(task)))
        except errors.ClaimNotFound as error:
            LOG.warning('Job %s is dropped, its instance is here: %s', task.job.uuid, error)
            return Drop()

    def _claim(self, task: Task, move: str | None) -> Generator[Step, Any, None]:
        if task.job.claimed:
            return
        job, node = task.job, (self._site.host, self._site.nodename)
        if move is None:
            claim = lambda: self._claims.instance_claim(job.spec, task.uuid, *node, new=True)  # noqa: E731
        else:
            claim = lambda: self._claims.resize_claim(job.spec, task.uuid, *node, move)  # noqa: E731
        # A new node is unknown before its first report was accepted.
        yield from self._ask.claims(claim, PATIENCE_S, (*NO_ANSWER, errors.NodeNotFound))
        if move is not None:
            yield from self._check_source(task)

    def _check_source(self, task: Task) -> Generator[Step, Any, None]:
        """Raise AlreadyPlaced if another worker has moved the instance meanwhile.

        This is checked late: that worker's claim has ended with this one, unless it was confirmed
        before.
        """
        claims = yield from self._ask.claims(lambda: self._claims.show(task.uuid), PATIENCE_S)
        for one in claims:
            if one.state == CONFIRMED and one.host not in (task.job.source, self._site.host):
                yield from self._ask.abort(task)
                raise errors.AlreadyPlaced(task.uuid, one.host)

    def _build(self, task: Task) -> Generator[Step, Any, list[Any]]:
        """Have the driver build it, and confirm that. Returns its claims after that."""
        job, driver = task.job, self._driver
        try:
            if job.kind == CREATE:
                yield from self._ask.driver(lambda: driver.create(job, job.spec))
            else:
                yield from self._ask.driver(lambda: driver.migrate(job, job.spec, job.source))
            self._site.built(task.uuid)
            return (yield from self._ask.confirm(task))
        except Exception:
            yield from self._ask.clean(task)
            raise

    def _not_built(self, task: Task, error: Exception) -> Course:
        """Returns the action for a job whose instance was undone."""
        match error:
            case errors.AlreadyPlaced():
                return self._done(task, [], error.args[1])
            case errors.ClaimNotFound():
                LOG.info('Job %s: another worker has taken over; it is undone here', task.job.uuid)
                return Drop()
            case errors.BuildFailed():
                LOG.warning('Job %s: %s', task.job.uuid, error)
                return (yield from self._elsewhere(task))
            case errors.ComputeResourcesUnavailable() | errors.NodeNotFound():
                return (yield from self._refused(task, str(error)))
            case _ if isinstance(error, NO_ANSWER):
                return (yield from self._refused(task, str(error)))
        raise error

    def _refused(self, task: Task, why: str) -> Course:
        """The node refuses the job: another subscriber of its queue may take it, or the
        alternates."""
        LOG.info('Job %s is not for this node: %s', task.job.uuid, why)
        if task.job.claimed:
            return (yield from self._elsewhere(task))
        # No other worker consumes from this node's own queue.
        return (
            Send(FALLBACK, task.job)
            if task.delivery.queue == of_host(self._site.host)
            else PutBack()
        )

    def _elsewhere(self, task: Task) -> Course:
        """The job has failed here: send it to the next alternate, or to the fallback queue."""
        job: Any = task.job
        host = self._site.host
        job.tried = [*job.tried, host]
        left = _alternates(job) if job.claimed else []
        while left:
            (other, nodename), *left = left
            here = other, nodename
            try:
                yield from self._ask.claims(
                    lambda: self._claims.claim_alternate(job.spec, task.uuid, host, *here)  # noqa: B023
                )
            except NO_ROOM as short:
                LOG.info('Job %s is not for host %s: %s', job.uuid, other, short)
                continue
            job.alternates = json.dumps(left)
            return Send(of_host(other), job)
        yield from self._ask.abort(task)
        job.claimed, job.alternates = False, None
        return Send(FALLBACK, job)

    # An instance that is here.

    def _resize(self, task: Task) -> Course:
        if not self._site.holds(task.uuid):
            return self._failed(task, f'the instance is not on host {self._site.host}')
        try:
            self._site.resize(self._read(task.job.spec, task.uuid))
        except errors.ComputeResourcesUnavailable as short:
            return (yield from self._away(task, short))
        try:
            yield Call(BROKER, lambda: self._took(task))
            claims = yield from self._resized(task)
        except NO_ROOM as short:
            self._site.revert_resize(task.uuid)
            return (yield from self._away(task, short))
        except errors.ClaimNotFound as error:
            self._site.revert_resize(task.uuid)
            return self._failed(task, str(error))
        except errors.BuildFailed as error:
            self._site.revert_resize(task.uuid)
            yield from self._ask.revert(task)
            return self._failed(task, error.args[1])
        self._site.confirm_resize(task.uuid)
        return self._done(task, claims)

    def _resized(self, task: Task) -> Generator[Step, Any, list[Any]]:
        job, node = task.job, (self._site.host, self._site.nodename)
        if not job.claimed:
            yield from self._ask.claims(
                lambda: self._claims.resize_claim(job.spec, task.uuid, *node)
            )
        yield from self._ask.driver(lambda: self._driver.resize(job, job.spec))
        return (yield from self._ask.confirm(task))

    def _away(self, task: Task, short: Exception) -> Course:
        """The new size does not fit here: another host gets the instance and moves it
        from here."""
        LOG.info('Job %s: instance %s cannot be resized here: %s', task.job.uuid, task.uuid, short)
        job: Any = task.job
        job.kind, job.source = MIGRATE, self._site.host
        if job.claimed:
            return (yield from self._elsewhere(task))
        return Send(FALLBACK if job.queue is None else of_flavor(job.queue), job)

    def _delete(self, task: Task) -> Course:
        yield Call(BROKER, lambda: self._took(task))
        try:
            yield from self._ask.driver(lambda: self._driver.destroy(task.job, task.uuid))
        except errors.BuildFailed as error:
            return self._failed(task, error.args[1])
        self._site.destroy(task.uuid)
        yield from self._ask.abort(task)
        return self._done(task, [])

    # Answers.

    def _done(self, task: Task, claims: list[Any], host: str | None = None) -> Send:
        return self._answer(task, DONE, host=host, claim=claims[0] if claims else None)

    def _failed(self, task: Task, why: str) -> Send:
        LOG.warning('Job %s has failed: %s', task.job.uuid, why)
        return self._answer(task, FAILED, why=why)

    def _answer(self, task: Task, outcome: str, host: str | None = None, **fields: Any) -> Send:
        """Returns the outcome for this host, or for another ``host``, whose nodename is
        unknown."""
        where = {
            'host': host or self._site.host,
            'nodename': None if host else self._site.nodename,
        }
        words = {'why': None, 'claim': None, 'tries': task.delivery.tries} | where | fields
        return Send(RESULTS, QueueResult(job=task.job, outcome=outcome, **words))


def _alternates(job: QueueJob) -> list[tuple[str, str]]:
    """Returns (host, nodename) of the remaining alternates; none if they cannot be read."""
    try:
        return [
            (str(host), str(nodename)) for host, nodename in json.loads(job.alternates or '[]')
        ]
    except (ValueError, TypeError):
        LOG.warning('The alternates of job %s cannot be read: %.200s', job.uuid, job.alternates)
        return []

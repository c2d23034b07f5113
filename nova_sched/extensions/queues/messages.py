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
"""The messages of jobs: their bytes, and their way to a flavor queue, a node or the scheduler."""

import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any, cast

from oslo_context.context import RequestContext

from nova_sched import errors, objects, words
from nova_sched.claim import CONFIRMED, KEEPING_THE_SOURCE
from nova_sched.extensions.queues.brokers import FALLBACK, Broker, of_flavor, of_host, temporary
from nova_sched.objects.job import DELETE, FAILED, RESIZE, QueueJob, QueueResult

LOG = logging.getLogger(__name__)

Place = tuple[str, str]  # host and nodename
NO_ROOM = (errors.ComputeResourcesUnavailable, errors.NodeNotFound)
MAX_QUEUE_NAME = 255  # bytes of a queue's name, as AMQP has it
# A required service does not answer now: the job may be tried again.
AWAY = (errors.StoreUnavailable, errors.StoreFull, errors.BrokerUnavailable, errors.NoAnswer)


def place_of(selection: Any) -> Place:
    return selection.service_host, selection.nodename


class Sender:
    """Every method raises BrokerUnavailable: the job is then sent or not, and may be sent
    again."""

    def __init__(self, broker: Broker, claims: Any):
        self._broker, self._claims = broker, claims

    def to_flavor(self, job: QueueJob) -> None:
        """Send a job to the queue that it names; if that does not exist, to the scheduler."""
        body = to_bytes(job)
        if not self._broker.publish(of_flavor(job.queue), body):
            self._broker.publish(FALLBACK, body)

    def to_fallback(self, job: QueueJob) -> None:
        self._broker.publish(FALLBACK, to_bytes(job))

    def to_host(self, job: QueueJob, host: str) -> None:
        """Send a job to a node's own queue, where it waits for the node without a limit."""
        queue, body = of_host(host), to_bytes(job)
        if not self._broker.publish(queue, body):
            self._broker.declare([queue])
            self._broker.publish(queue, body)

    def to_node(self, job: QueueJob, host: str) -> bool:
        """Send a job to a node's own queue; returns whether that exists.

        If the job is not taken in time, it goes to the scheduler.
        """
        return self._broker.publish(of_host(host), to_bytes(job), expires=True)

    def has_worker(self, host: str) -> bool:
        """Whether a worker is subscribed to a node's own queue, busy or not."""
        facts = self._broker.facts(of_host(host))
        return facts is not None and facts.consumers > 0

    def to_first(self, job: Any, places: Sequence[Place], context: Any = None) -> Place | None:
        """Send a claimed job to the first of these places that has a worker, and move its claim
        there.

        The claim is on the first place at the start. Returns the place, or None if none has a
        worker. Then the job's ``tried`` names all of them, and the claim may be on one. A job that
        is not taken in time goes to the scheduler. Raises also NoAnswer or StoreUnavailable.
        """
        job.claimed, at = True, places[0][0]
        for number, (host, nodename) in enumerate(places):
            if number:
                claims = self._claims.show(job.instance_uuid, context=context)
                name = next((claim.name for claim in claims if claim.host == at), None)
                moved = job.spec, job.instance_uuid, at, host, nodename
                try:
                    self._claims.claim_alternate(*moved, context=context, claim=name)
                except (*NO_ROOM, errors.ClaimNotFound, errors.Outdated) as short:
                    LOG.info('Job %s is not for host %s: %s', job.uuid, host, short)
                    continue
            at = host
            job.alternates = json.dumps(places[number + 1 :])
            if self.to_node(job, host):
                return host, nodename
            LOG.warning('Job %s: host %s was chosen and has no worker', job.uuid, host)
            job.tried = [*job.tried, host]
        return None

    def answer(self, result: QueueResult) -> None:
        """Send the result to the waiting caller; does nothing if the reply queue is gone."""
        if result.job.reply_to:
            self._broker.publish(result.job.reply_to, to_bytes(result))

    def deny(self, job: QueueJob, why: str) -> None:
        """Send a failure to the waiting caller."""
        self.answer(result(job, FAILED, len(job.tried), why))


def result(
    job: QueueJob,
    outcome: str,
    tries: int,
    why: str | None = None,
    host: str | None = None,
    nodename: str | None = None,
    claim: Any = None,
) -> QueueResult:
    """Return the result of a job."""
    return QueueResult(
        job=job,
        outcome=outcome,
        tries=tries,
        why=why,
        host=host,
        nodename=nodename,
        claim=claim,
    )


def context(job: QueueJob) -> RequestContext:
    """Return the context of the caller: calls for a job are under the ID of its request."""
    return RequestContext(
        request_id=job.request_id, project_id=job.project_id, user_id=job.user_id, overwrite=False
    )


def take_back(claims: Any, job: QueueJob, kind: str) -> list[str]:
    """Revert what was claimed for a resize or a migration and is not settled. Return the hosts to
    which the instance was to move.

    ``kind`` is the one in the job's row: a resize may have become a migration since.
    """
    hosts = []
    for claim in claims.show(job.instance_uuid):
        if claim.host == job.source:
            is_taken = kind == RESIZE and claim.name != claim.uuid
        elif is_taken := _moves_for(job, claim):
            hosts.append(claim.host)
        if is_taken:
            with contextlib.suppress(errors.ClaimNotFound, errors.Outdated):
                claims.revert_claim(job.instance_uuid, claim=claim.name)
    return hosts


def _moves_for(job: QueueJob, claim: Any) -> bool:
    """Return whether a claim on another host than the source was made for this job. By a claim of
    somebody else the instance may run there."""
    if claim.move not in KEEPING_THE_SOURCE:
        return False
    if job.request_id is None or 'request_id' not in claim:  # of a scheduler of an older release
        return claim.state != CONFIRMED
    return claim.request_id == job.request_id


def to_bytes(message: QueueJob | QueueResult) -> bytes:
    """Return the body of a message."""
    return json.dumps(message.obj_to_primitive(), separators=(',', ':')).encode()


def read_job(body: bytes) -> QueueJob:
    """Return the job of a message's body, with every field set.

    Raises errors.Invalid for anything else: MalformedObject, or IncompatibleObject for an unknown
    major version.
    """
    return _whole_job(_read(body, QueueJob))


def read_result(body: bytes) -> QueueResult:
    """Return the result of a message's body, with every field of it and of its job set.

    Raises as ``read_job``.
    """
    result = _whole(_read(body, QueueResult))
    _whole_job(result.job)
    return result


def _read(body: bytes, kind: type) -> Any:
    try:
        primitive = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise errors.MalformedObject(kind.__name__, f'it is not JSON: {error!s:.100}') from None
    entity = objects.from_primitive(primitive)
    if not isinstance(entity, kind):
        raise errors.MalformedObject(kind.__name__, 'it is something else')
    return entity


# Fields of a job that are one name, and those of names and of texts.
NAMES = ('queue', 'source', 'project_id', 'user_id', 'request_id', 'reply_to')


def _whole_job(job: Any) -> QueueJob:
    _whole(job)
    for name in NAMES:
        text = getattr(job, name)
        if text and not words.is_name(text):
            raise errors.MalformedObject(f'QueueJob.{name}', f'{words.short(text)} is not a name')
    if not all(map(words.is_name, job.tried)):
        raise errors.MalformedObject('QueueJob.tried', 'they are not names of hosts')
    if job.reply_to and not temporary(job.reply_to):
        # An answer that is sent to workers or to the manager would be a message to them.
        raise errors.MalformedObject('QueueJob.reply_to', 'it is not a queue for replies')
    if job.queue and len(of_flavor(job.queue).encode()) > MAX_QUEUE_NAME:
        raise errors.MalformedObject('QueueJob.queue', 'its name is too long for a broker')
    if job.spec is None and job.kind != DELETE:
        raise errors.MalformedObject('QueueJob.spec', f'a job of the kind {job.kind} needs one')
    return cast(QueueJob, job)


def _whole(message: Any) -> Any:
    """Return the message with null for missing fields; raises MalformedObject if one is
    required."""
    for name, field in type(message).fields.items():
        if name in message:
            continue
        if not field.nullable:
            raise errors.MalformedObject(f'{message.obj_name()}.{name}', 'it is missing')
        setattr(message, name, None)
    return message


# The failed attempts at a job, with what drivers said: they stay with the job, for operators.

FAILURE_FIELDS = ('host', 'why', 'stdout', 'stderr')
MAX_FAILURES = 5  # attempts of one job that are kept, the latest


def with_failure(known: str | None, error: errors.BuildFailed) -> str:
    """Return the failures of a job (JSON text) with this one."""
    last = {
        'host': error.host,
        'why': error.why,
        'stdout': error.stdout,
        'stderr': error.stderr,
    }
    return json.dumps([*failures(known), last][-MAX_FAILURES:])


def failures(known: str | None) -> list[dict[str, Any]]:
    """Return the failures of a job, oldest first: mappings of host, why, stdout and stderr; none
    if the text is something else."""
    try:
        listed = json.loads(known) if known else []
    except (ValueError, RecursionError):
        return []
    if not isinstance(listed, list):
        return []
    latest = [failure for failure in listed if isinstance(failure, dict)][-MAX_FAILURES:]
    return [{name: failure.get(name) for name in FAILURE_FIELDS} for failure in latest]

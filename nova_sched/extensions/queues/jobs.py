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
"""Makes jobs and their entries in the job table, and computes their quota usage."""

import dataclasses
import datetime
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched import errors, words
from nova_sched.db.jobs import DONE, FAILED, JobEntry
from nova_sched.extensions.queues import messages
from nova_sched.objects.job import CREATE, DELETE, MIGRATE, RESIZE, QueueJob
from nova_sched.state.request import Request

NAMESPACE = uuid.UUID('5f0d7a26-6a53-4d0c-9a4e-6a6d0c1b8e57')  # of the UUIDs of jobs
MOVES = frozenset([RESIZE, MIGRATE])
DELETED = 'It was deleted before it was built.'
SERVERS = 'servers'
# Starts of reasons. After the first one the hosts follow.
EXHAUSTED = 'Exhausted all hosts available: tried '
NOT_TAKEN = 'no node has taken it from its queue within '
NOT_OFFERED = 'its flavor is not offered any more; '


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user and project of a job, and the queue on which the caller waits for the outcome."""

    project_id: str | None = None
    user_id: str | None = None
    request_id: str | None = None
    reply_to: str | None = None

    @classmethod
    def of(cls, context: Any, spec: Any = None, reply_to: str | None = None) -> 'Caller':
        """From a request context (None: unknown), and the spec that names the project."""
        project_id, user_id = (
            (getattr(spec, name) if spec is not None and name in spec else None)
            or getattr(context, name, None)
            for name in ('project_id', 'user_id')
        )
        request_id = getattr(context, 'request_id', None)
        return cls(
            project_id=project_id, user_id=user_id, request_id=request_id, reply_to=reply_to
        )


def uuid_of(kind: str, instance_uuid: str, number: int) -> str:
    """Return the UUID of an instance's job by number: a repeated request results in the
    same job."""
    return str(uuid.uuid5(NAMESPACE, f'{kind} {instance_uuid} {number}'))


def follow_up(job_uuid: str, host: str, number: int = 0) -> str:
    """Return the UUID of a delete on a host that follows an ended job, by number."""
    again = f' {number}' if number else ''
    return str(uuid.uuid5(NAMESPACE, f'{job_uuid} leaves {host}{again}'))


def new(
    kind: str,
    job_uuid: str,
    instance_uuid: str,
    caller: Caller,
    now_s: float,
    spec: Any = None,
    **fields: Any,
) -> QueueJob:
    """Return an untried job; ``fields`` are those of QueueJob."""
    facts: dict[str, Any] = {
        'queue': None,
        'source': None,
        'claimed': False,
        'alternates': None,
        'tried': [],
        'failures': None,
    }
    return QueueJob(
        uuid=job_uuid,
        kind=kind,
        instance_uuid=instance_uuid,
        spec=spec,
        created_at=datetime.datetime.fromtimestamp(now_s, datetime.UTC),
        **dataclasses.asdict(caller),
        **{**facts, **fields},
    )


def entry(job: QueueJob, now_s: float, host: str | None = None) -> JobEntry:
    """Return the job table entry of a job that is about to be sent; ``host`` is its
    destination."""
    return JobEntry(
        uuid=job.uuid,
        kind=job.kind,
        instance_uuid=job.instance_uuid,
        project_id=job.project_id,
        user_id=job.user_id,
        request_id=job.request_id,
        queue=job.queue,
        host=host,
        message=messages.to_bytes(job).decode(),
        created_s=now_s,
        updated_s=now_s,
    )


def of_entry(entry: JobEntry) -> QueueJob:
    """Return the job as it was first sent. Raises errors.Invalid if it has another release's
    format."""
    return messages.read_job(entry.message.encode())


def as_stored(stored_entry: JobEntry, message_job: QueueJob) -> QueueJob:
    """Return the job of an entry, with the progress that a message about it tells.

    The sender of a message may be a worker that somebody else controls: what the job is about, and
    who gets the answer, is in its row alone. Raises errors.Invalid if the message tells of another
    job.
    """
    kinds = (stored_entry.kind, MIGRATE) if stored_entry.kind == RESIZE else (stored_entry.kind,)
    facts = {
        'instance_uuid': (stored_entry.instance_uuid,),
        'project_id': (stored_entry.project_id,),
    }
    for name, stored in {**facts, 'kind': kinds}.items():
        value = getattr(message_job, name)
        if value not in stored:
            why = f'{words.short(value)} is not that of job {stored_entry.uuid}'
            raise errors.MalformedObject(f'QueueJob.{name}', why)
    job: Any = of_entry(stored_entry)
    for name in ('kind', 'claimed', 'alternates', 'tried', 'failures'):
        setattr(job, name, getattr(message_job, name))
    return job


def is_deleted(entries: Iterable[JobEntry], since: JobEntry) -> bool:
    """Whether a delete of the instance was requested after this job.

    A delete with a source does not count: it only removes the remains of a move there.
    """
    return any(
        entry.kind == DELETE
        and entry.state != FAILED
        and entry.created_s >= since.created_s
        and is_wanted(entry)
        for entry in entries
    )


def is_wanted_again(entries: Iterable[JobEntry], since: JobEntry) -> bool:
    """Whether another create of the instance was requested after this one and has not failed."""
    later = (
        entry for entry in entries if entry.kind == CREATE and entry.created_s > since.created_s
    )
    return any(entry.state != FAILED for entry in later)


def is_wanted(delete: JobEntry) -> bool:
    """Whether a user requested this delete, as opposed to the cleanup after a move."""
    return of_entry(delete).source is None


def amounts(request: Request) -> dict[str, int]:
    """Return the quota usage of a request, by resource: as Nova counts for unified limits.

    Dedicated CPUs are `class:PCPU` alone, regardless of how they are requested.
    """
    sums = amounts_of_claim(request.resources)
    for group in request.groups:
        for name, units in group.resources:
            sums[f'class:{name}'] = sums.get(f'class:{name}', 0) + units
    return sums


def amounts_of_claim(resources: Mapping[str, int]) -> dict[str, int]:
    """Return the quota usage of a claim, for an instance whose request is unknown."""
    return {SERVERS: 1, **{f'class:{name}': units for name, units in resources.items() if units}}


def last_size(entries: Iterable[JobEntry]) -> Any:
    """Return the spec of an instance's last build or resize, from its entries, oldest first.

    None if it is unknown.
    """
    sized = [entry for entry in entries if entry.kind != DELETE and entry.state == DONE]
    return of_entry(sized[-1]).spec if sized else None

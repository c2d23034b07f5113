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
"""What the end of a job leads to: a pure function of its row and of what is told.

Several records tell of one server: the row of its job, its claims, its node, its quota, the answer
to the caller. Each may be behind the others, a message may come late or twice, and a manager may
stop between two steps. Two records decide, and the others follow:

- which worker has built or moved the server: its claim. One worker confirms it, and for that the
  claim must still be there;
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

The rows of the deletes that follow, and the quota, are written with the row of the job. What
follows is done again whenever the end is told again, and changes nothing then.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from nova_sched.claim import CONFIRMED
from nova_sched.db.jobs import CANCELLED, QUEUED, JobEntry
from nova_sched.objects.job import CREATE, DELETE, DONE, FAILED, QueueJob
from nova_sched.queues import jobs


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
    told: str,
    host: str | None,
    entries: Callable[[], Sequence[JobEntry]],
) -> tuple[str, Consequences]:
    """Returns the state of the row after DONE or FAILED was told, and what follows.

    ``host`` is where it was done. ``entries()`` returns all jobs of the instance, oldest first.
    """
    state = told if entry.state == QUEUED else entry.state
    answer = DONE if state == DONE else FAILED
    if told == FAILED:
        is_first = entry.state == QUEUED
        return state, Consequences(
            answer,
            unclaims=entry.kind == CREATE and (is_first or state == CANCELLED),
            ends_quota=state == CANCELLED,
        )
    if entry.kind == DELETE:
        return state, Consequences(answer, ends_quota=job.source is None and state == FAILED)
    assert host is not None
    deletes = _moved if entry.kind != CREATE else _WHEN_BUILT[state]
    return state, Consequences(answer, tuple(deletes(entry, job, host, entries)))


def _kept(entry, _job, host, entries):
    """Built; by a redelivered job perhaps, after the server was deleted."""
    if entry.state == QUEUED:
        return
    found = entries()
    if jobs.is_deleted(found, since=entry) and not jobs.is_wanted_again(found, since=entry):
        yield FollowUp(host, keeps_quota=True)


def _given_up(entry, _job, host, entries):
    if not jobs.is_wanted_again(entries(), since=entry):
        yield FollowUp(host, keeps_quota=True)


def _cancelled(_entry, _job, host, _entries):
    yield FollowUp(host)


_WHEN_BUILT = {DONE: _kept, FAILED: _given_up, CANCELLED: _cancelled}


def _moved(entry, job, host, entries):
    """Remains at the source; on the new host, too, if the instance was deleted meanwhile."""
    if job.source and job.source != host:
        yield FollowUp(job.source, keeps_quota=True)
    if jobs.is_deleted(entries(), since=entry):
        yield FollowUp(host)


def arrived(job: QueueJob, claims: Sequence[Any]) -> Any:
    """Returns the confirmed claim on a host to which the job has brought the instance, or None."""
    for claim in claims:
        if claim.state == CONFIRMED and claim.host != job.source and not claim.move:
            return claim
    return None

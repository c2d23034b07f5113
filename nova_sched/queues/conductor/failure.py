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
"""The error of a job that was not done, as its conductor may pass it on to a tenant."""

from nova_sched import errors
from nova_sched.db.jobs import CANCELLED, JobEntry
from nova_sched.engine.explain import callers
from nova_sched.objects.job import DELETE
from nova_sched.queues import jobs
from nova_sched.queues.conductor.waiting import JobEnd

FOR_TENANTS = (jobs.NOT_TAKEN, jobs.NOT_OFFERED)


def failure(entry: JobEntry, outcome: JobEnd, tell: str) -> errors.SchedError:
    """Returns the error of a job. Unless ``tell`` (engine.explain.callers) is ALL it names no host
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
    return errors.NoValidHost(_for_tenants(why, entry.request_id))


def _for_tenants(why: str, request_id: str | None) -> str:
    """Returns the reason without the hosts on which the job has failed: the scheduler's part,
    which has the id of the request, and the harmless part before it."""
    before, start, refusal = why.partition(errors.NOT_ENOUGH)
    if not refusal:
        return callers.with_id(errors.NOT_ENOUGH, request_id)
    return (before if before.startswith(FOR_TENANTS) else '') + start + refusal

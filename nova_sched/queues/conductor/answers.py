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
"""The answer to a conductor for a job: the Selection of the host, or an error known to Nova."""

from collections.abc import Sequence
from typing import Any

from nova_sched import errors, objects
from nova_sched.db.jobs import CANCELLED
from nova_sched.engine.answer import ALLOCATION_VERSION
from nova_sched.objects.claim import CONFIRMED
from nova_sched.objects.job import DELETE
from nova_sched.queues import jobs
from nova_sched.queues.conductor.waiting import Outcome


def home(claims: Sequence[Any]) -> Any:
    """Returns the claim on the instance's current host; during a move it has another on the
    target."""
    return min(claims, key=lambda claim: (claim.state != CONFIRMED, bool(claim.move)))


def selection(claim: Any, cell_uuid: str, availability_zone: str | None) -> Any:
    """Returns a Selection of a server that runs already."""
    return objects.Selection(
        compute_node_uuid=claim.compute_node_uuid,
        service_host=claim.host,
        nodename=claim.nodename,
        cell_uuid=cell_uuid,
        limits=objects.SchedulerLimits(**dict.fromkeys(objects.SchedulerLimits.fields)),
        allocation_request=claim.allocation_request,
        allocation_request_version=ALLOCATION_VERSION,
        availability_zone=availability_zone,
    )


def failure(kind: str, instance_uuid: str, outcome: Outcome) -> errors.SchedError:
    """Returns the error of a job that was not done."""
    why = outcome.why or 'No reason was given.'
    if outcome.state == CANCELLED:
        return errors.NoValidHost(jobs.DELETED)
    if kind == DELETE:
        return errors.BuildFailed(outcome.host, why)
    if why.startswith(jobs.EXHAUSTED):
        return errors.MaxRetriesExceeded(instance_uuid, why.removeprefix(jobs.EXHAUSTED))
    return errors.NoValidHost(why)

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
"""The drivers that build instances on a compute node for the jobs of queues: interface and lookup.

A driver is a class that an entry point of the namespace ``nova_sched.drivers`` names.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from nova_sched import errors
from nova_sched.engine import catalog
from nova_sched.objects.job import QueueJob

NAMESPACE = 'nova_sched.drivers'


@dataclasses.dataclass(frozen=True, slots=True)
class DriverSettings:
    """The configuration of the included drivers; ``seed`` is the seed of the random failures."""

    fake_seconds: float = 0.0
    fake_failures: float = 0.0  # share of the jobs
    exec_command: str | None = None
    exec_timeout_s: float = 900.0
    exec_user: str | None = None
    exec_environment: Sequence[str] = ()
    seed: int = 0


class Driver(abc.ABC):
    """Does jobs on one host. Its methods may be called from several threads at once.

    Each blocks until its work is done, and raises BuildFailed with a reason for users if it fails,
    and what was printed for operators, bounded.
    A job is delivered again if the agent ended during it. Each method must therefore accept that
    its work is done or partly done. An instance whose ``create`` or ``migrate`` failed is
    destroyed afterwards.
    """

    def __init__(self, settings: Any, host: str):
        """Raise BadConfig."""
        self.settings, self.host = settings, host

    @abc.abstractmethod
    def create(self, job: QueueJob, spec: Any) -> None:
        """Build the instance of the job; ``spec`` is its RequestSpec."""

    @abc.abstractmethod
    def destroy(self, job: QueueJob | None, instance_uuid: str) -> None:
        """Remove everything on this host that belongs to an instance, however little that is.

        ``job`` is the delete, or the job that could not be ended; None for an instance found at
        the start.
        """

    @abc.abstractmethod
    def resize(self, job: QueueJob, spec: Any) -> None:
        """Give the instance, which is here, the size of ``spec``. A failure leaves it
        unchanged."""

    @abc.abstractmethod
    def migrate(self, job: QueueJob, spec: Any, source: str | None) -> None:
        """Bring the instance here from the host ``source``, in the size of ``spec``.

        The instance stays on the source, too.
        """

    def close(self) -> None:  # noqa: B027, most have nothing to do
        """End running work: the agent ends, and its outcome is no longer used."""


def find(name: str) -> type[Driver]:
    """Return the class of a driver. Raises BadConfig for an unknown name."""
    known = catalog.known(NAMESPACE)
    if name not in known:
        why = f'no driver is named {name}; there are {", ".join(known)}'
        raise errors.BadConfig('[queues] driver', why)
    return known[name]

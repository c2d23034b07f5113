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
"""What the agent does: takes and gives up instances, and says what its node has and holds."""

import dataclasses
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched import errors, objects
from nova_sched.agent import Settings, inventory, machine, pools, usage
from nova_sched.agent.instances import ACTIVE, BUILDING, Instance, Instances
from nova_sched.agent.node import Node
from nova_sched.hardware import Overdrawn
from nova_sched.objects.claiming import Claim
from nova_sched.state.request import Request


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """All that a report says: the node, its provider tree in Placement's form, the instances on it."""

    node: objects.ComputeNode
    inventories: Mapping[str, Mapping[str, Any]]
    instances: frozenset[str]

    def tells_more_than(self, other: 'Facts | None') -> bool:
        """Whether there is news in this, for somebody who was told the other."""
        return (
            other is None
            or self.instances != other.instances
            or self.inventories != other.inventories
            or machine.changed(other.node, self.node)
        )


class Agent:
    """One compute node. Its methods may be called from any thread.

    ``news`` is an event that is set whenever there is something new to tell. An instance that comes and goes
    between two reports is told once all the same: its claim ends when a report does not list it any more, and
    one that was never listed would wait for that in vain.
    """

    def __init__(self, settings: Settings, instances: Instances):
        """Look at the machine for the first time. Raises BadMachineFacts."""
        self.news = threading.Event()
        self._settings = settings
        self._instances = instances
        self._machine = machine.read(settings)
        self._failed_builds = 0  # since the last good one
        self._untold = {one.uuid for one in instances}
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        return self._settings.host

    def look(self) -> Facts:
        """Read the machine again, and say what there is. Raises BadMachineFacts."""
        self._machine = machine.read(self._settings)
        with self._lock:
            return self._facts(tuple(self._instances))

    def _facts(self, here: tuple[Instance, ...]) -> Facts:
        used = usage.total([one.guest() for one in here], self._failed_builds)
        node = machine.describe(self._machine, self._settings, used)
        listed = frozenset(one.uuid for one in here) | self._untold
        return Facts(node, inventory.inventories(node, self._settings), listed)

    def told(self, facts: Facts) -> None:
        """The scheduler has taken this report."""
        with self._lock:
            self._untold -= facts.instances

    def build(self, request: Request, finished: bool = True) -> None:
        """Check again that there is room for a request, and take its instance.

        ``finished`` False if its build goes on until ``finish`` says that it has ended. A repeated request
        takes the place of the first. Raises ComputeResourcesUnavailable with all that is short, or if the
        list of instances cannot be written; then the instance is not here.
        """
        with self._lock:
            try:
                self._take(request, ACTIVE if finished else BUILDING)
            except errors.ComputeResourcesUnavailable:
                self._failed_builds += 1
                raise
            finally:
                self.news.set()

    def _take(self, request: Request, vm_state: str) -> None:
        others = tuple(one for one in self._instances if one.uuid != request.instance_uuid)
        facts = self._facts(others)
        uuid, settings = facts.node.uuid, self._settings
        inventories = facts.inventories[uuid]['inventories']
        node = Node(uuid, inventories, others, facts.node.machine, settings.packing)
        claim = node.instance_claim(request)
        instance = Instance(
            uuid=claim.consumer_uuid,
            resources=claim.resources,
            vm_state=vm_state,
            project_id=claim.project_id,
            os_type=request.image_properties.get('os_type'),
            parts=claim.parts,
            devices=self._addresses(claim, others),
        )
        try:
            self._instances.put(instance)
        except errors.BadMachineFacts as error:
            raise errors.ComputeResourcesUnavailable(claim.node_uuid, str(error)) from error
        self._untold.add(instance.uuid)
        if vm_state == ACTIVE:
            self._failed_builds = 0

    def _addresses(self, claim: Claim, others: Iterable[Instance]) -> frozenset[str]:
        """Which of the machine's devices the claim gets."""
        wanted = [some.pool for some in claim.parts.devices] if claim.parts else []
        taken = frozenset().union(*(one.devices for one in others))
        try:
            specs = pools.parse(self._settings.device_spec)
            return pools.pick(self._machine.devices, specs, taken, wanted)
        except Overdrawn as short:
            raise errors.ComputeResourcesUnavailable(claim.node_uuid, str(short)) from None

    def finish(self, instance_uuid: str) -> None:
        """The build has ended well. Raises NotFound, or BadMachineFacts if that cannot be written."""
        with self._lock:
            instance = self._instances.get(instance_uuid)
            if instance is None:
                raise errors.NotFound(f'Instance {instance_uuid} on host {self.host}')
            self._instances.put(dataclasses.replace(instance, vm_state=ACTIVE))
            self._failed_builds = 0
            self.news.set()

    def destroy(self, instance_uuid: str) -> bool:
        """It is gone. Returns whether it was here. Raises BadMachineFacts if that cannot be written."""
        with self._lock:
            here = instance_uuid in self._instances
            if here:
                self._instances.remove(instance_uuid)
                self.news.set()
            return here

    def instances(self) -> list[dict[str, Any]]:
        """The instances as plain values, by the names of their fields; ``parts`` as JSON text."""
        return [one.to_plain() for one in self._instances]

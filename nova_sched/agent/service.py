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
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nova_sched import errors, objects
from nova_sched.agent import Settings, difference, inventory, machine, pools, usage
from nova_sched.agent.instances import ACTIVE, BUILDING, RESIZED, Instance, Instances
from nova_sched.agent.node import Node
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.objects.claim import RESIZE
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """All that a report says: the node, its provider tree in Placement's form, the instances on
    it.

    ``held`` is what these instances hold, by resource class; one that is gone and is told for the
    last time is not in it.
    """

    node: objects.ComputeNode
    inventories: Mapping[str, Mapping[str, Any]]
    instances: frozenset[str]
    held: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    @property
    def provider(self) -> Mapping[str, Any]:
        """The node itself in the tree."""
        return self.inventories[self.node.uuid]

    @property
    def counted(self) -> difference.Counted:
        return difference.here(self.provider['inventories'], self.held)

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

    ``news`` is an event that is set whenever there is something new to tell. An instance that
    comes and goes between two reports is told once all the same: its claim ends when a report does
    not list it any more, and one that was never listed would wait for that in vain.

    What a job of a queue brings is hidden at first: it takes its room here, and reports are without it, for
    its claim is not to be confirmed by one before it is built::

        begin --> hidden --> built --> keep --> an instance like any other
                    |          |
                    +----------+-----> undo --> gone, and nobody was told
    """

    def __init__(self, settings: Settings, instances: Instances):
        """Look at the machine for the first time. Raises BadMachineFacts."""
        self.news = threading.Event()
        self._settings = settings
        self._instances = instances
        self._machine = machine.read(settings)
        self._failed_builds = 0  # since the last good one
        self._untold = {one.uuid for one in instances if not one.hidden}
        self._built: frozenset[str] = (
            frozenset()
        )  # hidden instances that reports list all the same
        self._watching: tuple[Callable[[], None], ...] = ()
        self._there: difference.Counted | None = (
            None  # what the scheduler counts, by its last answer
        )
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        return self._settings.host

    def watch(self, callback: Callable[[], None]) -> None:
        """Call this after each change of what the node holds: from any thread, in which it must
        not raise."""
        with self._lock:
            self._watching += (callback,)

    def _changed(self, is_news: bool = True) -> None:
        """Tell who waits for it; without the lock."""
        if is_news:
            self.news.set()
        for callback in self._watching:
            callback()

    def look(self) -> Facts:
        """Read the machine again, and say what there is to report. Raises BadMachineFacts."""
        self._machine = machine.read(self._settings)
        with self._lock:
            here = (one for one in self._instances if not one.hidden or one.uuid in self._built)
            return self._facts(tuple(here))

    def facts_with_hidden(self) -> Facts:
        """What there is, and hidden instances as well, on the machine as it was at the last
        look."""
        with self._lock:
            return self._facts(tuple(self._instances))

    def _facts(self, here: tuple[Instance, ...]) -> Facts:
        used = usage.total([one.guest() for one in here], self._failed_builds)
        node = machine.describe(self._machine, self._settings, used)
        listed = frozenset(one.uuid for one in here) | self._untold
        held = {one.uuid: one.resources for one in here}
        return Facts(node, inventory.inventories(node, self._settings), listed, held)

    def told(self, facts: Facts, there: difference.Counted | None = None) -> None:
        """The scheduler has taken this report; ``there`` is what it counts on the node."""
        with self._lock:
            self._untold -= facts.instances
            self._there = there

    def build(self, request: Request, finished: bool = True) -> None:
        """Check again that there is room for a request, and take its instance.

        ``finished`` False if its build goes on until ``finish`` says that it has ended. A repeated
        request takes the place of the first: so does a rebuild. Raises ComputeResourcesUnavailable
        with all that is short, or if the list of instances cannot be written; then the instance is
        not here.
        """
        with self._lock:
            try:
                self._take(request, ACTIVE if finished else BUILDING)
            except errors.ComputeResourcesUnavailable as short:
                self._failed_builds += 1
                self._explain(request, short)
                self.news.set()
                raise
            if finished:
                self._failed_builds = 0
        self._changed()

    def resize(self, request: Request) -> None:
        """Take an instance that comes here in another size, or give another size to one that is
        here.

        Until ``confirm_resize`` or ``revert_resize``, one that is here holds both sizes. A
        repeated request takes the place of the first. Raises as ``build`` does; then all is as it
        was.
        """
        with self._lock:
            here = self._instances.get(request.instance_uuid)
            try:
                if here is None or here.move:
                    self._take(request, RESIZED, RESIZE)
                else:
                    self._enlarge(here, request)
            except errors.ComputeResourcesUnavailable as short:
                self._explain(request, short)
                raise
        self._changed()

    def begin(self, request: Request, move: str | None = None) -> Instance:
        """Take an instance for a job; it is hidden until ``keep``, and ``undo`` forgets it.

        ``move`` (`resize` or `migration`) says what brings it here from another host. A repeated
        request takes the place of the first. One that is here and is not hidden stays so: it is
        given another size beside its own, if it shall have one, and is left as it is otherwise.
        Returns the instance as it is then; raises as ``build`` does.
        """
        with self._lock:
            here = self._instances.get(request.instance_uuid)
            try:
                taken = self._begin(here, request, move)
            except errors.ComputeResourcesUnavailable as short:
                self._explain(request, short)
                raise
        if taken is not here:
            self._changed(is_news=not taken.hidden)
        return taken

    def _begin(self, here: Instance | None, request: Request, move: str | None) -> Instance:
        if here is None or here.hidden:
            return self._take(request, BUILDING, move, hidden=True)
        if move != RESIZE or self._has_size(here, request):
            return here
        return self._take(request, RESIZED, move) if here.move else self._enlarge(here, request)

    def _has_size(self, here: Instance, request: Request) -> bool:
        """Whether it has all that is asked for, for good; of what has parts nobody can tell."""
        if here.is_open or here.parts or request.pieces:
            return False
        asked, _ = self._node(self._beside(here.uuid)).demand(request)
        return dict(asked) == dict(here.resources)

    def _take(
        self, request: Request, vm_state: str, move: str | None = None, hidden: bool = False
    ) -> Instance:
        others = self._beside(request.instance_uuid)
        node = self._node(others)
        claim = node.resize_claim(request, move=move) if move else node.instance_claim(request)
        taken = Instance(
            uuid=claim.consumer_uuid,
            resources=claim.resources,
            vm_state=vm_state,
            project_id=claim.project_id,
            os_type=request.image_properties.get('os_type'),
            parts=claim.parts,
            devices=self._addresses(claim.parts, others),
            move=claim.move,
            hidden=hidden,
        )
        self._put(taken)
        self._built -= {taken.uuid}
        if not hidden:
            self._untold.add(taken.uuid)
        return taken

    def _enlarge(self, here: Instance, request: Request) -> Instance:
        """Have it hold the size that is asked for beside its own; that may be smaller, too."""
        others = self._beside(here.uuid)
        node = self._node(others)
        claim = node.resize_claim(request, here.claim(node.uuid))
        fields = {'resources': claim.resources, 'resizing': claim.resizing, 'vm_state': RESIZED}
        devices = self._addresses(claim.resizing.parts, others)
        larger = dataclasses.replace(here, **fields, new_devices=devices)
        self._put(larger)
        return larger

    def _beside(self, instance_uuid: str) -> tuple[Instance, ...]:
        """All the other instances."""
        return tuple(one for one in self._instances if one.uuid != instance_uuid)

    def _node(self, instances: tuple[Instance, ...]) -> Node:
        """This node with these instances, to claim on it."""
        facts = self._facts(instances)
        return Node(
            facts.node.uuid,
            facts.provider['inventories'],
            instances,
            facts.node.machine,
            self._settings.packing,
            facts.provider['traits'],
        )

    def _addresses(
        self, parts: HardwareAllocation | None, others: Iterable[Instance]
    ) -> frozenset[str]:
        """Which of the machine's devices these parts are."""
        wanted = [some.pool for some in parts.devices] if parts else []
        taken = frozenset().union(*(one.all_devices for one in others))
        try:
            specs = pools.parse(self._settings.device_spec)
            return pools.pick(self._machine.devices, specs, taken, wanted)
        except Overdrawn as short:
            raise errors.ComputeResourcesUnavailable(self._machine.uuid, str(short)) from None

    def _put(self, instance: Instance) -> None:
        try:
            self._instances.put(instance)
        except errors.BadMachineFacts as error:
            raise errors.ComputeResourcesUnavailable(self._machine.uuid, str(error)) from error

    def _explain(self, request: Request, short: errors.ComputeResourcesUnavailable) -> None:
        """Log what is short by the node's own record, and where the scheduler's record differs."""
        ours = self._facts(tuple(self._instances)).counted
        theirs = difference.beside(request.resources, ours, self._there, request.instance_uuid)
        LOG.warning(
            'Instance %s is refused: %s. %s', request.instance_uuid, short.shortages, theirs
        )

    def built(self, instance_uuid: str) -> None:
        """What was begun is built, and its claim is about to be confirmed: reports list it from
        now on.

        Of the reports that come after that word, one that was on its way may lack it. By the next
        one it would be taken for gone, and without this call ``keep`` might come too late for that
        one. Raises NotFound. An agent that is started anew does not know of it: the instance is
        hidden again.
        """
        with self._lock:
            self._built |= {self._get(instance_uuid).uuid}

    def keep(self, instance_uuid: str) -> None:
        """What was begun has come to stay, in its new size. Raises as ``finish`` does."""
        with self._lock:
            here = self._get(instance_uuid)
            kept = dataclasses.replace(here.finished(self._machine.uuid), hidden=False)
            if kept != here:
                self._instances.put(kept)
                self._untold.add(instance_uuid)
            self._built -= {instance_uuid}
            self._failed_builds = 0
        self._changed()

    def undo(self, instance_uuid: str, failed: bool = False) -> bool:
        """Forget what was begun; an instance that was here before has its old size again.

        ``failed``: it could not be built here. Returns whether there was anything to forget.
        Raises BadMachineFacts if that cannot be written.
        """
        with self._lock:
            here = self._instances.get(instance_uuid)
            begun = here is not None and (here.hidden or here.resizing is not None)
            if begun:
                self._drop_or_put(instance_uuid, here.reverted(self._machine.uuid))
            self._failed_builds += failed
        if begun or failed:
            self._changed(is_news=failed or not here.hidden)
        return begun

    def hidden(self) -> list[Instance]:
        """What was begun, and is neither kept nor undone."""
        return [one for one in self._instances if one.hidden]

    def _get(self, instance_uuid: str) -> Instance:
        instance = self._instances.get(instance_uuid)
        if instance is None:
            raise errors.NotFound(f'Instance {instance_uuid} on host {self.host}')
        return instance

    def confirm_resize(self, instance_uuid: str) -> None:
        """The instance stays here, in its new size. Raises as ``finish`` does."""
        with self._lock:
            here = self._open(instance_uuid)
            self._instances.put(here.finished(self._machine.uuid))
        self._changed()

    def revert_resize(self, instance_uuid: str) -> None:
        """It has its old size again, or goes back to where it came from. Raises as ``finish``
        does."""
        with self._lock:
            before = self._open(instance_uuid).reverted(self._machine.uuid)
            self._drop_or_put(instance_uuid, before)
        self._changed()

    def _drop_or_put(self, instance_uuid: str, instance: Instance | None) -> None:
        if instance is None:
            self._instances.remove(instance_uuid)
            self._built -= {instance_uuid}
        else:
            self._instances.put(instance)

    def _open(self, instance_uuid: str) -> Instance:
        instance = self._instances.get(instance_uuid)
        if instance is None or not instance.is_open:
            raise errors.NotFound(f'Resize of instance {instance_uuid} on host {self.host}')
        return instance

    def finish(self, instance_uuid: str) -> None:
        """The build has ended well. Raises NotFound, or BadMachineFacts if that cannot be
        written."""
        with self._lock:
            self._instances.put(dataclasses.replace(self._get(instance_uuid), vm_state=ACTIVE))
            self._failed_builds = 0
        self._changed()

    def destroy(self, instance_uuid: str) -> bool:
        """It is gone. Returns whether it was here. Raises BadMachineFacts if that cannot be
        written."""
        with self._lock:
            here = instance_uuid in self._instances
            if here:
                self._drop_or_put(instance_uuid, None)
        if here:
            self._changed()
        return here

    def instances(self) -> list[dict[str, Any]]:
        """The instances as plain values, by the names of their fields; ``parts`` as JSON text."""
        return [one.to_plain() for one in self._instances]

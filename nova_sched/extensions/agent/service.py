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
"""The operations of the agent: accepts and removes instances, and describes its node's resources
and usage."""

import collections
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from nova_sched import errors, objects
from nova_sched.claim import RESIZE, Resizing
from nova_sched.extensions.agent import AgentSettings, difference, machine, pci, usage
from nova_sched.extensions.agent.instances import (
    ACTIVE,
    BUILDING,
    RESIZED,
    LocalInstance,
    LocalInstances,
)
from nova_sched.hardware import Overdrawn, providers
from nova_sched.hardware.machine import HardwareAllocation, Machine
from nova_sched.objects.claiming import ClaimableMixin, Usage
from nova_sched.state import demand
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The content of a report: the node, its provider tree in Placement's form, its instances.

    ``held`` are the amounts that these instances hold, by resource class.
    """

    node: objects.ComputeNode
    inventories: Mapping[str, Mapping[str, Any]]
    held: Mapping[str, Mapping[str, int]]

    @property
    def instances(self) -> frozenset[str]:
        return frozenset(self.held)

    @property
    def provider(self) -> Mapping[str, Any]:
        """Return the node itself in the tree."""
        return self.inventories[self.node.uuid]

    @property
    def counted(self) -> difference.Counted:
        return difference.here(self.provider['inventories'], self.held)

    def tells_more_than(self, other: 'Facts | None') -> bool:
        """Whether these facts contain a change compared with ``other``."""
        return (
            other is None
            or self.instances != other.instances
            or self.inventories != other.inventories
            or machine.changed(other.node, self.node)
        )


class ClaimableNode(ClaimableMixin):
    """``instance_claim`` over one provider's inventories and the instances on it.

    Inventories are in Placement's form. A bare ComputeNode has neither dedicated CPUs nor custom
    resource classes, and counts reserved amounts as used. With its inventories, the node refuses
    exactly the claims that the scheduler refuses. ``machine`` are its NUMA cells and PCI devices
    as it reports them with these instances. With ``packing``, guests go into the fuller cells
    first. The node has no child providers.
    """

    def __init__(
        self,
        uuid: str,
        inventories: Mapping[str, Mapping[str, Any]],
        instances: Iterable[LocalInstance],
        machine: Machine | None = None,
        packing: bool = False,
        traits: Iterable[str] = (),
    ):
        self.uuid = uuid
        self._machine, self._packing = machine, packing
        self._inventories = inventories
        self._traits = frozenset(traits)
        self._used: collections.Counter[str] = collections.Counter()
        for instance in instances:
            self._used.update(instance.resources)
            # A report omits the resources that an instance will have after its resize is settled.
            if instance.resizing and instance.resizing.parts:
                self.hold(instance.resizing.parts)

    def demand(self, request: Any) -> tuple[Mapping[str, int], tuple[providers.Allotted, ...]]:
        own = {name for name, inventory in self._inventories.items() if inventory['total']}
        taken = demand.resources_on(request, own)
        if not request.groups:
            return taken, ()
        wanted = demand.asked_of(request, own, frozenset(), self._traits)
        tree = demand.with_own(
            providers.ProviderTree(self.uuid), wanted, self._stock, taken, self._traits
        )
        allotted = providers.fit(tree, wanted)
        if allotted is None:
            raise Overdrawn('child providers', providers.why_not(tree, wanted))
        sums = collections.Counter(taken)
        sums.update(providers.on_root(tree, allotted))
        return sums, allotted

    def _stock(self, resource_class: str) -> providers.Stock | None:
        inventory = self._inventories.get(resource_class)
        if inventory is None:
            return None
        amounts = {name: value for name, value in inventory.items() if name != 'allocation_ratio'}
        return providers.Stock(
            **amounts, ratio=inventory['allocation_ratio'], used=self._used[resource_class]
        )

    def usage(self, resource_class: str) -> Usage | None:
        inventory = self._inventories.get(resource_class)
        if inventory is None:
            return None
        return Usage(
            inventory['total'],
            inventory['reserved'],
            inventory['allocation_ratio'],
            self._used[resource_class],
        )

    def take(self, resource_class: str, amount: int) -> None:
        self._used[resource_class] += amount

    @property
    def packing(self) -> bool:
        return self._packing

    @property
    def machine(self) -> Machine | None:
        return self._machine

    def hold(self, parts: HardwareAllocation) -> None:
        self._machine = self._machine and self._machine.hold(parts)

    def let_go(self, parts: HardwareAllocation) -> None:
        self._machine = self._machine and self._machine.let_go(parts)


class Agent:
    """One compute node. Its methods may be called from any thread.

    ``news`` is an event that is set after each change to report. The claim of an instance that
    starts and ends between two reports ends when its time to be confirmed is over.

    The instance of a job from a queue is hidden at first. It holds its resources on the node, and
    reports omit it, because a report must not confirm its claim before it is built::

        begin --> hidden --> built --> keep --> an instance like any other
                    |          |
                    +----------+-----> undo --> gone, and never reported
    """

    def __init__(self, settings: AgentSettings, instances: LocalInstances):
        """Read the machine for the first time. Raise BadMachineFacts."""
        self.news = threading.Event()
        self._settings = settings
        self._instances = instances
        self._machine = machine.read(settings)
        self._failed_builds = 0  # since the last successful one
        self._built: frozenset[str] = (
            frozenset()
        )  # hidden instances that reports list nevertheless, and those that tell both sizes
        self._watching: tuple[Callable[[], None], ...] = ()
        # the scheduler's count, from its last answer
        self._there: difference.Counted | None = None
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        return self._settings.host

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each change of the node's instances.

        It is called from any thread and must not raise.
        """
        with self._lock:
            self._watching += (callback,)

    def _changed(self, is_news: bool = True) -> None:
        """Notify the waiting threads and callbacks; call without the lock."""
        if is_news:
            self.news.set()
        for callback in self._watching:
            callback()

    def read(self) -> Facts:
        """Read the machine again, and return the facts to report. Raise BadMachineFacts."""
        self._machine = machine.read(self._settings)
        with self._lock:
            here = (
                instance
                for instance in self._instances
                if not instance.hidden or instance.uuid in self._built
            )
            return self._facts(tuple(here), self._built)

    def facts_with_hidden(self) -> Facts:
        """Return the facts including hidden instances, on the machine as of the last ``read``."""
        with self._lock:
            return self._facts(tuple(self._instances))

    def _facts(
        self, here: tuple[LocalInstance, ...], built: frozenset[str] = frozenset()
    ) -> Facts:
        used = usage.total(
            [instance.guest(instance.uuid in built) for instance in here], self._failed_builds
        )
        node = machine.describe(self._machine, self._settings, used)
        held = {instance.uuid: dict(instance.resources) for instance in here}
        return Facts(node, machine.inventories(node, self._settings), held)

    def told(self, counted: difference.Counted | None) -> None:
        """Note the scheduler's count of the node, of its answer to a report."""
        with self._lock:
            self._there = counted

    # ``claim`` is the name of the claim that a call is about. The instance keeps the name with
    # which it came. A call that names another one is late, and changes nothing. None names none.

    def build(self, request: Request, finished: bool = True, claim: str | None = None) -> None:
        """Check again that there is capacity for a request, and add its instance.

        With ``finished`` False, the build continues until ``finish`` is called. A repeated
        request, such as a rebuild, replaces the first. Raise ComputeResourcesUnavailable with all
        shortages, also if the list of instances cannot be written; the instance is not added then.
        """
        with self._lock, self._explained(request):
            try:
                self._take(request, ACTIVE if finished else BUILDING, claim_uuid=claim)
            except errors.ComputeResourcesUnavailable:
                self._failed_builds += 1
                self.news.set()
                raise
            if finished:
                self._failed_builds = 0
        self._changed()

    def resize(self, request: Request, claim: str | None = None) -> None:
        """Add an instance that moves here in another size, or give another size to one that is
        here.

        Until ``confirm_resize`` or ``revert_resize``, an instance that was here holds both sizes.
        A repeated request replaces the first. Raise as ``build`` does; nothing is changed then.
        """
        with self._lock, self._explained(request):
            here = self._instances.get(request.instance_uuid)
            if here is None or here.move:
                self._take(request, RESIZED, RESIZE, claim_uuid=claim)
            else:
                self._enlarge(here, request, claim)
        self._changed()

    def begin(self, request: Request, move: str | None = None) -> LocalInstance:
        """Add an instance for a job; it is hidden until ``keep``, and ``undo`` removes it.

        ``move`` (`resize` or `migration`) is the kind of move that brings it from another host. A
        repeated request replaces the first. An instance that is here and is not hidden stays
        visible. It gets the requested size in addition to its own if they differ, and is not
        changed otherwise. Return the instance after the call; raises as ``build`` does.
        """
        with self._lock, self._explained(request):
            here = self._instances.get(request.instance_uuid)
            taken = self._begin(here, request, move)
        if taken is not here:
            self._changed(is_news=not taken.hidden)
        return taken

    def _begin(
        self, here: LocalInstance | None, request: Request, move: str | None
    ) -> LocalInstance:
        if here is None or here.hidden:
            return self._take(request, BUILDING, move, hidden=True)
        if move != RESIZE:
            return here
        # Only without a hardware allocation is it known whether it has the size for good.
        if not (here.is_open or here.parts or request.pieces):
            needed, _ = self._node(self._beside(here.uuid)).demand(request)
            if dict(needed) == dict(here.resources):
                return here
        return self._take(request, RESIZED, move) if here.move else self._enlarge(here, request)

    def _take(
        self,
        request: Request,
        vm_state: str,
        move: str | None = None,
        hidden: bool = False,
        claim_uuid: str | None = None,
    ) -> LocalInstance:
        others = self._beside(request.instance_uuid)
        node = self._node(others)
        claim = node.resize_claim(request, move=move) if move else node.instance_claim(request)
        taken = LocalInstance(
            uuid=claim.consumer_uuid,
            resources=claim.resources,
            vm_state=vm_state,
            project_id=claim.project_id,
            os_type=request.image_properties.get('os_type'),
            parts=claim.parts,
            devices=self._addresses(claim.parts, others),
            move=claim.move,
            hidden=hidden,
            claim_uuid=claim_uuid,
        )
        self._put(taken)
        self._built -= {taken.uuid}
        return taken

    def _enlarge(
        self, here: LocalInstance, request: Request, claim_uuid: str | None = None
    ) -> LocalInstance:
        """Return the instance with the requested size added to its own; the new size may be
        smaller."""
        others = self._beside(here.uuid)
        node = self._node(others)
        held = here.claim(node.uuid)
        if held.resizing:  # this is the machine: what it was to get before, it has not
            held = held.reverted()
        claim = node.resize_claim(request, held)
        # A flavor of the same size adds nothing, but its resize is to be settled like any other.
        resizing = claim.resizing or Resizing(here.resources, here.resources, here.parts)
        resizing = dataclasses.replace(resizing, uuid=claim_uuid)
        fields = {'resources': claim.resources, 'resizing': resizing, 'vm_state': RESIZED}
        devices = self._addresses(resizing.parts, others)
        larger = dataclasses.replace(here, **fields, new_devices=devices)
        self._put(larger)
        self._built -= {here.uuid}
        return larger

    def _beside(self, instance_uuid: str) -> tuple[LocalInstance, ...]:
        """Return all instances except this one."""
        return tuple(instance for instance in self._instances if instance.uuid != instance_uuid)

    def _node(self, instances: tuple[LocalInstance, ...]) -> ClaimableNode:
        """Return this node with these instances, to claim on it."""
        facts = self._facts(instances)
        return ClaimableNode(
            facts.node.uuid,
            facts.provider['inventories'],
            instances,
            facts.node.machine,
            self._settings.packing,
            facts.provider['traits'],
        )

    def _addresses(
        self, parts: HardwareAllocation | None, others: Iterable[LocalInstance]
    ) -> frozenset[str]:
        """Return the addresses of these parts' devices on the machine."""
        wanted = [some.pool for some in parts.devices] if parts else []
        taken = frozenset().union(*(other.all_devices for other in others))
        try:
            specs = pci.parse_specs(self._settings.device_spec)
            return pci.pick(self._machine.devices, specs, taken, wanted)
        except Overdrawn as short:
            raise errors.ComputeResourcesUnavailable(self._machine.uuid, str(short)) from None

    def _put(self, instance: LocalInstance) -> None:
        try:
            self._instances.put(instance)
        except errors.BadMachineFacts as error:
            raise errors.ComputeResourcesUnavailable(self._machine.uuid, str(error)) from error

    @contextlib.contextmanager
    def _explained(self, request: Request) -> Iterator[None]:
        """Log the shortages that the block finds, by the node's own record, and the differences
        from the scheduler's record."""
        try:
            yield
        except errors.ComputeResourcesUnavailable as short:
            uuid, ours = request.instance_uuid, self._facts(tuple(self._instances)).counted
            theirs = difference.comparison(request.resources, ours, self._there, uuid)
            LOG.warning('Instance %s is refused: %s. %s', uuid, short.shortages, theirs)
            raise

    def built(self, instance_uuid: str, claim: str) -> None:
        """Include a hidden instance in reports, and keep the name of its claim, which is about to
        be confirmed.

        A report that is already under way when the claim is confirmed may lack the instance. The
        scheduler would take the instance for gone after the next report without it, and ``keep``
        might be too late. Raise as ``finish`` does. The mark is lost when the agent restarts: the
        instance is hidden again.

        Of an instance that is resized here, reports tell the CPUs, pages and devices of both sizes
        until that is settled: the scheduler takes those of its claim for reported, and the claim
        has the new ones as soon as it is confirmed.
        """
        with self._lock:
            self._instances.put(self._get(instance_uuid).named(claim))
            self._built |= {instance_uuid}

    def keep(self, instance_uuid: str) -> None:
        """Keep a hidden instance permanently, in its new size. Raise as ``finish`` does."""
        with self._lock:
            here = self._get(instance_uuid)
            kept = dataclasses.replace(here.finished(self._machine.uuid), hidden=False)
            if kept != here:
                self._instances.put(kept)
            self._built -= {instance_uuid}
            self._failed_builds = 0
        self._changed()

    def undo(self, instance_uuid: str, failed: bool = False) -> bool:
        """Remove a hidden instance; an instance that was here before gets its old size again.

        ``failed``: its build failed here. Return whether there was anything to undo. Raise
        BadMachineFacts if the list cannot be written.
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

    def hidden(self) -> list[LocalInstance]:
        """Return the instances that were begun and are neither kept nor undone."""
        return [instance for instance in self._instances if instance.hidden]

    def _get(self, instance_uuid: str) -> LocalInstance:
        instance = self._instances.get(instance_uuid)
        if instance is None:
            raise errors.NotFound(f'Instance {instance_uuid} on host {self.host}')
        return instance

    def confirm_resize(self, instance_uuid: str, claim: str | None = None) -> None:
        """Keep the instance here, in its new size. Raise as ``finish`` does."""
        with self._lock:
            here = self._open(instance_uuid, claim)
            self._instances.put(here.finished(self._machine.uuid))
            self._built -= {instance_uuid}
        self._changed()

    def revert_resize(self, instance_uuid: str, claim: str | None = None) -> None:
        """Restore the old size, or remove an instance that returns to its source. Raise as
        ``finish`` does."""
        with self._lock:
            before = self._open(instance_uuid, claim).reverted(self._machine.uuid)
            self._drop_or_put(instance_uuid, before)
        self._changed()

    def _drop_or_put(self, instance_uuid: str, instance: LocalInstance | None) -> None:
        if instance is None:
            self._instances.remove(instance_uuid)
        else:
            self._instances.put(instance)
        self._built -= {instance_uuid}

    def _open(self, instance_uuid: str, claim: str | None) -> LocalInstance:
        instance = self._instances.get(instance_uuid)
        if instance is None or not instance.may_settle(claim):
            raise errors.NotFound(f'Resize of instance {instance_uuid} on host {self.host}')
        return instance

    def finish(self, instance_uuid: str) -> None:
        """Note that the build succeeded. Raise NotFound, or BadMachineFacts if the list cannot be
        written."""
        with self._lock:
            self._instances.put(dataclasses.replace(self._get(instance_uuid), vm_state=ACTIVE))
            self._failed_builds = 0
        self._changed()

    def destroy(self, instance_uuid: str, claim: str | None = None) -> bool:
        """Remove an instance. Return whether it was here, by this claim.

        Raise BadMachineFacts if the list cannot be written.
        """
        with self._lock:
            here = self._instances.get(instance_uuid)
            is_meant = here is not None and here.may_be(claim)
            if is_meant:
                self._drop_or_put(instance_uuid, None)
        if is_meant:
            self._changed()
        return is_meant

    def claim_name(self, instance_uuid: str) -> str | None:
        """Return the name of the claim by which an instance is here; None if it is not known, or
        not here."""
        here = self._instances.get(instance_uuid)
        return here and here.claim_name

    def instances(self) -> list[dict[str, Any]]:
        """Return the instances as plain values, by the names of their fields; ``parts`` as JSON
        text."""
        return [instance.to_plain() for instance in self._instances]

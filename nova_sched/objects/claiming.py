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

"""Makes claims on a node, with the same checks in the scheduler, the agent and the queue
workers."""

import dataclasses
import time
import types
from collections.abc import Mapping
from typing import NamedTuple

from nova_sched import errors
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU, Claim
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.machine import HardwareAllocation, Machine
from nova_sched.hardware.pci import pools_of
from nova_sched.hardware.providers import Allotted
from nova_sched.objects.hardware import PciDevicePool, PciDevicePoolList


class Usage(NamedTuple):
    """One resource class on one node; ``used`` holds claims and everything else.

    ``largest`` is the most that one consumer may have; None: the total.
    """

    total: int
    reserved: int
    ratio: float
    used: int
    largest: int | None = None

    @property
    def available(self):
        return int((self.total - self.reserved) * self.ratio) - self.used


class Shortage(NamedTuple):
    """The shortage of one resource class."""

    resource_class: str
    asked: int
    available: int
    total: int

    def __str__(self):
        if self.asked > self.total:
            return f'{self.resource_class}: {self.asked} asked, the node has {self.total} in all'
        return f'{self.resource_class}: {self.asked} asked, {max(self.available, 0)} available'


class ClaimableMixin:
    """``instance_claim`` for any class that reports its usage and can allocate from it.

    A ComputeNode and the scheduler's row of a node are such classes, so the scheduler, the agent
    and a queue worker validate a claim with the same code. ``packing``: a guest goes into the
    fuller NUMA cells first.
    """

    __slots__ = ()

    @property
    def packing(self) -> bool:
        return False

    def usage(self, resource_class) -> Usage | None:
        """Return the node's usage of a resource class, or None if it has none."""
        raise NotImplementedError

    def take(self, resource_class, amount):
        """Allocate an amount (negative: free it)."""
        raise NotImplementedError

    @property
    def machine(self) -> Machine | None:
        """Return the node's NUMA cells and devices; None if the node does not report them."""
        return None

    def hold(self, parts: HardwareAllocation) -> None:
        """Allocate CPUs, pages, devices, and units of child providers."""
        raise NotImplementedError

    def let_go(self, parts: HardwareAllocation) -> None:
        """Free the CPUs, pages, devices, and units of child providers."""
        raise NotImplementedError

    def demand(self, request) -> tuple[Mapping[str, int], tuple[Allotted, ...]]:
        """Return the amounts from the node itself, by resource class, and the allocations from
        its providers.

        Raises Overdrawn if the node's providers cannot meet the request.
        """
        if request.groups:
            raise Overdrawn('groups of resources', 'the node reports no child providers')
        return request.resources, ()

    def shortages(self, resources) -> list[Shortage]:
        """Return each resource class that the node cannot provide, with the available amount."""
        short = []
        for name, amount in resources.items():
            usage = self.usage(name)
            if usage is None:
                short.append(Shortage(name, amount, 0, 0))
                continue
            available = usage.available
            largest = usage.total if usage.largest is None else usage.largest
            if amount > available or amount > largest:
                short.append(Shortage(name, amount, available, largest))
        return short

    def instance_claim(self, request, lifetime_s=None, **marks) -> Claim:
        """Check that the node can take the request, allocate it, and return the claim.

        ``request`` has ``instance_uuid``, ``project_id``, ``user_id``, ``resources``, ``groups``,
        ``pieces``, ``group_uuid`` and ``image_properties``; ``marks`` are more fields of the
        Claim, by default ``created_s`` is now. Raises ComputeResourcesUnavailable with every
        shortage; then nothing is allocated.
        """
        try:
            resources, allotted = self.demand(request)
            short = list(map(str, self.shortages(resources)))
        except Overdrawn as error:
            short = [str(error)]
        parts = self._fit(request.pieces, short) if request.pieces else None
        if short:
            raise errors.ComputeResourcesUnavailable(self.uuid, '; '.join(short))
        if allotted:
            parts = dataclasses.replace(parts or HardwareAllocation(), providers=allotted)
        return self.consume(request, resources, parts, lifetime_s, **marks)

    def resize_claim(self, request, held=None, move=None, **words) -> Claim:
        """Return the claim of an instance that is resized or moved.

        ``held`` is its existing claim on this node, which is not allocated during the call. On
        another node it is None, and ``move`` (one of MOVES) is the reason. On the same node, both
        sizes are allocated together. Takes the arguments of instance_claim. Raises
        ComputeResourcesUnavailable; then nothing is allocated.
        """
        claim = self.instance_claim(request, **words)
        return dataclasses.replace(claim, move=move) if held is None else self.grow(held, claim)

    def grow(self, held, claim) -> Claim:
        """Allocate a claim together with the one that the instance ``held`` here, replacing the
        latter.

        Raises ComputeResourcesUnavailable; then neither is allocated.
        """
        self.release(claim)
        both = held.merged_with(claim)
        if short := self.shortages(both.resources):
            raise errors.ComputeResourcesUnavailable(self.uuid, '; '.join(map(str, short)))
        for name, amount in both.resources.items():
            self.take(name, amount)
        for parts in both.all_parts:
            self.hold(parts)
        return both

    def _fit(self, pieces, short):
        """Return the hardware allocation for the request; on failure, add a shortage and
        return None."""
        machine = self.machine
        if machine is None:
            short.append('the node reports neither NUMA cells nor PCI devices')
            return None
        parts = machine.fit(pieces, packing=self.packing)
        if parts is None:
            short.append(machine.why_not(pieces, packing=self.packing))
        return parts

    def consume(
        self, request, resources, parts=None, lifetime_s=None, created_s=None, **marks
    ) -> Claim:
        """Allocate a request that is known to fit, and return the claim."""
        for name, amount in resources.items():
            self.take(name, amount)
        if parts:
            self.hold(parts)
        created_s = time.time() if created_s is None else created_s
        fields = {
            'consumer_uuid': request.instance_uuid,
            'node_uuid': self.uuid,
            'resources': dict(resources),
            'project_id': request.project_id,
            'user_id': request.user_id,
            'group_uuid': request.group_uuid,
            'created_s': created_s,
            'expires_s': None if lifetime_s is None else created_s + lifetime_s,
            'parts': parts or None,
            'image_properties': {
                name: str(value) for name, value in request.image_properties.items()
            },
        }
        return Claim(**fields | marks)

    def release(self, claim: Claim):
        """Free the resources of a claim."""
        for name, amount in claim.resources.items():
            self.take(name, -amount)
        for parts in claim.all_parts:
            self.let_go(parts)


class ComputeNodeUsage(ClaimableMixin):
    """A claim's view of a ComputeNode object: only its own fields.

    Nova counts the reserved amount as used, so ``reserved`` is 0 here. Dedicated CPUs are those of
    the NUMA cells; the pinned ones are in use.
    """

    FIELDS = types.MappingProxyType(
        {
            VCPU: ('vcpus', 'vcpus_used', 'cpu_allocation_ratio'),
            MEMORY_MB: ('memory_mb', 'memory_mb_used', 'ram_allocation_ratio'),
            DISK_GB: ('local_gb', 'local_gb_used', 'disk_allocation_ratio'),
        }
    )

    def usage(self, resource_class):
        if resource_class == PCPU:
            machine = self.machine
            if machine is None or machine.topology is None:
                return None
            cells = machine.topology.cells
            total = sum(len(cell.pcpuset) for cell in cells)
            return Usage(total, 0, 1.0, sum(len(cell.pinned_cpus) for cell in cells))
        fields = self.FIELDS.get(resource_class)
        if fields is None:
            return None
        total, used, ratio = (getattr(self, name) for name in fields)
        return Usage(total or 0, 0, ratio or 1.0, used or 0)

    def take(self, resource_class, amount):
        if resource_class == PCPU:
            return  # ``hold`` pins them
        used = self.FIELDS[resource_class][1]
        setattr(self, used, getattr(self, used) + amount)
        if resource_class == MEMORY_MB:
            self.free_ram_mb = self.memory_mb - self.memory_mb_used
        elif resource_class == DISK_GB:
            self.free_disk_gb = self.local_gb - self.local_gb_used

    @property
    def machine(self):
        topology, pools = self._read('numa_topology'), self._read('pci_device_pools')
        if topology is None and pools is None:
            return None
        ratios = (
            self._read(name) or 1.0 for name in ('cpu_allocation_ratio', 'ram_allocation_ratio')
        )
        machine = Machine.from_texts(topology, None, *ratios)
        return dataclasses.replace(machine, pools=pools_of(pools))

    def _read(self, field):
        return getattr(self, field) if field in self else None

    def hold(self, parts):
        self._show(self.machine.hold(parts))

    def let_go(self, parts):
        self._show(self.machine.let_go(parts))

    def _show(self, machine):
        """Write cells and pools back in the form of the fields."""
        if machine.topology is not None:
            self.numa_topology = machine.topology.to_json()
        if self._read('pci_device_pools') is not None:
            free = [
                PciDevicePool(**dataclasses.asdict(pool)) for pool in machine.pools if pool.count
            ]
            self.pci_device_pools = PciDevicePoolList(objects=free)

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
"""The pieces of storms: hosts with NUMA cells, PCI devices and GPUs, and servers that hold some of
them.

Each host with pieces has the same ones. A piece has a name, and may be held once, or as often as
``limit`` says.
"""

import collections
import dataclasses
import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nova_sched import objects
from nova_sched.claim import MEMORY_MB, PCPU, VCPU
from nova_sched.extensions.agent import AgentSettings, numa, pci, usage
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.hardware import pci as devices_of
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.numa import Fitted, GuestCell, PlacedCell
from nova_sched.hardware.numa.topology import DEDICATED
from nova_sched.hardware.providers import Allotted

VGPU = 'VGPU'
SHARED, PINNED = frozenset([0, 1, 2, 3, 6, 7, 8, 9]), frozenset([4, 5, 10, 11])
CELL_MB, PAGE_KB = 4096, 4
CELLS = tuple(
    numa.MachineCell(
        id=number,
        cpus=frozenset(range(first, first + 6)),
        siblings=tuple(frozenset([cpu, cpu + 1]) for cpu in range(first, first + 6, 2)),
        socket=number,
        memory_mb=CELL_MB,
        pages=(numa.MachinePages(PAGE_KB, CELL_MB * 1024 // PAGE_KB),),
    )
    for number, first in enumerate((0, 6))
)
CARD = {'vendor_id': '8086', 'product_id': '1d02'}
DEVICES = tuple(
    pci.Device(
        address=f'0000:{bus:02d}:00.0',
        pci_class='120000',
        numa_node=node,
        dev_type=pci.PCI,
        **CARD,
    )
    for bus, node in enumerate((0, 0, 1))
)
SPECS = pci.parse_specs([CARD])
SETTINGS = AgentSettings(host='', uuid_file=Path(), instances_path=Path())
NONE: collections.Counter[str] = collections.Counter()


@dataclasses.dataclass(frozen=True, slots=True)
class Size(TraceFlavor):
    """A flavor. ``pinned``: its CPUs are dedicated ones, in one NUMA cell."""

    pinned: bool = False
    devices: int = 0
    gpus: int = 0

    @property
    def amounts(self) -> dict[str, int]:
        """Return what a server takes of its node itself, by resource class."""
        return {PCPU if self.pinned else VCPU: self.vcpus, MEMORY_MB: self.memory_mb}

    @property
    def pieces(self) -> int:
        """Return how many pieces it asks for."""
        return (self.vcpus if self.pinned else 0) + self.devices + self.gpus

    @property
    def extra_specs(self) -> dict[str, str]:
        specs = {'hw:cpu_policy': 'dedicated'} if self.pinned else {}
        return specs | ({f'resources:{VGPU}': str(self.gpus)} if self.gpus else {})

    def ask(self, spec: Any, request_id: str) -> None:
        """Write the cells and devices into a RequestSpec, as Nova's API does."""
        if self.pinned:
            cell = objects.InstanceNUMACell(
                id=0,
                cpuset=set(),
                pcpuset=set(range(self.vcpus)),
                memory=self.memory_mb,
                pagesize=None,
                cpu_policy='dedicated',
                cpu_thread_policy=None,
            )
            spec.numa_topology = objects.InstanceNUMATopology(cells=[cell])
        if self.devices:
            wanted = objects.InstancePCIRequest(
                count=self.devices,
                spec=[dict(CARD)],
                alias_name='card',
                request_id=request_id,
                is_new=False,
                numa_policy='legacy',
            )
            spec.pci_requests.requests = [wanted]


SIZES = (
    Size('pinned one', 1, 512, pinned=True),
    Size('pinned two', 2, 1024, pinned=True),
    Size('card', 1, 512, devices=1),
    Size('pinned card', 1, 512, pinned=True, devices=1),
    Size('gpu', 1, 1024, gpus=1),
)


def told(claim: Any) -> HardwareAllocation | None:
    """Return the pieces that a ClaimInfo tells its caller."""
    allocations = json.loads(claim.allocation_request)['allocations']
    return (
        HardwareAllocation(
            claim.numa_topology and Fitted.of(claim.numa_topology),
            tuple(
                devices_of.TakenDevice(None, pool)
                for pool in devices_of.pools_of(claim.pci_device_pools)
            ),
            tuple(
                Allotted('', provider, allocation['resources'])
                for provider, allocation in allocations.items()
                if provider != claim.compute_node_uuid
            ),
        )
        or None
    )


def unplaced(size: Size) -> HardwareAllocation:
    """Return what an instance of this size that no scheduler has placed holds: the first CPUs of
    cell 0."""
    pins = dict(enumerate(sorted(PINNED & CELLS[0].cpus)[: size.vcpus]))
    cell = GuestCell(0, frozenset(), frozenset(pins), size.memory_mb, cpu_policy=DEDICATED)
    return HardwareAllocation(Fitted((PlacedCell(cell, 0, pins),)))


def names(parts: Iterable[HardwareAllocation | None]) -> collections.Counter[str]:
    """Return the pieces by name, and how often they are held. A piece that both sizes of one
    server hold counts once."""
    counts: collections.Counter[str] = collections.Counter()
    for allocation in parts:
        counts |= _names(allocation) if allocation else NONE
    return counts


def _names(parts: HardwareAllocation) -> collections.Counter[str]:
    counts = collections.Counter(
        f'CPU {cpu}' for placed in parts.cells.cells for cpu in placed.host_cpus
    ) if parts.cells else collections.Counter()  # fmt: skip
    for _, pool in parts.devices:
        counts[f'device of cell {pool.numa_node}'] += pool.count
    for provider in parts.providers:
        for name, units in provider.resources.items():
            counts[f'{name} of {provider.provider_uuid}'] += units
    return counts


def limit(name: str) -> int:
    """Return how often a piece may be held."""
    return LIMITS.get(name, 1)


LIMITS = collections.Counter(f'device of cell {pool.numa_node}' for pool in DEVICES)


# What an agent reports.


def fields(held: Iterable[HardwareAllocation | None]) -> dict[str, Any]:
    """Return the fields of a ComputeNode whose listed instances hold these pieces."""
    pieces_held = [pieces for pieces in held if pieces]
    cells: dict[int, usage.CellUse] = {}
    for parts in pieces_held:
        for cell, use in usage.cells(parts.cells).items() if parts.cells else ():
            cells[cell] = cells.get(cell, usage.CellUse()) + use
    topology = numa.build(CELLS, SHARED, PINNED, cells, SETTINGS)
    taken: dict[int | None, int] = collections.Counter()
    for parts in pieces_held:
        for _, pool in parts.devices:
            taken[pool.numa_node] += pool.count
    addresses = set()
    for device in DEVICES:
        if taken[device.numa_node] > 0:
            taken[device.numa_node] -= 1
            addresses.add(device.address)
    return {
        'numa_topology': json.dumps(topology.obj_to_primitive()),
        'pci_device_pools': pci.pools(DEVICES, SPECS, addresses),
    }


def gpus(node_uuid: str, name: str) -> dict[str, dict[str, Any]]:
    """Return the child providers of a node: two GPUs."""
    inventories = {VGPU: {'total': 1, 'reserved': 0, 'allocation_ratio': 1.0}}
    return {
        str(uuid.uuid5(uuid.UUID(node_uuid), f'gpu {number}')): {
            'name': f'{name} gpu {number}',
            'parent_provider_uuid': node_uuid,
            'inventories': inventories,
            'traits': [],
        }
        for number in range(2)
    }


def all_of(node_uuid: str) -> collections.Counter[str]:
    """Return the names of all pieces of a node, and how often each may be held."""
    counts = LIMITS + collections.Counter(f'CPU {cpu}' for cpu in PINNED)
    counts.update(f'{VGPU} of {provider}' for provider in gpus(node_uuid, ''))
    return counts


def free(machine: Any, tree: Any) -> collections.Counter[str]:
    """Return the names of the pieces that a scheduler takes for free."""
    counts = collections.Counter(
        f'CPU {cpu}' for cell in machine.topology.cells for cpu in cell.free_pcpus
    )
    for pool in machine.pools:
        counts[f'device of cell {pool.numa_node}'] += pool.count
    for child in tree.children:
        for name, stock in child.stocks.items():
            counts[f'{name} of {child.uuid}'] += stock.free
    return +counts

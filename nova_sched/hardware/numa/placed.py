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
"""A guest that is placed on a host: the CPUs and pages of the host cells that it takes."""

import dataclasses
import itertools
import json
import types
from collections.abc import Mapping
from typing import Any

from nova_sched.hardware import Overdrawn, read, wire
from nova_sched.hardware.numa.guest import ISOLATE, GuestCell
from nova_sched.hardware.numa.host import HostCell, HostPages, HostTopology


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedCell:
    """One guest cell in one host cell.

    ``pinning`` maps virtual to host CPUs. ``reserved`` are host CPUs for the emulator alone.
    ``pagesize_kb`` is the page size, None if the guest requested none.
    """

    cell: GuestCell
    host_cell: int
    pinning: Mapping[int, int] = dataclasses.field(default_factory=dict)
    reserved: frozenset[int] = frozenset()
    pagesize_kb: int | None = None

    @property
    def host_cpus(self) -> frozenset[int]:
        """Returns the host CPUs that run only this guest, without their siblings."""
        return self.reserved.union(self.pinning.values())

    @classmethod
    def of(cls, cell: Any, number: int) -> 'PlacedCell':
        """Reads any object with InstanceNUMACell's attributes whose id is that of the host cell.

        ``number`` is its position in the guest, which is the id of a cell that is not placed yet.
        """
        return cls(
            cell=dataclasses.replace(GuestCell.of(cell), id=number),
            host_cell=cell.id,
            # Keys are strings on the wire.
            pinning={int(vcpu): cpu for vcpu, cpu in read(cell, 'cpu_pinning_raw', {}).items()},
            reserved=frozenset(read(cell, 'cpuset_reserved', ())),
            pagesize_kb=read(cell, 'pagesize'),
        )

    def to_primitive(self) -> dict[str, Any]:
        """Returns an InstanceNUMACell as the compute node writes it."""
        fields = {
            'id': self.host_cell,
            'cpuset': sorted(self.cell.cpuset),
            'pcpuset': sorted(self.cell.pcpuset),
            'cpuset_reserved': sorted(self.reserved) if self.reserved else None,
            'memory': self.cell.memory_mb,
            'pagesize': self.pagesize_kb,
            'cpu_pinning_raw': {str(vcpu): cpu for vcpu, cpu in self.pinning.items()} or None,
            'cpu_policy': self.cell.cpu_policy,
            'cpu_thread_policy': self.cell.thread_policy,
        }
        return wire.primitive('InstanceNUMACell', '1.6', fields)


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """The placement of each guest cell, in the guest's order."""

    cells: tuple[PlacedCell, ...]

    @property
    def host_cells(self) -> tuple[int, ...]:
        return tuple(placed.host_cell for placed in self.cells)

    @classmethod
    def of(cls, topology: Any) -> 'Fitted':
        """Reads the topology of an instance that is placed on a host, see ``GuestCell``."""
        return cls(tuple(map(PlacedCell.of, topology.cells, itertools.count())))

    @classmethod
    def from_json(cls, text: str) -> 'Fitted':
        """Reads the text that ``to_json`` or a compute node wrote. Raises MalformedObject."""
        with wire.reading('InstanceNUMATopology'):
            cells = wire.data(json.loads(text), 'InstanceNUMATopology')['cells']
            fields = (wire.data(cell, 'InstanceNUMACell') for cell in cells)
            return cls(
                tuple(
                    PlacedCell.of(types.SimpleNamespace(**some), place)
                    for place, some in enumerate(fields)
                )
            )

    def to_json(self) -> str:
        """Returns an InstanceNUMATopology object as text."""
        cells = [placed.to_primitive() for placed in self.cells]
        return json.dumps(wire.primitive('InstanceNUMATopology', '1.3', {'cells': cells}))


def take(host: HostTopology, fitted: Fitted) -> HostTopology:
    """Returns the host with the guest on it. Raises Overdrawn if a cell is missing or a CPU is in
    use."""
    cells: dict[int, HostCell] = {}
    for placed in fitted.cells:
        cell = cells.get(placed.host_cell) or host.by_id.get(placed.host_cell)
        if cell is None:
            raise Overdrawn(f'NUMA cell {placed.host_cell}', 'the host has no such cell')
        cpus = _cpus(cell, placed)
        if missing := cpus - cell.free_pcpus:
            raise Overdrawn(f'NUMA cell {cell.id}', f'CPUs {sorted(missing)} are not free')
        cells[cell.id] = _moved(cell, placed, cell.pinned_cpus | cpus, 1)
    return host.with_cells(cells)


def hold(host: HostTopology, fitted: Fitted) -> HostTopology:
    """Returns the host with the guest on it, even if the guest shares a CPU; ignores missing
    cells."""
    cells: dict[int, HostCell] = {}
    for placed in fitted.cells:
        cell = cells.get(placed.host_cell) or host.by_id.get(placed.host_cell)
        if cell is not None:
            cells[cell.id] = _moved(cell, placed, cell.pinned_cpus | _cpus(cell, placed), 1)
    return host.with_cells(cells)


def give_back(host: HostTopology, fitted: Fitted) -> HostTopology:
    """Returns the host without the guest. Raises Overdrawn if a CPU is not in use.

    Cells that the host no longer has are ignored: their usage is already gone.
    """
    cells: dict[int, HostCell] = {}
    for placed in fitted.cells:
        cell = cells.get(placed.host_cell) or host.by_id.get(placed.host_cell)
        if cell is None:
            continue
        cpus = _cpus(cell, placed)
        if free := cpus - cell.pinned_cpus:
            raise Overdrawn(f'NUMA cell {cell.id}', f'CPUs {sorted(free)} are not in use')
        cells[cell.id] = _moved(cell, placed, cell.pinned_cpus - cpus, -1)
    return host.with_cells(cells)


def _cpus(cell: HostCell, placed: PlacedCell) -> frozenset[int]:
    """Returns the host CPUs that no other guest may get. An isolated guest also blocks the
    siblings of its CPUs."""
    own = placed.host_cpus
    if placed.cell.thread_policy != ISOLATE or not own:
        return own
    beside = (core for core in cell.siblings if not core.isdisjoint(own))
    return own | (frozenset().union(*beside) & cell.pcpuset)


def _moved(cell: HostCell, placed: PlacedCell, pinned: frozenset[int], sign: int) -> HostCell:
    guest = placed.cell
    return dataclasses.replace(
        cell,
        cpu_usage=max(cell.cpu_usage + sign * len(guest.cpuset), 0),
        memory_usage_mb=max(cell.memory_usage_mb + sign * guest.memory_mb, 0),
        pinned_cpus=pinned,
        pages=_pages(cell, placed, sign),
    )


def _pages(cell: HostCell, placed: PlacedCell, sign: int) -> tuple[HostPages, ...]:
    """Returns the pages with their new usage. A guest without a page size request uses the
    smallest pages, regardless of its kernel."""
    size_kb = placed.pagesize_kb or next(iter(cell.pages_by_size), 0)
    if size_kb not in cell.pages_by_size:
        return cell.pages
    moved = sign * (placed.cell.memory_mb * 1024 // size_kb)
    return tuple(
        dataclasses.replace(pages, used=max(pages.used + moved, 0))
        if pages.size_kb == size_kb
        else pages
        for pages in cell.pages
    )

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
"""A guest that is placed on a host: for each of its cells the host cell, CPUs and pages."""

import dataclasses
import itertools
import json
import types
from collections.abc import Mapping
from typing import Any

from nova_sched.hardware import read, wire
from nova_sched.hardware.numa.guest import GuestCell


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

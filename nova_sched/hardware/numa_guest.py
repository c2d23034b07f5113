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
"""The guest's side of NUMA: cells that an instance asks for, how far a host may go, and where they came to lie."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.hardware import read

DEDICATED, MIXED, SHARED = 'dedicated', 'mixed', 'shared'
PREFER, ISOLATE, REQUIRE = 'prefer', 'isolate', 'require'
SMALL, LARGE, ANY = -1, -2, -3  # page sizes that stand for several


@dataclasses.dataclass(frozen=True)
class GuestCell:
    """One guest cell: ``cpuset`` are virtual CPUs on shared host CPUs, ``pcpuset`` those with one of their own."""

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mb: int
    pagesize_kb: int | None = None  # or SMALL, LARGE, ANY; None: it does not matter
    cpu_policy: str = SHARED
    thread_policy: str = PREFER

    @functools.cached_property
    def pinned_vcpus(self) -> tuple[int, ...]:
        return tuple(sorted(self.pcpuset))

    @property
    def is_pinned(self) -> bool:
        """Its memory and some of its CPUs must be free, not merely there."""
        return self.cpu_policy != SHARED


@dataclasses.dataclass(frozen=True)
class Guest:
    """The cells that one instance asks for; ``emulator_policy`` is ``isolate``, ``share`` or None."""

    cells: tuple[GuestCell, ...]
    emulator_policy: str | None = None

    @property
    def cpu_policy(self) -> str:
        return self.cells[0].cpu_policy if self.cells else SHARED

    def reserved_cpus(self, position: int) -> int:
        """Host CPUs that the cell at this position takes for the emulator's threads alone."""
        return int(position == 0 and self.emulator_policy == ISOLATE and self.cells[0].is_pinned)

    @classmethod
    def of(cls, topology: Any) -> 'Guest':
        """From anything with InstanceNUMATopology's attributes, unset ones tolerated. Raises InvalidRequest."""
        cells = tuple(_guest_cell(cell) for cell in topology.cells)
        if len({cell.cpu_policy for cell in cells}) > 1:
            raise errors.InvalidRequest('numa_topology', 'its cells have different CPU policies')
        return cls(cells, read(topology, 'emulator_threads_policy'))


def _guest_cell(cell: Any) -> GuestCell:
    return GuestCell(
        id=read(cell, 'id', 0),
        cpuset=frozenset(read(cell, 'cpuset', ())),
        pcpuset=frozenset(read(cell, 'pcpuset', ())),
        memory_mb=read(cell, 'memory', 0),
        pagesize_kb=read(cell, 'pagesize'),
        cpu_policy=read(cell, 'cpu_policy', SHARED),
        thread_policy=read(cell, 'cpu_thread_policy', PREFER),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How far the CPUs and the memory of a cell may be shared out, and the networks that must be near."""

    cpu_ratio: float
    ram_ratio: float
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @classmethod
    def of(cls, limits: Any) -> 'Limits':
        """From anything with NUMATopologyLimits' attributes, unset ones tolerated."""
        networks = read(limits, 'network_metadata')
        return cls(
            cpu_ratio=read(limits, 'cpu_allocation_ratio', 1.0),
            ram_ratio=read(limits, 'ram_allocation_ratio', 1.0),
            physnets=frozenset(read(networks, 'physnets', ())),
            tunneled=bool(read(networks, 'tunneled', False)),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """One guest cell in one host cell.

    ``pinning`` maps virtual to host CPUs; ``reserved`` host CPUs are the emulator's; ``pagesize_kb``
    is the size of its pages, None where the guest did not care.
    """

    cell: GuestCell
    host_cell: int
    pinning: Mapping[int, int] = dataclasses.field(default_factory=dict)
    reserved: frozenset[int] = frozenset()
    pagesize_kb: int | None = None

    @property
    def host_cpus(self) -> frozenset[int]:
        """Host CPUs that are this guest's alone, siblings not counted."""
        return self.reserved.union(self.pinning.values())


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Where each cell of a guest lies, in the guest's order."""

    cells: tuple[Placed, ...]

    @property
    def host_cells(self) -> tuple[int, ...]:
        return tuple(placed.host_cell for placed in self.cells)

    @classmethod
    def of(cls, topology: Any) -> 'Fitted':
        """From the topology of an instance that lies somewhere already: the ids of its cells are the host's.

        ``topology`` has InstanceNUMATopology's attributes, unset ones tolerated.
        """
        return cls(tuple(map(_placed, topology.cells)))


def _placed(cell: Any) -> Placed:
    pagesize_kb = read(cell, 'pagesize')
    return Placed(
        cell=_guest_cell(cell),
        host_cell=cell.id,
        pinning={int(vcpu): cpu for vcpu, cpu in read(cell, 'cpu_pinning_raw', {}).items()},
        reserved=frozenset(read(cell, 'cpuset_reserved', ())),
        pagesize_kb=pagesize_kb,
    )

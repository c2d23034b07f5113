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
"""The NUMA cells that an instance asks for, and the overcommit limits for its host."""

import dataclasses
import functools
from typing import Any

from nova_sched import errors
from nova_sched.hardware import read

DEDICATED, MIXED, SHARED = 'dedicated', 'mixed', 'shared'
PREFER, ISOLATE, REQUIRE = (
    'prefer',
    'isolate',
    'require',
)  # thread policies; isolate also for emulators
SMALL, LARGE, ANY = -1, -2, -3  # page sizes that each stand for several sizes


@dataclasses.dataclass(frozen=True)
class GuestCell:
    """One guest cell. Its CPUs run on shared CPUs of the host; those in ``pcpuset`` are each
    pinned to one dedicated CPU."""

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mb: int
    pagesize_kb: int | None = None  # or SMALL, LARGE, ANY; None: no request
    cpu_policy: str = SHARED
    thread_policy: str = PREFER

    @functools.cached_property
    def pinned_vcpus(self) -> tuple[int, ...]:
        return tuple(sorted(self.pcpuset))

    @property
    def is_pinned(self) -> bool:
        """Returns whether its memory and pinned CPUs need free capacity, not only existing
        capacity."""
        return self.cpu_policy != SHARED

    @classmethod
    def of(cls, cell: Any) -> 'GuestCell':
        """Reads any object with InstanceNUMACell's attributes; all except the memory may be unset.

        Raises InvalidRequest.
        """
        number, memory_mb = read(cell, 'id', 0), read(cell, 'memory')
        if memory_mb is None:
            raise errors.InvalidRequest('numa_topology', f'cell {number} has no memory')
        return cls(
            id=number,
            cpuset=frozenset(read(cell, 'cpuset', ())),
            pcpuset=frozenset(read(cell, 'pcpuset', ())),
            memory_mb=memory_mb,
            pagesize_kb=read(cell, 'pagesize') or None,  # 0 is none to Nova
            cpu_policy=read(cell, 'cpu_policy', SHARED),
            thread_policy=read(cell, 'cpu_thread_policy', PREFER),
        )


@dataclasses.dataclass(frozen=True)
class GuestTopology:
    """The cells that one instance asks for; ``emulator_policy`` is ``isolate``, ``share`` or
    None."""

    cells: tuple[GuestCell, ...]
    emulator_policy: str | None = None

    @property
    def cpu_policy(self) -> str:
        return self.cells[0].cpu_policy if self.cells else SHARED

    def reserved_cpus(self, position: int) -> int:
        """Returns the number of host CPUs that the cell at this position needs for the emulator
        alone.

        The fit ignores shared emulator CPUs (``share``): they belong to the host.
        """
        return int(position == 0 and self.emulator_policy == ISOLATE and self.cpu_policy != SHARED)

    @functools.cached_property
    def dedicated_cpus(self) -> tuple[int, ...]:
        """Returns the number of dedicated host CPUs for each cell."""
        return tuple(
            len(cell.pcpuset) + self.reserved_cpus(position) if cell.is_pinned else 0
            for position, cell in enumerate(self.cells)
        )

    @classmethod
    def of(cls, topology: Any) -> 'GuestTopology':
        """Reads any object with InstanceNUMATopology's attributes, see ``GuestCell``.

        Raises InvalidRequest, also if the cells have different CPU policies.
        """
        cells = tuple(map(GuestCell.of, topology.cells))
        if len({cell.cpu_policy for cell in cells}) > 1:
            raise errors.InvalidRequest('numa_topology', 'its cells have different CPU policies')
        return cls(cells, read(topology, 'emulator_threads_policy'))


@dataclasses.dataclass(frozen=True, slots=True)
class NumaLimits:
    """The allocation ratios for the CPUs and the memory of a cell, and networks that must be
    near."""

    cpu_ratio: float
    ram_ratio: float
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @classmethod
    def of(cls, limits: Any) -> 'NumaLimits':
        """Reads any object with NUMATopologyLimits' attributes; they may be unset."""
        networks = read(limits, 'network_metadata')
        return cls(
            cpu_ratio=read(limits, 'cpu_allocation_ratio', 1.0),
            ram_ratio=read(limits, 'ram_allocation_ratio', 1.0),
            physnets=frozenset(read(networks, 'physnets', ())),
            tunneled=bool(read(networks, 'tunneled', False)),
        )

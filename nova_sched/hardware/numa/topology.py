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
"""The NUMA cells of a host with their usage, the cells that an instance asks for, and an instance
that is placed on a host."""

import dataclasses
import functools
import itertools
import json
import types
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched import errors
from nova_sched.hardware import Overdrawn, read, wire

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
        """Return whether its memory and pinned CPUs need free capacity, not only existing
        capacity."""
        return self.cpu_policy != SHARED

    @classmethod
    def of(cls, cell: Any) -> 'GuestCell':
        """Read any object with InstanceNUMACell's attributes; all except the memory may be unset.

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
        """Return the number of host CPUs that the cell at this position needs for the emulator
        alone.

        The fit ignores shared emulator CPUs (``share``): they belong to the host.
        """
        return int(position == 0 and self.emulator_policy == ISOLATE and self.cpu_policy != SHARED)

    @functools.cached_property
    def dedicated_cpus(self) -> tuple[int, ...]:
        """Return the number of dedicated host CPUs for each cell."""
        return tuple(
            len(cell.pcpuset) + self.reserved_cpus(position) if cell.is_pinned else 0
            for position, cell in enumerate(self.cells)
        )

    @classmethod
    def of(cls, topology: Any) -> 'GuestTopology':
        """Read any object with InstanceNUMATopology's attributes, see ``GuestCell``.

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
        """Read any object with NUMATopologyLimits' attributes; they may be unset."""
        networks = read(limits, 'network_metadata')
        return cls(
            cpu_ratio=read(limits, 'cpu_allocation_ratio', 1.0),
            ram_ratio=read(limits, 'ram_allocation_ratio', 1.0),
            physnets=frozenset(read(networks, 'physnets', ())),
            tunneled=bool(read(networks, 'tunneled', False)),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class HostPages:
    """Memory pages of one size in one cell. Guests do not get the ``reserved`` pages."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Return the number of free pages; negative if too many are in use."""
        return self.total - self.used - self.reserved


@dataclasses.dataclass(frozen=True)
class HostCell:
    """One NUMA cell.

    ``cpuset`` holds the shared CPUs, ``pcpuset`` the dedicated CPUs, which one guest each gets. On
    a node without a separate set of dedicated CPUs both sets are the same. ``siblings`` are the
    cores: sets of threads that share one core.
    """

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mb: int
    cpu_usage: int = 0  # virtual CPUs on shared CPUs; exceeds their number under overcommit
    memory_usage_mb: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[HostPages, ...] = ()
    physnets: frozenset[str] = frozenset()  # physical networks with an interface in this cell
    tunneled: bool = False  # the same for tunneled networks
    socket: int | None = None

    @functools.cached_property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpuset - self.pinned_cpus

    @functools.cached_property
    def cores(self) -> tuple[frozenset[int], ...]:
        """Return the siblings. If the host reports none, each dedicated CPU is a separate
        core."""
        return self.siblings or tuple(frozenset([cpu]) for cpu in sorted(self.pcpuset))

    @functools.cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the free dedicated CPUs of each core, in Nova's (set) order within a core."""
        free = (core & self.free_pcpus for core in self.cores)
        return tuple(tuple(threads) for threads in free if threads)

    @property
    def whole_cores(self) -> list[tuple[int, ...]]:
        """Return the free cores: no thread is in use or shared."""
        return [
            tuple(core & self.free_pcpus)
            for core in self.cores
            if core and core <= self.free_pcpus
        ]

    @functools.cached_property
    def threads_per_core(self) -> int:
        return max(map(len, self.cores), default=1)

    @functools.cached_property
    def pages_by_size(self) -> dict[int, HostPages]:
        """Return the pages by size (KiB), from the smallest to the largest."""
        return {
            pages.size_kb: pages for pages in sorted(self.pages, key=lambda pages: pages.size_kb)
        }

    @property
    def free_memory_mb(self) -> int:
        """Return the memory that is not in use, in pages of any size."""
        return self.memory_mb - self.memory_usage_mb

    @functools.cached_property
    def plain_memory_mb(self) -> float:
        """Return the total memory for guests without a page size request: that of the smallest
        pages."""
        for pages in self.pages_by_size.values():
            return pages.total * pages.size_kb / 1024
        return self.memory_mb

    @functools.cached_property
    def free_plain_memory_mb(self) -> float:
        """Return the free part of ``plain_memory_mb``."""
        for pages in self.pages_by_size.values():
            return pages.free * pages.size_kb / 1024
        return self.free_memory_mb


@dataclasses.dataclass(frozen=True)
class HostTopology:
    """The cells of one host, in the host's order."""

    cells: tuple[HostCell, ...]

    @functools.cached_property
    def by_id(self) -> dict[int, HostCell]:
        return {cell.id: cell for cell in self.cells}

    @functools.cached_property
    def has_siblings(self) -> bool:
        """Return whether a core has more than one thread."""
        return any(cell.threads_per_core > 1 for cell in self.cells)

    def on_sockets_of(self, cells: Iterable[int]) -> frozenset[int]:
        """Return the ids of the cells that share a socket with one of these.

        None if a cell of the host does not report its socket.
        """
        if any(cell.socket is None for cell in self.cells):
            return frozenset()
        sockets = {self.by_id[cell].socket for cell in cells if cell in self.by_id}
        return frozenset(cell.id for cell in self.cells if cell.socket in sockets)

    def with_cells(self, cells: Mapping[int, HostCell]) -> 'HostTopology':
        """Return the topology with these cells in place of the cells with the same ids."""
        return HostTopology(tuple(cells.get(cell.id, cell) for cell in self.cells))

    @classmethod
    def from_json(cls, text: str) -> 'HostTopology':
        """Read the NUMATopology object that a ComputeNode carries as text. Raises
        MalformedObject."""
        with wire.reading('NUMATopology'):
            cells = wire.data(json.loads(text), 'NUMATopology')['cells']
            topology = cls(tuple(_read_cell(wire.data(cell, 'NUMACell')) for cell in cells))
            if len(topology.by_id) < len(topology.cells):
                raise ValueError('two cells have one id')
            return topology

    def to_json(self) -> str:
        """Return the NUMATopology object as text."""
        return json.dumps(
            wire.primitive('NUMATopology', '1.2', {'cells': list(map(_write_cell, self.cells))})
        )


def _read_cell(data: Mapping[str, Any]) -> HostCell:
    network = data.get('network_metadata')
    near = wire.data(network, 'NetworkMetadata') if network else {}
    cpuset = _read_cpus(data['cpuset'])
    socket = data.get('socket')
    return HostCell(
        id=wire.count(data['id']),
        cpuset=cpuset,
        # Before version 1.4 every CPU could be shared or pinned, and one set held them all.
        pcpuset=_read_cpus(data['pcpuset']) if 'pcpuset' in data else cpuset,
        memory_mb=wire.count(data['memory']),
        cpu_usage=wire.count(data.get('cpu_usage', 0)),
        memory_usage_mb=wire.count(data.get('memory_usage', 0)),
        pinned_cpus=_read_cpus(data.get('pinned_cpus', ())),
        siblings=tuple(map(_read_cpus, data.get('siblings', ()))),
        pages=tuple(
            _read_pages(wire.data(p, 'NUMAPagesTopology')) for p in data.get('mempages', ())
        ),
        physnets=frozenset(map(str, near.get('physnets', ()))),
        tunneled=bool(near.get('tunneled', False)),
        socket=None if socket is None else wire.count(socket),
    )


def _read_cpus(listed: Iterable[Any]) -> frozenset[int]:
    return frozenset(map(wire.count, listed))


def _read_pages(data: Mapping[str, Any]) -> HostPages:
    size_kb = wire.count(data['size_kb'])
    if size_kb <= 0:
        raise ValueError(f'{size_kb} KiB is not a page size')
    figures = data['total'], data.get('used', 0), data.get('reserved', 0)
    return HostPages(size_kb, *map(wire.count, figures))


def _write_cell(cell: HostCell) -> dict[str, Any]:
    network = {'physnets': sorted(cell.physnets), 'tunneled': cell.tunneled}
    fields = {
        'id': cell.id,
        'cpuset': sorted(cell.cpuset),
        'pcpuset': sorted(cell.pcpuset),
        'memory': cell.memory_mb,
        'cpu_usage': cell.cpu_usage,
        'memory_usage': cell.memory_usage_mb,
        'pinned_cpus': sorted(cell.pinned_cpus),
        'siblings': list(map(sorted, cell.siblings)),
        'mempages': [
            wire.primitive('NUMAPagesTopology', '1.1', dataclasses.asdict(pages))
            for pages in cell.pages
        ],
        'network_metadata': wire.primitive('NetworkMetadata', '1.0', network),
        'socket': cell.socket,
    }
    return wire.primitive('NUMACell', '1.5', fields)


@dataclasses.dataclass(frozen=True, slots=True)
class NumaSummary:
    """Figures of one host; ``best`` is the highest figure of any cell."""

    cells: int
    sockets: int  # cells that the host reports
    has_siblings: bool  # some core has more than one thread
    dedicated_best: int  # free dedicated CPUs
    dedicated_total: int
    shared_best: int  # shared CPUs, both free and in use
    memory_best_mb: float  # free memory, in the smallest pages
    memory_largest_mb: float  # the same, both free and in use
    pages_best: Mapping[int, int]  # free pages by size (KiB)

    @classmethod
    def of(cls, host: HostTopology) -> 'NumaSummary':
        cells = host.cells
        sizes = {size_kb for cell in cells for size_kb in cell.pages_by_size}
        free = [len(cell.free_pcpus) for cell in cells]
        return cls(
            cells=len(cells),
            sockets=len({cell.socket for cell in cells} - {None}),
            has_siblings=host.has_siblings,
            dedicated_best=max(free, default=0),
            dedicated_total=sum(free),
            shared_best=max((len(cell.cpuset) for cell in cells), default=0),
            memory_best_mb=max((cell.free_plain_memory_mb for cell in cells), default=0),
            memory_largest_mb=max((cell.plain_memory_mb for cell in cells), default=0),
            pages_best={
                size_kb: max(
                    cell.pages_by_size[size_kb].free
                    for cell in cells
                    if size_kb in cell.pages_by_size
                )
                for size_kb in sorted(sizes)
            },
        )

    def may_take(self, guest: GuestTopology) -> bool:
        """Return False if the guest cannot fit. True is inconclusive."""
        return (
            len(guest.cells) <= self.cells
            and max(guest.dedicated_cpus, default=0) <= self.dedicated_best
            and sum(guest.dedicated_cpus) <= self.dedicated_total
            and all(map(self._may_take, guest.cells))
        )

    def _may_take(self, cell: GuestCell) -> bool:
        if cell.cpu_policy != DEDICATED and len(cell.cpuset) > self.shared_best:
            return False
        if (
            cell.is_pinned
            and cell.pcpuset
            and cell.thread_policy == REQUIRE
            and not self.has_siblings
        ):
            return False
        if cell.pagesize_kb is None:
            return cell.memory_mb <= (
                self.memory_best_mb if cell.is_pinned else self.memory_largest_mb
            )
        sizes = [cell.pagesize_kb] if cell.pagesize_kb > 0 else list(self.pages_best)
        return any(
            self.pages_best.get(size_kb, 0) * size_kb >= cell.memory_mb * 1024 for size_kb in sizes
        )


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
        """Return the host CPUs that run only this guest, without their siblings."""
        return self.reserved.union(self.pinning.values())

    @classmethod
    def of(cls, cell: Any, number: int) -> 'PlacedCell':
        """Read any object with InstanceNUMACell's attributes whose id is that of the host cell.

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
        """Return an InstanceNUMACell as the compute node writes it."""
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
        """Read the topology of an instance that is placed on a host, see ``GuestCell``."""
        return cls(tuple(map(PlacedCell.of, topology.cells, itertools.count())))

    @classmethod
    def from_json(cls, text: str) -> 'Fitted':
        """Read the text that ``to_json`` or a compute node wrote. Raises MalformedObject."""
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
        """Return an InstanceNUMATopology object as text."""
        cells = [placed.to_primitive() for placed in self.cells]
        return json.dumps(wire.primitive('InstanceNUMATopology', '1.3', {'cells': cells}))


def take(host: HostTopology, fitted: Fitted) -> HostTopology:
    """Return the host with the guest on it. Raises Overdrawn if a cell is missing or a CPU is in
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
    """Return the host with the guest on it, even if the guest shares a CPU; ignores missing
    cells."""
    cells: dict[int, HostCell] = {}
    for placed in fitted.cells:
        cell = cells.get(placed.host_cell) or host.by_id.get(placed.host_cell)
        if cell is not None:
            cells[cell.id] = _moved(cell, placed, cell.pinned_cpus | _cpus(cell, placed), 1)
    return host.with_cells(cells)


def give_back(host: HostTopology, fitted: Fitted) -> HostTopology:
    """Return the host without the guest. Raises Overdrawn if a CPU is not in use.

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
    """Return the host CPUs that no other guest may get. An isolated guest also blocks the
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
    """Return the pages with their new usage. A guest without a page size request uses the
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

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
"""The host's side of NUMA: cells with their CPUs, memory, pages and networks, and what is in use
of them."""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched.hardware import wire


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """Memory pages of one size in one cell; guests do not get the ``reserved`` ones."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Negative when more are in use than there should be."""
        return self.total - self.used - self.reserved


@dataclasses.dataclass(frozen=True)
class Cell:
    """One NUMA cell.

    ``cpuset`` holds the CPUs that guests share, ``pcpuset`` those that one guest gets for itself;
    a node that sets none apart has the same in both. ``siblings`` are the cores: threads that
    share one.
    """

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mb: int
    cpu_usage: int = (
        0  # virtual CPUs on the shared ones, more than these where they are overcommitted
    )
    memory_usage_mb: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[Pages, ...] = ()
    physnets: frozenset[str] = frozenset()  # networks with an interface in this cell
    tunneled: bool = False  # the same for tunnel networks
    socket: int | None = None

    @functools.cached_property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpuset - self.pinned_cpus

    @functools.cached_property
    def cores(self) -> tuple[frozenset[int], ...]:
        """The siblings; where the host tells none, each dedicated CPU is a core of its own."""
        return self.siblings or tuple(frozenset([cpu]) for cpu in sorted(self.pcpuset))

    @functools.cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Free dedicated CPUs, core by core; within a core they go as Nova takes them, as a set
        does."""
        free = (core & self.free_pcpus for core in self.cores)
        return tuple(tuple(threads) for threads in free if threads)

    @property
    def whole_cores(self) -> list[tuple[int, ...]]:
        """Those of them of which no thread is in use, or shared."""
        return [
            tuple(core & self.free_pcpus)
            for core in self.cores
            if core and core <= self.free_pcpus
        ]

    @functools.cached_property
    def threads_per_core(self) -> int:
        return max(map(len, self.cores), default=1)

    @functools.cached_property
    def pages_by_size(self) -> dict[int, Pages]:
        """By KiB, from the smallest to the largest."""
        return {
            pages.size_kb: pages for pages in sorted(self.pages, key=lambda pages: pages.size_kb)
        }

    @property
    def free_memory_mb(self) -> int:
        """Memory that is not in use, in whatever pages."""
        return self.memory_mb - self.memory_usage_mb

    @functools.cached_property
    def plain_memory_mb(self) -> float:
        """All that a guest can ever have here without asking for a page size: in the smallest
        pages."""
        for pages in self.pages_by_size.values():
            return pages.total * pages.size_kb / 1024
        return self.memory_mb

    @functools.cached_property
    def free_plain_memory_mb(self) -> float:
        """What is free of it."""
        for pages in self.pages_by_size.values():
            return pages.free * pages.size_kb / 1024
        return self.free_memory_mb


@dataclasses.dataclass(frozen=True)
class Topology:
    """The cells of one host, in its own order."""

    cells: tuple[Cell, ...]

    @functools.cached_property
    def by_id(self) -> dict[int, Cell]:
        return {cell.id: cell for cell in self.cells}

    @functools.cached_property
    def has_siblings(self) -> bool:
        """Some core has more than one thread."""
        return any(cell.threads_per_core > 1 for cell in self.cells)

    def on_sockets_of(self, cells: Iterable[int]) -> frozenset[int]:
        """Ids of the cells that share a socket with one of these.

        None where some cell of the host does not tell its socket.
        """
        if any(cell.socket is None for cell in self.cells):
            return frozenset()
        sockets = {self.by_id[cell].socket for cell in cells if cell in self.by_id}
        return frozenset(cell.id for cell in self.cells if cell.socket in sockets)

    def with_cells(self, cells: Mapping[int, Cell]) -> 'Topology':
        """With these cells, by id, in the place of the old ones."""
        return Topology(tuple(cells.get(cell.id, cell) for cell in self.cells))

    @classmethod
    def from_json(cls, text: str) -> 'Topology':
        """From the NUMATopology object that a ComputeNode has as text. Raises MalformedObject."""
        with wire.reading('NUMATopology'):
            cells = wire.data(json.loads(text), 'NUMATopology')['cells']
            found = cls(tuple(_read_cell(wire.data(cell, 'NUMACell')) for cell in cells))
            if len(found.by_id) < len(found.cells):
                raise ValueError('two cells have one id')
            return found

    def to_json(self) -> str:
        """The NUMATopology object as text."""
        return json.dumps(
            wire.primitive('NUMATopology', '1.2', {'cells': list(map(_write_cell, self.cells))})
        )


def _read_cell(data: Mapping[str, Any]) -> Cell:
    network = data.get('network_metadata')
    near = wire.data(network, 'NetworkMetadata') if network else {}
    cpuset = _cpus(data['cpuset'])
    socket = data.get('socket')
    return Cell(
        id=int(data['id']),
        cpuset=cpuset,
        # Before version 1.4 every CPU could be shared or pinned, and all stood in one set.
        pcpuset=_cpus(data['pcpuset']) if 'pcpuset' in data else cpuset,
        memory_mb=wire.count(data['memory']),
        cpu_usage=wire.count(data.get('cpu_usage', 0)),
        memory_usage_mb=wire.count(data.get('memory_usage', 0)),
        pinned_cpus=_cpus(data.get('pinned_cpus', ())),
        siblings=tuple(map(_cpus, data.get('siblings', ()))),
        pages=tuple(
            _read_pages(wire.data(p, 'NUMAPagesTopology')) for p in data.get('mempages', ())
        ),
        physnets=frozenset(map(str, near.get('physnets', ()))),
        tunneled=bool(near.get('tunneled', False)),
        socket=None if socket is None else int(socket),
    )


def _cpus(listed: Iterable[Any]) -> frozenset[int]:
    return frozenset(map(int, listed))


def _read_pages(data: Mapping[str, Any]) -> Pages:
    size_kb = int(data['size_kb'])
    if size_kb <= 0:
        raise ValueError(f'{size_kb} KiB is no page size')
    figures = data['total'], data.get('used', 0), data.get('reserved', 0)
    return Pages(size_kb, *map(wire.count, figures))


def _write_cell(cell: Cell) -> dict[str, Any]:
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

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
"""The host's side of NUMA: cells with their CPUs, memory, pages and networks, and what is in use of them."""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """Memory pages of one size in one cell; ``reserved`` ones are kept from guests."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Pages that a guest may have; negative when more are in use than there should be."""
        return self.total - self.used - self.reserved


@dataclasses.dataclass(frozen=True)
class Cell:
    """One NUMA cell.

    ``cpuset`` holds the CPUs that guests share, ``pcpuset`` those given to one guest each; a node that
    sets none apart has the same in both. ``siblings`` are the cores: threads that share one.
    """

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int]
    memory_mb: int
    cpu_usage: int = 0  # guest CPUs on the shared ones; the allocation ratio lets it pass their number
    memory_usage_mb: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    pages: tuple[Pages, ...] = ()
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False  # the tunnel network's interface is in this cell
    socket: int | None = None

    @functools.cached_property
    def free_pcpus(self) -> frozenset[int]:
        return self.pcpuset - self.pinned_cpus

    @property
    def free_memory_mb(self) -> int:
        return self.memory_mb - self.memory_usage_mb

    @functools.cached_property
    def cores(self) -> tuple[frozenset[int], ...]:
        """The siblings; where the host tells none, each dedicated CPU is a core of its own."""
        return self.siblings or tuple(frozenset([cpu]) for cpu in sorted(self.pcpuset))

    @functools.cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Free dedicated CPUs, core by core. Within a core they go as Nova takes them: in a set's order."""
        free = ((core & self.free_pcpus) for core in self.cores)
        return tuple(tuple(threads) for threads in free if threads)

    @functools.cached_property
    def threads_per_core(self) -> int:
        return max(map(len, self.cores), default=1)

    @functools.cached_property
    def pages_by_size(self) -> dict[int, Pages]:
        """From the smallest size (KiB) to the largest."""
        return {pages.size_kb: pages for pages in sorted(self.pages, key=lambda pages: pages.size_kb)}


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
        return any(len(core) > 1 for cell in self.cells for core in cell.siblings)

    def on_sockets_of(self, cells: Iterable[int]) -> frozenset[int]:
        """Ids of the cells on the sockets of these cells; none if one of them does not tell its socket."""
        sockets = {self.by_id[cell].socket if cell in self.by_id else None for cell in cells}
        if None in sockets:
            return frozenset()
        return frozenset(cell.id for cell in self.cells if cell.socket in sockets)

    def replaced(self, cells: Mapping[int, Cell]) -> 'Topology':
        """With other cells in the place of those of the same id."""
        return Topology(tuple(cells.get(cell.id, cell) for cell in self.cells))

    @classmethod
    def from_json(cls, text: str) -> 'Topology':
        """From the NUMATopology object of a ComputeNode, as text. Raises MalformedObject."""
        try:
            data = _data(json.loads(text), 'NUMATopology')
            return cls(tuple(_read_cell(cell) for cell in data['cells']))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise errors.MalformedObject('NUMATopology', repr(error)) from None

    def to_json(self) -> str:
        """The NUMATopology object as text."""
        return json.dumps(_primitive('NUMATopology', '1.2', {'cells': list(map(_write_cell, self.cells))}))


def _data(primitive: Mapping[str, Any], name: str) -> dict[str, Any]:
    if primitive['nova_object.name'] != name:
        raise ValueError(f'{primitive["nova_object.name"]} is no {name}')
    return primitive['nova_object.data']


def _primitive(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': data,
    }


def _read_cell(primitive: Mapping[str, Any]) -> Cell:
    data = _data(primitive, 'NUMACell')
    near = data.get('network_metadata')
    network = _data(near, 'NetworkMetadata') if near else {}
    cpuset = _cpus(data['cpuset'])
    socket = data.get('socket')
    return Cell(
        id=int(data['id']),
        cpuset=cpuset,
        # Before version 1.4 all CPUs could be shared or pinned, and stood in one set.
        pcpuset=_cpus(data['pcpuset']) if 'pcpuset' in data else cpuset,
        memory_mb=int(data['memory']),
        cpu_usage=int(data.get('cpu_usage', 0)),
        memory_usage_mb=int(data.get('memory_usage', 0)),
        pinned_cpus=_cpus(data.get('pinned_cpus', ())),
        siblings=tuple(_cpus(core) for core in data.get('siblings', ())),
        pages=tuple(_read_pages(pages) for pages in data.get('mempages', ())),
        physnets=frozenset(network.get('physnets', ())),
        tunneled=bool(network.get('tunneled', False)),
        socket=None if socket is None else int(socket),
    )


def _cpus(listed: Iterable[Any]) -> frozenset[int]:
    return frozenset(map(int, listed))


def _read_pages(primitive: Mapping[str, Any]) -> Pages:
    data = _data(primitive, 'NUMAPagesTopology')
    size_kb = int(data['size_kb'])
    if size_kb <= 0:
        raise ValueError(f'{size_kb} is no page size')
    return Pages(size_kb, int(data['total']), int(data.get('used', 0)), int(data.get('reserved', 0)))


def _write_cell(cell: Cell) -> dict[str, Any]:
    network = {'physnets': sorted(cell.physnets), 'tunneled': cell.tunneled}
    return _primitive(
        'NUMACell',
        '1.5',
        {
            'id': cell.id,
            'cpuset': sorted(cell.cpuset),
            'pcpuset': sorted(cell.pcpuset),
            'memory': cell.memory_mb,
            'cpu_usage': cell.cpu_usage,
            'memory_usage': cell.memory_usage_mb,
            'pinned_cpus': sorted(cell.pinned_cpus),
            'siblings': [sorted(core) for core in cell.siblings],
            'mempages': [
                _primitive('NUMAPagesTopology', '1.1', dataclasses.asdict(pages)) for pages in cell.pages
            ],
            'network_metadata': _primitive('NetworkMetadata', '1.0', network),
            'socket': cell.socket,
        },
    )

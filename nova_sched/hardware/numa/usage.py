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
"""Takes a guest's usage from a host's NUMA cells, and gives it back."""

import dataclasses

from nova_sched.hardware import Overdrawn
from nova_sched.hardware.numa.guest import ISOLATE
from nova_sched.hardware.numa.host import HostCell, HostPages, HostTopology
from nova_sched.hardware.numa.placed import Fitted, PlacedCell


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

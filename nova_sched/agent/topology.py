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

"""The NUMATopology object of this node: cells from the machine, CPUs from the configuration, usage
from its instances."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from oslo_utils import strutils

from nova_sched import errors, objects
from nova_sched.agent import Settings, numa
from nova_sched.agent.usage import CellUse


def reserved_pages(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], int]:
    """Returns huge pages reserved for the host, by cell and size in kiB.

    ``entries`` are ``{'node', 'size', 'count'}``. ``size`` is in kiB, or has a unit (``2MB``,
    ``1GB``). Raises BadMachineFacts for anything else.
    """
    pages: dict[tuple[int, int], int] = {}
    for entry in entries:
        try:
            size = str(entry['size'])
            size_kb = (
                int(size)
                if size.isdigit()
                else strutils.string_to_bytes(size, return_int=True) // 1024
            )
            pages[int(entry['node']), size_kb] = count = int(entry['count'])
            if count < 0:
                raise ValueError('negative')
        except (KeyError, ValueError) as error:
            why = f'{dict(entry)} is not node, size and count'
            raise errors.BadMachineFacts('reserved_huge_pages', why) from error
    return pages


def build(
    cells: Iterable[numa.Cell],
    shared: Collection[int],
    dedicated: Collection[int],
    used: Mapping[int, CellUse],
    settings: Settings,
) -> objects.NUMATopology:
    """Returns the cells with their CPUs for instances: ``shared`` or ``dedicated`` to one each."""
    reserved = reserved_pages(settings.reserved_huge_pages)
    # A node without a dedicated set accepts pinned instances on any CPU, as in Nova.
    dedicated = dedicated or shared
    uses = ((cell, used.get(cell.id, CellUse())) for cell in cells)
    return objects.NUMATopology(
        cells=[_cell(cell, shared, dedicated, use, reserved, settings) for cell, use in uses]
    )


def _cell(
    cell: numa.Cell,
    shared: Collection[int],
    dedicated: Collection[int],
    used: CellUse,
    reserved: Mapping[tuple[int, int], int],
    settings: Settings,
) -> objects.NUMACell:
    here, usable = set(cell.cpus), set(shared) | set(dedicated)
    beside = [cpus for cpus in cell.siblings if cpus & used.isolated]
    return objects.NUMACell(
        id=cell.id,
        cpuset=here & set(shared),
        pcpuset=here & set(dedicated),
        memory=cell.memory_mb,
        cpu_usage=used.vcpus,
        memory_usage=used.memory_mb,
        pinned_cpus=here & set(dedicated) & used.pinned.union(*beside),
        siblings=[usable & cpus for cpus in cell.siblings if usable & cpus],
        mempages=[
            _pages(pages, used, reserved.get((cell.id, pages.size_kb), 0), smallest=place == 0)
            for place, pages in enumerate(cell.pages)
        ],
        network_metadata=objects.NetworkMetadata(
            physnets={net for net, near in settings.physnet_cells.items() if cell.id in near},
            tunneled=cell.id in settings.tunnel_cells,
        ),
        socket=cell.socket,
    )


def _pages(
    pages: numa.Pages, used: CellUse, reserved: int, smallest: bool
) -> objects.NUMAPagesTopology:
    by_instances = used.pages.get(pages.size_kb, 0)
    if smallest:
        by_instances += used.plain_mb * 1024 // pages.size_kb
    # Pages that other processes use are not available, in addition to the reserved ones.
    return objects.NUMAPagesTopology(
        size_kb=pages.size_kb,
        total=pages.total,
        used=max(by_instances, pages.used - reserved),
        reserved=reserved,
    )

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

"""The NUMA cells of this machine: their CPUs, siblings, socket, memory and pages; and the
NUMATopology object that reports them, with the usage of instances."""

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from oslo_utils import strutils

from nova_sched import errors, objects, words
from nova_sched.extensions.agent import AgentSettings, cpus, sysfs
from nova_sched.extensions.agent.usage import CellUse

_NODE = re.compile(r'node(\d+)')
_HUGE = re.compile(r'hugepages-(\d+)kB')
_MEMORY = re.compile(r'MemTotal:\s*(\d+) kB')


@dataclasses.dataclass(frozen=True, slots=True)
class MachinePages:
    """Pages of one size in one cell; ``used`` is 0 for the base size, whose usage changes all the
    time."""

    size_kb: int
    total: int
    used: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class MachineCell:
    """One NUMA cell; ``siblings`` are its cores, ``pages`` are sorted by size."""

    id: int
    cpus: frozenset[int]
    siblings: tuple[frozenset[int], ...]
    socket: int | None  # the first one, if a cell spans several
    memory_mb: int  # MiB, including huge pages
    pages: tuple[MachinePages, ...]


def cells(sys_root: Path, memory_mb: int = 0, page_kb: int | None = None) -> list[MachineCell]:
    """Return the cells that have an online CPU, by id; one cell if the kernel lists none.

    That one cell has ``memory_mb`` (MiB), which the caller has to pass. ``page_kb`` is the base
    page size in kiB, the running kernel's unless given. Raise BadMachineFacts if a cell cannot be
    read.
    """
    page_kb = page_kb or os.sysconf('SC_PAGE_SIZE') // 1024
    online = cpus.online(sys_root).values()
    nodes = {int(match[1]): path for path in sysfs.children(sys_root / 'devices/system/node')
             if (match := _NODE.fullmatch(path.name))}  # fmt: skip
    if not nodes:
        return [_cell(0, online, memory_mb * 1024, sys_root / 'kernel/mm/hugepages', page_kb)]
    numa_cells = []
    for cell, path in sorted(nodes.items()):
        listed = cpus.parse_ranges(sysfs.text(path / 'cpulist'), str(path / 'cpulist'))
        # A cell without CPUs cannot run an instance.
        if here := [cpu for cpu in online if cpu.id in listed]:
            memory = _MEMORY.search(sysfs.text(path / 'meminfo'))
            if not memory:
                raise errors.BadMachineFacts(str(path / 'meminfo'), 'it has no MemTotal')
            numa_cells.append(_cell(cell, here, int(memory[1]), path / 'hugepages', page_kb))
    return numa_cells


def _cell(
    cell: int, here: Collection[cpus.Cpu], memory_kb: int, huge_root: Path, page_kb: int
) -> MachineCell:
    ids = frozenset(cpu.id for cpu in here)
    huge = []
    for path in sysfs.children(huge_root):
        if match := _HUGE.fullmatch(path.name):
            total = sysfs.number(path / 'nr_hugepages')
            used = max(total - sysfs.number(path / 'free_hugepages'), 0)
            huge.append(MachinePages(int(match[1]), total, used))
    base_kb = max(memory_kb - sum(pages.size_kb * pages.total for pages in huge), 0)
    return MachineCell(
        id=cell,
        cpus=ids,
        siblings=tuple(sorted({cpu.siblings & ids for cpu in here}, key=min)),
        socket=min((cpu.socket for cpu in here if cpu.socket is not None), default=None),
        memory_mb=memory_kb // 1024,
        pages=(
            MachinePages(page_kb, base_kb // page_kb),
            *sorted(huge, key=lambda pages: pages.size_kb),
        ),
    )


def reserved_pages(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], int]:
    """Return huge pages reserved for the host, by cell and size in kiB.

    ``entries`` are ``{'node', 'size', 'count'}``. ``size`` is in kiB, or has a unit (``2MB``,
    ``1GB``). Raise BadMachineFacts for anything else.
    """
    pages: dict[tuple[int, int], int] = {}
    for entry in entries:
        try:
            size = str(entry['size'])
            size_kb = words.whole(
                size
                if size.isdecimal()
                else strutils.string_to_bytes(size, return_int=True) // 1024
            )
            pages[words.whole(entry['node']), size_kb] = words.whole(entry['count'])
        except (KeyError, ValueError, OverflowError) as error:
            why = f'{words.short(dict(entry))} is not node, size and count'
            raise errors.BadMachineFacts('reserved_huge_pages', why) from error
    return pages


def build(
    cells: Iterable[MachineCell],
    shared: Collection[int],
    dedicated: Collection[int],
    used: Mapping[int, CellUse],
    settings: AgentSettings,
) -> objects.NUMATopology:
    """Return the cells with their CPUs for instances: ``shared`` or ``dedicated`` to one each."""
    reserved = reserved_pages(settings.reserved_huge_pages)
    # A node without a dedicated set accepts pinned instances on any CPU, as in Nova.
    dedicated = dedicated or shared
    usable = set(shared) | set(dedicated)
    numa_cells = []
    for cell in cells:
        here, use = set(cell.cpus), used.get(cell.id, CellUse())
        beside = [cpus for cpus in cell.siblings if cpus & use.isolated]
        numa_cells.append(
            objects.NUMACell(
                id=cell.id,
                cpuset=here & set(shared),
                pcpuset=here & set(dedicated),
                memory=cell.memory_mb,
                cpu_usage=use.vcpus,
                memory_usage=use.memory_mb,
                pinned_cpus=here & set(dedicated) & use.pinned.union(*beside),
                siblings=[usable & cpus for cpus in cell.siblings if usable & cpus],
                mempages=[
                    _mempages(pages, use, reserved.get((cell.id, pages.size_kb), 0), place == 0)
                    for place, pages in enumerate(cell.pages)
                ],
                network_metadata=objects.NetworkMetadata(
                    physnets={
                        net for net, near in settings.physnet_cells.items() if cell.id in near
                    },
                    tunneled=cell.id in settings.tunnel_cells,
                ),
                socket=cell.socket,
            )
        )
    return objects.NUMATopology(cells=numa_cells)


def _mempages(
    pages: MachinePages, used: CellUse, reserved: int, smallest: bool
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

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

"""The NUMA cells of this machine: their CPUs, siblings, socket, memory and pages."""

import dataclasses
import os
import re
from collections.abc import Collection
from pathlib import Path

from nova_sched import errors
from nova_sched.agent import cpus, sysfs

_NODE = re.compile(r'node(\d+)')
_HUGE = re.compile(r'hugepages-(\d+)kB')
_MEMORY = re.compile(r'MemTotal:\s*(\d+) kB')


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """Pages of one size in one cell; ``used`` is 0 for the base size, whose usage changes all the
    time."""

    size_kb: int
    total: int
    used: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One NUMA cell; ``siblings`` are its cores, ``pages`` are sorted by size."""

    id: int
    cpus: frozenset[int]
    siblings: tuple[frozenset[int], ...]
    socket: int | None  # the first one, if a cell spans several
    memory_mb: int  # MiB, including huge pages
    pages: tuple[Pages, ...]


def cells(sys_root: Path, memory_mb: int = 0, page_kb: int | None = None) -> list[Cell]:
    """Returns the cells that have an online CPU, by id; one cell if the kernel lists none.

    That one cell has ``memory_mb`` (MiB), which the caller has to pass. ``page_kb`` is the base
    page size in kiB, the running kernel's unless given. Raises BadMachineFacts if a cell cannot be
    read.
    """
    page_kb = page_kb or os.sysconf('SC_PAGE_SIZE') // 1024
    online = cpus.online(sys_root).values()
    nodes = {int(match[1]): path for path in sysfs.children(sys_root / 'devices/system/node')
             if (match := _NODE.fullmatch(path.name))}  # fmt: skip
    if not nodes:
        return [_cell(0, online, memory_mb * 1024, sys_root / 'kernel/mm/hugepages', page_kb)]
    found = []
    for cell, path in sorted(nodes.items()):
        listed = cpus.parse_ranges(sysfs.text(path / 'cpulist'), str(path / 'cpulist'))
        # A cell without CPUs cannot run an instance.
        if here := [cpu for cpu in online if cpu.id in listed]:
            found.append(
                _cell(cell, here, _memory_kb(path / 'meminfo'), path / 'hugepages', page_kb)
            )
    return found


def _cell(
    cell: int, here: Collection[cpus.Cpu], memory_kb: int, huge_root: Path, page_kb: int
) -> Cell:
    ids = frozenset(cpu.id for cpu in here)
    huge = [_huge_pages(path, int(match[1])) for path in sysfs.children(huge_root)
            if (match := _HUGE.fullmatch(path.name))]  # fmt: skip
    base_kb = max(memory_kb - sum(pages.size_kb * pages.total for pages in huge), 0)
    return Cell(
        id=cell,
        cpus=ids,
        siblings=tuple(sorted({cpu.siblings & ids for cpu in here}, key=min)),
        socket=min((cpu.socket for cpu in here if cpu.socket is not None), default=None),
        memory_mb=memory_kb // 1024,
        pages=(Pages(page_kb, base_kb // page_kb), *sorted(huge, key=lambda pages: pages.size_kb)),
    )


def _huge_pages(path: Path, size_kb: int) -> Pages:
    total = sysfs.number(path / 'nr_hugepages')
    return Pages(size_kb, total, max(total - sysfs.number(path / 'free_hugepages'), 0))


def _memory_kb(meminfo: Path) -> int:
    match = _MEMORY.search(sysfs.text(meminfo))
    if not match:
        raise errors.BadMachineFacts(str(meminfo), 'it has no MemTotal')
    return int(match[1])

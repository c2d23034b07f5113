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

"""The usage of this node: the sums of a report, over its list of instances."""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping

from nova_sched.hardware import numa
from nova_sched.hardware.numa.topology import ISOLATE

GONE = frozenset({'deleted', 'shelved_offloaded'})
# Tasks that load the disk of their host, as Nova counts them.
IO_TASKS = frozenset(
    {
        'image_backup',
        'image_snapshot',
        'rebuilding',
        'rescuing',
        'resize_migrating',
        'resize_prep',
        'unshelving',
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class CellUse:
    """The usage of one NUMA cell by instances. ``isolated`` CPUs also take their siblings.

    ``plain_mb`` is the memory in pages of the smallest size, for instances without a page size.
    """

    vcpus: int = 0  # of shared CPUs
    memory_mb: int = 0
    pinned: frozenset[int] = frozenset()
    isolated: frozenset[int] = frozenset()
    pages: Mapping[int, int] = dataclasses.field(default_factory=dict)  # pages by size in kiB
    plain_mb: int = 0

    def __add__(self, other: 'CellUse') -> 'CellUse':
        return CellUse(
            self.vcpus + other.vcpus,
            self.memory_mb + other.memory_mb,
            self.pinned | other.pinned,
            self.isolated | other.isolated,
            collections.Counter(self.pages) + collections.Counter(other.pages),
            self.plain_mb + other.plain_mb,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUsage:
    """One instance as its node counts it."""

    uuid: str
    vcpus: int
    memory_mb: int
    disk_gb: int  # root, ephemeral and swap, rounded up
    dedicated: int = 0  # its vCPUs on dedicated CPUs
    vm_state: str | None = None
    task_state: str | None = None
    os_type: str | None = None
    project_id: str | None = None
    cells: Mapping[int, CellUse] = dataclasses.field(default_factory=dict)  # by cell id
    devices: frozenset[str] = frozenset()  # PCI addresses


@dataclasses.dataclass(frozen=True, slots=True)
class UsageTotals:
    """Sums over guests; ``stats`` has Nova's names, and texts as values."""

    vcpus: int
    dedicated: int  # the vCPUs on dedicated CPUs
    memory_mb: int
    disk_gb: int
    instances: int
    busy: int  # with a task under way
    stats: Mapping[str, str]
    cells: Mapping[int, CellUse]
    devices: frozenset[str]


def total(guests: Iterable[InstanceUsage], failed_builds: int = 0) -> UsageTotals:
    """Return the sums over the guests on the node.

    ``failed_builds`` counts since the last successful build.
    """
    here = [guest for guest in guests if guest.vm_state not in GONE]
    return UsageTotals(
        vcpus=sum(guest.vcpus for guest in here),
        dedicated=sum(guest.dedicated for guest in here),
        memory_mb=sum(guest.memory_mb for guest in here),
        disk_gb=sum(guest.disk_gb for guest in here),
        instances=len(here),
        busy=sum(guest.task_state is not None for guest in here),
        stats=_stats(here, failed_builds),
        cells=_by_cell(item for guest in here for item in guest.cells.items()),
        devices=frozenset().union(*(guest.devices for guest in here)),
    )


def _stats(here: list[InstanceUsage], failed_builds: int) -> dict[str, str]:
    counts = collections.Counter(num_instances=len(here), failed_builds=failed_builds)
    counts['io_workload'] = sum(
        instance.vm_state == 'building' or instance.task_state in IO_TASKS for instance in here
    )
    for guest in here:
        counts[f'num_vm_{guest.vm_state}'] += 1
        counts[f'num_task_{guest.task_state}'] += 1
        counts[f'num_os_type_{guest.os_type}'] += 1
        counts[f'num_proj_{guest.project_id}'] += 1
    return {name: str(count) for name, count in sorted(counts.items())}


def cells(*fitted: numa.Fitted) -> dict[int, CellUse]:
    """Return the usage of fitted guests by host cell."""
    uses = []
    for placed in itertools.chain.from_iterable(guest.cells for guest in fitted):
        memory_mb, page_kb = placed.cell.memory_mb, placed.pagesize_kb
        use = CellUse(
            vcpus=len(placed.cell.cpuset),
            memory_mb=memory_mb,
            pinned=placed.host_cpus,
            isolated=placed.host_cpus if placed.cell.thread_policy == ISOLATE else frozenset(),
            # A size below 0 is a request (small, large, any) that was not fitted to a host yet.
            pages={page_kb: memory_mb * 1024 // page_kb} if page_kb and page_kb > 0 else {},
            plain_mb=0 if page_kb else memory_mb,
        )
        uses.append((placed.host_cell, use))
    return _by_cell(uses)


def _by_cell(uses: Iterable[tuple[int, CellUse]]) -> dict[int, CellUse]:
    by_cell: dict[int, CellUse] = {}
    for cell, use in uses:
        by_cell[cell] = by_cell.get(cell, CellUse()) + use
    return by_cell

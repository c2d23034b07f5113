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
"""Summary figures of a host's NUMA cells, which show quickly that a guest cannot fit there."""

import dataclasses
from collections.abc import Mapping

from nova_sched.hardware.numa.guest import DEDICATED, REQUIRE, GuestCell, GuestTopology
from nova_sched.hardware.numa.host import HostTopology


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
        """Returns False if the guest cannot fit. True is inconclusive."""
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

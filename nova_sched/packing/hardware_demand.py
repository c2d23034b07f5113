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
"""What a size asks of the hardware of a host: NUMA cells, and PCI devices of pools."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology
from nova_sched.hardware.numa.guest import PREFER, SHARED
from nova_sched.hardware.pci import PciRequest

Spec = tuple[tuple[str, str | None], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CellDemand:
    """One guest cell: virtual CPUs on shared CPUs and on dedicated ones, MiB of memory, and its
    pages as in ``hardware.numa.guest.GuestCell``. The dedicated CPUs include one for the
    emulator, if that is isolated."""

    shared: int
    dedicated: int
    memory_mb: int
    pagesize_kb: int | None = None
    cpu_policy: str = SHARED
    thread_policy: str = PREFER

    @classmethod
    def all_of(cls, guest: GuestTopology | None) -> tuple['CellDemand', ...]:
        """Returns a CellDemand for each cell of a guest, in its order."""
        if guest is None:
            return ()
        return tuple(
            cls(
                len(cell.cpuset),
                dedicated,
                cell.memory_mb,
                cell.pagesize_kb,
                cell.cpu_policy,
                cell.thread_policy,
            )
            for cell, dedicated in zip(guest.cells, guest.dedicated_cpus, strict=True)
        )

    def guest_cell(self, number: int) -> GuestCell:
        """Returns the guest cell of this number."""
        return GuestCell(
            number,
            frozenset(range(self.shared)),
            frozenset(range(self.shared, self.shared + self.dedicated)),
            self.memory_mb,
            self.pagesize_kb,
            self.cpu_policy,
            self.thread_policy,
        )

    def to_plain(self) -> list[Any]:
        return list(dataclasses.astuple(self))

    @classmethod
    def from_plain(cls, plain: Any) -> 'CellDemand':
        """Reads the values that ``to_plain`` made. Raises ValueError, TypeError."""
        shared, dedicated, memory_mb, pagesize_kb, cpus, threads = plain
        if pagesize_kb is not None and type(pagesize_kb) is not int:
            raise ValueError(f'{pagesize_kb!r} is not a size of pages')
        counts = natural(shared, 0), natural(dedicated, 0), natural(memory_mb, 0)
        return cls(*counts, pagesize_kb, str(cpus), str(threads))


@dataclasses.dataclass(frozen=True, slots=True)
class PciDemand:
    """``count`` devices that each match one of the alternatives: tags and their values, None: the
    tag is absent."""

    count: int
    alternatives: tuple[Spec, ...]

    @classmethod
    def of(cls, request: PciRequest) -> 'PciDemand':
        specs = (tuple(sorted(one.items())) for one in request.alternatives)
        return cls(request.count, tuple(sorted(specs, key=repr)))

    def pci_request(self) -> PciRequest:
        return PciRequest(self.count, tuple(map(dict, self.alternatives)))

    def to_plain(self) -> list[Any]:
        return [self.count, [[list(pair) for pair in one] for one in self.alternatives]]

    @classmethod
    def from_plain(cls, plain: Any) -> 'PciDemand':
        """Reads the values that ``to_plain`` made. Raises ValueError, TypeError."""
        count, alternatives = plain
        specs = (
            tuple((str(name), None if value is None else str(value)) for name, value in one)
            for one in alternatives
        )
        return cls(natural(count), tuple(specs))


def hardware_request(cells: Sequence[CellDemand], pci: Sequence[PciDemand]) -> HardwareRequest:
    """Returns a request for the same; what must be near the cells is not part of a size."""
    guest = GuestTopology(tuple(one.guest_cell(number) for number, one in enumerate(cells)))
    requests = tuple(one.pci_request() for one in pci)
    return HardwareRequest(guest if cells else None, requests)


def natural(number: Any, least: int = 1) -> int:
    """Returns the number. Raises ValueError unless it is an integer of at least ``least``."""
    if type(number) is not int or number < least:
        raise ValueError(f'{number!r} is not a number of units')
    return number

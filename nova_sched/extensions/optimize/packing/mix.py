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
"""The mix: how often each size was requested lately. A size is what a request takes from the node,
from the node's devices, and from its hardware: NUMA cells, and PCI devices of pools."""

import collections
import dataclasses
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology
from nova_sched.hardware.numa.topology import PREFER, SHARED
from nova_sched.hardware.pci import PciRequest

Spec = tuple[tuple[str, str | None], ...]
Amounts = tuple[tuple[str, int], ...]
MAX_SIZES = 512  # sizes that are remembered; the rarest are dropped
MAX_COUNTED = 20_000.0  # at this sum all counts are halved, so that old requests fade


@dataclasses.dataclass(frozen=True, slots=True)
class CellDemand:
    """One guest cell: virtual CPUs on shared CPUs and on dedicated ones, MiB of memory, and its
    pages as in ``hardware.numa.topology.GuestCell``. The dedicated CPUs include one for the
    emulator, if that is isolated."""

    shared: int
    dedicated: int
    memory_mb: int
    pagesize_kb: int | None = None
    cpu_policy: str = SHARED
    thread_policy: str = PREFER

    @classmethod
    def all_of(cls, guest: GuestTopology | None) -> tuple['CellDemand', ...]:
        """Return a CellDemand for each cell of a guest, in its order."""
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
        """Return the guest cell of this number."""
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
        """Read the values that ``to_plain`` made. Raises ValueError, TypeError."""
        shared, dedicated, memory_mb, pagesize_kb, cpus, threads = plain
        if pagesize_kb is not None and type(pagesize_kb) is not int:
            raise ValueError(f'{pagesize_kb!r} is not a size of pages')
        counts = _natural(shared, 0), _natural(dedicated, 0), _natural(memory_mb, 0)
        return cls(*counts, pagesize_kb, str(cpus), str(threads))


@dataclasses.dataclass(frozen=True, slots=True)
class PciDemand:
    """``count`` devices that each match one of the alternatives: tags and their values, None: the
    tag is absent."""

    count: int
    alternatives: tuple[Spec, ...]

    @classmethod
    def of(cls, request: PciRequest) -> 'PciDemand':
        specs = (tuple(sorted(spec.items())) for spec in request.alternatives)
        return cls(request.count, tuple(sorted(specs, key=repr)))

    def pci_request(self) -> PciRequest:
        return PciRequest(self.count, tuple(map(dict, self.alternatives)))

    def to_plain(self) -> list[Any]:
        return [
            self.count,
            [[list(pair) for pair in alternative] for alternative in self.alternatives],
        ]

    @classmethod
    def from_plain(cls, plain: Any) -> 'PciDemand':
        """Read the values that ``to_plain`` made. Raises ValueError, TypeError."""
        count, alternatives = plain
        specs = (
            tuple(
                (str(name), None if value is None else str(value)) for name, value in alternative
            )
            for alternative in alternatives
        )
        return cls(_natural(count), tuple(specs))


def hardware_request(cells: Sequence[CellDemand], pci: Sequence[PciDemand]) -> HardwareRequest:
    """Return a request for the same; what must be near the cells is not part of a size."""
    guest = GuestTopology(tuple(cell.guest_cell(number) for number, cell in enumerate(cells)))
    requests = tuple(demand.pci_request() for demand in pci)
    return HardwareRequest(guest if cells else None, requests)


def _natural(number: Any, least: int = 1) -> int:
    """Return the number. Raises ValueError unless it is an integer of at least ``least``."""
    if type(number) is not int or number < least:
        raise ValueError(f'{number!r} is not a number of units')
    return number


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceDemand:
    """Units of one resource class from each of ``count`` devices, all with these traits."""

    resource_class: str
    units: int
    count: int = 1
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """What requests of one size ask for: units by resource class of the node itself, devices that
    are child providers, NUMA cells, and PCI devices of pools.

    Of a request for several kinds of child providers, only the demand for most units counts.
    """

    amounts: Amounts = ()
    device: DeviceDemand | None = None
    cells: tuple[CellDemand, ...] = ()
    pci: tuple[PciDemand, ...] = ()

    def to_plain(self) -> list[Any]:
        """Return values that JSON can represent."""
        demand = self.device
        device = demand and [demand.resource_class, demand.units, demand.count,
                             sorted(demand.required), sorted(demand.forbidden)]  # fmt: skip
        plain: list[Any] = [[list(amount) for amount in self.amounts], device]
        if self.cells or self.pci:
            plain += [
                [part.to_plain() for part in self.cells],
                [part.to_plain() for part in self.pci],
            ]
        return plain

    @classmethod
    def from_plain(cls, plain: Any) -> 'Size':
        """Read the values that ``to_plain`` made. Raises ValueError, TypeError."""
        amounts, device, cells, pci = plain if len(plain) > 2 else (*plain, (), ())
        if device is not None:
            name, units, count, required, forbidden = device
            traits = frozenset(map(str, required)), frozenset(map(str, forbidden))
            device = DeviceDemand(str(name), _natural(units), _natural(count), *traits)
        return cls(
            tuple((str(name), _natural(units)) for name, units in amounts),
            device,
            tuple(map(CellDemand.from_plain, cells)),
            tuple(map(PciDemand.from_plain, pci)),
        )


def size_of(request: Any, child_classes: Container[str]) -> Size:
    """Return the Size of a Request; ``child_classes`` are the resource classes of devices."""
    amounts, demands = dict[str, int](), collections.Counter[DeviceDemand]()
    for name, units in request.resources.items():
        if name in child_classes:
            traits = request.required_traits, request.forbidden_traits
            demands[DeviceDemand(name, units, 1, *traits)] += 1
        elif units:
            amounts[name] = amounts.get(name, 0) + units
    for group in request.groups:
        for name, units in group.resources:
            if name in child_classes:
                demands[DeviceDemand(name, units, 1, group.required, group.forbidden)] += 1
            elif units:
                amounts[name] = amounts.get(name, 0) + units
    devices = [
        dataclasses.replace(demand, count=count)
        for demand, count in demands.items()
        if demand.units
    ]
    most = max(devices, key=lambda demand: demand.units * demand.count, default=None)
    pieces = request.pieces
    if not pieces:
        return Size(tuple(sorted(amounts.items())), most)
    pci = tuple(sorted(map(PciDemand.of, pieces.requests), key=repr))
    return Size(tuple(sorted(amounts.items())), most, CellDemand.all_of(pieces.guest), pci)


class Mix:
    """Counts of requests by Size, bounded."""

    def __init__(self, counts: Mapping[Size, float] | None = None):
        self.counts: dict[Size, float] = dict(counts or {})
        self._limit()

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def total(self) -> float:
        return sum(self.counts.values())

    def add(self, sizes: Iterable[Size]) -> None:
        """Count a request of each of these sizes."""
        for size in sizes:
            self.counts[size] = self.counts.get(size, 0.0) + 1.0
        self._limit()

    def merge(self, other: 'Mix', share: float = 1.0) -> None:
        """Add the counts of another mix, times ``share``."""
        for size, count in other.counts.items():
            self.counts[size] = self.counts.get(size, 0.0) + share * count
        self._limit()

    def _limit(self) -> None:
        if self.total > MAX_COUNTED:
            self.counts = {size: count / 2 for size, count in self.counts.items()}
        if len(self.counts) > MAX_SIZES:
            often = sorted(self.counts.items(), key=lambda item: -item[1])
            self.counts = dict(often[:MAX_SIZES])

    def to_json(self) -> str:
        return json.dumps([[size.to_plain(), count] for size, count in self.counts.items()])

    @classmethod
    def from_json(cls, text: str) -> 'Mix':
        """Read the text that ``to_json`` wrote. Raises ValueError, TypeError."""
        counts: dict[Size, float] = {}
        for plain, count in json.loads(text):
            if not 0 < float(count) < float('inf'):
                raise ValueError(f'{count!r} is not a count of requests')
            counts[Size.from_plain(plain)] = float(count)
        return cls(counts)

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
"""The size of a request: what it takes from the node, and from the node's devices."""

import collections
import dataclasses
from collections.abc import Container
from typing import Any

from nova_sched.packing.hardware_demand import CellDemand, PciDemand, natural

Amounts = tuple[tuple[str, int], ...]


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
        """Returns values that JSON can represent."""
        one = self.device
        device = one and [one.resource_class, one.units, one.count,
                          sorted(one.required), sorted(one.forbidden)]  # fmt: skip
        plain: list[Any] = [[list(amount) for amount in self.amounts], device]
        if self.cells or self.pci:
            plain += [[one.to_plain() for one in self.cells], [one.to_plain() for one in self.pci]]
        return plain

    @classmethod
    def from_plain(cls, plain: Any) -> 'Size':
        """Reads the values that ``to_plain`` made. Raises ValueError, TypeError."""
        amounts, device, cells, pci = plain if len(plain) > 2 else (*plain, (), ())
        if device is not None:
            name, units, count, required, forbidden = device
            traits = frozenset(map(str, required)), frozenset(map(str, forbidden))
            device = DeviceDemand(str(name), natural(units), natural(count), *traits)
        return cls(
            tuple((str(name), natural(units)) for name, units in amounts),
            device,
            tuple(map(CellDemand.from_plain, cells)),
            tuple(map(PciDemand.from_plain, pci)),
        )


def size_of(request: Any, child_classes: Container[str]) -> Size:
    """Returns the Size of a Request; ``child_classes`` are the resource classes of devices."""
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
    asked = [dataclasses.replace(one, count=count) for one, count in demands.items() if one.units]
    most = max(asked, key=lambda one: one.units * one.count, default=None)
    pieces = request.pieces
    if not pieces:
        return Size(tuple(sorted(amounts.items())), most)
    pci = tuple(sorted(map(PciDemand.of, pieces.requests), key=repr))
    return Size(tuple(sorted(amounts.items())), most, CellDemand.all_of(pieces.guest), pci)

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
"""Fits a guest into a host: assigns guest cells to host cells."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from nova_sched.hardware.numa.attempts import Attempts, NovaAttempts
from nova_sched.hardware.numa.guest import SHARED, GuestTopology, NumaLimits
from nova_sched.hardware.numa.host import HostCell, HostTopology
from nova_sched.hardware.numa.placed import Fitted, PlacedCell


def fit(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
    thorough: bool = False,
) -> Fitted | None:
    """Returns the placement of the guest in the first suitable choice of host cells; None if there
    is none.

    ``limits``: allocation ratios of shared CPUs and memory, and networks that must be near; None:
    no limits. ``pci``: ``pci.WantedDevices``, which must be near the cells. ``packing`` prefers
    fuller cells. ``thorough`` finds every fit, including those that Nova misses.
    """
    if len(host.cells) < len(guest.cells):
        return None
    return _CellSearch(host, guest, limits, pci, packing, thorough).extend()


class _CellSearch:
    """One search through the choices of host cells, in the order of preference."""

    def __init__(
        self,
        host: HostTopology,
        guest: GuestTopology,
        limits: NumaLimits | None,
        pci: Any,
        packing: bool,
        thorough: bool,
    ):
        self._host, self._limits, self._pci = host, limits, pci
        self._order = _in_order(host, guest, pci, packing)
        self._asked = len(guest.cells)
        self._choices = math.comb(len(self._order), self._asked)
        self._too_far: set[frozenset[int]] = (
            set()
        )  # choices that are not near the devices or networks
        self._attempts = (
            Attempts(guest, limits) if thorough else NovaAttempts(guest, limits, len(self._order))
        )

    def extend(self, chosen: tuple[PlacedCell, ...] = ()) -> Fitted | None:
        """Returns the first complete choice that begins with these cells."""
        if len(chosen) == self._asked:
            return (
                Fitted(chosen)
                if self._is_near(frozenset(one.host_cell for one in chosen))
                else None
            )
        taken = [one.host_cell for one in chosen]
        again = False
        for cell in self._order:
            if cell.id in taken:
                continue
            if len(self._too_far) == self._choices or (again and self._attempts.are_lost(chosen)):
                break
            again = True
            placed = self._attempts.place(len(chosen), cell)
            found = placed and self.extend((*chosen, placed))
            if found:
                return found
        return None

    def _is_near(self, cells: frozenset[int]) -> bool:
        """Returns whether the requested devices and networks are near these cells."""
        if cells not in self._too_far:
            short = self._pci and self._pci.why_not(cells, self._host)
            if not short and not far_networks(self._host, cells, self._limits):
                return True
            self._too_far.add(cells)
        return False


def _in_order(
    host: HostTopology, guest: GuestTopology, pci: Any, packing: bool
) -> Sequence[HostCell]:
    """Returns host cells in order of preference: cells near requested devices first, then the
    emptiest.

    If the guest needs every host cell, their order stays.
    """
    if len(host.cells) <= len(guest.cells):
        return host.cells
    fullest = -1 if packing else 1

    def key(cell: HostCell) -> tuple[int, int, int]:
        devices = pci.devices_in(cell.id) if pci else 0
        used = cell.cpu_usage if guest.cpu_policy == SHARED else -len(cell.free_pcpus)
        return (
            -devices if pci and pci.requests else devices,
            fullest * used,
            -fullest * cell.free_memory_mb,
        )

    return sorted(host.cells, key=key)


def far_networks(
    host: HostTopology, cells: Collection[int], limits: NumaLimits | None
) -> list[str]:
    """Returns the requested networks that are near some cell of the host, but none of these
    cells."""
    if limits is None:
        return []
    homes = {
        f'network {network}': {cell.id for cell in host.cells if network in cell.physnets}
        for network in sorted(limits.physnets)
    }
    if limits.tunneled:
        homes['the tunnel network'] = {cell.id for cell in host.cells if cell.tunneled}
    return [name for name, near in homes.items() if near and near.isdisjoint(cells)]

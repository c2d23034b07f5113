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
"""Tries guest cells on host cells, one at a time, and caches the results."""

import dataclasses
import math
from collections.abc import Iterable

from nova_sched.hardware.numa import cell as one
from nova_sched.hardware.numa.guest import GuestTopology, NumaLimits
from nova_sched.hardware.numa.host import HostCell
from nova_sched.hardware.numa.placed import PlacedCell


class Attempts:
    """Tries each pair of cells independently and once."""

    def __init__(self, guest: GuestTopology, limits: NumaLimits | None):
        self._guest, self._limits = guest, limits
        self._known: dict[tuple[int, int], PlacedCell | None] = {}

    def place(self, position: int, host: HostCell) -> PlacedCell | None:
        """Returns the guest cell at this position placed in the host cell, or None."""
        key = position, host.id
        if key not in self._known:
            reserved = self._guest.reserved_cpus(position)
            found = one.place(host, self._guest.cells[position], reserved, self._limits)
            self._known[key] = found if isinstance(found, PlacedCell) else None
        return self._known[key]

    def are_lost(self, chosen: Iterable[PlacedCell]) -> bool:
        """Returns whether a chosen host cell can no longer take its guest cell."""
        return False


class NovaAttempts:
    """Tries cells in Nova's order, which occasionally misses a fit.

    Nova modifies the guest while it searches. A cell that may have pages of several sizes keeps
    the first size that is tried. A cell takes the id of the host cell in which it was placed, and
    failures are cached by these ids. One cell is therefore mistaken for another that has failed. A
    compute node repeats the calculation for a claim and refuses a fit that Nova misses, so sending
    the guest there is useless. A fit that Nova accepts by such a mistake is not accepted here.
    """

    def __init__(self, guest: GuestTopology, limits: NumaLimits | None, host_cells: int):
        self._guest, self._limits, self._host_cells = guest, limits, host_cells
        self._cells = list(guest.cells)
        self._ids = [cell.id for cell in guest.cells]
        self._failed: set[tuple[int, int]] = set()

    def place(self, position: int, host: HostCell) -> PlacedCell | None:
        """The guest cell at this position in the host cell, or None."""
        key = host.id, self._ids[position]
        if key in self._failed:
            return None
        found = self._try(position, host)
        if isinstance(found, PlacedCell):
            self._ids[position] = host.id
            return found
        self._failed.add(key)
        if found.stage is one.Stage.RATIO and self._cells[position].is_pinned:
            # The CPUs were found before the memory share proved too large; the id was already
            # written.
            self._ids[position] = host.id
            if self._comes_again(position):
                self._failed.add((host.id, host.id))
        return None

    def are_lost(self, chosen: Iterable[PlacedCell]) -> bool:
        """Returns whether a chosen host cell can no longer take its guest cell.

        Nova places the first cells again for each choice of the remaining ones, and then under new
        ids.
        """
        return any((placed.host_cell, placed.host_cell) in self._failed for placed in chosen)

    def _try(self, position: int, host: HostCell) -> PlacedCell | one.CellShortage:
        cell = self._cells[position]
        size_kb = one.page_size(host, cell)
        if isinstance(size_kb, one.CellShortage):
            return size_kb
        if size_kb != cell.pagesize_kb:
            cell = self._cells[position] = dataclasses.replace(cell, pagesize_kb=size_kb)
        return one.place_cpus(
            host, cell, size_kb, self._guest.reserved_cpus(position), self._limits
        )

    def _comes_again(self, position: int) -> bool:
        """Returns whether the cells after this one have more than one choice once it is placed."""
        return math.perm(self._host_cells - position - 1, len(self._cells) - position - 1) > 1

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
"""Fits a guest into a host: tries the choices of host cells for the guest cells."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from nova_sched.hardware import Steps, Undecided
from nova_sched.hardware.numa import cell as cell_fit
from nova_sched.hardware.numa.guest import SHARED, GuestTopology, NumaLimits
from nova_sched.hardware.numa.host import HostCell, HostTopology
from nova_sched.hardware.numa.placed import Fitted, PlacedCell

# A search ends after so many looks at a host cell. It is then undecided, and the host counts as
# one on which the guest does not fit. Four guest cells on eight host cells need 2,080 at most.
MAX_STEPS = 10_000
# Of all hosts that one guest is tried on; with fewer left, a search has FEWEST_STEPS, and those of
# FEWEST_LOOKS at devices.
SHARED_STEPS, FEWEST_STEPS, FEWEST_LOOKS = 100_000, 500, 2
LATE = 4  # times as many looks as there are pairs of cells: the guest cells are counted then


def fit(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
    thorough: bool = False,
    shared: Steps | None = None,
) -> Fitted | None:
    """Returns the placement of the guest in the first suitable choice of host cells; None if there
    is none, or if the search ended undecided.

    ``limits``: allocation ratios of shared CPUs and memory, and networks that must be near; None:
    no limits. ``pci``: ``pci.WantedDevices``, which must be near the cells. ``packing`` prefers
    fuller cells. ``thorough`` finds every fit, including those that Nova misses. ``shared`` are
    the steps of all hosts that the guest is tried on; raises Undecided if too few of them are
    left.
    """
    fewest = FEWEST_STEPS + FEWEST_LOOKS * _near_steps(pci)
    try:
        steps = Steps(MAX_STEPS, shared, fewest)
        return search(host, guest, limits, pci, packing, thorough, steps)
    except Undecided as error:
        if error.for_now:
            raise
        return None


def _near_steps(pci: Any) -> int:
    """Returns the steps of a look at the devices near some cells."""
    return len(pci.requests) * len(pci.pools) if pci else 0


def search(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None,
    pci: Any,
    packing: bool,
    thorough: bool,
    steps: Steps,
) -> Fitted | None:
    """Returns what ``fit`` returns. Raises Undecided if the steps do not suffice."""
    if len(host.cells) < len(guest.cells):
        return None
    try:
        return _CellSearch(host, guest, limits, pci, packing, thorough, steps).extend()
    except _Refuted:
        return None


class _Refuted(Exception):
    """Counting shows that no choice of host cells is suitable."""


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
        steps: Steps,
    ):
        self._host, self._limits, self._pci = host, limits, pci
        self._guest, self._steps = guest, steps
        self._until_late = LATE * len(host.cells) * len(guest.cells)
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
                if self._is_near(frozenset(chosen_cell.host_cell for chosen_cell in chosen))
                else None
            )
        taken = [chosen_cell.host_cell for chosen_cell in chosen]
        again = False
        for cell in self._order:
            if cell.id in taken:
                continue
            if len(self._too_far) == self._choices or (again and self._attempts.are_lost(chosen)):
                break
            again = True
            self._look()
            placed = self._attempts.place(len(chosen), cell)
            fitted = placed and self.extend((*chosen, placed))
            if fitted:
                return fitted
        return None

    def _look(self) -> None:
        """Counts a look at a host cell. Raises Undecided, and _Refuted if the search has gone back
        often and not all guest cells can have a host cell at once."""
        self._steps.spend()
        self._until_late -= 1
        if not self._until_late and not self._has_cell_for_each():
            raise _Refuted

    def _has_cell_for_each(self) -> bool:
        """Returns whether each guest cell can have a separate host cell. Attempts also places all
        that Nova places."""
        attempts, taken = Attempts(self._guest, self._limits), dict[int, int]()

        def has_cell(position: int, seen: set[int]) -> bool:
            for cell in self._order:
                if cell.id not in seen and attempts.place(position, cell):
                    seen.add(cell.id)
                    if cell.id not in taken or has_cell(taken[cell.id], seen):
                        taken[cell.id] = position
                        return True
            return False

        return all(has_cell(position, set()) for position in range(self._asked))

    def _is_near(self, cells: frozenset[int]) -> bool:
        """Returns whether the requested devices and networks are near these cells."""
        if cells not in self._too_far:
            self._steps.spend(_near_steps(self._pci))
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
            outcome = cell_fit.place(host, self._guest.cells[position], reserved, self._limits)
            self._known[key] = outcome if isinstance(outcome, PlacedCell) else None
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
        self._known: dict[object, PlacedCell | cell_fit.CellShortage] = {}

    def place(self, position: int, host: HostCell) -> PlacedCell | None:
        """The guest cell at this position in the host cell, or None."""
        key = host.id, self._ids[position]
        if key in self._failed:
            return None
        outcome = self._try(position, host)
        if isinstance(outcome, PlacedCell):
            self._ids[position] = host.id
            return outcome
        self._failed.add(key)
        if outcome.stage is cell_fit.Stage.RATIO and self._cells[position].is_pinned:
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

    def _try(self, position: int, host: HostCell) -> PlacedCell | cell_fit.CellShortage:
        cell = self._cells[position]
        size_kb = cell_fit.page_size(host, cell)
        if isinstance(size_kb, cell_fit.CellShortage):
            return size_kb
        if size_kb != cell.pagesize_kb:
            cell = self._cells[position] = dataclasses.replace(cell, pagesize_kb=size_kb)
        key = position, host.id, size_kb
        if key not in self._known:
            reserved = self._guest.reserved_cpus(position)
            self._known[key] = cell_fit.place_cpus(host, cell, size_kb, reserved, self._limits)
        return self._known[key]

    def _comes_again(self, position: int) -> bool:
        """Returns whether the cells after this one have more than one choice once it is placed."""
        return math.perm(self._host_cells - position - 1, len(self._cells) - position - 1) > 1

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
"""Fits a guest into a host: one guest cell into one host cell, then the choices of host cells for
all guest cells. Explains in text and figures why a guest does not fit."""

import dataclasses
import enum
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from nova_sched.hardware import Steps, Undecided
from nova_sched.hardware.numa.topology import (
    ANY,
    DEDICATED,
    ISOLATE,
    LARGE,
    REQUIRE,
    SHARED,
    SMALL,
    Fitted,
    GuestCell,
    GuestTopology,
    HostCell,
    HostTopology,
    NumaLimits,
    PlacedCell,
)

Cores = Iterable[Sequence[int]]


class Pins(NamedTuple):
    """Host CPUs for the guest, in the order of the guest's CPUs, and for its emulator."""

    guest: Sequence[int]
    emulator: frozenset[int] = frozenset()


NO_PINS = Pins(())


def pin(cell: HostCell, wanted: int, reserved: int, thread_policy: str) -> Pins | None:
    """Return free CPUs of the cell for ``wanted`` guest CPUs and ``reserved`` emulator CPUs; None
    if there are too few.

    ``prefer`` fills cores as far as possible. ``require`` skips cores with one free thread.
    ``isolate`` takes one thread of each core that is completely free; for the guest only cores of
    full size.
    """
    if not wanted and (reserved or thread_policy == ISOLATE):
        # Nova and its compute nodes find no placement for zero CPUs.
        return None
    if thread_policy == ISOLATE:
        full = _full(cell)
        return _cut(_first(full, 1), wanted, _first(cell.whole_cores, 1), reserved)
    fewest = 2 if thread_policy == REQUIRE else 1
    # Uses as many threads of each core as possible: the fewer cores a guest uses, the fewer it
    # shares.
    for threads in range(cell.threads_per_core, fewest - 1, -1):
        cores = [core for core in cell.free_cores if len(core) >= threads]
        if cores and threads * len(cores) >= wanted:
            return _cut(_first(cores, threads), wanted, cell.free_cores, reserved)
    if thread_policy == REQUIRE:
        return None
    return _cut(cell.free_cores, wanted, cell.free_cores, reserved)


def most_pins(cell: HostCell, thread_policy: str) -> int:
    """Return the largest number of guest CPUs that the cell has capacity for."""
    if thread_policy == ISOLATE:
        return len(_full(cell))
    if thread_policy == REQUIRE:
        sizes = [len(core) for core in cell.free_cores]
        return max(
            (size * sum(other >= size for other in sizes) for size in sizes if size > 1), default=0
        )
    return sum(map(len, cell.free_cores))


def _full(cell: HostCell) -> list[tuple[int, ...]]:
    return [core for core in cell.whole_cores if len(core) == cell.threads_per_core]


def _first(cores: Cores, threads: int) -> Cores:
    return (core[:threads] for core in cores)


def _cut(cores: Cores, wanted: int, spare: Cores, reserved: int) -> Pins | None:
    """Return ``wanted`` CPUs of the cores and ``reserved`` spare CPUs; None if they do not
    suffice."""
    guest = list(itertools.islice(itertools.chain.from_iterable(cores), wanted))
    if len(guest) < wanted:
        return None
    if not reserved:
        return Pins(guest)
    rest = (cpu for cpu in itertools.chain.from_iterable(spare) if cpu not in guest)
    emulator = frozenset(itertools.islice(rest, reserved))
    return Pins(guest, emulator) if len(emulator) == reserved else None


class Stage(enum.IntEnum):
    """How far a guest cell got before a check failed, in the order of the checks."""

    PAGES = 0
    MEMORY = 1
    CPUS = 2
    FREE_CPUS = 3
    CORES = 4
    RATIO = 5


class CellShortage(NamedTuple):
    """Why a guest cell does not fit into a host cell. ``what`` includes the unit, as in 'MiB of
    memory'."""

    stage: Stage
    what: str
    needs: float
    has: float


def place(
    host: HostCell, guest: GuestCell, reserved: int, limits: NumaLimits | None
) -> PlacedCell | CellShortage:
    """Return the guest cell placed in the host cell, with ``reserved`` CPUs for the emulator."""
    size_kb = page_size(host, guest)
    return (
        size_kb
        if isinstance(size_kb, CellShortage)
        else place_cpus(host, guest, size_kb, reserved, limits)
    )


def page_size(host: HostCell, guest: GuestCell) -> int | CellShortage | None:
    """Return the size (KiB) of the pages that the guest cell would get; None if it asked for no
    size."""
    requested = guest.pagesize_kb
    if requested is None:
        has = host.free_plain_memory_mb if guest.is_pinned else host.plain_memory_mb
        what = 'MiB of free memory' if guest.is_pinned else 'MiB of memory'
        return (
            None
            if guest.memory_mb <= has
            else CellShortage(Stage.MEMORY, what, guest.memory_mb, has)
        )
    memory_kb = guest.memory_mb * 1024
    sizes = _sizes(host, requested)
    for size_kb in sizes:
        if memory_kb % size_kb == 0 and host.pages_by_size[size_kb].free * size_kb >= memory_kb:
            return size_kb
    return _pages_short(host, guest, sizes)


def _sizes(host: HostCell, requested: int) -> list[int]:
    """Return the host's page sizes that qualify, the best first. Large pages need smaller page
    tables."""
    sizes = list(host.pages_by_size)
    if requested == SMALL:
        return sizes[:1]
    if requested == LARGE:
        return sizes[:0:-1]
    if requested == ANY:
        return sizes[::-1]
    return [requested] if requested in host.pages_by_size else []


def _pages_short(host: HostCell, guest: GuestCell, sizes: list[int]) -> CellShortage:
    words = {SMALL: 'small pages', LARGE: 'large pages', ANY: 'pages'}
    name = words.get(guest.pagesize_kb or 0, f'pages of {guest.pagesize_kb} KiB')
    whole = [size_kb for size_kb in sizes if guest.memory_mb * 1024 % size_kb == 0]
    has_mb = max(
        (host.pages_by_size[size_kb].free * size_kb / 1024 for size_kb in whole), default=0
    )
    if sizes and not whole:
        return CellShortage(Stage.PAGES, f'MiB in whole {name}', guest.memory_mb, has_mb)
    stage = Stage.MEMORY if whole else Stage.PAGES
    return CellShortage(stage, f'MiB in free {name}', guest.memory_mb, has_mb)


def place_cpus(
    host: HostCell, guest: GuestCell, size_kb: int | None, reserved: int, limits: NumaLimits | None
) -> PlacedCell | CellShortage:
    """Return the placed cell once memory is found for it, in pages of this size."""
    if short := _too_few(host, guest, reserved):
        return short
    pins: Pins | None = NO_PINS
    if guest.is_pinned:
        pins = pin(host, len(guest.pcpuset), reserved, guest.thread_policy)
    if pins is None:
        return _cores_short(host, guest, reserved)
    # After the cores, as in Nova: NovaAttempts depends on this order.
    if limits and guest.cpu_policy != DEDICATED and (short := _over_ratio(host, guest, limits)):
        return short
    pinning = dict(zip(guest.pinned_vcpus, pins.guest, strict=False))
    return PlacedCell(guest, host.id, pinning, pins.emulator, size_kb)


def _too_few(host: HostCell, guest: GuestCell, reserved: int) -> CellShortage | None:
    if guest.cpu_policy != DEDICATED and len(guest.cpuset) > len(host.cpuset):
        return CellShortage(Stage.CPUS, 'shared CPUs', len(guest.cpuset), len(host.cpuset))
    if not guest.is_pinned:
        return None
    needed = len(guest.pcpuset) + reserved
    if needed > len(host.pcpuset):
        return CellShortage(Stage.CPUS, 'dedicated CPUs', needed, len(host.pcpuset))
    if needed > len(host.free_pcpus):
        return CellShortage(Stage.FREE_CPUS, 'free dedicated CPUs', needed, len(host.free_pcpus))
    # On a host with a separate set of dedicated CPUs, their siblings may be shared CPUs. No guest
    # is then alone on a core.
    if (
        guest.thread_policy == ISOLATE
        and host.threads_per_core > 1
        and host.cpuset != host.pcpuset
    ):
        return CellShortage(Stage.CORES, 'cores of one thread', needed, 0)
    return None


def _cores_short(host: HostCell, guest: GuestCell, reserved: int) -> CellShortage:
    wanted, has = len(guest.pcpuset), most_pins(host, guest.thread_policy)
    if not wanted:
        return CellShortage(Stage.CORES, 'places for a cell without pinned CPUs', 1, 0)
    if guest.thread_policy == ISOLATE:
        return CellShortage(Stage.CORES, 'cores with all threads free', wanted + reserved, has)
    if guest.thread_policy == REQUIRE:
        return CellShortage(Stage.CORES, 'free dedicated CPUs next to free siblings', wanted, has)
    return CellShortage(Stage.CORES, 'free dedicated CPUs on known cores', wanted + reserved, has)


def _over_ratio(host: HostCell, guest: GuestCell, limits: NumaLimits) -> CellShortage | None:
    cpus = len(host.cpuset) * limits.cpu_ratio
    if host.cpu_usage + len(guest.cpuset) > cpus:
        what = 'shared CPUs under the allocation ratio'
        return CellShortage(Stage.RATIO, what, len(guest.cpuset), cpus - host.cpu_usage)
    memory_mb = host.memory_mb * limits.ram_ratio
    if host.memory_usage_mb + guest.memory_mb > memory_mb:
        what = 'MiB of memory under the allocation ratio'
        return CellShortage(Stage.RATIO, what, guest.memory_mb, memory_mb - host.memory_usage_mb)
    return None


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
    """Return the placement of the guest in the first suitable choice of host cells; None if there
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
    """Return the steps of a look at the devices near some cells."""
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
    """Return what ``fit`` returns. Raises Undecided if the steps do not suffice."""
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
        """Return the first complete choice that begins with these cells."""
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
        """Count a look at a host cell. Raises Undecided, and _Refuted if the search has gone back
        often and not all guest cells can have a host cell at once."""
        self._steps.spend()
        self._until_late -= 1
        if not self._until_late and not self._has_cell_for_each():
            raise _Refuted

    def _has_cell_for_each(self) -> bool:
        """Return whether each guest cell can have a separate host cell. Attempts also places all
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
        """Return whether the requested devices and networks are near these cells."""
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
    """Return host cells in order of preference: cells near requested devices first, then the
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
    """Return the requested networks that are near some cell of the host, but none of these
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
        """Return the guest cell at this position placed in the host cell, or None."""
        key = position, host.id
        if key not in self._known:
            reserved = self._guest.reserved_cpus(position)
            outcome = place(host, self._guest.cells[position], reserved, self._limits)
            self._known[key] = outcome if isinstance(outcome, PlacedCell) else None
        return self._known[key]

    def are_lost(self, chosen: Iterable[PlacedCell]) -> bool:
        """Return whether a chosen host cell can no longer take its guest cell."""
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
        self._known: dict[object, PlacedCell | CellShortage] = {}

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
        if outcome.stage is Stage.RATIO and self._cells[position].is_pinned:
            # The CPUs were found before the memory share proved too large; the id was already
            # written.
            self._ids[position] = host.id
            # Whether the cells after this one have more than one choice once it is placed.
            tried = position + 1
            if math.perm(self._host_cells - tried, len(self._cells) - tried) > 1:
                self._failed.add((host.id, host.id))
        return None

    def are_lost(self, chosen: Iterable[PlacedCell]) -> bool:
        """Return whether a chosen host cell can no longer take its guest cell.

        Nova places the first cells again for each choice of the remaining ones, and then under new
        ids.
        """
        return any((placed.host_cell, placed.host_cell) in self._failed for placed in chosen)

    def _try(self, position: int, host: HostCell) -> PlacedCell | CellShortage:
        cell = self._cells[position]
        size_kb = page_size(host, cell)
        if isinstance(size_kb, CellShortage):
            return size_kb
        asked = self._guest.cells[position]
        if cell is not asked and isinstance(short := page_size(host, asked), CellShortage):
            return short  # large pages elsewhere are the small ones of this host cell
        if size_kb != cell.pagesize_kb:
            cell = self._cells[position] = dataclasses.replace(cell, pagesize_kb=size_kb)
        key = position, host.id, size_kb
        if key not in self._known:
            reserved = self._guest.reserved_cpus(position)
            self._known[key] = place_cpus(host, cell, size_kb, reserved, self._limits)
        return self._known[key]


# Why a guest does not fit.


class NumaMiss(NamedTuple):
    """Why a guest does not fit. Of two, the greater one came nearer: ``stage`` is the failed
    check."""

    stage: int
    gap: float
    why: str


CELLS, WITHIN, AT_ONCE, NEAR, DEVICES = 0, 1, 100, 101, 102


def why_not(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
) -> str:
    """Return why the guest does not fit on the host; empty if it fits. Arguments as for
    ``fit``."""
    missed = miss(host, guest, limits, pci, packing)
    return missed.why if missed else ''


def miss(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None = None,
    pci: Any = None,
    packing: bool = False,
    steps: Steps | None = None,
) -> NumaMiss | None:
    """Return why the guest does not fit on the host, comparable between hosts; None if it
    fits. ``steps`` are those of all searches; None: MAX_STEPS."""
    if len(host.cells) < len(guest.cells):
        why = f'needs {len(guest.cells)} NUMA cells, the host has {len(host.cells)}'
        return NumaMiss(CELLS, len(host.cells), why)
    for position, cell in enumerate(guest.cells):
        if missed := _nowhere(host, cell, guest.reserved_cpus(position), limits):
            return missed
    try:
        return _together(host, guest, limits, pci, packing, steps or Steps(MAX_STEPS))
    except Undecided:
        return NumaMiss(AT_ONCE, -1, 'its cells allow too many choices to search all of them')


def _together(
    host: HostTopology,
    guest: GuestTopology,
    limits: NumaLimits | None,
    pci: Any,
    packing: bool,
    steps: Steps,
) -> NumaMiss | None:
    """Return what is short where each guest cell fits into some host cell; None if they fit.
    Raises Undecided."""
    if search(host, guest, limits, pci, packing, False, steps):
        return None
    if search(host, guest, limits, pci, packing, True, steps):
        return NumaMiss(
            AT_ONCE, 0, 'it fits, but in a way that Nova does not find, nor would its compute node'
        )
    anywhere = limits and NumaLimits(limits.cpu_ratio, limits.ram_ratio)
    fitted = search(host, guest, anywhere, None, packing, True, steps)
    if not fitted:
        why = f'each guest cell fits in a host cell, but not all {len(guest.cells)} at once'
        return NumaMiss(AT_ONCE, 0, why)
    if far := far_networks(host, fitted.host_cells, limits):
        why = f'host cells {sorted(fitted.host_cells)} fit, but are not near {", ".join(far)}'
        return NumaMiss(NEAR, -len(far), why)
    devices = pci and pci.why_not(fitted.host_cells, host)
    why = f'host cells {sorted(fitted.host_cells)} fit, but not with the PCI devices: {devices}'
    return NumaMiss(DEVICES, 0, why)


def _nowhere(
    host: HostTopology, cell: GuestCell, reserved: int, limits: NumaLimits | None
) -> NumaMiss | None:
    """Return what is short in the host cell that came nearest to fitting the guest cell; None if
    one fits."""
    outcomes = [place(host_cell, cell, reserved, limits) for host_cell in host.cells]
    short = [some for some in outcomes if isinstance(some, CellShortage)]
    if not short or len(short) < len(outcomes):
        return None
    nearest = max(short, key=lambda some: (some.stage, some.has - some.needs))
    needs = (
        f'needs {nearest.needs:g} {nearest.what}, the best host cell has {max(nearest.has, 0):g}'
    )
    return NumaMiss(
        WITHIN + nearest.stage, nearest.has - nearest.needs, f'guest cell {cell.id} {needs}'
    )

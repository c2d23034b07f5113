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
"""Fits one guest cell into one host cell, or reports what is short."""

import enum
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nova_sched.hardware.numa.guest import (
    ANY,
    DEDICATED,
    ISOLATE,
    LARGE,
    REQUIRE,
    SMALL,
    GuestCell,
    NumaLimits,
)
from nova_sched.hardware.numa.host import HostCell
from nova_sched.hardware.numa.placed import PlacedCell

Cores = Iterable[Sequence[int]]


class Pins(NamedTuple):
    """Host CPUs for the guest, in the order of the guest's CPUs, and for its emulator."""

    guest: Sequence[int]
    emulator: frozenset[int] = frozenset()


NO_PINS = Pins(())


def pin(cell: HostCell, wanted: int, reserved: int, thread_policy: str) -> Pins | None:
    """Returns free CPUs of the cell for ``wanted`` guest CPUs and ``reserved`` emulator CPUs; None
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
    """Returns the largest number of guest CPUs that the cell has capacity for."""
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
    """Returns ``wanted`` CPUs of the cores and ``reserved`` spare CPUs; None if they do not
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
    """Returns the guest cell placed in the host cell, with ``reserved`` CPUs for the emulator."""
    size_kb = page_size(host, guest)
    return (
        size_kb
        if isinstance(size_kb, CellShortage)
        else place_cpus(host, guest, size_kb, reserved, limits)
    )


def page_size(host: HostCell, guest: GuestCell) -> int | CellShortage | None:
    """Returns the size (KiB) of the pages that the guest cell would get; None if it asked for no
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
    """Returns the host's page sizes that qualify, the best first. Large pages need smaller page
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
    """Returns the placed cell once memory is found for it, in pages of this size."""
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

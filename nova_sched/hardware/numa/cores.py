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
"""Selects host CPUs for the pinned CPUs of a guest cell, by the threads of the host's cores."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nova_sched.hardware.numa.guest import ISOLATE, REQUIRE
from nova_sched.hardware.numa.host import HostCell

Cores = Iterable[Sequence[int]]


class Pins(NamedTuple):
    """Host CPUs for the guest, in the order of the guest's CPUs, and for its emulator."""

    guest: Sequence[int]
    emulator: frozenset[int] = frozenset()


NONE = Pins(())


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


def most(cell: HostCell, thread_policy: str) -> int:
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

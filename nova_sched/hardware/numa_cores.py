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
"""Which host CPUs the dedicated CPUs of one guest cell get, by the threads of the host's cores."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nova_sched.hardware.numa_guest import ISOLATE, REQUIRE
from nova_sched.hardware.numa_host import Cell


class Pins(NamedTuple):
    """Host CPUs for the guest's, in the order of its CPUs, and those for the emulator."""

    guest: Sequence[int]
    emulator: frozenset[int]


NONE = Pins((), frozenset())


def pin(cell: Cell, wanted: int, reserved: int, thread_policy: str) -> Pins | None:
    """Free CPUs of the cell for ``wanted`` guest CPUs and ``reserved`` emulator CPUs, or None."""
    if not wanted and (reserved or thread_policy == ISOLATE):
        # Nova finds no place for no CPU here, and neither will the compute node.
        return None
    if thread_policy == ISOLATE:
        whole = [core for core in cell.free_cores if len(core) == cell.threads_per_core]
        return _pins(whole, 1, wanted, [core[:1] for core in cell.free_cores], reserved)
    fewest = 2 if thread_policy == REQUIRE else 1
    # As many threads of each core as will do: the fewer cores a guest is on, the fewer it shares.
    for threads in range(cell.threads_per_core, fewest - 1, -1):
        cores = [core for core in cell.free_cores if len(core) >= threads]
        if cores and threads * len(cores) >= wanted:
            return _pins(cores, threads, wanted, cell.free_cores, reserved)
    if thread_policy == REQUIRE:
        return None
    return _pins(cell.free_cores, cell.threads_per_core, wanted, cell.free_cores, reserved)


def _pins(
    cores: Iterable[tuple[int, ...]], threads: int, wanted: int, spare: Iterable[tuple[int, ...]], reserved: int
) -> Pins | None:
    """``wanted`` CPUs from the first threads of the cores, and ``reserved`` others from the spare ones."""
    first = itertools.chain.from_iterable(core[:threads] for core in cores)
    guest = list(itertools.islice(first, wanted))
    emulator: frozenset[int] = frozenset()
    if reserved:
        others = (cpu for cpu in itertools.chain.from_iterable(spare) if cpu not in guest)
        emulator = frozenset(itertools.islice(others, reserved))
    return Pins(guest, emulator) if len(guest) == wanted and len(emulator) == reserved else None

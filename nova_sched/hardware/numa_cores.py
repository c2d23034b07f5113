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
from collections.abc import Sequence
from typing import NamedTuple

from nova_sched.hardware.numa_guest import ISOLATE, REQUIRE
from nova_sched.hardware.numa_host import Cell


class Pins(NamedTuple):
    """Host CPUs for the guest's, in the order of its CPUs, and those for the emulator."""

    guest: Sequence[int]
    emulator: frozenset[int] = frozenset()


def pin(cell: Cell, wanted: int, reserved: int, thread_policy: str) -> Pins | None:
    """Free CPUs of the cell for ``wanted`` guest CPUs and ``reserved`` emulator CPUs, or None."""
    if thread_policy == ISOLATE:
        return _one_thread_a_core(cell, wanted, reserved)
    asked = wanted + reserved
    fewest = 2 if thread_policy == REQUIRE else 1
    # As many threads of each core as will do: the fewer cores a guest touches, the fewer it shares.
    for threads in range(cell.threads_per_core, fewest - 1, -1):
        cores = [core for core in cell.free_cores if len(core) >= threads]
        if threads * len(cores) >= asked:
            return _cut((core[:threads] for core in cores), wanted, reserved)
    if thread_policy == REQUIRE or sum(map(len, cell.free_cores)) < asked:
        return None
    return _cut(cell.free_cores, wanted, reserved)


def _cut(cores, wanted: int, reserved: int) -> Pins:
    cpus = list(itertools.islice(itertools.chain.from_iterable(cores), wanted + reserved))
    return Pins(cpus[:wanted], frozenset(cpus[wanted:]))


def _one_thread_a_core(cell: Cell, wanted: int, reserved: int) -> Pins | None:
    """Only cores with all threads free; the emulator may have a thread of any other core."""
    whole = [core[0] for core in cell.free_cores if len(core) == cell.threads_per_core]
    guest = whole[:wanted]
    rest = [core[0] for core in cell.free_cores if core[0] not in guest]
    if len(guest) < wanted or len(rest) < reserved:
        return None
    return Pins(guest, frozenset(rest[:reserved]))

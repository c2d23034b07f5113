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
"""Demand of each kind of member and free amounts of hosts, as columns of integers.

Each resource class is a column. So are the CPUs and the memory of each NUMA cell: a guest that
fits into several cells has an alternative for each. No column shows hardware that is taken piece
by piece (pages, devices, whole cores, child providers): such a kind is ``vague``.
"""

import dataclasses
import itertools

import numpy as np

from nova_sched.claim import PCPU, VCPU
from nova_sched.hardware.numa.guest import DEDICATED, ISOLATE, PREFER, SHARED

MOST_CELLS = 4  # of a host that has columns for its cells
MOST_WAYS = 24  # alternatives of one kind

# Columns of each cell. Guests with dedicated CPUs need free amounts, and not only amounts within
# the allocation ratio.
OF_A_CELL = 'CPUs', 'dedicated CPUs', 'memory', 'free memory'


@dataclasses.dataclass(slots=True)
class DemandColumns:
    """``demand`` int64 [kind, way, column], ``free`` int64 [host, column], the columns' ``names``.

    ``vague`` says of each kind whether it may fit less often than these columns show.
    """

    demand: np.ndarray
    free: np.ndarray
    names: list[str]
    vague: list[bool]


def figures(hosts, requests, mask):
    """The DemandColumns for requests (one of each kind) and the rows that each may have.

    Narrows ``mask`` (bool [kind, row]) in place for a kind that may use VCPU in place of PCPU: if
    some of its rows have PCPU, only these remain.
    """
    plain = [_plain(hosts, request, mask[number]) for number, request in enumerate(requests)]
    classes = sorted({name for amounts in plain for name in amounts})
    celled = [_is_celled(request) for request in requests]
    free = [_free(hosts, name) for name in classes]
    names = list(classes)
    count = 0
    if any(celled):
        count, more = _cells(hosts, mask[celled].any(axis=0))
        free += more
        names += [f'{what} of NUMA cell {cell}' for cell in range(count) for what in OF_A_CELL]
    ways = [_ways(request, count) if is_celled and count else [()]
            for request, is_celled in zip(requests, celled, strict=True)]  # fmt: skip
    demand = np.zeros((len(requests), max(map(len, ways), default=1), len(names)), dtype=np.int64)
    for number, amounts in enumerate(plain):
        for way in range(demand.shape[1]):
            taken = ways[number][way if way < len(ways[number]) else 0]
            demand[number, way, : len(classes)] = [amounts.get(name, 0) for name in classes]
            for cell, size in taken:
                column = len(classes) + len(OF_A_CELL) * cell
                demand[number, way, column : column + len(OF_A_CELL)] += size
    vague = [_is_vague(hosts, request) and not (is_celled and count)
             for request, is_celled in zip(requests, celled, strict=True)]  # fmt: skip
    return DemandColumns(
        demand,
        np.stack(free, axis=1) if free else np.zeros((len(hosts), 0), np.int64),
        names,
        vague,
    )


def _plain(hosts, request, mask):
    """Amounts by class that come from the hosts themselves."""
    amounts = {
        name: units for name, units in request.resources.items() if name not in hosts.child_classes
    }
    if request.fallback_vcpus:
        apart = hosts.has_class(PCPU)
        if (mask & apart).any():
            mask &= apart
        else:
            amounts.pop(PCPU, None)
            amounts[VCPU] = request.fallback_vcpus
    return amounts


def _free(hosts, name):
    found = hosts.resources.get(name)
    return np.zeros(len(hosts), dtype=np.int64) if found is None else found.free.copy()


def _is_vague(hosts, request):
    below = not hosts.child_classes.isdisjoint(request.resources)
    return bool(request.pieces or request.groups or below)


def _is_celled(request):
    """Whether the only hardware that a request takes is amounts of CPUs and memory of NUMA
    cells."""
    pieces = request.pieces
    guest = pieces.guest
    if guest is None or pieces.requests or pieces.physnets or pieces.tunneled or request.groups:
        return False
    few = (
        len(guest.cells) <= MOST_CELLS
        and guest.emulator_policy != ISOLATE
        and not pieces.needs_siblings
    )
    return few and all(map(_is_plain, guest.cells))


def _is_plain(cell):
    if cell.pagesize_kb is not None:
        return False
    own = cell.cpu_policy == DEDICATED and cell.thread_policy == PREFER and not cell.cpuset
    return own or (cell.cpu_policy == SHARED and not cell.pcpuset)


def _size(cell):
    """The amounts of a guest cell, as OF_A_CELL."""
    own = cell.cpu_policy == DEDICATED
    return len(cell.cpuset), len(cell.pcpuset), cell.memory_mb, cell.memory_mb if own else 0


def _cells(hosts, rows):
    """The largest number of cells of a host, and the columns of OF_A_CELL for each cell."""
    values = hosts.interned['machine'].values
    slots = np.unique(hosts.machine[rows])
    topologies = {slot: values[slot].topology for slot in slots.tolist()
                  if values[slot] is not None and values[slot].topology is not None}  # fmt: skip
    count = max((len(one.cells) for one in topologies.values()), default=0)
    if not 0 < count <= MOST_CELLS:
        return 0, []
    table = np.zeros((len(values), count, len(OF_A_CELL)), dtype=np.int64)
    for slot, topology in topologies.items():
        machine = values[slot]
        for place, cell in enumerate(topology.cells):
            table[slot, place] = (
                int(len(cell.cpuset) * machine.cpu_ratio) - cell.cpu_usage,
                len(cell.free_pcpus),
                int(cell.memory_mb * machine.ram_ratio) - cell.memory_usage_mb,
                int(cell.free_plain_memory_mb),
            )
    found = table[hosts.machine].reshape(len(hosts), -1)
    return count, list(found.T)


def _ways(request, count):
    """Each way to assign the guest's cells to different cells of a host: (cell, size) of each."""
    sizes = [_size(cell) for cell in request.pieces.guest.cells]
    if len(sizes) > count:
        return [()]
    found = (
        tuple(sorted(zip(chosen, sizes, strict=True)))
        for chosen in itertools.permutations(range(count), len(sizes))
    )
    return [*dict.fromkeys(found)][:MOST_WAYS]

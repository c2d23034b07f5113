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
"""What each kind of member takes of a host and what hosts have free, as columns of whole numbers.

Resource classes are columns of their own. So are the CPUs and the memory of each NUMA cell, where a guest's
cells share CPUs: one that fits into several has an alternative for each. What else is taken piece by piece
(dedicated CPUs, pages, devices, child providers) no column tells: such a kind is ``vague``.
"""

import dataclasses
import itertools

import numpy as np

from nova_sched.objects.claim import PCPU, VCPU

MOST_CELLS = 4  # of a host that is told cell by cell
MOST_WAYS = 24  # alternatives of one kind


@dataclasses.dataclass(slots=True)
class Figures:
    """``demand`` int64 [kind, way, column], ``free`` int64 [host, column], the columns' ``names``, and
    whether each kind is ``vague``: it may fit less often than these say."""

    demand: np.ndarray
    free: np.ndarray
    names: list[str]
    vague: list[bool]


def figures(hosts, requests, mask):
    """For requests (one of each kind) and the rows that each may have (bool [kind, row]); these become less
    where a kind can do with a substitute on some rows only."""
    plain = [_plain(hosts, request, mask[number]) for number, request in enumerate(requests)]
    classes = sorted({name for amounts in plain for name in amounts})
    celled = [_is_celled(request) for request in requests]
    free = [_free(hosts, name) for name in classes]
    names = list(classes)
    count = 0
    if any(celled):
        count, more = _cells(hosts, mask[celled].any(axis=0))
        free += more
        names += [f'{what} of NUMA cell {cell}' for cell in range(count) for what in ('CPUs', 'memory')]
    ways = [_ways(request, count) if is_celled and count else [()]
            for request, is_celled in zip(requests, celled, strict=True)]  # fmt: skip
    demand = np.zeros((len(requests), max(map(len, ways), default=1), len(names)), dtype=np.int64)
    for number, amounts in enumerate(plain):
        for way in range(demand.shape[1]):
            taken = ways[number][way if way < len(ways[number]) else 0]
            demand[number, way, : len(classes)] = [amounts.get(name, 0) for name in classes]
            for cell, cpus, memory_mb in taken:
                column = len(classes) + 2 * cell
                demand[number, way, column : column + 2] += cpus, memory_mb
    vague = [_is_vague(hosts, request) and not (is_celled and count)
             for request, is_celled in zip(requests, celled, strict=True)]  # fmt: skip
    return Figures(
        demand, np.stack(free, axis=1) if free else np.zeros((len(hosts), 0), np.int64), names, vague
    )


def _plain(hosts, request, mask):
    """Amounts by class that come from the hosts themselves."""
    amounts = {name: units for name, units in request.resources.items() if name not in hosts.child_classes}
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
    """Whether all that it takes piece by piece is room in cells that it shares with others."""
    pieces = request.pieces
    guest = pieces.guest
    if guest is None or pieces.requests or pieces.physnets or pieces.tunneled or request.groups:
        return False
    return len(guest.cells) <= MOST_CELLS and not any(
        cell.is_pinned or cell.pcpuset or cell.pagesize_kb is not None for cell in guest.cells
    )


def _cells(hosts, rows):
    """Number of cells of the hosts that have most, and for each cell two columns: CPUs and memory free."""
    values = hosts.interned['machine'].values
    slots = np.unique(hosts.machine[rows])
    topologies = {slot: values[slot].topology for slot in slots.tolist()
                  if values[slot] is not None and values[slot].topology is not None}  # fmt: skip
    count = max((len(one.cells) for one in topologies.values()), default=0)
    if not 0 < count <= MOST_CELLS:
        return 0, []
    table = np.zeros((len(values), 2 * count), dtype=np.int64)
    for slot, topology in topologies.items():
        machine = values[slot]
        for place, cell in enumerate(topology.cells):
            table[slot, 2 * place] = int(len(cell.cpuset) * machine.cpu_ratio) - cell.cpu_usage
            table[slot, 2 * place + 1] = int(cell.memory_mb * machine.ram_ratio) - cell.memory_usage_mb
    found = table[hosts.machine]
    return count, [found[:, column] for column in range(2 * count)]


def _ways(request, count):
    """Each way to put the guest's cells into different cells of a host: (cell, CPUs, MiB) of each."""
    sizes = [(len(cell.cpuset), cell.memory_mb) for cell in request.pieces.guest.cells]
    if len(sizes) > count:
        return [()]
    found = (
        tuple((cell, *size) for cell, size in zip(chosen, sizes, strict=True))
        for chosen in itertools.permutations(range(count), len(sizes))
    )
    return [*dict.fromkeys(tuple(sorted(one)) for one in found)][:MOST_WAYS]

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
"""A guest into a host: which host cell takes which guest cell."""

import dataclasses
import math
from collections.abc import Iterator

from nova_sched.hardware import numa_cell
from nova_sched.hardware.numa_guest import SHARED, Fitted, Guest, Limits, Placed
from nova_sched.hardware.numa_host import Cell, Topology


def fit(host, guest, limits=None, pci=None, packing=False) -> Fitted | None:
    return Search(host, guest, limits, pci, packing).run()


class Search:
    def __init__(self, host, guest, limits=None, pci=None, packing=False):
        self.host, self.guest, self.limits, self.pci = host, guest, limits, pci
        self.order = order(host, guest, pci, packing)
        self.ids = [c.id for c in guest.cells]
        self.sizes = [c.pagesize_kb for c in guest.cells]
        self.failed = set()

    def run(self):
        asked = len(self.guest.cells)
        if asked > len(self.order):
            return None
        return self._extend([], [])

    def _extend(self, chosen, used):
        position = len(chosen)
        if position == len(self.guest.cells):
            ids = frozenset(p.host_cell for p in chosen)
            return Fitted(tuple(chosen)) if self._near(ids) else None
        for index, cell in enumerate(self.order):
            if index in used: continue
            placed = self._try(position, cell)
            if placed:
                found = self._extend([*chosen, placed], [*used, index])
                if found: return found
        return None

    def _try(self, position, cell):
        key = cell.id, self.ids[position]
        if key in self.failed: return None
        g = self.guest.cells[position]
        if self.sizes[position] != g.pagesize_kb: g = dataclasses.replace(g, pagesize_kb=self.sizes[position])
        placed = numa_cell.place(cell, g, self.guest.reserved_cpus(position), self.limits)
        if isinstance(placed, Placed):
            self.sizes[position] = placed.pagesize_kb; self.ids[position] = cell.id
            return placed
        self.failed.add(key)
        if placed.size_kb is not None: self.sizes[position] = placed.size_kb
        if placed.stage == 5 and g.is_pinned:
            self.ids[position] = cell.id
            n, k = len(self.order), len(self.guest.cells)
            if math.perm(n - position - 1, k - position - 1) > 1: self.failed.add((cell.id, cell.id))
        return None

    def _near(self, ids):
        if self.pci is not None and not self.pci.near(ids): return False
        if self.limits is None: return True
        for net in self.limits.physnets:
            homes = {c.id for c in self.host.cells if net in c.physnets}
            if homes and not homes & ids: return False
        if self.limits.tunneled:
            homes = {c.id for c in self.host.cells if c.tunneled}
            if homes and not homes & ids: return False
        return True


def order(host, guest, pci, packing):
    cells = host.cells
    if len(cells) <= len(guest.cells):
        return cells
    sign = 1 if packing else -1
    def key(cell):
        dev = pci.devices_in(cell.id) if pci else 0
        cpu = -sign * cell.cpu_usage if guest.cpu_policy == SHARED else sign * len(cell.free_pcpus)
        return ((-dev if pci and pci.asked else dev), cpu, sign * cell.free_memory_mb)
    return sorted(cells, key=key)

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
"""The NUMA cells and PCI devices of hosts, and their potential: what is free in the cells of a
host, and beside them, less what copies of each size can use. A guest cell is inside one host cell,
and a guest's cells in different ones."""

import numpy as np

from nova_sched.extensions.optimize.packing.host_resources import WHOLE
from nova_sched.extensions.optimize.packing.mix import hardware_request
from nova_sched.hardware import pci
from nova_sched.hardware.numa.topology import SMALL


class CellPotential:
    """Counts, for each size of the mix with guest cells, what no copy of it can use.

    ``needs``: units of the largest guest cell, of shape (sizes, columns); ``counts``: guest cells
    of each; ``beside``: units of the host, of shape (sizes, kinds of PCI devices); ``share`` of
    each size in the mix. ``capacity`` and ``devices``: units of a mean host by column and kind.
    """

    def __init__(self, needs, counts, beside, share, capacity, devices):
        self._needs, self._counts, self._beside = needs, counts, beside
        total = np.concatenate([needs * counts[:, None], beside], axis=1)
        capacity = np.maximum(np.concatenate([capacity, devices]), 1.0)
        use = share @ (total / capacity)
        worth = WHOLE * use / max(use.sum(), 1e-300) / capacity
        self._worth, self._of_devices = np.split(worth, [needs.shape[1]])
        self._value = share * (total @ worth)
        self._total = float(share.sum())

    def of(self, cells, devices):
        """Return the potential of a host with these free units, of shape (cells, columns), and
        these free devices by kind."""
        cells = np.maximum(cells, 0.0)
        left = float((cells @ self._worth).sum() + devices @ self._of_devices)
        return self._total * left - float(self.copies(cells, devices) @ self._value)

    def copies(self, cells, devices):
        """How many copies of each size fit, if the host takes no other size."""
        if not len(self._needs):
            return np.zeros(0)
        if not len(cells):
            return np.zeros(len(self._needs))
        with np.errstate(divide='ignore', invalid='ignore'):
            by_cell = _fewest(cells[:, None, :], self._needs)
            by_device = _fewest(devices[None, :], self._beside)
        return np.minimum(_in_different(by_cell, self._counts), by_device)

    def copies_in_one(self, free, devices):
        """How many copies fit if all of these free units are in one cell, which takes all cells of
        a guest."""
        with np.errstate(divide='ignore', invalid='ignore'):
            by_cell = _fewest(free[None, :], self._needs * self._counts[:, None])
            return np.minimum(by_cell, _fewest(devices[None, :], self._beside))


def _fewest(free, needs):
    """How many times the needs are free, by what is needed; infinite if nothing is."""
    many = np.where(needs > 0, free // needs, np.inf)
    return many.min(axis=-1, initial=np.inf)


def _in_different(by_cell, counts):
    """How many copies of ``counts`` cells fit, each cell of a copy in another host cell.

    Each host cell takes so many of the cells, an array of shape (host cells, sizes). K copies fit
    if the host cells take count x K of the cells, when none takes more than K.
    """
    ordered = -np.sort(-np.minimum(by_cell, 2.0**31), axis=0)
    copies = np.full(len(counts), np.inf)
    for fullest in range(int(counts.max())):
        left, larger = ordered[fullest:].sum(axis=0), counts > fullest
        copies[larger] = np.minimum(copies[larger], left[larger] // (counts[larger] - fullest))
    return copies


NO_MACHINE = -1
SHARED, DEDICATED, MEMORY, LARGE = 'shared', 'dedicated', 'memory', 'large'  # columns of a cell


class Machines:
    """A number for each machine (``hardware.machine.Machine``); equal ones have the same.

    ``counts``: requests of the mix by Size; ``machines`` of the cloud, None included.
    ``part``: the share that sizes with cells have in the mix. ``packing``: nodes fill their
    fullest cells first. Nothing is known of machines, and the potential is 0, if the mix asks for
    neither cells nor PCI devices.
    """

    def __init__(self, counts, machines, part=1.0, packing=False):
        self._packing = packing
        self.kinds = sorted(
            {demand.alternatives for size in counts for demand in size.pci}, key=repr
        )
        self._with_cells = {size: n for size, n in counts.items() if size.cells}
        self.is_used = bool(self.kinds or self._with_cells)
        self._pages = sorted(
            {cell.pagesize_kb for size in self._with_cells for cell in size.cells
             if cell.pagesize_kb is not None and cell.pagesize_kb > 0}
        )  # fmt: skip
        self._columns = (SHARED, DEDICATED, MEMORY, LARGE, *self._pages)
        self.forget()
        sizes = list(self._with_cells)
        share = np.array(list(self._with_cells.values()), dtype=float)
        needs = np.array([self._largest(size) for size in sizes]).reshape(
            len(sizes), len(self._columns)
        )
        beside = np.array([self.asked(size) for size in sizes]).reshape(
            len(sizes), len(self.kinds)
        )
        # The capacity of a mean host, whether free or not, and its free devices.
        machines = [machine for machine in machines if machine is not None]
        cells = [
            np.sum(
                [self._of_cell(cell, machine, free=False) for cell in machine.topology.cells],
                axis=0,
            )
            for machine in machines
            if machine.topology is not None
        ]
        devices = [self._free_devices(machine) for machine in machines]
        self._potential = CellPotential(
            needs,
            np.array([len(size.cells) for size in sizes], dtype=np.int64),
            beside,
            part * share / max(share.sum(), 1e-300),
            np.mean(cells, axis=0) if cells else np.zeros(len(self._columns)),
            np.mean(devices, axis=0) if devices else np.zeros(len(self.kinds)),
        )

    def forget(self):
        """Begin again with no machine. Numbers that were given are not valid any more."""
        self._numbers = {}
        self._machines, self._devices, self._potentials = [], [], []

    def number(self, machine):
        """The number of a machine; NO_MACHINE for None, and if nothing asks for its parts."""
        if machine is None or not self.is_used:
            return NO_MACHINE
        number = self._numbers.get(machine)
        if number is None:
            number = self._numbers[machine] = len(self._machines)
            potential, devices = self._state(machine)
            self._machines.append(machine)
            self._devices.append(devices)
            self._potentials.append(potential)
        return number

    def _state(self, machine):
        """The potential of its cells, and its free devices by kind."""
        cells, devices = self._free_cells(machine), self._free_devices(machine)
        has_cells = len(cells) and self._with_cells
        return self._potential.of(cells, devices) if has_cells else 0.0, devices

    def after(self, numbers, size):
        """What machines have when each has taken a request of a Size, as its node will place it:
        the potential of the cells, the free PCI devices by kind, and whether it fits."""
        wanted = hardware_request(size.cells, size.pci)
        unfit = 0.0, np.zeros(len(self.kinds)), False
        states = {NO_MACHINE: unfit}
        for number in set(numbers) - {NO_MACHINE}:
            machine = self._machines[number]
            parts = machine.fit(wanted, self._packing)
            states[number] = unfit if parts is None else (*self._state(machine.hold(parts)), True)
        results = [states[number] for number in numbers]
        devices = np.array([devices for _, devices, _ in results])
        return (
            np.array([potential for potential, _, _ in results]),
            devices.reshape(len(results), len(self.kinds)),
            np.array([fits for _, _, fits in results], dtype=bool),
        )

    def potential(self, numbers):
        """The potential of the cells of these machines, an array."""
        return np.array([0.0 if number < 0 else self._potentials[number] for number in numbers])

    def devices(self, numbers):
        """The free PCI devices of these machines by kind, of shape (machines, kinds)."""
        none = np.zeros(len(self.kinds))
        free = [none if number < 0 else self._devices[number] for number in numbers]
        return np.array(free).reshape(len(free), len(self.kinds))

    def copies(self, sizes, numbers):
        """How many copies of each size with cells the cells and devices of these machines take, of
        shape (machines, sizes), and how many would if all were one cell. Other sizes: 0."""
        places = {size: place for place, size in enumerate(self._with_cells)}
        columns = [number for number, size in enumerate(sizes) if size in places]
        order = [places[sizes[number]] for number in columns]
        fits, whole = np.zeros((len(numbers), len(sizes))), np.zeros(len(sizes))
        if not columns:
            return fits, whole
        states = {}
        for number in set(numbers) - {NO_MACHINE}:
            machine = self._machines[number]
            cells, devices = self._free_cells(machine), self._free_devices(machine)
            states[number] = self._potential.copies(cells, devices), cells.sum(axis=0), devices
        free, beside = np.zeros(len(self._columns)), np.zeros(len(self.kinds))
        for line, number in enumerate(numbers):
            if number != NO_MACHINE:
                copies, cells, devices = states[number]
                fits[line, columns] = copies[order]
                free, beside = free + np.maximum(cells, 0), beside + devices
        whole[columns] = self._potential.copies_in_one(free, beside)[order]
        return fits, whole

    def asked(self, size):
        """How many PCI devices of each kind a Size asks for."""
        counts = np.zeros(len(self.kinds))
        for demand in size.pci:
            if demand.alternatives in self.kinds:
                counts[self.kinds.index(demand.alternatives)] += demand.count
        return counts

    def _largest(self, size):
        """The units that the largest of its cells needs, by column."""
        needs = np.zeros((len(size.cells), len(self._columns)))
        for line, cell in enumerate(size.cells):
            asks = cell.pagesize_kb
            pages = MEMORY if asks in (None, SMALL) else asks if asks > 0 else LARGE
            for name, units in ((SHARED, cell.shared), (DEDICATED, cell.dedicated),
                                (pages, cell.memory_mb)):  # fmt: skip
                needs[line, self._columns.index(name)] += units
        return needs.max(axis=0)

    def _free_cells(self, machine):
        """The free units of each cell, of shape (cells, columns)."""
        cells = () if machine.topology is None else machine.topology.cells
        free = [self._of_cell(cell, machine, free=True) for cell in cells]
        return np.array(free, dtype=float).reshape(len(free), len(self._columns))

    def _of_cell(self, cell, machine, free):
        pages = list(cell.pages_by_size.values())
        by_size = {
            page.size_kb: (page.free if free else page.total) * page.size_kb / 1024
            for page in pages
        }
        more = cell.memory_mb * (machine.ram_ratio - 1)
        return [
            len(cell.cpuset) * machine.cpu_ratio - (cell.cpu_usage if free else 0),
            len(cell.free_pcpus if free else cell.pcpuset),
            (cell.free_plain_memory_mb if free else cell.plain_memory_mb) + more,
            sum(by_size[page.size_kb] for page in pages[1:]),
            *(by_size.get(size_kb, 0.0) for size_kb in self._pages),
        ]

    def _free_devices(self, machine):
        """How many free devices of each kind it has."""
        return np.array(
            [pci.count_matching(machine.pools, tuple(map(dict, kind))) for kind in self.kinds],
            dtype=float,
        )

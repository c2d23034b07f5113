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
"""Everything that is constant between two refreshes: the potentials of the mix on this cloud."""

import numpy as np

from nova_sched.extensions.optimize.packing.devices import (
    DIGITS,
    FULL,
    NO_MODEL,
    UNFIT,
    DeviceSizes,
    Models,
    distinct,
    kinds,
    one_device,
    several_devices,
)
from nova_sched.extensions.optimize.packing.host_resources import WHOLE, HostStates
from nova_sched.extensions.optimize.packing.machines import NO_MACHINE, Machines
from nova_sched.extensions.optimize.packing.mix import DeviceDemand, Size
from nova_sched.extensions.optimize.packing.prices import device_potential

LEAST_LEFT = 1e-4  # weight of what is left: among equal hosts the fullest


class PlainPotential:
    """Counts, for each size of the mix, what no copy of it can use.

    ``needs``: units of the sizes, of shape (sizes, resource classes); ``share`` of each size in
    the mix; ``capacity``: units of a mean host by resource class. A resource class weighs as much
    as the mix asks for of it. ``whole`` is the potential of a mean host that takes nothing.
    """

    def __init__(self, needs, share, capacity, whole=WHOLE):
        self._needs, self._share = needs.astype(float), share / max(share.sum(), 1e-300)
        capacity = np.maximum(capacity.astype(float), 1.0)
        use = self._share @ (self._needs / capacity)
        scarcity = use / use.sum() if use.sum() > 0 else np.zeros(len(capacity))
        self._worth = whole * scarcity / capacity  # of one unit
        self._value = self._share * (self._needs @ self._worth)
        self._columns = [np.flatnonzero(column) for column in self._needs.T > 0]

    def of(self, free):
        """Return the potential for free units of shape (hosts, resource classes)."""
        free = np.maximum(free, 0.0)
        copies = self.copies(free)
        copies[np.isinf(copies)] = 0.0  # a size that asks for nothing
        # Not a matrix product: its sums depend on the number of rows.
        return np.einsum('ij,j->i', free, self._worth) - np.einsum('ij,j->i', copies, self._value)

    def copies(self, free):
        """How many copies of each size fit, of shape (hosts, sizes); infinite for a size that asks
        for nothing."""
        copies = np.full((len(free), len(self._needs)), np.inf)
        for place, sizes in enumerate(self._columns):
            many = free[:, place, None] // self._needs[sizes, place]
            copies[:, sizes] = np.minimum(copies[:, sizes], many)
        return copies

    def cost(self, after, before):
        """Return what requests cost that leave these free units on hosts, of which the potential
        was ``before``."""
        left = np.einsum('ij,j->i', np.maximum(after, 0.0), self._worth)
        return self.of(after) - before + LEAST_LEFT * left


MAX_COPIES = 10**9  # of a size that asks for nothing
MAX_TREES = 16384  # states of devices that are remembered


class Tables:
    """The potentials of a mix on a cloud, and what a request costs there.

    ``classes`` are the resource classes of nodes that the mix asks for. ``packing``: nodes fill
    their fullest NUMA cells first.
    """

    def __init__(self, mix, resources, pause=lambda: None, packing=False):
        trees = list({id(tree): tree for tree in resources.trees if tree is not None}.values())
        below = {name for tree in trees for child in tree.children for name in child.stocks}
        counts = dict(mix.counts)
        devices = {size: n for size, n in counts.items()
                   if size.device is not None and size.device.resource_class in below}  # fmt: skip
        self._devices_of: dict[object, tuple] = {}
        models = Models(trees, [size.device for size in devices])
        for name in below if not devices else ():
            size = Size((), DeviceDemand(name, models.full[name]))
            devices[size] = 1.0
        models = Models(trees, [size.device for size in devices])
        names = {name for size in counts for name, _ in size.amounts}
        self.classes = tuple(sorted(names & resources.free.keys()))
        self._models, self._item = models, {item: n for n, item in enumerate(models.items)}
        # Sizes with cells count in the cells.
        others = {size: n for size, n in counts.items() if size.device is None}
        plain = {size: n for size, n in others.items() if not size.cells}
        part = sum(plain.values()) / max(sum(others.values()), 1e-300) if others else 1.0
        self.machines = Machines(
            counts, dict.fromkeys(resources.machines or ()), 1.0 - part, packing
        )
        # A mean host without devices.
        has_devices = [
            tree is not None
            and any(name in models.classes for child in tree.children for name in child.stocks)
            for tree in resources.trees
        ]
        is_plain = ~np.array(has_devices, dtype=bool)
        capacity = [resources.capacity[name][is_plain] for name in self.classes]
        capacity += list(self.machines.devices(self._numbers(resources)[is_plain].tolist()).T)
        mean = np.array([column.mean() if len(column) else 1.0 for column in capacity])
        share = np.array(list(plain.values()), dtype=float)
        self._plain = PlainPotential(self._needs(list(plain)), share, mean, WHOLE * part)
        items = models.as_items()
        of_sizes = [self._item[models.item_of(size.device)] for size in devices]
        sizes = DeviceSizes(
            self._needs(list(devices)),
            np.array(of_sizes, dtype=np.int64),
            np.array([size.device.count for size in devices], dtype=np.int64),
            np.array(list(devices.values()), dtype=float),
        )
        free, of_models = self.devices_of(resources.trees)
        of_nodes = self._free(resources, self._numbers(resources))
        self._devices = device_potential(items, sizes, free, of_models, of_nodes, pause)

    def _needs(self, sizes):
        place = {name: number for number, name in enumerate(self.classes)}
        needs = np.zeros((len(sizes), len(self.classes) + len(self.machines.kinds)))
        for line, size in enumerate(sizes):
            for name, units in size.amounts:
                if name in place:
                    needs[line, place[name]] = units
            if size.pci:
                needs[line, len(self.classes) :] = self.machines.asked(size)
        return needs

    def _free(self, resources, machine):
        """The free units of hosts, and their free PCI devices by kind."""
        free = resources.picked(self.classes)
        if not self.machines.kinds:
            return free
        return np.concatenate([free, self.machines.devices(machine.tolist())], axis=1)

    def _numbers(self, resources):
        if not self.machines.is_used or resources.machines is None:
            return np.full(len(resources), NO_MACHINE, dtype=np.int64)
        return np.array(
            [self.machines.number(machine) for machine in resources.machines], dtype=np.int64
        )

    def devices_of(self, trees):
        """The devices of hosts: thousandths that are free, and the model (NO_MODEL: none); two
        arrays of shape (hosts, devices)."""
        of_trees = [self._of_tree(tree) for tree in trees]
        most = max((len(free) for free, _ in of_trees), default=0)
        free = np.zeros((len(trees), most), dtype=np.int64)
        numbers = np.full((len(trees), most), NO_MODEL, dtype=np.int64)
        for line, (milli, models) in enumerate(of_trees):
            free[line, : len(milli)], numbers[line, : len(models)] = milli, models
        return free, numbers

    def _of_tree(self, tree):
        if tree is None:
            return (), ()
        known = self._devices_of.get(tree)
        if known is None:
            free, models = list[int](), list[int]()
            for name, traits, stock in kinds(tree):
                if name in self._models.classes:
                    full = self._models.full[name]
                    free.append(min(max(stock.free, 0) * FULL // full, FULL))
                    models.append(self._models.number(name, traits))
            if len(self._devices_of) >= MAX_TREES:
                self._devices_of.clear()
            known = self._devices_of[tree] = tuple(free), tuple(models)
        return known

    def provider(self, tree, place):
        """Return the UUID of a tree's device at a place, as ``devices_of`` counts them."""
        uuids = [
            provider.uuid
            for provider in tree.children
            for name in provider.stocks
            if name in self._models.classes
        ]
        return uuids[place]

    def keys(self, resources):
        """Yield a hashable key of each host; hosts with equal ones are in the same state."""
        free = np.array([resources.free[name] for name in self.classes if name in resources.free])
        lines = free.T.tolist() if len(free) else [[]] * len(resources)
        numbers = self._numbers(resources).tolist()
        for line, tree, number in zip(lines, resources.trees, numbers, strict=True):
            yield tuple(line), self._of_tree(tree), number

    def state(self, resources):
        """Return the HostStates of hosts."""
        machine = self._numbers(resources)
        free = self._free(resources, machine)
        milli, models = self.devices_of(resources.trees)
        devices, potential = self._devices.devices(milli, models), np.zeros(len(free))
        for rows, has_devices in _parts(models):
            potential[rows] = (
                self._devices.of(free[rows], devices[rows])
                if has_devices
                else self._plain.of(free[rows])
            )
        unlike = distinct(milli, models)
        return HostStates(free, devices, machine, potential, milli, models, unlike)

    def cost(self, size, state):
        """Return what a request of a Size costs on each host, and the place of the device that it
        takes there; -1: none, or several."""
        costs, chosen = np.zeros(len(state)), np.full(len(state), -1)
        after, by_cells, fits = self._after(size, state)
        for rows, has_devices in _parts(state.models):
            states, left = state.picked(rows), after[rows]
            if not has_devices:
                costs[rows] = self._plain.cost(left, states.potential)
            elif size.device is None or size.device.resource_class not in self._models.classes:
                costs[rows] = self._devices.of(left, states.devices) - states.potential
            else:
                costs[rows], chosen[rows] = self._with_device(size.device, states, left)
        if by_cells is not None:
            costs = np.where(fits, costs + by_cells, UNFIT)
        return np.round(costs, DIGITS), chosen

    def copies(self, sizes, state):
        """How many copies of each size of the mix fit on each host, of shape (hosts, sizes), and
        how many would if all that is free were on one host, in devices of full size."""
        needs = self._needs(sizes)
        free = np.maximum(state.free, 0.0)
        copies = np.zeros((len(state), len(sizes)))
        whole = np.zeros(len(sizes))
        by_cells, in_one_piece = self.machines.copies(sizes, state.machine.tolist())
        for number, size in enumerate(sizes):
            asks = needs[number] > 0
            limits = [(free[:, asks] // needs[number, asks]).min(axis=1, initial=MAX_COPIES)]
            ends = [*(free[:, asks].sum(axis=0) // needs[number, asks]), MAX_COPIES]
            if size.device is not None:
                by_devices, end = self._copies_on_devices(size.device, state)
                limits.append(by_devices)
                ends.append(end)
            if size.cells:
                limits.append(by_cells[:, number])
                ends.append(in_one_piece[number])
            copies[:, number], whole[number] = np.minimum.reduce(limits), min(ends)
        is_something = np.array([bool(size.amounts or size.device or size.cells or size.pci)
                                 for size in sizes], dtype=bool)  # fmt: skip
        return copies * is_something, whole * is_something

    def _copies_on_devices(self, demand, state):
        """How many copies the devices of each host take, and those of all hosts if they were one
        device."""
        if demand.resource_class not in self._models.classes:
            return np.zeros(len(state)), 0
        milli = self._models.item_of(demand).milli
        allowed = self._allowed(self._models.item_of(demand), state.models)
        free = np.where(allowed, state.milli, 0)
        if demand.count > 1:
            copies = np.count_nonzero(free >= milli, axis=1) // demand.count
        else:
            copies = (free // milli).sum(axis=1)
        return copies, int(free.sum()) // (milli * demand.count) if milli <= FULL else 0

    def free_devices(self, state):
        """Thousandths of devices that are free on each host, by resource class."""
        return dict(zip(self._models.classes, self._devices.total(state.devices).T, strict=True))

    def milli_of(self, size, name):
        """Thousandths of devices of a resource class that a size asks for."""
        if size.device is None or size.device.resource_class != name:
            return 0
        return self._models.item_of(size.device).milli * size.device.count

    def _after(self, size, state):
        """What a request of a Size leaves free; what it costs in cells, and whether its cells and
        PCI devices fit, both None if it has none that matter."""
        after = state.free - self._needs([size])[0]
        if not self.machines.is_used or not (size.cells or size.pci):
            return after, None, None
        before = state.machine.tolist()
        left, devices, fits = self.machines.after(before, size)
        after[:, len(self.classes) :] = devices
        return after, left - self.machines.potential(before), fits

    def _with_device(self, demand, state, after):
        """Costs of a request for child providers, and the place of the one that it takes."""
        item = self._models.item_of(demand)
        fits = self._allowed(item, state.models) & (state.milli >= item.milli)
        if demand.count == 1:
            return one_device(self._devices, state, after, item.milli, fits)
        costs = several_devices(self._devices, state, after, item.milli, demand.count, fits)
        return costs, np.full(len(fits), -1)

    def _allowed(self, item, models):
        """Whether devices serve the item; of an item that is new, as the most similar one."""
        place = self._item.get(item)
        if place is None:
            alike = [known for known in self._item if known.resource_class == item.resource_class]
            place = self._item[max(alike, key=lambda known: (
                known.required == item.required, known.forbidden == item.forbidden))]  # fmt: skip
        return self._devices.allows(place, models)


def _parts(models):
    """The rows of hosts without devices, and of those with any, each with whether it has."""
    has = models.max(axis=1, initial=NO_MODEL) >= 0
    if (count := np.count_nonzero(has)) in (0, len(has)):
        return [(slice(None), count > 0)] if len(has) else []
    return [(np.flatnonzero(~has), False), (np.flatnonzero(has), True)]

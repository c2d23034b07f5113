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
"""The potential of hosts with devices: what of them no request of the mix can use.

For each size: devices that are too small for it (fit), devices that lack CPU or memory beside them
(stranding), whole blocks of devices (blocks), and the value of holes (prices). Of a state of a
host, ``Devices`` has the sums over its devices, so that a change of one device is one look-up.
"""

import dataclasses

import numpy as np

FULL = 1000  # thousandths of a whole device
EXACT = 2.0**30  # parts of a thousandth
SOME = 256  # hosts whose devices are looked up together
HOLES, FIT, STRANDING, BLOCKS, SCARCITY = 10.0, 1.0, 0.3, 0.1, 3.0  # weights of the terms


@dataclasses.dataclass(slots=True)
class Devices:
    """Sums over the devices of hosts, or of states of a host: an array with a line for each.

    ``copies`` and ``small`` by item: how many fit, and thousandths that are too small for it.
    ``total``: free thousandths by resource class; ``holes``: thousandths that have no value.
    """

    copies: np.ndarray
    small: np.ndarray
    total: np.ndarray
    holes: np.ndarray

    def picked(self, rows):
        return Devices(self.copies[rows], self.small[rows], self.total[rows], self.holes[rows])

    def put(self, rows, other):
        self.copies[rows], self.small[rows] = other.copies, other.small
        self.total[rows], self.holes[rows] = other.total, other.holes


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """What sizes ask of one device: thousandths, resource class (by number), and the models that
    may serve it, of shape (models, items). ``apart``: each device is counted once, because each
    copy needs several."""

    milli: np.ndarray
    resource_class: np.ndarray
    apart: np.ndarray
    allowed: np.ndarray
    class_of_model: np.ndarray


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSizes:
    """The sizes of the mix that ask for devices: units of the node's resource classes, the item
    and how many of it, and the share in the mix."""

    needs: np.ndarray
    item: np.ndarray
    count: np.ndarray
    share: np.ndarray


class DevicePotential:
    """See the module. ``values`` are those of holes (``prices.hole_values``), or None;
    ``scarce``: the share of time that each model is scarce, ``blocks``: weights of the sizes."""

    def __init__(self, items, sizes, values=None, scarce=None, blocks=None):
        self._items, self._item, self._count = items, sizes.item, sizes.count.astype(float)
        self.scarce = np.zeros(len(items.allowed)) if scarce is None else scarce
        self._milli = items.milli[sizes.item] * self._count
        self._class = items.resource_class[sizes.item]
        self._share = sizes.share / max(sizes.share.sum(), 1e-300)
        large = self._share * np.sqrt(self._milli / FULL)
        self._stranding = STRANDING * self._milli * large / max(large.sum(), 1e-300)
        self._several = np.flatnonzero(self._count > 1)
        weights = np.zeros(len(sizes.item)) if blocks is None else BLOCKS * blocks * self._milli
        self._blocked = np.flatnonzero(weights)
        self._blocks = weights[self._blocked]
        # What nothing asks for suffices for any number of copies.
        asks = sizes.needs.T > 0
        self._needs = np.where(asks, sizes.needs.T, 1.0)
        self._unasked = np.where(asks, 0.0, np.inf)
        self._make_tables(values)

    def _make_tables(self, values):
        items, free = self._items, np.arange(FULL + 1)
        models = len(items.allowed)
        same = items.class_of_model[:, None] == items.resource_class
        many = free[:, None] // items.milli
        many = np.where(items.apart, np.minimum(many, 1), many)
        fits = items.allowed[:, None, :] & (many > 0)
        self._copies = np.where(fits, many, 0).astype(np.float32)
        self._small = np.where(same[:, None, :] & ~fits, free[:, None], 0).astype(np.float32)
        self._holes = np.zeros((models, FULL + 1))
        if values is not None:
            step = FULL // (values.shape[1] - 1)
            self._holes = free - values[:, free // step]
        # Sums of such numbers are exact, in any order.
        self._holes = np.round(self._holes * EXACT) / EXACT
        numbers = (*items.class_of_model, *items.resource_class)
        self._classes = int(max(numbers, default=-1)) + 1

    def allows(self, item, models):
        """Whether devices of these models serve the item; -1 is no device."""
        return np.where(models >= 0, self._items.allowed[:, item][models], False)

    def milli(self, item):
        return int(self._items.milli[item])

    def devices(self, free, models):
        """Returns the Devices of hosts: thousandths free of each device and its model, -1 for no
        device, both of shape (hosts, devices)."""
        rows, items = len(free), self._copies.shape[2]
        found = Devices(np.zeros((rows, items), np.float32), np.zeros((rows, items), np.float32),
                        np.zeros((rows, self._classes)), np.zeros(rows))  # fmt: skip
        for start in range(0, rows if free.shape[1] else 0, SOME):
            some = slice(start, start + SOME)
            there, near = models[some] >= 0, (np.maximum(models[some], 0), free[some])
            found.copies[some] = np.einsum('ijk,ij->ik', self._copies[near], there)
            found.small[some] = np.einsum('ijk,ij->ik', self._small[near], there)
            found.holes[some] = np.einsum('ij,ij->i', self._holes[near], there)
            classes = np.where(there, self._items.class_of_model[near[0]], -1)
            for number in range(self._classes):
                of_class = classes == number
                found.total[some, number] = np.einsum('ij,ij->i', free[some], of_class)
        return found

    def change(self, devices, rows, models, before, after):
        """Change the free thousandths of one device in each of these lines, which are distinct."""
        self._add(devices, rows, models, before, -1)
        self._add(devices, rows, models, after, 1)

    def _add(self, devices, rows, models, free, sign):
        devices.copies[rows] += sign * self._copies[models, free]
        devices.small[rows] += sign * self._small[models, free]
        devices.total[rows, self._items.class_of_model[models]] += sign * free
        devices.holes[rows] += sign * self._holes[models, free]

    def copies(self, free, devices):
        """How many copies of each size its devices take, and CPU and memory (a real number): two
        arrays of shape (hosts, sizes)."""
        return self._by_devices(devices), self._by_node(free)

    def _by_devices(self, devices):
        found = devices.copies.take(self._item, axis=1).astype(float)
        found[:, self._several] //= self._count[self._several]
        return found

    def _by_node(self, free):
        by_node = np.full((len(free), len(self._item)), np.inf)
        for place, (needs, unasked) in enumerate(zip(self._needs, self._unasked, strict=True)):
            many = np.maximum(free[:, place, None], 0.0) / needs
            many += unasked
            np.minimum(by_node, many, out=by_node)
        return by_node

    def of(self, free, devices, lines=None):
        """Returns the potential of hosts with these free units of the node's resource classes, of
        shape (hosts, classes), and these Devices. ``lines``: the line of ``free`` for each line of
        the Devices; None: the same."""
        by_devices, by_node = self._by_devices(devices), self._by_node(free)
        if lines is not None:
            by_node = by_node.take(lines, axis=0)
        both = np.minimum(by_devices, by_node)
        fits = both >= 1
        small, total = (
            devices.small.take(self._item, axis=1),
            devices.total.take(self._class, axis=1),
        )
        lost = np.where(fits, small, total)
        found = HOLES * devices.holes + FIT * np.einsum('ij,j->i', lost, self._share)
        found += np.einsum('ij,j->i', by_devices - both, self._stranding)
        if len(self._blocked):
            whole = np.floor(both.take(self._blocked, axis=1))
            found -= np.einsum('ij,j->i', whole, self._blocks)
        return found

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
"""Devices inside hosts: their models, the potential of hosts that have them, and the devices that
a request takes, which are those that cost least.

The potential is what of them no request of the mix can use. For each size: devices that are too
small for it (fit), devices that lack CPU or memory beside them (stranding), whole blocks of
devices (blocks), and the value of holes (prices). Of a state of a host, the sums over its devices
are known, so that a change of one device is one look-up.

These sums are an array with a line for each host, or state of a host, and the columns: how many
copies of each item fit; thousandths that are too small for each item; free thousandths by resource
class; thousandths that have no value (holes).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

FULL = 1000  # thousandths of a whole device
EXACT = 2.0**30  # parts of a thousandth
BATCH = 256  # hosts whose devices are looked up together
HOLES, FIT, STRANDING, BLOCKS, SCARCITY = 10.0, 1.0, 0.3, 0.1, 3.0  # weights of the terms
NO_MODEL = -1
NEVER = FULL + 1  # thousandths that no device has
UNFIT = 1e6  # cost on a host where the devices do not suffice
DIGITS = 6  # a smaller difference of costs is none


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
        self._make_needs(sizes.needs)
        self._make_table(values)

    def _make_needs(self, needs):
        """What the sizes ask of the node, by class: sizes that differ only in their devices ask
        for the same."""
        needs, line_of = np.unique(needs, axis=0, return_inverse=True)
        self._distinct, self._line_of, self._needs = len(needs), line_of.ravel(), []
        for number, amounts in enumerate(needs.T):
            asks = amounts > 0
            # A class that nothing asks for suffices for any number of copies.
            unasked = None if asks.all() else np.where(asks, 0.0, np.inf)
            if asks.any():
                self._needs.append((number, np.where(asks, amounts, 1.0), unasked))

    def _make_table(self, values):
        """The columns of one device, by model and free thousandths. The last model is that of no
        device, -1."""
        items, free = self._items, np.arange(FULL + 1)
        models, count = items.allowed.shape
        same = items.class_of_model[:, None] == items.resource_class
        many = free[:, None] // items.milli
        many = np.where(items.apart, np.minimum(many, 1), many)
        fits = items.allowed[:, None, :] & (many > 0)
        numbers = (*items.class_of_model, *items.resource_class)
        self._of_classes = slice(2 * count, 2 * count + int(max(numbers, default=-1)) + 1)
        self._table = np.zeros((models + 1, FULL + 1, self._of_classes.stop + 1))
        table = self._table[:models]
        table[:, :, :count] = np.where(fits, many, 0)
        table[:, :, count : 2 * count] = np.where(same[:, None, :] & ~fits, free[:, None], 0)
        for model, number in enumerate(items.class_of_model):
            table[model, :, 2 * count + number] = free
        if values is not None:
            step = FULL // (values.shape[1] - 1)
            holes = free - values[:, free // step]
            # Sums of such numbers are exact, in any order.
            table[:, :, -1] = np.round(holes * EXACT) / EXACT
        self._by_size = np.concatenate([self._item, count + self._item, 2 * count + self._class])

    def allows(self, item, models):
        """Whether devices of these models serve the item; -1 means no device."""
        return np.where(models >= 0, self._items.allowed[:, item][models], False)

    def devices(self, free, models):
        """Return the sums over the devices of hosts: thousandths free of each device and its
        model, -1 for no device, both of shape (hosts, devices)."""
        sums = np.empty((len(free), self._table.shape[2]))
        for start in range(0, len(free), BATCH):
            batch = slice(start, start + BATCH)
            sums[batch] = self._table[models[batch], free[batch]].sum(axis=1)
        return sums

    def changed(self, devices, models, before, after):
        """Return the sums after a change of the free thousandths of one device in each line."""
        return devices + (self._table[models, after] - self._table[models, before])

    def total(self, devices):
        """The free thousandths by resource class, of shape (hosts, classes)."""
        return devices[:, self._of_classes]

    def copies(self, free, devices):
        """How many copies of each size its devices take, and CPU and memory (a real number): two
        arrays of shape (hosts, sizes)."""
        return self._sums_by_size(devices)[0], self._by_node(free)

    def _sums_by_size(self, devices):
        """Copies, and the thousandths of too small devices and of all, of shape
        (hosts, sizes)."""
        sums = devices.take(self._by_size, axis=1)
        count = len(self._item)
        copies, small, total = sums[:, :count], sums[:, count : 2 * count], sums[:, 2 * count :]
        copies[:, self._several] //= self._count[self._several]
        return copies, small, total

    def _by_node(self, free):
        free, copies = np.maximum(free, 0.0), np.full((len(free), self._distinct), np.inf)
        for number, amounts, unasked in self._needs:
            many = free[:, number, None] / amounts
            if unasked is not None:
                many += unasked
            np.minimum(copies, many, out=copies)
        return copies.take(self._line_of, axis=1)

    def of(self, free, devices, lines=None):
        """Return the potential of hosts with these free units of the node's resource classes, of
        shape (hosts, classes), and these sums over devices. ``lines``: the line of ``free`` for
        each line of the sums; None: the same."""
        by_devices, small, total = self._sums_by_size(devices)
        by_node = self._by_node(free)
        if lines is not None:
            by_node = by_node.take(lines, axis=0)
        both = np.minimum(by_devices, by_node)
        lost = np.where(both >= 1, small, total)
        potential = HOLES * devices[:, -1] + FIT * np.einsum('ij,j->i', lost, self._share)
        potential += np.einsum('ij,j->i', by_devices - both, self._stranding)
        if len(self._blocked):
            whole = np.floor(both.take(self._blocked, axis=1))
            potential -= np.einsum('ij,j->i', whole, self._blocks)
        return potential


class Item(NamedTuple):
    """What a size asks of one device; see ``Items``."""

    resource_class: str
    milli: int
    apart: bool
    required: frozenset[str]
    forbidden: frozenset[str]

    def is_allowed(self, resource_class, traits):
        return (
            resource_class == self.resource_class
            and self.required <= traits
            and self.forbidden.isdisjoint(traits)
        )


class Models:
    """The models of devices: devices that serve the same items are of one model.

    ``full`` is the number of units of a whole device, by resource class.
    """

    def __init__(self, trees, demands):
        self.full: dict[str, int] = {}
        traits = set[str]()
        for tree in trees:
            for provider in tree.children:
                traits |= provider.traits
                for name, stock in provider.stocks.items():
                    self.full[name] = max(self.full.get(name, 1), stock.total)
        self._known = frozenset(traits)
        self.items = sorted({self.item_of(demand) for demand in demands}, key=_by_milli)
        self.classes = sorted({item.resource_class for item in self.items})
        self.patterns: dict[tuple, int] = {}
        self._numbers: dict[tuple[str, frozenset[str]], int] = {}
        for tree in trees:
            for name, seen, _ in kinds(tree):
                if name in self.classes:
                    self.patterns.setdefault(self._pattern(name, seen), len(self.patterns))

    def item_of(self, demand):
        """The Item of a DeviceDemand. Traits that no device has are those of the node."""
        full = self.full.get(demand.resource_class)
        milli = NEVER if full is None else min(math.ceil(demand.units * FULL / full), NEVER)
        return Item(
            demand.resource_class,
            max(milli, 1),
            demand.count > 1,
            demand.required & self._known,
            demand.forbidden,
        )

    def _pattern(self, name, traits):
        return name, tuple(item.is_allowed(name, traits) for item in self.items)

    def number(self, name, traits):
        """The number of the model of such a device; of one that is new, the most similar."""
        number = self._numbers.get((name, traits))
        if number is None:
            pattern = self._pattern(name, traits)
            number = self.patterns.get(pattern)
            if number is None:
                alike = [
                    (sum(a == b for a, b in zip(pattern[1], known[1], strict=True)), -number)
                    for known, number in self.patterns.items()
                    if known[0] == name
                ]
                number = self.patterns[pattern] = -max(alike)[1] if alike else NO_MODEL
            self._numbers[name, traits] = number
        return number

    def as_items(self):
        """The Items of the potential."""
        allowed = np.array([bits for _, bits in self.patterns], dtype=bool)
        place = {name: number for number, name in enumerate(self.classes)}
        return Items(
            np.array([item.milli for item in self.items], dtype=np.int64),
            np.array([place[item.resource_class] for item in self.items], dtype=np.int64),
            np.array([item.apart for item in self.items], dtype=bool),
            allowed.reshape(len(self.patterns), len(self.items)),
            np.array([place[name] for name, _ in self.patterns], dtype=np.int64),
        )


def _by_milli(item):
    return (
        item.milli,
        item.resource_class,
        item.apart,
        sorted(item.required),
        sorted(item.forbidden),
    )


def kinds(tree):
    """(resource class, traits, Stock) of the devices of a tree, in order; the node's own traits
    count too."""
    own = tree.by_uuid[tree.root].traits if tree.root in tree.by_uuid else frozenset()
    for provider in tree.children:
        for name, stock in provider.stocks.items():
            yield name, provider.traits | own, stock


def one_device(potential, state, after, milli, fits):
    """Return what one device costs on each host, the best of those that differ, and its place.

    ``fits``: which devices can give so many thousandths; ``after``: free units that are left.
    """
    rows, places = np.nonzero(fits & state.distinct)
    models, before = state.models[rows, places], state.milli[rows, places]
    devices = potential.changed(state.devices[rows], models, before, before - milli)
    rises = potential.of(after, devices, rows) - state.potential[rows]
    rises += SCARCITY * potential.scarce[models] * milli
    costs, chosen = np.full(len(fits), UNFIT), np.full(len(fits), -1)
    order = np.lexsort((np.round(rises, DIGITS), rows))
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = rows[1:] != rows[:-1]
    best, first = order[is_first], rows[is_first]
    costs[first], chosen[first] = rises[best], places[best]
    return costs, chosen


def several_devices(potential, state, after, milli, count, fits):
    """Return what the fullest devices that fit cost on each host."""
    enough = np.flatnonzero(np.count_nonzero(fits, axis=1) >= count)
    costs = np.full(len(fits), UNFIT)
    states, lines = state.picked(enough), np.arange(len(enough))
    left = np.where(fits[enough], states.milli, NEVER)
    extra, devices = np.zeros(len(enough)), states.devices
    for _ in range(count if len(enough) else 0):
        places = left.argmin(axis=1)
        models, before = states.models[lines, places], states.milli[lines, places]
        devices = potential.changed(devices, models, before, before - milli)
        extra += SCARCITY * potential.scarce[models] * milli
        left[lines, places] = NEVER
    after_potential = potential.of(after[enough], devices)
    costs[enough] = after_potential - states.potential + extra
    return costs


def distinct(milli, models):
    """Which devices are unlike the earlier ones of the same host."""
    keys = milli * (models.max(initial=0) + 2) + models
    if not keys.size:
        return np.zeros(keys.shape, dtype=bool)
    return (keys[:, :, None] == keys[:, None, :]).argmax(axis=2) == np.arange(keys.shape[1])

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
"""Everything that is constant between two refreshes: the potentials of the mix on this fleet."""

import numpy as np

from nova_sched.packing.device_potential import FULL, SCARCITY, DeviceSizes
from nova_sched.packing.host_states import HostStates
from nova_sched.packing.models import NEVER, NO_MODEL, Models, kinds
from nova_sched.packing.plain_potential import PlainPotential
from nova_sched.packing.refresh import DeviceRefresh
from nova_sched.packing.size import DeviceDemand, Size

MOST_TREES = 16384  # states of devices that are remembered
UNFIT = 1e6  # cost on a host where the devices do not suffice
DIGITS = 6  # a smaller difference of costs is none


class Tables:
    """The potentials of a mix on a fleet, and what a request costs there.

    ``classes`` are the resource classes of nodes that the mix asks for.
    """

    def __init__(self, mix, fleet, pause=lambda: None):
        trees = list({id(tree): tree for tree in fleet.trees if tree is not None}.values())
        below = {name for tree in trees for one in tree.children for name in one.stocks}
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
        self.classes = tuple(sorted(names & fleet.free.keys()))
        self._models, self._item = models, {one: n for n, one in enumerate(models.items)}
        self._make_plain({size: n for size, n in counts.items() if size.device is None}, fleet)
        self._devices = self._make_devices(devices, fleet, pause)

    def _needs(self, sizes):
        place = {name: number for number, name in enumerate(self.classes)}
        needs = np.zeros((len(sizes), len(self.classes)))
        for line, size in enumerate(sizes):
            for name, units in size.amounts:
                if name in place:
                    needs[line, place[name]] = units
        return needs

    def _make_plain(self, sizes, fleet):
        plain = np.array([not self._has_devices(tree) for tree in fleet.trees], dtype=bool)
        capacity = np.array(
            [fleet.capacity[name][plain].mean() if plain.any() else 1.0 for name in self.classes]
        )
        share = np.array(list(sizes.values()), dtype=float)
        self._plain = PlainPotential(self._needs(list(sizes)), share, capacity)

    def _has_devices(self, tree):
        classes = self._models.classes
        return tree is not None and any(
            name in classes for one in tree.children for name in one.stocks
        )

    def _make_devices(self, counts, fleet, pause):
        models, items = self._models, self._models.as_items()
        asked = [(size, models.item_of(size.device)) for size in counts]
        sizes = DeviceSizes(
            self._needs(list(counts)),
            np.array([self._item[item] for _, item in asked], dtype=np.int64),
            np.array([size.device.count for size, _ in asked], dtype=np.int64),
            np.array(list(counts.values()), dtype=float),
        )
        free, of_models = self.devices_of(fleet.trees)
        refresh = DeviceRefresh(items, sizes, free, of_models, pause)
        return refresh.potential(fleet.picked(self.classes))

    def devices_of(self, trees):
        """The devices of hosts: thousandths that are free, and the model (NO_MODEL: none); two
        arrays of shape (hosts, devices)."""
        found = [self._of_tree(tree) for tree in trees]
        most = max((len(free) for free, _ in found), default=0)
        free = np.zeros((len(trees), most), dtype=np.int64)
        numbers = np.full((len(trees), most), NO_MODEL, dtype=np.int64)
        for line, (some, models) in enumerate(found):
            free[line, : len(some)], numbers[line, : len(models)] = some, models
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
            if len(self._devices_of) >= MOST_TREES:
                self._devices_of.clear()
            known = self._devices_of[tree] = tuple(free), tuple(models)
        return known

    def provider(self, tree, place):
        """Returns the UUID of a tree's device at a place, as ``devices_of`` counts them."""
        found = [
            provider.uuid
            for provider in tree.children
            for name in provider.stocks
            if name in self._models.classes
        ]
        return found[place]

    def state(self, fleet):
        """Returns the HostStates of hosts."""
        free = fleet.picked(self.classes)
        milli, models = self.devices_of(fleet.trees)
        devices = self._devices.devices(milli, models)
        potential = self._devices.of(free, devices) if milli.shape[1] else np.zeros(len(free))
        return HostStates(free, milli, models, devices, potential)

    def cost(self, size, state):
        """Returns what a request of a Size costs on each host, and the place of the device that it
        takes there; -1: none, or several."""
        costs, chosen = np.zeros(len(state.free)), np.full(len(state.free), -1)
        need = self._needs([size])[0]
        has = (state.models >= 0).any(axis=1)
        plain = np.flatnonzero(~has)
        if len(plain):
            costs[plain] = self._plain.cost(state.free[plain], need)
        rows = np.flatnonzero(has)
        if len(rows):
            some = state.picked(rows)
            if size.device is None or size.device.resource_class not in self._models.classes:
                costs[rows] = self._devices.of(some.free - need, some.devices) - some.potential
            else:
                item = self._models.item_of(size.device)
                allowed = self._allowed(item, some.models)
                fits = allowed & (some.milli >= item.milli)
                take = self._share if size.device.count == 1 else self._several
                costs[rows], chosen[rows] = take(some, need, item.milli, size.device.count, fits)
        return np.round(costs, DIGITS), chosen

    def _allowed(self, item, models):
        """Whether devices serve the item; of an item that is new, as the most similar one."""
        place = self._item.get(item)
        if place is None:
            alike = [one for one in self._item if one.resource_class == item.resource_class]
            place = self._item[max(alike, key=lambda one: (
                one.required == item.required, one.forbidden == item.forbidden))]  # fmt: skip
        return self._devices.allows(place, models)

    def _share(self, state, need, milli, _count, fits):
        """Costs of one device: the best of those that differ."""
        keys = np.where(fits, state.milli * (state.models.max(initial=0) + 1) + state.models, -1)
        again = np.tril(keys[:, :, None] == keys[:, None, :], -1).any(axis=2)
        rows, places = np.nonzero(fits & ~again)
        models, before = state.models[rows, places], state.milli[rows, places]
        devices = state.devices.picked(rows)
        self._devices.change(devices, np.arange(len(rows)), models, before, before - milli)
        found = self._devices.of(state.free[rows] - need, devices) - state.potential[rows]
        found += SCARCITY * self._devices.scarce[models] * milli
        costs, chosen = np.full(len(fits), UNFIT), np.full(len(fits), -1)
        best = np.lexsort((places, np.round(found, DIGITS), rows))
        first, at = np.unique(rows[best], return_index=True)
        costs[first], chosen[first] = found[best][at], places[best][at]
        return costs, chosen

    def _several(self, state, need, milli, count, fits):
        """Costs of several devices: the fullest that fit."""
        enough = np.flatnonzero(np.count_nonzero(fits, axis=1) >= count)
        costs = np.full(len(fits), UNFIT)
        some, lines = state.picked(enough), np.arange(len(enough))
        left = np.where(fits[enough], some.milli, NEVER)
        extra = np.zeros(len(enough))
        for _ in range(count if len(enough) else 0):
            places = left.argmin(axis=1)
            models, before = some.models[lines, places], some.milli[lines, places]
            self._devices.change(some.devices, lines, models, before, before - milli)
            extra += SCARCITY * self._devices.scarce[models] * milli
            left[lines, places] = NEVER
        after = self._devices.of(some.free - need, some.devices)
        costs[enough] = after - some.potential + extra
        return costs, np.full(len(fits), -1)

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
"""Makes the potential of devices: what the requests of a mix lack on the devices of a fleet."""

import numpy as np

from nova_sched.packing import prices
from nova_sched.packing.device_potential import FULL, DevicePotential
from nova_sched.packing.scarcity import block_weights, scarce_models

HORIZON = 1.3  # demand to come, in idle devices of now


class DeviceRefresh:
    """One refresh. ``items`` and ``sizes`` are those of the DevicePotential; ``free`` and
    ``models``: thousandths free of each device and its model, of shape (hosts, devices)."""

    def __init__(self, items, sizes, free, models, pause=lambda: None):
        self._items, self._sizes, self._pause = items, sizes, pause
        self._free, self._models = free, models
        self._milli = items.milli[sizes.item] * sizes.count
        there = models >= 0
        self._idle = np.bincount(
            models[there], weights=free[there] / FULL, minlength=len(items.allowed)
        )

    def potential(self, free_of_nodes):
        """Returns the DevicePotential; ``free_of_nodes``: units of the nodes' resource classes."""
        values, scarce = np.zeros((len(self._idle), prices.LEVELS)), np.zeros(len(self._idle))
        plain = DevicePotential(self._items, self._sizes)
        devices = plain.devices(self._free, self._models)
        copies = np.minimum(*plain.copies(free_of_nodes, devices))
        blocks = np.zeros(len(self._milli))
        for number in np.unique(self._items.class_of_model):
            some = self._items.resource_class[self._sizes.item] == number
            if (self._milli[some] @ self._sizes.share[some]) > 0:
                of_class = np.flatnonzero(self._items.class_of_model == number)
                values[of_class] = self._values(number, of_class, some)
                self._pause()
                scarce[of_class] = self._scarce(of_class, some)
                self._pause()
                blocks += self._blocks(of_class, some, copies)
        return DevicePotential(self._items, self._sizes, values, scarce, blocks)

    def _coming(self, of_class, some):
        """How many requests come until the idle devices are asked for once, times their share."""
        asked = float(self._milli[some] @ self._sizes.share[some]) / FULL
        return self._idle[of_class].sum() / asked

    def _values(self, number, of_class, some):
        """The values of holes, by model and level."""
        items = self._items
        rate = np.bincount(
            self._sizes.item,
            weights=np.where(some, self._sizes.share * self._sizes.count, 0.0),
            minlength=len(items.milli),
        )
        holes = np.zeros((len(of_class), prices.LEVELS))
        for line, model in enumerate(of_class):
            levels = self._free[self._models == model] // prices.STEP
            holes[line] = np.bincount(levels, minlength=prices.LEVELS)
        own = np.flatnonzero(items.resource_class == number)
        found, _ = prices.hole_values(
            holes,
            -(-items.milli[own] // prices.STEP),
            items.allowed[np.ix_(of_class, own)],
            rate[own] * HORIZON * self._coming(of_class, some),
            pause=self._pause,
        )
        return found

    def _scarce(self, of_class, some):
        """The share of horizons at which each model is scarce."""
        allowed = self._items.allowed[np.ix_(of_class, self._sizes.item[some])]
        lists, line = np.unique(allowed.T, axis=0, return_inverse=True)
        weights = self._sizes.share[some] * self._milli[some]
        demand = np.bincount(line.ravel(), weights=weights, minlength=len(lists))
        return scarce_models(demand / demand.sum(), self._idle[of_class], lists)

    def _blocks(self, of_class, some, copies):
        """The weights of sizes that ask for several whole devices."""
        found, sizes = np.zeros(len(self._milli)), self._sizes
        whole = some & (self._items.milli[sizes.item] == FULL)
        found[whole] = block_weights(
            sizes.share[whole],
            sizes.count[whole],
            np.floor(copies[:, whole]).sum(axis=0),
            self._coming(of_class, some),
        )
        return found

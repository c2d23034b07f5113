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
"""Potential of NUMA cells: what is free in the cells of a host, and beside them, less what copies
of each size can use. A guest cell is inside one host cell, and a guest's cells in different
ones."""

import numpy as np

from nova_sched.packing.plain_potential import WHOLE


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
        asked = share @ (total / capacity)
        worth = WHOLE * asked / max(asked.sum(), 1e-300) / capacity
        self._worth, self._of_devices = np.split(worth, [needs.shape[1]])
        self._value = share * (total @ worth)
        self._total = float(share.sum())

    def of(self, cells, devices):
        """Returns the potential of a host with these free units, of shape (cells, columns), and
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
    found = np.full(len(counts), np.inf)
    for fullest in range(int(counts.max())):
        left, some = ordered[fullest:].sum(axis=0), counts > fullest
        found[some] = np.minimum(found[some], left[some] // (counts[some] - fullest))
    return found

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
"""What a cloud can still take of the usual sizes, and what of it is stranded."""

import numpy as np

from nova_sched.extensions.optimize.packing.mix import Size

MAX_LISTED = 10  # sizes and hosts that are listed


class Overview:
    """How many copies of each size of a mix fit on each host of a cloud, now.

    ``counts``: requests by Size, of the mix that the Tables were made of. ``copies`` has the shape
    (hosts, sizes), the most usual size first. ``stranded``: units by resource class and host that
    are free, and that a size of the mix cannot use if it is the only one to come, in the mean over
    the requests for that class; devices in thousandths.
    """

    def __init__(self, tables, resources, counts):
        self._tables, self.empty = tables, resources.empty
        ordered = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
        self.sizes = [size for size, _ in ordered]
        self._share = np.array([count for _, count in ordered], dtype=float)
        self._share /= max(self._share.sum(), 1e-300)
        self._state = tables.state(resources)
        copies = tables.copies(self.sizes, self._state)
        self.copies, self._whole = copies
        self.stranded = self._stranded()

    @property
    def potential(self):
        """The potential of each host: the higher, the less of it usual requests can use."""
        cells = self._tables.machines.potential(self._state.machine.tolist())
        return self._state.potential + cells

    def _stranded(self):
        unused = {}
        for place, name in enumerate(self._tables.classes):
            needs = np.array([dict(size.amounts).get(name, 0) for size in self.sizes])
            free = np.maximum(self._state.free[:, place], 0)
            unused[name] = self._unused(free, needs)
        for name, free in self._tables.free_devices(self._state).items():
            needs = np.array([self._tables.milli_of(size, name) for size in self.sizes])
            unused[name] = self._unused(free, needs)
        return unused

    def _unused(self, free, needs):
        asking = needs > 0
        share = self._share[asking]
        if not share.sum():
            return free.astype(float)
        used = self.copies[:, asking] * needs[asking]
        return np.maximum(free[:, None] - used, 0) @ (share / share.sum())

    def plain(self, most=MAX_LISTED):
        """Return figures of the whole cloud, as JSON values: ``hosts``, ``empty_hosts``,
        ``stranded`` units by resource class, and for the most usual ``sizes`` their ``share`` of
        the requests, how many ``fit``, and how many would if all that is free were on one host
        (``fit_in_one_piece``)."""
        sizes = [
            {
                **plain_size(size),
                'share': round(float(self._share[number]), 4),
                'fit': int(self.copies[:, number].sum()),
                'fit_in_one_piece': int(self._whole[number]),
            }
            for number, size in enumerate(self.sizes[:most])
        ]
        return {
            'hosts': len(self.empty),
            'empty_hosts': int(np.count_nonzero(self.empty)),
            'stranded': {name: round(float(units.sum())) for name, units in self.stranded.items()},
            'sizes': sizes,
        }

    def worst(self, most=MAX_LISTED):
        """Return the lines of the hosts of the highest potential, the worst first."""
        potential = self.potential
        order = np.argsort(-potential, kind='stable')[:most]
        return [int(line) for line in order if potential[line] > 0]


def plain_size(size: Size) -> dict:
    """Return what a Size asks for, as JSON values."""
    device = size.device
    return {
        'resources': dict(size.amounts),
        'devices': None
        if device is None
        else {
            'resource_class': device.resource_class,
            'units': device.units,
            'count': device.count,
            'traits': sorted(device.required),
        },
        'numa_cells': len(size.cells),
        'pci_devices': sum(demand.count for demand in size.pci),
    }

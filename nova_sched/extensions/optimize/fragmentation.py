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
"""How fragmented the free capacity is, for operators: what a cloud can still take of the usual
sizes, and what of it is stranded. Computed beside the loop."""

from typing import NamedTuple

import numpy as np

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.prices import yield_processor
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.state.host_aggregate import zones

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
        self.copies, self._whole = tables.copies(self.sizes, self._state)
        self.stranded = {}
        for place, name in enumerate(tables.classes):
            needs = np.array([dict(size.amounts).get(name, 0) for size in self.sizes])
            free = np.maximum(self._state.free[:, place], 0)
            self.stranded[name] = self._unused(free, needs)
        for name, free in tables.free_devices(self._state).items():
            needs = np.array([tables.milli_of(size, name) for size in self.sizes])
            self.stranded[name] = self._unused(free, needs)

    @property
    def potential(self):
        """The potential of each host: the higher, the less of it usual requests can use."""
        cells = self._tables.machines.potential(self._state.machine.tolist())
        return self._state.potential + cells

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
        sizes = []
        for number, size in enumerate(self.sizes[:most]):
            device = size.device
            sizes.append(
                {
                    'resources': dict(size.amounts),
                    'devices': device
                    and {
                        'resource_class': device.resource_class,
                        'units': device.units,
                        'count': device.count,
                        'traits': sorted(device.required),
                    },
                    'numa_cells': len(size.cells),
                    'pci_devices': sum(demand.count for demand in size.pci),
                    'share': round(float(self._share[number]), 4),
                    'fit': int(self.copies[:, number].sum()),
                    'fit_in_one_piece': int(self._whole[number]),
                }
            )
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


class Places(NamedTuple):
    """Where the hosts of a cloud are, by line: names of host and node, and zones."""

    resources: object
    names: list[tuple[str, str]]
    zones: list[frozenset[str]]


def read_places(hosts, default_zone, zone=None, aggregate=None):
    """Return the Places of the hosts of a zone, and of an aggregate (id or name); None: of any.
    Runs in the loop. Raises NotFound."""
    chosen = hosts.everywhere(True)
    if zone is not None:
        if zone != default_zone and not hosts.has_zone(zone):
            raise errors.NotFound(f'Availability zone {zone}')
        chosen &= hosts.in_zone(zone, default_zone)
    if aggregate is not None:
        ids = [
            candidate.id
            for candidate in hosts.aggregates
            if aggregate in (str(candidate.id), candidate.name)
        ]
        if not ids:
            raise errors.NotFound(f'Aggregate {aggregate}')
        chosen &= hosts.aggregates.map(
            hosts.aggregate_set, lambda members: any(member.id in ids for member in members)
        )
    rows = np.flatnonzero(chosen)
    nodes = [hosts.nodes[row] for row in rows.tolist()]
    zones_of = [
        frozenset(zones(hosts.aggregates.of(node.host)) or {default_zone}) for node in nodes
    ]
    return Places(
        read_resources(hosts, rows), [(node.host, node.nodename) for node in nodes], zones_of
    )


def overview(places, mix, most=MAX_LISTED):
    """Return the mapping of ``optimizer.Optimizer.fragmentation``."""
    packing = CONF.compute.packing_host_numa_cells_allocation_strategy
    tables = Tables(mix, places.resources, yield_processor, packing)
    seen = Overview(tables, places.resources, mix.counts)
    figures = seen.plain(most)
    figures['zones'] = []
    for zone in sorted(set().union(*places.zones)):
        inside = np.array([zone in zones_of_host for zones_of_host in places.zones], dtype=bool)
        figures['zones'].append(
            {
                'zone': zone,
                'hosts': int(np.count_nonzero(inside)),
                'empty_hosts': int(np.count_nonzero(seen.empty & inside)),
                'fit': [int(units) for units in seen.copies[inside, :most].sum(axis=0)],
                'stranded': {
                    resource: round(float(units[inside].sum()))
                    for resource, units in seen.stranded.items()
                },
            }
        )
    figures['worst_hosts'] = [
        {
            'host': places.names[line][0],
            'node': places.names[line][1],
            'potential': round(float(seen.potential[line]), 1),
            'stranded': {
                resource: round(float(units[line])) for resource, units in seen.stranded.items()
            },
        }
        for line in seen.worst(most)
    ]
    return figures

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
"""How fragmented the free capacity is: for operators, computed beside the loop."""

from typing import NamedTuple

import numpy as np

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.overview import MAX_LISTED, Overview
from nova_sched.extensions.optimize.packing.prices import yield_processor
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.state.host_aggregate import zones


class Places(NamedTuple):
    """Where the hosts of a cloud are, by line: names of host and node, and zones."""

    resources: object
    names: list[tuple[str, str]]
    zones: list[frozenset[str]]


def read_places(hosts, default_zone, zone=None, aggregate=None):
    """Returns the Places of the hosts of a zone, and of an aggregate (id or name); None: of any.
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
    """Returns the mapping of ``optimizer.Optimizer.fragmentation``."""
    packing = CONF.compute.packing_host_numa_cells_allocation_strategy
    tables = Tables(mix, places.resources, yield_processor, packing)
    seen = Overview(tables, places.resources, mix.counts)
    figures = seen.plain(most)
    figures['zones'] = [
        _zone(name, places, seen, most) for name in sorted(set().union(*places.zones))
    ]
    figures['worst_hosts'] = [_host(line, places, seen) for line in seen.worst(most)]
    return figures


def _zone(name, places, seen, most):
    inside = np.array([name in zones for zones in places.zones], dtype=bool)
    return {
        'zone': name,
        'hosts': int(np.count_nonzero(inside)),
        'empty_hosts': int(np.count_nonzero(seen.empty & inside)),
        'fit': [int(units) for units in seen.copies[inside, :most].sum(axis=0)],
        'stranded': {
            resource: round(float(units[inside].sum()))
            for resource, units in seen.stranded.items()
        },
    }


def _host(line, places, seen):
    host, node = places.names[line]
    return {
        'host': host,
        'node': node,
        'potential': round(float(seen.potential[line]), 1),
        'stranded': {
            resource: round(float(units[line])) for resource, units in seen.stranded.items()
        },
    }

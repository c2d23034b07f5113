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

"""The hosts as cells of a map, in as few values as possible: texts that many cells share are
numbers. A cell is a node."""

import collections

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.claims.cloud_facts import DISABLED, DOWN, FORCED_DOWN, UNKNOWN, UP
from nova_sched.groups.topology import ZONE

STATES = (UP, DISABLED, DOWN, FORCED_DOWN, UNKNOWN)
USUAL = (VCPU, PCPU, MEMORY_MB, DISK_GB)
RACK = 'rack'
NONE = -1  # in place of a share: the node has no such resource
COLUMNS = ('hosts', 'names', 'zone', 'rack', 'aggregates_of', 'traits_of')


class Drawing:
    """Draws CloudFacts again and again. What it has found for a node is kept until the node
    changes."""

    def __init__(self, topology, default_zone):
        self._topology, self._default_zone = topology, default_zone
        self._places, self._shares = {}, {}

    def lasting(self, facts):
        """What seldom changes: for each row ``hosts``, ``names`` of nodes, ``zone`` and ``rack``
        (numbers of ``zones`` and ``racks``), ``aggregates_of`` and ``traits_of`` (numbers of
        ``aggregate_sets`` and ``trait_sets``, whose parts are numbers of ``aggregates`` and
        ``traits``); and the names of ``resources`` and ``states``."""
        of_host = collections.defaultdict(list)
        for aggregate in facts.aggregates:
            for host in aggregate.hosts:
                of_host[host].append(aggregate)
        zones, racks, words = Numbers(), Numbers(), Numbers()
        aggregate_sets, trait_sets = Numbers(), Numbers()
        columns = {name: [] for name in COLUMNS}
        before, self._places = self._places, {}
        for one in facts.nodes:
            report, mine = one.report, of_host[one.report.host]
            key = report.host, report.nodename, report.stats, report.traits, mine
            kept = before.get(report.node_uuid)
            if kept is None or kept[0] != key:
                kept = key, self._place(report, mine), report.inventories.keys()
            self._places[report.node_uuid] = kept
            zone, rack, aggregates, traits = kept[1]
            columns['hosts'].append(report.host)
            columns['names'].append(report.nodename)
            columns['zone'].append(zones.of(zone))
            columns['rack'].append(racks.of(rack))
            columns['aggregates_of'].append(aggregate_sets.of(aggregates))
            columns['traits_of'].append(trait_sets.of(traits))
        names = sorted({one.name for one in facts.aggregates})
        return {
            **columns,
            'zones': list(zones.known),
            'racks': list(racks.known),
            'aggregates': names,
            'aggregate_sets': [list(map(names.index, found)) for found in aggregate_sets.known],
            'trait_sets': [[words.of(name) for name in found] for found in trait_sets.known],
            'traits': list(words.known),
            'resources': resources(facts),
            'states': list(STATES),
        }

    def is_placed(self, one):
        """Whether what lasts about a node is as it is drawn, in the same aggregates."""
        report, kept = one.report, self._places.get(one.report.node_uuid)
        if kept is None:
            return False
        (host, name, _, _, mine), place, classes = kept
        if (report.host, report.nodename, report.inventories.keys()) != (host, name, classes):
            return False
        return self._place(report, mine) == place

    def _place(self, report, aggregates):
        """Zone, rack, names of aggregates, and traits of a node."""
        domains = self._topology.domains(
            report.host, report.nodename, report.stats, aggregates, self._default_zone
        )
        # A node without a rack is its own domain at that level: no block of its own on the map.
        rack = domains.get(RACK, '')
        rack = '' if rack in (report.host, report.nodename) else rack
        names = tuple(one.name for one in aggregates)
        return domains.get(ZONE, self._default_zone), rack, names, tuple(sorted(report.traits))

    def cells(self, facts, names):
        """What changes often, for each row: the number of its state, its claims, and the used
        share of each of the resources ``names`` in percent of its capacity."""
        before, self._shares = self._shares, {}
        found = []
        for one in facts.nodes:
            report = one.report
            kept = before.get(report.node_uuid)
            if kept is None or kept[0] is not one or kept[1] != names:
                kept = one, names, _shares(one, names)
            self._shares[report.node_uuid] = kept
            found.append([STATES.index(facts.state(report.host)), len(one.claims), kept[2]])
        return found


class Numbers:
    """Numbers texts, or sets of them, in the order in which they first come."""

    def __init__(self):
        self.known = {}

    def of(self, word):
        return self.known.setdefault(word, len(self.known))


def resources(facts):
    """The resource classes of all nodes, the usual ones first."""
    found = set()
    for one in facts.nodes:
        found.update(one.report.inventories)
    return sorted(found, key=lambda name: (USUAL.index(name) if name in USUAL else 9, name))


def _shares(one, names):
    used = collections.Counter(one.foreign)
    for claim in one.claims:
        used.update(claim.resources)
    return [_share(one.report.inventories.get(name), used[name]) for name in names]


def _share(inventory, used):
    capacity = inventory.capacity if inventory else 0
    return round(100 * used / capacity) if capacity > 0 else NONE

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
numbers.

A cell is a node. Pure functions of CloudFacts.
"""

import collections

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.claims.cloud_facts import DISABLED, DOWN, FORCED_DOWN, UP
from nova_sched.groups.topology import ZONE

STATES = (UP, DISABLED, DOWN, FORCED_DOWN)
USUAL = (VCPU, PCPU, MEMORY_MB, DISK_GB)
RACK = 'rack'
NONE = -1  # in place of a share: the node has no such resource


def resources(facts):
    """The resource classes of all nodes, the usual ones first."""
    found = set().union(*(one.report.inventories for one in facts.nodes), ())
    return sorted(found, key=lambda name: (USUAL.index(name) if name in USUAL else 9, name))


class Numbers:
    """Numbers texts, or sets of them, in the order in which they first come."""

    def __init__(self):
        self.known = {}

    def of(self, word):
        return self.known.setdefault(word, len(self.known))


def lasting(facts, topology, default_zone):
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
    columns = collections.defaultdict(list)
    for one in facts.nodes:
        report, mine = one.report, of_host[one.report.host]
        domains = topology.domains(report.host, report.nodename, report.stats, mine, default_zone)
        rack = domains.get(RACK, '')
        columns['hosts'].append(report.host)
        columns['names'].append(report.nodename)
        columns['zone'].append(zones.of(domains.get(ZONE, default_zone)))
        # A node without a rack is its own domain at that level: no block of its own on the map.
        columns['rack'].append(racks.of('' if rack in (report.host, report.nodename) else rack))
        columns['aggregates_of'].append(aggregate_sets.of(tuple(one.name for one in mine)))
        columns['traits_of'].append(trait_sets.of(tuple(sorted(report.traits))))
    names = sorted({one.name for one in facts.aggregates})
    return {
        **{name: columns[name] for name in COLUMNS},
        'zones': list(zones.known),
        'racks': list(racks.known),
        'aggregates': names,
        'aggregate_sets': [
            [names.index(name) for name in found] for found in aggregate_sets.known
        ],
        'trait_sets': [[words.of(name) for name in found] for found in trait_sets.known],
        'traits': list(words.known),
        'resources': resources(facts),
        'states': list(STATES),
    }


COLUMNS = ('hosts', 'names', 'zone', 'rack', 'aggregates_of', 'traits_of')


def cells(facts, names):
    """What changes often, for each row: the number of its state, its claims, and the used share of
    each resource in percent of its capacity."""
    return [_cell(facts, one, names) for one in facts.nodes]


def _cell(facts, one, names):
    used = collections.Counter(one.foreign)
    for claim in one.claims:
        used.update(claim.resources)
    state = STATES.index(facts.state(one.report.host))
    return [state, len(one.claims), [_share(one.report.inventories, used, name) for name in names]]


def _share(inventories, used, name):
    capacity = inventories[name].capacity if name in inventories else 0
    return round(100 * used[name] / capacity) if capacity > 0 else NONE

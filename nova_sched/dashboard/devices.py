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

"""The PCI devices of one node, one by one: which are free, and which a claim holds.

A node reports how many devices of each kind are free. Those that claims hold come from the claims.
So devices of servers without a claim are not among them.
"""

import collections
import dataclasses

from nova_sched import errors
from nova_sched.hardware import pci

DRAWN = 256  # free devices of one kind that are drawn: more than one physical function has
KINDS = {'type-PF': 'physical function', 'type-VF': 'virtual function', 'vdpa': 'vDPA device'}


def parents(one):
    """The devices of a node (NodeFacts) as plain values: lists, by NUMA node (None: near none), of
    what they are part of, with the kinds of devices there. Virtual functions are with the physical
    function of their interface, or of their provider where Nova keeps one for each."""
    free, held = _free(one), _held(one)
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for pool in sorted({*free, *held}, key=_order):
        found[pool.numa_node][_parent(pool)].append(_kind(pool, free[pool], held[pool]))
    return {
        node: [{'name': name, 'kinds': kinds} for name, kinds in mine.items()]
        for node, mine in found.items()
    }


def _free(one):
    """Numbers of free devices by pool; a pool is a PciPool with the count 0. What claims hold that
    the report does not include is not free."""
    try:
        pools = pci.pools_from_json(one.report.pci_pools) if one.report.pci_pools else ()
    except errors.SchedError:
        pools = ()
    for claim in one.claims:
        for parts in claim.uncounted:
            pools = pci.hold(pools, parts.devices)
    found = collections.Counter()
    for pool in pools:
        found[_empty(pool)] += pool.count
    return found


def _held(one):
    """By pool, a claim for each device that it holds."""
    found = collections.defaultdict(list)
    for claim in sorted(one.claims, key=lambda claim: claim.created_s or 0):
        for parts in claim.all_parts:
            for _, pool in parts.devices:
                found[_empty(pool)] += [claim] * pool.count
    return found


def _empty(pool):
    return dataclasses.replace(pool, count=0)


def _order(pool):
    node = -1 if pool.numa_node is None else pool.numa_node
    return (
        node,
        _parent(pool),
        pool.dev_type or '',
        pool.vendor_id,
        pool.product_id,
        repr(pool.tags),
    )


def _parent(pool):
    return pool.tags.get('parent_ifname') or pool.rp_uuid or ''


def _kind(pool, free, held):
    return {
        'name': f'{pool.vendor_id}:{pool.product_id}',
        'type': KINDS.get(pool.dev_type, 'device'),
        'network': pool.physical_network,
        'claimed': held,
        'free': free,
        'drawn': min(free, DRAWN),
    }

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

"""One host as its page shows it: resources, NUMA cells, PCI devices, claims, and past decisions.

Pure functions of CloudFacts and of decision records.
"""

import collections
import dataclasses
import itertools

from nova_sched import errors
from nova_sched.cmd.manage import rows
from nova_sched.extensions.dashboard.host_overview import USUAL
from nova_sched.hardware import numa, pci

MAX_READ = 2000  # newest records in which a host is looked for
MAX_SHOWN = 20  # records of a host that are shown
MAX_DRAWN = 256  # free devices of one kind that are drawn: more than one physical function has
DEVICE_KINDS = {
    'type-PF': 'physical function',
    'type-VF': 'virtual function',
    'vdpa': 'vDPA device',
}


def view(facts, name):
    """All about a host, as plain values."""
    service = facts.service(name)
    return {
        'host': name,
        'state': facts.state(name),
        'seen_s': facts.seen_s(name),
        'reads_nova': facts.reads_nova,
        'zones': facts.zones(name),
        'disabled': service.disabled,
        'reason': service.disabled_reason,
        'aggregates': [aggregate.name for aggregate in facts.aggregates_of(name)],
        'instances': facts.instances_of(name),
        'nodes': [_node(node) for node in facts.nodes_of(name)],
    }


def _node(node):
    report, devices_near = node.report, devices(node)
    cells = _cells(node)
    for cell in cells:
        cell['devices'] = devices_near.pop(cell['id'], [])
    amounts = rows.resources(node)
    return {
        'name': report.nodename,
        'traits': sorted(report.traits),
        'foreign_instances': node.foreign_instances,
        'resources': [
            {'name': name, **amounts[name]}
            for name in sorted(amounts, key=lambda name: (name not in USUAL, name))
        ],
        'cells': cells,
        'devices': devices_near,  # near none of these cells
        'claims': sorted(node.claims, key=lambda claim: claim.created_s or 0),
    }


def _cells(node):
    """The NUMA cells: for each its CPUs with their state, its memory, and its pages, as the node
    reports them; CPUs of claims that it does not know of yet are pinned, too."""
    try:
        cells = numa.HostTopology.from_json(node.report.numa_topology or '').cells
    except (errors.SchedError, ValueError):
        return []
    claimed = {
        (placed.host_cell, cpu)
        for claim in node.claims
        if claim.parts and claim.parts.cells
        for placed in claim.parts.cells.cells
        for cpu in placed.host_cpus
    }
    return [
        {
            'id': cell.id,
            'cpus': [
                {'id': cpu, 'state': _cpu_state(cell, cpu, (cell.id, cpu) in claimed)}
                for cpu in sorted(cell.cpuset | cell.pcpuset)
            ],
            'memory_mb': cell.memory_mb,
            'memory_used_mb': cell.memory_usage_mb,
            'pages': [
                {'size_kb': pages.size_kb, 'total': pages.total, 'used': pages.used}
                for pages in cell.pages
            ],
        }
        for cell in cells
    ]


def _cpu_state(cell, cpu, is_claimed):
    if is_claimed or cpu in cell.pinned_cpus:
        return 'pinned'
    return 'dedicated' if cpu in cell.pcpuset and cell.pcpuset != cell.cpuset else 'shared'


def devices(facts):
    """The devices of a node (NodeFacts) as plain values: lists, by NUMA node (None: near none), of
    what they are part of, with the kinds of devices there. Virtual functions are with the physical
    function of their interface, or of their provider where Nova keeps one for each.

    A node reports how many devices of each kind are free. Those that claims hold come from the
    claims: devices of servers without a claim are not among them.
    """
    free, held = _free_devices(facts), _held_devices(facts)

    def order(pool):
        node = -1 if pool.numa_node is None else pool.numa_node
        kind = pool.dev_type or '', pool.vendor_id, pool.product_id
        return node, _parent(pool), *kind, repr(pool.tags)

    pools_of = collections.defaultdict(lambda: collections.defaultdict(list))
    for pool in sorted({*free, *held}, key=order):
        pools_of[pool.numa_node][_parent(pool)].append(
            {
                'name': f'{pool.vendor_id}:{pool.product_id}',
                'type': DEVICE_KINDS.get(pool.dev_type, 'device'),
                'network': pool.physical_network,
                'claimed': held[pool],
                'free': free[pool],
                'drawn': min(free[pool], MAX_DRAWN),
            }
        )
    return {
        node: [{'name': name, 'kinds': kinds} for name, kinds in of_parent.items()]
        for node, of_parent in pools_of.items()
    }


def _free_devices(node):
    """Numbers of free devices by pool; a pool is a PciPool with the count 0. Devices of claims
    that the report does not include are not free."""
    try:
        pools = pci.pools_from_json(node.report.pci_pools) if node.report.pci_pools else ()
    except errors.SchedError:
        pools = ()
    for claim in node.claims:
        for parts in claim.uncounted:
            pools = pci.hold(pools, parts.devices)
    numbers = collections.Counter()
    for pool in pools:
        numbers[_empty(pool)] += pool.count
    return numbers


def _held_devices(node):
    """By pool, a claim for each device that it holds."""
    holders = collections.defaultdict(list)
    for claim in sorted(node.claims, key=lambda claim: claim.created_s or 0):
        for parts in claim.all_parts:
            for _, pool in parts.devices:
                holders[_empty(pool)] += [claim] * pool.count
    return holders


def _empty(pool):
    return dataclasses.replace(pool, count=0)


def _parent(pool):
    return pool.tags.get('parent_ifname') or pool.rp_uuid or ''


def history(records, name):
    """The newest decisions that chose the host, or that nearly did."""
    shown = []
    for record in itertools.islice(records, MAX_READ):
        part = _part(record, name)
        if part:
            shown.append(
                {
                    'request_id': record['request_id'],
                    'time': record['time'],
                    'part': part,
                    'flavor': record['asked']['flavor'],
                }
            )
            if len(shown) == MAX_SHOWN:
                break
    return shown


def _part(record, name):
    for placed in record['placed']:
        if placed['host'] == name:
            return 'chosen'
        if any(other['host'] == name for other in placed['alternates']):
            return 'alternate'
    for step in record['filters']:
        if step.get('nearest') == name:
            return f'nearest of those that {step["filter"]} removed'
    return ''

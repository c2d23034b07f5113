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

"""One host: its resources, its hardware, and its history."""

import pytest

from nova_sched.claim import Claim, Resizing
from nova_sched.claims.cloud_facts import CloudFacts
from nova_sched.claims.values import Changes, NodeFacts
from nova_sched.extensions.dashboard import host_page
from nova_sched.hardware import numa
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.pci import TakenDevice, pools_to_json
from nova_sched.state.report import Inventory, Report
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, wanted

MACHINE = machine(
    cell(0, [0, 1], [2, 3], memory_mb=8192, pinned=[2]),
    cell(1, [], [4, 5], memory_mb=8192, pages=[(4, 1000)]),
    pools=[pool(3, 1)],
)
PF = pool(1, 0, dev_type='type-PF', parent_ifname='ens1f0')
VF = pool(4, 0, product='154c', dev_type='type-VF', parent_ifname='ens1f0', physical_network='red')
OTHER = pool(6, 0, product='154c', dev_type='type-VF', parent_ifname='ens1f1')
GPU = pool(2, 1, vendor='10de', product='20b0', dev_type='type-PCI')


def view(*claims, **fields):
    """The only node of host `a`."""
    inventories = {'CUSTOM_X': Inventory(1), 'VCPU': Inventory(8, 1, 2.0)}
    report = Report(uuid_of('a'), 'a', 'a', inventories, {}, **fields)
    facts = NodeFacts(report, 1, tuple(claims), {'': {'VCPU': 2}})
    (node,) = host_page.view(CloudFacts(Changes(nodes=(facts,)), 0.0), 'a')['nodes']
    return node


def claim(**fields):
    return Claim(uuid_of('s'), uuid_of('a'), {'VCPU': 3}, **fields)


def test_resources():
    first, second = view(claim())['resources']
    assert (first['name'], first['capacity'], first['claimed'], first['foreign']) == (
        'VCPU', 14, 3, 2,
    )  # fmt: skip
    assert second['name'] == 'CUSTOM_X'


def test_cells_and_devices():
    node = view(numa_topology=MACHINE.topology.to_json(), pci_pools=pools_to_json(MACHINE.pools))
    first, second = node['cells']
    assert [(one['id'], one['state']) for one in first['cpus']] == [
        (0, 'shared'), (1, 'shared'), (2, 'pinned'), (3, 'dedicated'),
    ]  # fmt: skip
    assert second['pages'] == [{'size_kb': 4, 'total': 1000, 'used': 0}]
    assert first['devices'] == []
    assert node['devices'] == {}
    ((kind,),) = (parent['kinds'] for parent in second['devices'])
    assert (kind['free'], kind['claimed']) == (3, [])


def test_devices_near_no_cell():
    pools = pools_to_json([pool(3, None), pool(1, 7)])
    node = view(numa_topology=MACHINE.topology.to_json(), pci_pools=pools)
    assert {cell: one['kinds'][0]['free'] for cell, (one,) in node['devices'].items()} == {
        None: 3,
        7: 1,
    }


def test_cpus_of_a_claim_that_the_node_does_not_know_yet():
    fitted = numa.fit(MACHINE.topology, wanted(dedicated(1, memory_mb=1)).guest)
    parts = HardwareAllocation(cells=fitted)
    node = view(claim(parts=parts), numa_topology=MACHINE.topology.to_json())
    pinned = {one['id'] for each in node['cells'] for one in each['cpus']
              if one['state'] == 'pinned'}  # fmt: skip
    assert pinned == {2} | {cpu for placed in fitted.cells for cpu in placed.host_cpus}


@pytest.mark.parametrize('text', [None, '', '{', '{}'])
def test_hardware_that_cannot_be_read(text):
    node = view(numa_topology=text, pci_pools=text)
    assert (node['cells'], node['devices']) == ([], {})


def record(name, placed=(), filters=()):
    return {'request_id': name, 'time': 0.0, 'asked': {'flavor': 'm1'},
            'placed': list(placed), 'filters': list(filters)}  # fmt: skip


def test_history():
    chosen = {'host': 'a', 'alternates': []}
    alternate = {'host': 'b', 'alternates': [{'host': 'a'}]}
    found = host_page.history(
        [
            record('1', [chosen]),
            record('2', [alternate]),
            record('3', filters=[{'filter': 'F', 'nearest': 'a'}]),
            record('4', [{'host': 'b', 'alternates': []}], [{'filter': 'F', 'nearest': None}]),
        ],
        'a',
    )
    assert [(one['request_id'], one['part']) for one in found] == [
        ('1', 'chosen'),
        ('2', 'alternate'),
        ('3', 'nearest of those that F removed'),
    ]


def test_history_ends():
    chosen = record('1', [{'host': 'a', 'alternates': []}])
    assert len(host_page.history([chosen] * 100, 'a')) == host_page.MAX_SHOWN


# Devices one by one: whose they are, and what they are part of.


def held(*pools):
    return HardwareAllocation(devices=tuple(TakenDevice(None, some) for some in pools))


def holder(name, *pools, **fields):
    return Claim(uuid_of(name), uuid_of('a'), {}, parts=held(*pools), **fields)


def parents(*claims, pools=(GPU, OTHER, VF, PF)):
    report = Report(uuid_of('a'), 'a', 'a', {}, {}, pci_pools=pools_to_json(pools))
    return host_page.devices(NodeFacts(report, 1, tuple(claims), {}))


def test_virtual_functions_are_with_their_parent_near_its_cell():
    found = parents()
    assert {
        node: [(one['name'], [kind['type'] for kind in one['kinds']]) for one in mine]
        for node, mine in found.items()
    } == {
        0: [
            ('ens1f0', ['physical function', 'virtual function']),
            ('ens1f1', ['virtual function']),
        ],
        1: [('', ['device'])],
    }
    kind = found[0][0]['kinds'][1]
    assert (kind['name'], kind['network'], kind['free']) == ('8086:154c', 'red', 4)


def test_a_provider_is_the_parent_where_no_interface_is_known():
    ((parent,),) = parents(pools=[pool(2, 0, dev_type='type-VF', rp_uuid=uuid_of('p'))]).values()
    assert parent['name'] == uuid_of('p')


RESIZING = Resizing({}, {}, held(pool(2, 0)))
# The claims on a node, the pools that it has reported, and which devices are drawn: the number of
# free ones, and the server of each claimed one.
DRAWN = {
    'a claim that the report does not include': (
        [holder('s', pool(2, 0))], [pool(5, 0)], (3, 'ss')),
    'a claim that the report includes': (
        [holder('s', pool(2, 0), counted=True)], [pool(5, 0)], (5, 'ss')),
    'no device is free any more': ([holder('s', pool(1, 0), counted=True)], [], (0, 's')),
    'both sizes of a resize': (
        [holder('s', pool(1, 0), counted=True, resizing=RESIZING)], [pool(5, 0)], (3, 'sss')),
    'older claims come first': (
        [holder('b', pool(1, 0), created_s=2.0), holder('a', pool(1, 0), created_s=1.0)],
        [pool(2, 0)], (0, 'ab')),
}  # fmt: skip


def test_devices_that_are_drawn():
    drawn = {}
    for name, (claims, pools, _) in DRAWN.items():
        ((parent,),) = parents(*claims, pools=pools).values()
        (kind,) = parent['kinds']
        drawn[name] = kind['free'], [claim.consumer_uuid for claim in kind['claimed']]
    assert drawn == {
        name: (free, list(map(uuid_of, servers)))
        for name, (_, _, (free, servers)) in DRAWN.items()
    }


def test_no_more_are_drawn_than_a_page_can_show():
    ((parent,),) = parents(pools=[pool(10**9, 0)]).values()
    (kind,) = parent['kinds']
    assert (kind['free'], kind['drawn']) == (10**9, host_page.MAX_DRAWN)


@pytest.mark.parametrize('text', [None, '', '{', '{}'])
def test_pools_that_cannot_be_read(text):
    report = Report(uuid_of('a'), 'a', 'a', {}, {}, pci_pools=text)
    assert (
        host_page.devices(NodeFacts(report, 1, (holder('s', PF),), {}))[0][0]['name'] == 'ens1f0'
    )

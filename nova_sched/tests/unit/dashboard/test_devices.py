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

"""The devices of a node one by one: whose they are, and what they are part of."""

import pytest

from nova_sched.claim import Claim, Resizing
from nova_sched.claims.values import NodeFacts
from nova_sched.dashboard import devices
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.pci import TakenDevice, pools_to_json
from nova_sched.state.report import Report
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.hardware.builders import pool

PF = pool(1, 0, dev_type='type-PF', parent_ifname='ens1f0')
VF = pool(4, 0, product='154c', dev_type='type-VF', parent_ifname='ens1f0', physical_network='red')
OTHER = pool(6, 0, product='154c', dev_type='type-VF', parent_ifname='ens1f1')
GPU = pool(2, 1, vendor='10de', product='20b0', dev_type='type-PCI')


def held(*pools):
    return HardwareAllocation(devices=tuple(TakenDevice(None, some) for some in pools))


def claim(name, *pools, **fields):
    return Claim(uuid_of(name), uuid_of('a'), {}, parts=held(*pools), **fields)


def parents(*claims, pools=(GPU, OTHER, VF, PF)):
    report = Report(uuid_of('a'), 'a', 'a', {}, {}, pci_pools=pools_to_json(pools))
    return devices.parents(NodeFacts(report, 1, tuple(claims), {}))


def drawn(*claims, **words):
    """The only kind of devices: free ones, and servers of claimed ones."""
    ((parent,),) = parents(*claims, **words).values()
    (kind,) = parent['kinds']
    return kind['free'], [one.consumer_uuid for one in kind['claimed']]


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


def test_a_claim_that_the_report_does_not_include_takes_free_devices():
    assert drawn(claim('s', pool(2, 0)), pools=[pool(5, 0)]) == (3, [uuid_of('s')] * 2)


def test_a_claim_that_the_report_includes_takes_no_free_devices():
    both = claim('s', pool(2, 0), counted=True)
    assert drawn(both, pools=[pool(5, 0)]) == (5, [uuid_of('s')] * 2)


def test_a_kind_of_which_no_device_is_free_any_more():
    assert drawn(claim('s', pool(1, 0), counted=True), pools=[]) == (0, [uuid_of('s')])


def test_both_sizes_of_a_resize_hold_devices():
    resizing = Resizing({}, {}, held(pool(2, 0)))
    both = claim('s', pool(1, 0), counted=True, resizing=resizing)
    assert drawn(both, pools=[pool(5, 0)]) == (3, [uuid_of('s')] * 3)


def test_older_claims_come_first():
    claims = [claim('b', pool(1, 0), created_s=2.0), claim('a', pool(1, 0), created_s=1.0)]
    assert drawn(*claims, pools=[pool(2, 0)])[1] == [uuid_of('a'), uuid_of('b')]


def test_no_more_are_drawn_than_a_page_can_show():
    ((parent,),) = parents(pools=[pool(10**9, 0)]).values()
    (kind,) = parent['kinds']
    assert (kind['free'], kind['drawn']) == (10**9, devices.DRAWN)


@pytest.mark.parametrize('text', [None, '', '{', '{}'])
def test_pools_that_cannot_be_read(text):
    report = Report(uuid_of('a'), 'a', 'a', {}, {}, pci_pools=text)
    assert devices.parents(NodeFacts(report, 1, (claim('s', PF),), {}))[0][0]['name'] == 'ens1f0'

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
"""Pools: what they say of themselves, and their JSON text."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import pci
from nova_sched.tests import reference
from nova_sched.tests.unit.hardware.builders import pool


def reported():
    node = reference.wire('object-ComputeNode-numa-pci-metrics')['primitive']
    return node['nova_object.data']['pci_device_pools']


NIC = pci.PciPool(
    '8086',
    '1572',
    0,
    {
        'dev_type': 'type-PF',
        'physical_network': 'physnet0',
        'remote_managed': 'false',
        'parent_ifname': 'ens1f0',
    },
    2,
)
GPU = pci.PciPool('10de', '20b0', 1, {'dev_type': 'type-PCI', 'remote_managed': 'false'}, 4)


def test_a_recorded_node():
    assert pci.pools_from_json(json.dumps(reported())) == (NIC, GPU)
    assert pci.pools_of(objects.from_primitive(reported()).objects) == (NIC, GPU)
    assert pci.pools_of(None) == ()


def test_what_is_not_told():
    assert pci.pools_of([objects.PciDevicePool(vendor_id='10de')]) == (
        pci.PciPool('10de', '', None, {}, 0),
    )


def test_the_text_is_the_object():
    theirs = objects.from_primitive(json.loads(pci.pools_to_json((NIC, GPU))))
    assert pci.pools_of(theirs.objects) == (NIC, GPU)


def test_a_node_does_not_report_empty_pools():
    assert pci.pools_from_json(pci.pools_to_json((pool(0), GPU))) == (GPU,)


@pytest.mark.parametrize(
    'change',
    [
        pytest.param(('"count": 2', '"count": "two"'), id='count in words'),
        pytest.param(('"PciDevicePool"', '"PciDevice"'), id='another class'),
        pytest.param(('"vendor_id"', '"vendor"'), id='no vendor'),
        pytest.param(('{', ''), id='no JSON'),
    ],
)
def test_a_malformed_text(change):
    old, new = change
    text = json.dumps(reported())
    assert old in text
    with pytest.raises(errors.MalformedObject, match='PciDevicePoolList'):
        pci.pools_from_json(text.replace(old, new))


def test_tags():
    some = pool(
        dev_type='type-VF',
        physical_network='a',
        remote_managed='True',
        managed='no',
        live_migratable='yes',
        resource_class='CUSTOM_NIC',
        traits='CUSTOM_A,CUSTOM_B',
        rp_uuid='rp1',
    )
    assert (some.dev_type, some.physical_network, some.remote_managed) == ('type-VF', 'a', True)
    assert (some.managed, some.live_migratable, some.resource_class) == (False, True, 'CUSTOM_NIC')
    assert (some.traits, some.rp_uuid) == ({'CUSTOM_A', 'CUSTOM_B'}, 'rp1')


def test_no_tags():
    some = pool()
    assert (some.dev_type, some.physical_network, some.remote_managed) == (None, None, False)
    assert (some.managed, some.live_migratable, some.resource_class) == (True, False, None)
    assert (some.traits, some.rp_uuid) == (frozenset(), None)


@pytest.mark.parametrize(
    'other, like',
    [
        pytest.param(pool(7, x='1'), True, id='another count'),
        pytest.param(pool(1, x='2'), False, id='another tag'),
        pytest.param(pool(1, node=1, x='1'), False, id='another cell'),
        pytest.param(pool(1, vendor='10de', x='1'), False, id='another vendor'),
        pytest.param(pool(1, product='20b0', x='1'), False, id='another product'),
    ],
)
def test_is_like(other, like):
    assert pool(1, x='1').is_like(other) is like

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
"""PCI devices: as read, and as offered in pools."""

import logging

import pytest

from nova_sched import errors
from nova_sched.extensions.agent import pci
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.pci import PciPool, pools_of
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.agent.fake_machine import FakeMachine, network_card


def test_kinds_parents_and_interfaces(tmp_path):
    physical, first, second, gpu = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    assert physical == pci.Device(
        address='0000:03:00.0',
        vendor_id='8086',
        product_id='1572',
        pci_class='020000',
        numa_node=1,
        dev_type=pci.PF,
        driver='i40e',
        interface='ens1f0',
    )
    assert first == pci.Device(
        address='0000:03:00.1',
        vendor_id='8086',
        product_id='154c',
        pci_class='020000',
        numa_node=1,
        dev_type=pci.VF,
        parent='0000:03:00.0',
        parent_interface='ens1f0',
    )
    assert (second.address, second.parent) == ('0000:03:00.2', '0000:03:00.0')
    assert (gpu.dev_type, gpu.numa_node, gpu.driver) == (pci.PCI, None, 'vfio-pci')


def test_a_function_that_can_have_no_virtual_ones_is_plain(tmp_path):
    (device,) = pci.devices(FakeMachine(tmp_path).device('0000:00:01.0', vfs=0).sys)
    assert device.dev_type == pci.PCI


@each_afresh(
    'file, content',
    {
        'vendor is no number': ('vendor', 'none'),
        'class unreadable': ('class', None),
        'cell is no number': ('numa_node', 'x'),
    },
)
def test_a_broken_device_is_left_out_and_told(tmp_path, caplog, file, content):
    machine = network_card(FakeMachine(tmp_path))
    path = f'bus/pci/devices/0000:81:00.0/{file}'
    machine.unreadable(path) if content is None else machine.file(path, content)
    with caplog.at_level(logging.WARNING):
        found = pci.devices(machine.sys)
    assert [device.address for device in found] == ['0000:03:00.0', '0000:03:00.1', '0000:03:00.2']
    assert '0000:81:00.0' in caplog.text


def test_no_pci_bus(tmp_path):
    assert pci.devices(FakeMachine(tmp_path).sys) == []


PF, VF1, VF2, GPU = '0000:03:00.0', '0000:03:00.1', '0000:03:00.2', '0000:81:00.0'


def exposed(tmp_path, *specs, taken=()):
    """Pools of the network card and the GPU, as plain tuples."""
    devices = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    found = pci.pools(devices, pci.parse_specs(specs), taken).objects
    return [
        (pool.vendor_id, pool.product_id, pool.numa_node, pool.count, pool.tags) for pool in found
    ]


# Specs, and the addresses of the devices that they match.
MATCHES = {
    'nothing asked': ({}, [PF, VF1, VF2, GPU]),
    'vendor': ({'vendor_id': '10de'}, [GPU]),
    'vendor as the kernel spells it': ({'vendor_id': '0x10DE'}, [GPU]),
    'vendor and product': ({'vendor_id': '8086', 'product_id': '154c'}, [VF1, VF2]),
    'any vendor': ({'vendor_id': '*', 'product_id': '1572'}, [PF]),
    'address': ({'address': '0000:03:00.1'}, [VF1]),
    'address without domain': ({'address': '03:00.1'}, [VF1]),
    'glob': ({'address': '*:03:00.*'}, [PF, VF1, VF2]),
    'empty parts are any': ({'address': ':03:00.'}, [PF, VF1, VF2]),
    'glob within a part': ({'address': '*:8*:*.*'}, [GPU]),
    'physical address takes the virtual ones': ({'address': '0000:03:00.0'}, [PF, VF1, VF2]),
    'only the virtual ones of one': (
        {'address': '0000:03:00.0', 'product_id': '154c'},
        [VF1, VF2],
    ),
    'regular expressions': ({'address': {'bus': '03', 'function': '[12]'}}, [VF1, VF2]),
    'either': ({'address': {'bus': '03|81', 'slot': '00', 'function': '0'}}, [PF, VF1, VF2, GPU]),
    'no such address': ({'address': '0000:04:00.0'}, []),
    'interface': ({'devname': 'ens1f0'}, [PF, VF1, VF2]),
    'no such interface': ({'devname': 'eth9'}, []),
}


def test_matching(tmp_path):
    devices = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    found = {}
    for name, (spec, _) in MATCHES.items():
        (parsed,) = pci.parse_specs([spec])
        found[name] = [device.address for device in devices if parsed.matches(device)]
    assert found == {name: addresses for name, (_, addresses) in MATCHES.items()}


def test_addresses_are_hexadecimal_in_either_case():
    (spec,) = pci.parse_specs([{'address': '0000:AF:00.0'}])
    assert spec.matches(pci.Device('0000:af:00.0', '8086', '1572', '020000', None, pci.PCI))


def test_nothing_is_exposed_by_default(tmp_path):
    assert exposed(tmp_path) == []


def test_pools_group_like_devices(tmp_path):
    nic = {'vendor_id': '8086', 'physical_network': 'physnet0'}
    tags = {'remote_managed': 'false', 'physical_network': 'physnet0', 'parent_ifname': 'ens1f0'}
    assert exposed(tmp_path, nic, {'vendor_id': '10de'}) == [
        ('10de', '20b0', None, 1, {'dev_type': 'type-PCI', 'remote_managed': 'false'}),
        ('8086', '154c', 1, 2, {**tags, 'dev_type': 'type-VF'}),
        ('8086', '1572', 1, 1, {**tags, 'dev_type': 'type-PF'}),
    ]


def test_the_first_spec_that_matches_gives_the_tags(tmp_path):
    one = {'address': VF1, 'physical_network': 'one'}
    other = {'product_id': '154c', 'physical_network': 'other'}
    found = exposed(tmp_path, one, other)
    assert [(pool[3], pool[4]['physical_network']) for pool in found] == [(1, 'one'), (1, 'other')]


def test_tags_are_texts_or_nothing(tmp_path):
    spec = {
        'vendor_id': '10de',
        'remote_managed': True,
        'physical_network': None,
        'trusted': 'true',
        'speed': 10,
    }
    ((*_, tags),) = exposed(tmp_path, spec)
    assert tags == {
        'dev_type': 'type-PCI',
        'remote_managed': 'true',
        'physical_network': None,
        'trusted': 'true',
        'speed': '10',
    }


# Taken addresses, and how many devices of each product are left.
TAKEN = {
    'all free': ([], {'20b0': 1, '1572': 1, '154c': 2}),
    'the GPU': ([GPU], {'1572': 1, '154c': 2}),
    'a virtual function takes its physical one': ([VF1], {'20b0': 1, '154c': 1}),
    'a physical function takes its virtual ones': ([PF], {'20b0': 1}),
    'a device that is gone': (['0000:ff:00.0'], {'20b0': 1, '1572': 1, '154c': 2}),
}


def test_taken_devices_are_not_offered(tmp_path):
    devices = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    specs = pci.parse_specs([{}])
    found = {}
    for name, (taken, _) in TAKEN.items():
        pools = pci.pools(devices, specs, taken).objects
        found[name] = {pool.product_id: pool.count for pool in pools}
    assert found == {name: left for name, (_, left) in TAKEN.items()}


@each_afresh(
    'product, count, taken, picked',
    {
        'all of a kind': ('154c', 2, [], {VF1, VF2}),
        'the one that is left': ('154c', 1, [VF1], {VF2}),
        'a physical function': ('1572', 1, [], {PF}),
        'which is in use by its virtual one': ('1572', 1, [VF1], None),
        'and the other way round': ('154c', 1, [PF], None),
        'more than there are': ('154c', 3, [], None),
    },
)
def test_pick(tmp_path, product, count, taken, picked):
    devices = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    specs = pci.parse_specs([{'physical_network': 'a'}])
    (wanted,) = (
        PciPool.of(dict(one.tags, vendor_id='8086', product_id=product, numa_node=1, count=count))
        for one in pci.pools(devices, specs).objects
        if one.product_id == product
    )
    if picked is None:
        with pytest.raises(Overdrawn, match=f'no 8086:{product} is left'):
            pci.pick(devices, specs, taken, [wanted])
    else:
        assert pci.pick(devices, specs, taken, [wanted]) == picked


def test_pick_of_two_kinds_that_are_one_device(tmp_path):
    devices = pci.devices(network_card(FakeMachine(tmp_path)).sys)
    specs = pci.parse_specs([{'vendor_id': '8086'}])
    both = pools_of(pci.pools(devices, specs))
    assert [one.count for one in both] == [2, 1]
    with pytest.raises(Overdrawn, match='not part of another'):
        pci.pick(devices, specs, [], both)


def test_pick_of_nothing():
    assert pci.pick([], [], [], []) == frozenset()


@table(
    'entries, count',
    {
        'JSON of one': (['{"vendor_id": "8086"}'], 1),
        'JSON of a list': (['[{"vendor_id": "8086"}, {"vendor_id": "10de"}]'], 2),
        'both forms': ([{'vendor_id': '8086'}, '{"vendor_id": "10de"}'], 2),
        'none': ([], 0),
    },
)
def test_forms(entries, count):
    assert len(pci.parse_specs(entries)) == count


@table(
    'entry, why',
    {
        'broken JSON': ('{"vendor_id": ', 'vendor_id'),
        'no mapping': ('"8086"', '8086'),
        'vendor too long': ({'vendor_id': '80867'}, 'vendor_id is not four'),
        'product not hexadecimal': ({'product_id': 'xyz1'}, 'product_id is not four'),
        'no address': ({'address': 'somewhere'}, 'address is not'),
        'unknown part': ({'address': {'slots': '1'}}, 'no part slots'),
        'broken regular expression': ({'address': {'bus': '('}}, 'device_spec'),
        'address and interface': ({'address': '*:*:*.*', 'devname': 'eth0'}, 'exclude each other'),
    },
)
def test_bad_specs_are_told(entry, why):
    with pytest.raises(errors.BadMachineFacts, match='device_spec') as error:
        pci.parse_specs([entry])
    assert why in str(error.value)

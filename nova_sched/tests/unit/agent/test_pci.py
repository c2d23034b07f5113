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

"""Tests of reading PCI devices."""

import logging

import pytest

from nova_sched.agent import pci
from nova_sched.tests.unit.agent.fake_machine import FakeMachine, network_card


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


@pytest.mark.parametrize(
    'file, content',
    [
        pytest.param('vendor', 'none', id='vendor is no number'),
        pytest.param('class', None, id='class unreadable'),
        pytest.param('numa_node', 'x', id='cell is no number'),
    ],
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

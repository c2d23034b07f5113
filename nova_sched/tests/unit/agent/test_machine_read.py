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

"""Tests of reading a whole machine: fake ones, and this one."""

import json

import psutil
import pytest

from nova_sched import errors
from nova_sched.agent import machine, usage
from nova_sched.tests.unit.agent.builders import settings
from nova_sched.tests.unit.agent.fake_machine import FakeMachine, network_card, two_cells


def test_a_fake_machine_from_its_files(tmp_path):
    fake = network_card(two_cells(tmp_path))
    made = machine.compute_node(
        settings(
            uuid_file=tmp_path / 'state/compute_id',
            instances_path=tmp_path,
            host_ip='192.0.2.7',
            device_spec=[{'product_id': '154c', 'physical_network': 'physnet0'}],
            sys_root=fake.sys,
            proc_root=fake.proc,
            kvm_device=tmp_path / 'no-kvm',
        )
    )
    assert made.vcpus == 8
    assert [
        cell['nova_object.data']['id']
        for cell in json.loads(made.numa_topology)['nova_object.data']['cells']
    ] == [
        0,
        1,
    ]
    assert [
        (pool.count, pool.tags['physical_network']) for pool in made.pci_device_pools.objects
    ] == [(2, 'physnet0')]
    assert {spec.hv_type for spec in made.supported_hv_specs} == {'qemu'}
    assert json.loads(made.cpu_info)['vendor'] == 'Intel'


def this_machine(tmp_path, **options):
    return settings(uuid_file=tmp_path / 'compute_id', instances_path=tmp_path, **options)


def test_this_machine(tmp_path):
    chosen = this_machine(tmp_path, device_spec=[{}], metrics=True)
    found = machine.read(chosen)
    made = machine.describe(found, chosen, usage.total([]))
    assert made.vcpus == psutil.cpu_count()
    assert made.memory_mb == psutil.virtual_memory().total // 2**20
    assert made.local_gb == psutil.disk_usage(str(tmp_path)).total // 2**30
    assert 0 <= made.disk_available_least <= made.local_gb
    assert sum(len(cell.cpus) for cell in found.cells) == made.vcpus
    assert all(0 < cell.memory_mb <= made.memory_mb for cell in found.cells)
    assert all(page.used <= page.total for cell in found.cells for page in cell.pages)
    assert sum(pool.count for pool in made.pci_device_pools.objects) == len(found.devices)
    info = json.loads(made.cpu_info)
    assert info['features']
    shape = info['topology']
    assert shape['cells'] * shape['sockets'] * shape['cores'] * shape['threads'] >= made.vcpus
    assert json.loads(made.metrics)


def test_this_machine_keeps_its_uuid_and_tells_nothing_new(tmp_path):
    chosen = this_machine(tmp_path)
    first, second = machine.compute_node(chosen), machine.compute_node(chosen)
    assert first.uuid == second.uuid == (tmp_path / 'compute_id').read_text().strip()
    assert machine.changed(first, second) is False


def test_a_missing_instances_path_is_named(tmp_path):
    with pytest.raises(errors.BadMachineFacts, match='nowhere'):
        machine.read(
            settings(uuid_file=tmp_path / 'compute_id', instances_path=tmp_path / 'nowhere')
        )


def test_kvm_is_told_by_its_device(tmp_path):
    device = tmp_path / 'kvm'
    assert machine.read(this_machine(tmp_path, kvm_device=device)).kvm is False
    device.touch()
    assert machine.read(this_machine(tmp_path, kvm_device=device)).kvm is True


def test_a_kernel_without_numa_gives_the_memory_of_the_machine(tmp_path):
    fake = FakeMachine(tmp_path).cpus(['0', '1'])
    found = machine.read(this_machine(tmp_path, sys_root=fake.sys, proc_root=fake.proc))
    assert [(cell.id, cell.memory_mb) for cell in found.cells] == [(0, found.memory_mb)]

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

"""Tests of the ComputeNode that a machine reports."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.agent import machine, numa, usage
from nova_sched.tests.unit.agent.builders import (
    CORES,
    CPUS,
    GPU,
    NODE,
    facts,
    guest,
    node,
    processor,
    settings,
)


def test_an_empty_node():
    made = node()
    assert (made.uuid, made.host, made.hypervisor_hostname, str(made.host_ip)) == (
        NODE,
        'cmp1',
        'cmp1',
        '192.0.2.5',
    )
    assert (made.vcpus, made.memory_mb, made.local_gb, made.disk_available_least) == (
        8,
        6144,
        100,
        60,
    )
    assert (made.vcpus_used, made.memory_mb_used, made.local_gb_used) == (0, 512, 0)
    assert (made.free_ram_mb, made.free_disk_gb) == (5632, 100)
    assert (made.running_vms, made.current_workload) == (0, 0)
    assert (made.cpu_allocation_ratio, made.ram_allocation_ratio, made.disk_allocation_ratio) == (
        4.0,
        1.0,
        1.0,
    )
    assert (made.hypervisor_type, made.hypervisor_version, made.metrics) == ('QEMU', 0, '[]')
    assert made.pci_device_pools.objects == []


def test_instances_and_what_is_reserved():
    made = node(
        guests=[guest(), guest(task_state='spawning')],
        reserved_host_cpus=1,
        reserved_host_memory_mb=1024,
        reserved_host_disk_mb=1025,
    )
    assert (made.vcpus_used, made.memory_mb_used, made.local_gb_used) == (5, 3072, 22)
    assert (made.free_ram_mb, made.free_disk_gb) == (3072, 78)
    assert (made.running_vms, made.current_workload) == (2, 1)
    assert made.stats['num_instances'] == '2'


def test_usage_above_what_there_is_is_shown():
    made = node(guests=[guest(memory_mb=8192, disk_gb=200)])
    assert (made.free_ram_mb, made.free_disk_gb) == (-2560, -100)


@pytest.mark.parametrize(
    'dedicated_set, vcpus_used',
    [
        pytest.param('4-7', 1, id='pinned CPUs are no shared ones'),
        pytest.param(None, 4, id='on a node that sets none apart they are'),
    ],
)
def test_pinned_instances(dedicated_set, vcpus_used):
    use = usage.CellUse(vcpus=1, memory_mb=1024, pinned=frozenset({4, 5}))
    pinned = guest(vcpus=4, dedicated=3, cells={0: use})
    made = node(guests=[pinned], cpu_dedicated_set=dedicated_set)
    assert made.vcpus_used == vcpus_used
    cell, other = json.loads(made.numa_topology)['nova_object.data']['cells']
    assert sorted(cell['nova_object.data']['pinned_cpus']) == [4, 5]
    assert list(other['nova_object.data']['pinned_cpus']) == []


def test_numa_topology_reads_back_as_the_object():
    topology = objects.NUMATopology.obj_from_primitive(json.loads(node().numa_topology))
    assert [(cell.id, cell.cpuset, cell.memory, cell.socket) for cell in topology.cells] == [
        (0, {0, 1, 4, 5}, 4096, 0),
        (1, {2, 3, 6, 7}, 2048, 1),
    ]


def test_cpu_info():
    assert json.loads(node().cpu_info) == {
        'arch': 'x86_64',
        'model': 'Xeon',
        'vendor': 'Intel',
        'topology': {'cells': 2, 'sockets': 1, 'cores': 2, 'threads': 2},
        'features': ['aes'],
        'maxphysaddr': {'mode': 'emulate', 'bits': 46},
    }
    assert 'maxphysaddr' not in json.loads(
        node(facts(processor=processor(physical_bits=None))).cpu_info
    )


@pytest.mark.parametrize(
    'arch, kvm, specs',
    [
        pytest.param(
            'x86_64',
            True,
            ['x86_64 qemu', 'x86_64 kvm', 'i686 qemu', 'i686 kvm'],
            id='runs its elders too',
        ),
        pytest.param('x86_64', False, ['x86_64 qemu', 'i686 qemu'], id='emulated'),
        pytest.param('aarch64', True, ['aarch64 qemu', 'aarch64 kvm'], id='ARM'),
    ],
)
def test_supported_hv_specs(arch, kvm, specs):
    made = node(facts(kvm=kvm, processor=processor(arch=arch))).supported_hv_specs
    assert [f'{spec.arch} {spec.hv_type}' for spec in made] == specs
    assert {spec.vm_mode for spec in made} == {'hvm'}


def test_exposed_devices_make_pools():
    spec = [{'vendor_id': '10de'}]
    (pool,) = node(device_spec=spec).pci_device_pools.objects
    assert (pool.product_id, pool.numa_node, pool.count) == ('20b0', 1, 1)
    holder = guest(devices=frozenset({GPU.address}))
    assert node(guests=[holder], device_spec=spec).pci_device_pools.objects == []


@pytest.mark.parametrize(
    'options, vcpus',
    [
        pytest.param({}, 8, id='all'),
        pytest.param({'cpu_dedicated_set': '2-7,^4'}, 3, id='the rest of the dedicated'),
        pytest.param({'cpu_shared_set': '0-3'}, 4, id='shared set'),
        pytest.param({'cpu_shared_set': '0-3', 'cpu_dedicated_set': '6'}, 4, id='both'),
    ],
)
def test_shared_cpus(options, vcpus):
    assert node(**options).vcpus == vcpus


def test_offline_cpus_of_a_set_are_left_out():
    online = {cpu: CPUS[cpu] for cpu in (0, 1, 2)}
    cells = [numa.MachineCell(0, frozenset(online), CORES[:3], 0, 4096, ())]
    found = facts(online=online, cells=cells)
    assert machine.cpu_sets(found, settings(cpu_dedicated_set='2-5')) == ({0, 1}, {2})
    assert machine.cpu_sets(found, settings(cpu_shared_set='1-5')) == ({1, 2}, set())
    assert node(found).vcpus == 3


@pytest.mark.parametrize(
    'option, value, why',
    [
        pytest.param('cpu_dedicated_set', '6-9', '[8, 9]', id='CPUs that are not there'),
        pytest.param('cpu_shared_set', '0-8', '[8]', id='shared CPUs that are not there'),
        pytest.param('cpu_dedicated_set', 'all', "'all'", id='no set at all'),
        pytest.param(
            'reserved_host_cpus', 9, '9 is more than the 8', id='more CPUs than there are'
        ),
        pytest.param('reserved_host_memory_mb', 6145, '6145', id='more memory than there is'),
        pytest.param(
            'reserved_host_disk_mb',
            102401,
            '101 is more than the 100',
            id='more disk than there is',
        ),
        pytest.param('device_spec', ['{'], '{', id='broken device spec'),
        pytest.param('reserved_huge_pages', [{}], '{}', id='broken huge pages'),
    ],
)
def test_bad_settings_are_named(option, value, why):
    with pytest.raises(errors.BadMachineFacts) as error:
        node(**{option: value})
    assert error.value.what == option
    assert why in error.value.why


def test_cpu_sets_may_not_overlap():
    with pytest.raises(errors.BadMachineFacts, match=r'cpu_shared_set.*\[2, 3\]'):
        node(cpu_shared_set='0-3', cpu_dedicated_set='2-7')


def test_an_architecture_that_no_cloud_knows():
    with pytest.raises(errors.BadMachineFacts, match='pdp11'):
        node(facts(processor=processor(arch='pdp11')))


def test_a_ratio_of_zero_is_the_usual_one():
    made = node(cpu_allocation_ratio=0.0, ram_allocation_ratio=0.0, disk_allocation_ratio=0.0)
    assert (made.cpu_allocation_ratio, made.ram_allocation_ratio, made.disk_allocation_ratio) == (
        4.0,
        1.0,
        1.0,
    )


def test_facts_stand_among_the_stats_and_hide_none_of_them():
    made = node(guests=[guest()], facts={'rack': 'r12', 'num_instances': 'many'})
    assert (made.stats['rack'], made.stats['num_instances']) == ('r12', '1')


def test_the_node_may_have_a_name_of_its_own():
    made = node(node='cmp1.example.org')
    assert (made.host, made.hypervisor_hostname) == ('cmp1', 'cmp1.example.org')

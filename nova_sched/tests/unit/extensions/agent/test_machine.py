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
"""A machine: how it is read, fake ones and this one; its UUID; the ComputeNode and the provider
tree that it reports; and what makes a report worth sending at once."""

import json
import uuid

import psutil
import pytest

from nova_sched import errors, objects
from nova_sched.extensions.agent import machine, numa, usage
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.agent.builders import (
    CELLS,
    CORES,
    CPUS,
    NODE,
    facts,
    guest,
    node,
    processor,
    settings,
)
from nova_sched.tests.unit.extensions.agent.fake_machine import FakeMachine


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


@table(
    'dedicated_set, vcpus_used',
    {
        'pinned CPUs are no shared ones': ('4-7', 1),
        'on a node that sets none apart they are': (None, 4),
    },
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


@table(
    'arch, kvm, specs',
    {
        'runs its elders too': (
            'x86_64',
            True,
            ['x86_64 qemu', 'x86_64 kvm', 'i686 qemu', 'i686 kvm'],
        ),
        'emulated': ('x86_64', False, ['x86_64 qemu', 'i686 qemu']),
        'ARM': ('aarch64', True, ['aarch64 qemu', 'aarch64 kvm']),
    },
)
def test_supported_hv_specs(arch, kvm, specs):
    made = node(facts(kvm=kvm, processor=processor(arch=arch))).supported_hv_specs
    assert [f'{spec.arch} {spec.hv_type}' for spec in made] == specs
    assert {spec.vm_mode for spec in made} == {'hvm'}


@table(
    'options, vcpus',
    {
        'all': ({}, 8),
        'the rest of the dedicated': ({'cpu_dedicated_set': '2-7,^4'}, 3),
        'shared set': ({'cpu_shared_set': '0-3'}, 4),
        'both': ({'cpu_shared_set': '0-3', 'cpu_dedicated_set': '6'}, 4),
    },
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


@table(
    'option, value, why',
    {
        'CPUs that are not there': ('cpu_dedicated_set', '6-9', '[8, 9]'),
        'shared CPUs that are not there': ('cpu_shared_set', '0-8', '[8]'),
        'no set at all': ('cpu_dedicated_set', 'all', "'all'"),
        'more CPUs than there are': ('reserved_host_cpus', 9, '9 is more than the 8'),
        'more memory than there is': ('reserved_host_memory_mb', 6145, '6145'),
        'more disk than there is': ('reserved_host_disk_mb', 102401, '101 is more than the 100'),
        'broken device spec': ('device_spec', ['{'], '{'),
        'broken huge pages': ('reserved_huge_pages', [{}], '{}'),
    },
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


# Facts, guests and settings, and whether they change the report of an empty node.
CHANGES = {
    'nothing': ({}, [], {}, False),
    'free disk moves all the time': ({'disk_free_gb': 59}, [], {}, False),
    'metrics move all the time': ({'metrics': '[1]'}, [], {}, False),
    'another order': ({'cells': CELLS[::-1]}, [], {}, False),
    'memory': ({'memory_mb': 6145}, [], {}, True),
    'disk': ({'disk_gb': 101}, [], {}, True),
    'a cell': ({'cells': CELLS[:1]}, [], {}, True),
    'a CPU feature': ({'processor': processor(features=('avx',))}, [], {}, True),
    'an instance': ({}, [guest()], {}, True),
    'a device': ({}, [], {'device_spec': [{}]}, True),
    'a ratio': ({}, [], {'cpu_allocation_ratio': 2.0}, True),
}


def test_changed():
    found = {
        name: machine.changed(node(), node(facts(**words), guests, **options))
        for name, (words, guests, options, _) in CHANGES.items()
    }
    assert found == {name: is_new for name, (*_, is_new) in CHANGES.items()}


def test_the_first_report_is_news():
    assert machine.changed(None, node()) is True


def test_the_report_crosses_the_wire_unchanged():
    made = node(guests=[guest()], device_spec=[{}])
    again = objects.ComputeNode.obj_from_primitive(made.obj_to_primitive())
    again.obj_reset_changes(recursive=True)
    assert machine.changed(made, again) is False
    assert again.metrics == made.metrics


FIRST = '5b0e6a35-1b5c-4c8f-9a53-6a0c51f0a1d4'
SECOND = 'c7a4f2d1-90a5-4a0e-8a55-0d5a2f3f7e11'


def test_made_once_and_kept(tmp_path):
    path = tmp_path / 'state' / 'compute_id'
    made = machine.node_uuid(path, new=lambda: uuid.UUID(FIRST))
    again = machine.node_uuid(path, new=lambda: uuid.UUID(SECOND))
    assert made == again == FIRST
    assert path.read_text() == f'{FIRST}\n'
    assert [entry.name for entry in path.parent.iterdir()] == ['compute_id']


def test_another_process_that_was_first_wins(tmp_path):
    path = tmp_path / 'compute_id'

    def late():
        path.write_text(SECOND)
        return uuid.UUID(FIRST)

    assert machine.node_uuid(path, new=late) == SECOND
    assert path.read_text() == SECOND


def test_other_spellings_are_read(tmp_path):
    path = tmp_path / 'compute_id'
    path.write_text(f'  {FIRST.upper()}\n\n')
    assert machine.node_uuid(path) == FIRST


@each_afresh(
    'content',
    {
        'empty': b'',
        'words': b'not-a-uuid',
        'bytes': b'\x00\xff\x13',
        'cut short': FIRST[:-1].encode(),
    },
)
def test_a_corrupted_file_is_told_and_left_as_it_is(tmp_path, content):
    path = tmp_path / 'compute_id'
    path.write_bytes(content)
    with pytest.raises(errors.BadMachineFacts) as error:
        machine.node_uuid(path)
    assert error.value.what == str(path)
    assert 'restore the file' in error.value.why
    assert path.read_bytes() == content


@each_afresh('name', {'a directory': '.', 'below a file': 'file/compute_id'})
def test_a_file_that_cannot_be_is_told(tmp_path, name):
    (tmp_path / 'file').touch()
    with pytest.raises(errors.BadMachineFacts) as error:
        machine.node_uuid(tmp_path / name)
    assert error.value.what == str(tmp_path / name)


def provider(found=None, **options):
    """The node and its root provider."""
    chosen = settings(**options)
    node = machine.describe(found or facts(), chosen, usage.total([]))
    tree = machine.inventories(node, chosen)
    assert list(tree) == [node.uuid]
    return node, tree[node.uuid]


def test_totals_are_those_of_the_node():
    node, root = provider(
        reserved_host_cpus=1, reserved_host_disk_mb=1500, resources={'CUSTOM_GOLD': 3}
    )
    fixed = {'min_unit': 1, 'step_size': 1}
    plain = {**fixed, 'reserved': 0, 'allocation_ratio': 1.0}
    assert root['inventories'] == {
        'VCPU': {**fixed, 'total': 8, 'reserved': 1, 'max_unit': 8, 'allocation_ratio': 4.0},
        'MEMORY_MB': {**plain, 'total': 6144, 'reserved': 512, 'max_unit': 6144},
        'DISK_GB': {**plain, 'total': 100, 'reserved': 2, 'max_unit': 100},
        'CUSTOM_GOLD': {**plain, 'total': 3, 'max_unit': 3},
    }
    assert (root['name'], root['parent_provider_uuid']) == ('cmp1', None)
    assert root['inventories']['VCPU']['reserved'] == node.vcpus_used
    assert root['inventories']['MEMORY_MB']['reserved'] == node.memory_mb_used
    assert root['inventories']['DISK_GB']['reserved'] == node.local_gb_used


@table(
    'options, vcpu, pcpu',
    {
        'nothing set apart': ({}, 8, None),
        'the rest is shared': ({'cpu_dedicated_set': '2-7'}, 2, 6),
        'all dedicated': ({'cpu_dedicated_set': '0-7'}, None, 8),
        "two are the host's": ({'cpu_dedicated_set': '4-7', 'cpu_shared_set': '2,3'}, 2, 4),
    },
)
def test_dedicated_cpus(options, vcpu, pcpu):
    _, root = provider(**options)
    totals = {name: found['total'] for name, found in root['inventories'].items()}
    assert (totals.get('VCPU'), totals.get('PCPU')) == (vcpu, pcpu)


def test_dedicated_cpus_are_never_sold_twice():
    _, root = provider(cpu_dedicated_set='2-7', cpu_allocation_ratio=16.0)
    assert root['inventories']['PCPU']['allocation_ratio'] == 1.0
    assert root['inventories']['VCPU']['allocation_ratio'] == 16.0


def test_a_node_without_disk_offers_none():
    _, root = provider(facts(disk_gb=0))
    assert 'DISK_GB' not in root['inventories']


@table(
    'cpu, traits',
    {
        'Intel': (
            processor(features=('aes', 'avx2', 'fpu', 'pni', 'sse4.1', 'vmx')),
            ['AESNI', 'AVX2', 'INTEL_VMX', 'SSE3', 'SSE41', 'VMX'],
        ),
        'AMD': (processor(features=('svm', 'sse4a')), ['AMD_SVM', 'SSE4A', 'SVM']),
        'another architecture, same word': (processor(arch='aarch64', features=('aes',)), []),
    },
)
def test_cpu_traits(cpu, traits):
    _, root = provider(facts(processor=cpu))
    prefix = 'HW_CPU_X86_'
    assert [trait[len(prefix) :] for trait in root['traits'] if trait.startswith(prefix)] == traits


def test_traits_of_the_node():
    node, root = provider(traits=['CUSTOM_RACK_7'])
    assert {'COMPUTE_NODE', 'OWNER_NOVA', 'CUSTOM_RACK_7', 'HW_CPU_HYPERTHREADING'} <= set(
        root['traits']
    )
    info = json.loads(node.cpu_info)
    info['topology']['threads'] = 1
    node.cpu_info = json.dumps(info)
    assert 'HW_CPU_HYPERTHREADING' not in machine.traits(node)

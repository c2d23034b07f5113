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
"""A node's report, from a ComputeNode and its inventories: what is taken, and what is refused."""

import json
import math

import pytest

from nova_sched import errors, objects
from nova_sched.hardware.machine import Machine
from nova_sched.rpc import reports
from nova_sched.state.report import Inventory, Report
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.options import settings
from nova_sched.tests.reference import REFERENCE, wire
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

ONE, NODE = uuid_of('one'), uuid_of('node host-0')
INITIAL = {'VCPU': 4.0, 'MEMORY_MB': 1.0, 'DISK_GB': 1.0}  # Nova's initial allocation ratios


def recorded_nodes():
    """Every ComputeNode in the recorded messages: its primitive, by file and name."""
    for path in sorted((REFERENCE / 'wire').glob('object-ComputeNode*.json')):
        primitive = wire(path.stem)['primitive']
        for one in primitive['nova_object.data'].get('objects', [primitive]):
            yield pytest.param(
                one,
                id=f'{path.stem.removeprefix("object-")} '
                f'{one["nova_object.data"]["hypervisor_hostname"]}',
            )


def dedicated(data):
    """CPUs for dedicated use, and those in use, as the JSON text of the NUMA topology tells."""
    if data.get('numa_topology') is None:
        return 0, 0
    cells = [
        cell['nova_object.data']
        for cell in json.loads(data['numa_topology'])['nova_object.data']['cells']
    ]
    return sum(len(cell['pcpuset']) for cell in cells), sum(
        len(cell['pinned_cpus']) for cell in cells
    )


@pytest.mark.parametrize('primitive', list(recorded_nodes()))
def test_a_recorded_node(primitive):
    data = primitive['nova_object.data']
    found = reports.report(
        objects.from_primitive(primitive), data['host'], [ONE], cell_uuid=uuid_of('cell')
    )
    assert (found.node_uuid, found.host, found.nodename) == (
        data['uuid'],
        data['host'],
        data['hypervisor_hostname'],
    )
    assert (found.cell_uuid, found.instances) == (uuid_of('cell'), {ONE})
    own, pinned = dedicated(data)
    inventories = {
        'VCPU': Inventory(data['vcpus'], 0, data['cpu_allocation_ratio'] or INITIAL['VCPU']),
        'MEMORY_MB': Inventory(
            data['memory_mb'], 0, data['ram_allocation_ratio'] or INITIAL['MEMORY_MB']
        ),
        'DISK_GB': Inventory(
            data['local_gb'], 0, data['disk_allocation_ratio'] or INITIAL['DISK_GB']
        ),
    }
    used = {
        'VCPU': data['vcpus_used'],
        'MEMORY_MB': data['memory_mb_used'],
        'DISK_GB': data['local_gb_used'],
    }
    if own:
        inventories['PCPU'], used['PCPU'] = Inventory(own), pinned
    assert (found.inventories, found.used) == (inventories, used)
    least = data['disk_available_least']
    assert found.disk_slack_gb == (0 if least is None else max(0, data['free_disk_gb'] - least))
    stats = data['stats']
    assert (found.num_instances, found.io_workload, found.failed_builds) == tuple(
        int(stats.get(name, 0)) for name in ('num_instances', 'io_workload', 'failed_builds')
    )
    for name in (
        'hypervisor_type',
        'hypervisor_version',
        'host_ip',
        'cpu_info',
        'running_vms',
        'current_workload',
    ):
        assert getattr(found, name) == data[name]
    for name in ('numa_topology', 'metrics', 'stats'):
        assert getattr(found, name) == data[name]
    assert found.supported_instances == tuple(
        (
            one['nova_object.data']['arch'],
            one['nova_object.data']['hv_type'],
            one['nova_object.data']['vm_mode'],
        )
        for one in data['supported_hv_specs']
    )
    assert Report.from_json(found.to_json()) == found


def tree(inventories=None, traits=(), **more):
    return {NODE: {'inventories': inventories or {}, 'traits': list(traits)}, **more}


@pytest.mark.parametrize(
    'inventories, found',
    [
        pytest.param(None, {}, id='no tree'),
        pytest.param(tree(), {}, id='an empty one'),
        pytest.param(
            tree({'VCPU': {'total': 4}}), {'VCPU': Inventory(4)}, id='the least that can be said'
        ),
        pytest.param(
            tree(
                {
                    'VCPU': {
                        'total': 4,
                        'reserved': 1,
                        'allocation_ratio': 2,
                        'min_unit': 1,
                        'max_unit': 3,
                        'step_size': 1,
                    }
                }
            ),
            {'VCPU': Inventory(4, 1, 2.0, 1, 3, 1)},
            id='all that can be said',
        ),
        pytest.param(
            tree({'CUSTOM_X': {'total': 0}}),
            {'CUSTOM_X': Inventory(0)},
            id='another class beside its own',
        ),
        pytest.param(
            tree(
                **{
                    uuid_of('gpu'): {
                        'parent_provider_uuid': NODE,
                        'inventories': {'VGPU': {'total': 8}},
                    }
                }
            ),
            {},
            id='what a child has is not its own',
        ),
    ],
)
def test_a_tree_goes_before_the_nodes_own_figures(inventories, found):
    report = reports.report(compute_node(), 'host-0', inventories=inventories)
    own = {'VCPU': Inventory(8), 'MEMORY_MB': Inventory(16384), 'DISK_GB': Inventory(100)}
    assert report.inventories == own | found


def test_traits_are_those_of_the_node_itself():
    child = {uuid_of('gpu'): {'parent_provider_uuid': NODE, 'traits': ['HW_GPU']}}
    report = reports.report(
        compute_node(), 'host-0', inventories=tree(traits=['HW_CPU_X86_AVX2'], **child)
    )
    assert report.traits == {'HW_CPU_X86_AVX2'}


def test_a_tree_with_children_is_kept_as_it_came():
    whole = tree(
        **{uuid_of('gpu'): {'parent_provider_uuid': NODE, 'name': 'gpu', 'generation': 3}}
    )
    assert (
        json.loads(reports.report(compute_node(), 'host-0', inventories=whole).providers) == whole
    )


@pytest.mark.parametrize(
    'instances, found',
    [
        pytest.param(None, None, id='not told'),
        pytest.param([], set(), id='none'),
        pytest.param([ONE], {ONE}, id='one'),
        pytest.param(
            objects.InstanceList(objects=[objects.Instance(uuid=ONE)]), {ONE}, id='a list object'
        ),
    ],
)
def test_instances(instances, found):
    assert reports.report(compute_node(), 'host-0', instances).instances == found


@pytest.mark.parametrize(
    'ratio, found',
    [
        pytest.param(2.5, 2.5, id='its own'),
        pytest.param(0.0, 4.0, id='0 is none'),
    ],
)
def test_ratio(ratio, found):
    assert (
        reports.report(compute_node(cpu_allocation_ratio=ratio), 'host-0')
        .inventories['VCPU']
        .ratio
        == found
    )


def test_stats_that_are_null_count_nothing_and_are_kept():
    """An extra spec without a scope is about hosts that have a stat of its name, be it null."""
    report = reports.report(
        compute_node(stats={'failed_builds': None, 'io_workload': '2'}), 'host-0'
    )
    assert (report.failed_builds, report.io_workload) == (0, 2)
    assert report.stats == {'failed_builds': None, 'io_workload': '2'}


@pytest.mark.parametrize(
    'told, found',
    [
        pytest.param(None, uuid_of('default'), id='the configured one'),
        pytest.param(uuid_of('own'), uuid_of('own'), id='its own'),
    ],
)
def test_the_cell(told, found):
    with settings({'stats.cell_uuid': uuid_of('default')}):
        assert reports.report(compute_node(), 'host-0', cell_uuid=told).cell_uuid == found


def test_a_ratio_that_is_not_set():
    node = compute_node()
    del node.ram_allocation_ratio
    assert reports.report(node, 'host-0').inventories['MEMORY_MB'].ratio == 1.0


@pytest.mark.parametrize(
    'free, least, slack_gb',
    [
        pytest.param(50, 30, 20, id='less than recorded'),
        pytest.param(50, 70, 0, id='more'),
        pytest.param(50, None, 0, id='not known'),
        pytest.param(None, 30, 70, id='free is total less used'),
    ],
)
def test_disk_that_is_not_really_free(free, least, slack_gb):
    node = compute_node(free_disk_gb=free, disk_available_least=least)
    assert reports.report(node, 'host-0').disk_slack_gb == slack_gb


def test_the_name_of_the_sender_goes_for_a_host_that_is_not_set():
    node = compute_node()
    del node.host
    assert reports.report(node, 'host-0').host == 'host-0'


@pytest.mark.parametrize(
    'fields, field',
    [
        pytest.param({'vcpus': -1}, 'vcpus', id='negative total'),
        pytest.param({'memory_mb_used': -1}, 'memory_mb_used', id='negative use'),
        pytest.param({'cpu_allocation_ratio': math.nan}, 'cpu_allocation_ratio', id='NaN'),
        pytest.param({'ram_allocation_ratio': -0.5}, 'ram_allocation_ratio', id='negative ratio'),
        pytest.param({'disk_allocation_ratio': math.inf}, 'disk_allocation_ratio', id='infinite'),
        pytest.param(
            {'disk_allocation_ratio': 1e60}, 'DISK_GB allocation ratio', id='beyond reason'
        ),
        pytest.param({'local_gb': 2**54}, 'DISK_GB total', id='larger than can be'),
        pytest.param({'hypervisor_version': -1}, 'hypervisor_version', id='version'),
        pytest.param(
            {'stats': {'num_instances': '1.5'}}, 'stats[num_instances]', id='half an instance'
        ),
        pytest.param(
            {'stats': {'io_workload': str(2**31)}}, 'stats[io_workload]', id='too much work'
        ),
        pytest.param({'host': 'other'}, 'host', id='another host'),
        pytest.param({'hypervisor_hostname': ''}, 'hypervisor_hostname', id='no name'),
        pytest.param({'hypervisor_hostname': 'x' * 256}, 'hypervisor_hostname', id='a long name'),
        pytest.param({'numa_topology': 'two cells'}, 'numa_topology', id='NUMA is not JSON'),
        pytest.param({'numa_topology': '[]'}, 'numa_topology', id='NUMA is a list'),
    ],
)
def test_what_is_refused_is_named(fields, field):
    node = compute_node(**fields)
    with pytest.raises(errors.BadReport) as refused:
        reports.report(node, 'host-0')
    assert refused.value.field == field
    has_name = 0 < len(node.hypervisor_hostname) < 256
    assert refused.value.node == (node.hypervisor_hostname if has_name else "'host-0'")
    assert len(str(refused.value)) < 300


HAS = machine(cell(0, [0], [1], pages=[(4, 1000)]), cell(1, [2], [3]), pools=[pool(2)])


def cells(old, new):
    """The text of two NUMA cells, with a piece of it replaced."""
    text = HAS.topology.to_json()
    assert old in text
    return {'numa_topology': text.replace(old, new)}


def devices(**fields):
    """One pool of PCI devices with these fields; None: unset."""
    plain = {
        'vendor_id': '8086',
        'product_id': '1572',
        'numa_node': None,
        'tags': {},
        'count': 1,
    } | fields
    made = objects.PciDevicePool(
        **{name: value for name, value in plain.items() if value is not None}
    )
    return {'pci_device_pools': objects.PciDevicePoolList(objects=[made])}


@pytest.mark.parametrize(
    'fields, field, why',
    [
        pytest.param(
            cells('"id": 1', '"id": 0'), 'numa_topology', 'two cells have one id', id='cells'
        ),
        pytest.param(cells('"cpuset"', '"cpusets"'), 'numa_topology', 'cpuset', id='no CPUs'),
        pytest.param(
            cells('"memory": 4096', '"memory": -1'),
            'numa_topology',
            '-1 is not within 0',
            id='memory',
        ),
        pytest.param(
            cells('"total": 1000', '"total": -5'),
            'numa_topology',
            '-5 is not within 0',
            id='pages',
        ),
        pytest.param(
            cells('"size_kb": 4', '"size_kb": 0'),
            'numa_topology',
            'is not a page size',
            id='size of pages',
        ),
        pytest.param(
            cells('"memory": 4096', '"memory": 1e400'), 'numa_topology', '', id='infinite'
        ),
        pytest.param(devices(count=-1), 'pci_device_pools', '-1 is not within 0', id='devices'),
        pytest.param(
            devices(count=2**62),
            'pci_device_pools',
            'is not within 0',
            id='more than there can be',
        ),
        pytest.param(
            devices(vendor_id=None), 'pci_device_pools', 'vendor_id', id='devices of nobody'
        ),
    ],
)
def test_cells_and_devices_that_cannot_be(fields, field, why):
    with pytest.raises(errors.BadReport) as refused:
        reports.report(compute_node(**fields), 'host-0')
    assert refused.value.field == field
    assert why in refused.value.why
    assert len(str(refused.value)) < 300


def test_cells_and_devices_are_taken_over():
    found = reports.report(compute_node(**node_fields(HAS)), 'host-0')
    assert Machine.from_texts(*found.pieces) == HAS


@pytest.mark.parametrize(
    'field',
    ['uuid', 'vcpus', 'memory_mb', 'local_gb', 'vcpus_used', 'memory_mb_used', 'local_gb_used'],
)
def test_what_must_be_set(field):
    node = compute_node()
    delattr(node, field)
    with pytest.raises(errors.BadReport) as refused:
        reports.report(node, 'host-0')
    assert refused.value.field == field


@pytest.mark.parametrize(
    'fields',
    [
        pytest.param({'metrics': 'x' * 2000}, id='metrics'),
        pytest.param({'cpu_info': 'x' * 2000}, id='cpu_info'),
        pytest.param({'stats': {'note': 'x' * 2000}}, id='stats'),
        pytest.param({'stats': {'x' * 2000: ''}}, id='names in stats'),
    ],
)
def test_the_size_of_a_report_is_limited(fields):
    with (
        settings({'stats.max_report_size': 1024}),
        pytest.raises(errors.BadReport, match='at most 1024 are'),
    ):
        reports.report(compute_node(**fields), 'host-0')
    assert reports.report(compute_node(**fields), 'host-0')


def test_the_size_of_a_tree_is_limited():
    large = tree(traits=[f'CUSTOM_{number:060}' for number in range(20)])
    with (
        settings({'stats.max_report_size': 1024}),
        pytest.raises(errors.BadReport, match='at most 1024 are'),
    ):
        reports.report(compute_node(), 'host-0', inventories=large)


@pytest.mark.parametrize(
    'device, why',
    [
        pytest.param({'used': {'VGPU': -1}}, 'not within 0', id='negative use'),
        pytest.param({'used': {'VGPU': 'x'}}, 'ValueError', id='use in words'),
        pytest.param(
            {'used': {'OTHER': 1}},
            'OTHER is in use, but not in the inventories',
            id='use of nothing',
        ),
        pytest.param(
            {'inventories': {'VGPU': {'total': 1, 'reserved': 2}}}, 'cannot be true', id='reserve'
        ),
        pytest.param(
            {'inventories': {'VGPU': {'total': 1, 'step_size': 0}}}, 'must be 1 or more', id='step'
        ),
    ],
)
def test_a_device_that_cannot_be_is_refused(device, why):
    gpu = {'parent_provider_uuid': NODE, 'inventories': {'VGPU': {'total': 8}}, **device}
    with pytest.raises(errors.BadReport, match=why) as refused:
        reports.report(compute_node(), 'host-0', inventories=tree(**{uuid_of('gpu'): gpu}))
    assert refused.value.field == 'inventories'

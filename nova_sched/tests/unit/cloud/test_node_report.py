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
"""A compute node of Nova's database becomes a Report, or is left out with a reason."""

import dataclasses
import json

import pytest

from nova_sched import errors, objects
from nova_sched.claims.nova_node import NovaUse
from nova_sched.cloud import node_report
from nova_sched.cloud.placement import NodeProviders
from nova_sched.db.nova_cell import NodeRow
from nova_sched.state.report import Inventory, Report, ReportOrder
from nova_sched.tests.builders import CELL, NOW, uuid_of
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.reference import wire
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

NODE, CHILD, OTHER = uuid_of('node cmp1'), uuid_of('child'), uuid_of('other')
NOWHERE = NodeProviders(NODE)
ORDER = ReportOrder(seen=3)
HAS = machine(cell(0, [0], [1], pages=[(4, 1000)]), cell(1, [2], [3]), pools=[pool(2)])


def row(**fields):
    """A NodeRow of a host that may take servers."""
    columns = tables.node(**fields)
    known = {field.name for field in dataclasses.fields(NodeRow)} & columns.keys()
    facts = {'updated_s': NOW, 'has_service': True} | {name: columns[name] for name in known}
    return NodeRow(**{**facts, 'has_service': fields.get('has_service', True)})


def inventory(total, **more):
    """An inventory in Placement's form."""
    given = {'reserved': 0, 'min_unit': 1, 'max_unit': total, 'step_size': 1}
    return {'total': total, 'allocation_ratio': 1.0, **given, **more}


def providers(allocations=None, children=None, **inventories):
    """The tree of the node; ``allocations`` by provider and consumer, ``children`` by UUID."""
    own = {'parent_provider_uuid': None, 'inventories': inventories, 'traits': ['OWNER_NOVA']}
    return NodeProviders(NODE, {NODE: own, **(children or {})}, allocations=allocations or {})


def report(node=None, tree=None, migrations=None, cell_uuid=CELL):
    return node_report.report(
        node or row(), tree or providers(), migrations or {}, cell_uuid, ORDER
    )


def test_the_facts_of_the_row():
    found = report(tree=providers(VCPU=inventory(8, allocation_ratio=4.0)))
    assert found == Report(
        node_uuid=NODE,
        host='cmp1',
        nodename='cmp1',
        inventories={'VCPU': Inventory(8, 0, 4.0, 1, 8, 1)},
        used={'VCPU': 0},
        cell_uuid=CELL,
        instances=frozenset(),
        traits=frozenset(['OWNER_NOVA']),
        disk_slack_gb=10,
        num_instances=2,
        io_workload=1,
        failed_builds=0,
        hypervisor_type='fake',
        hypervisor_version=1000,
        host_ip='192.0.2.7',
        cpu_info='{"arch": "x86_64"}',
        supported_instances=(('x86_64', 'fake', 'hvm'),),
        stats={'num_instances': '2', 'io_workload': '1', 'failed_builds': '0'},
        metrics='[]',
        running_vms=2,
        current_workload=1,
    )
    assert found.order == ORDER


def test_cells_and_devices():
    fields = node_fields(HAS)
    pools = json.dumps(objects.to_primitive(fields['pci_device_pools']))
    node = row(numa_topology=fields['numa_topology'], pci_stats=pools)
    found = report(node)
    assert found.numa_topology == fields['numa_topology']
    assert json.loads(found.pci_pools) == json.loads(pools)


def test_a_recorded_node_is_as_it_is_over_rpc():
    """The texts of the columns are those that a ComputeNode has, or are made of."""
    data = wire('object-ComputeNode-numa-pci-metrics')['primitive']['nova_object.data']
    specs = [list(one['nova_object.data'].values()) for one in data['supported_hv_specs']]
    same = set(node_report.SAME) - {'uuid', 'host', 'hypervisor_hostname'}
    node = row(
        **{name: data[name] for name in same},
        numa_topology=data['numa_topology'],
        stats=json.dumps(data['stats']),
        pci_stats=json.dumps(data['pci_device_pools']),
        supported_instances=json.dumps(
            [
                [one['nova_object.data'][name] for name in ('arch', 'hv_type', 'vm_mode')]
                for one in data['supported_hv_specs']
            ]
        ),
    )
    found = report(node)
    assert len(found.supported_instances) == len(specs)
    assert (found.metrics, found.stats) == (data['metrics'], data['stats'])
    assert json.loads(found.pci_pools)['nova_object.data']['objects']
    assert found.numa_topology == data['numa_topology']


@each(
    'column',
    'host_ip stats supported_instances pci_stats numa_topology metrics '
    'disk_available_least'.split(),
)
def test_columns_that_may_be_null(column):
    assert report(row(**{column: None})).node_uuid == NODE


def test_use_is_that_of_all_consumers_and_the_reserve():
    tree = providers(
        {NODE: {'one': {'VCPU': 2, 'MEMORY_MB': 512}, 'two': {'VCPU': 1}}},
        VCPU=inventory(8),
        MEMORY_MB=inventory(8192, reserved=1024),
    )
    assert report(tree=tree).used == {'VCPU': 3, 'MEMORY_MB': 1536}


def test_the_consumer_of_a_migration_is_its_instance():
    migration, server, other = uuid_of('migration'), uuid_of('server'), uuid_of('stays')
    held = {NODE: {migration: {'VCPU': 1}}, CHILD: {other: {'VGPU': 1}}}
    tree = providers(held, {CHILD: {'parent_provider_uuid': NODE}}, VCPU=inventory(8))
    node = dataclasses.replace(row(), tracked=frozenset([other]))
    found = report(node, tree, {migration: server})
    assert found.instances == {server, other}
    assert found.nova == {
        server: NovaUse(None, {'VCPU': 1}, is_tracked=True),
        other: NovaUse({}, None, is_tracked=True),
    }
    assert Report.from_json(found.to_json()).nova is None


def test_children_have_their_use():
    gpu = {'parent_provider_uuid': NODE, 'inventories': {'VGPU': inventory(4)}, 'traits': ['X']}
    held = {CHILD: {'one': {'VGPU': 1}, 'two': {'VGPU': 2, 'CUSTOM_GONE': 5}}}
    found = report(tree=providers(held, {CHILD: gpu, OTHER: {'parent_provider_uuid': CHILD}}))
    tree = json.loads(found.providers)
    assert tree[CHILD] == {**gpu, 'used': {'VGPU': 3}}
    assert tree.keys() == {NODE, CHILD, OTHER}
    assert found.used == {}


def wire_pools():
    """The primitive of an empty list of pools."""
    return objects.to_primitive(objects.PciDevicePoolList(objects=[]))


@table(
    'given, field, why',
    {
        'service': ({'node': row(has_service=False)}, 'services', 'no nova-compute service'),
        'no host mapping': ({'cell_uuid': None}, 'host_mappings', 'discover_hosts'),
        'provider': ({'tree': NOWHERE}, 'resource provider', f'no resource provider {NODE}'),
        'just started': ({'node': row(free_disk_gb=None)}, 'free_disk_gb', 'is NULL'),
    },
)
def test_a_node_that_is_not_complete(given, field, why):
    with pytest.raises(errors.BadReport, match=why) as refused:
        report(**given)
    assert (refused.value.node, refused.value.field) == ('cmp1', field)


@table(
    'fields, field',
    {
        'no JSON': ({'stats': '{'}, 'stats'),
        'no mapping': ({'stats': '[1]'}, 'stats'),
        'no count': ({'stats': '{"num_instances": "x"}'}, 'stats[num_instances]'),
        'pair': ({'supported_instances': '[["x86_64"]]'}, 'supported_instances'),
        'no list': ({'supported_instances': '7'}, 'supported_instances'),
        'architecture': (
            {'supported_instances': '[["pdp7", "fake", "hvm"]]'},
            'supported_hv_specs[0].arch',
        ),
        'no pools': ({'pci_stats': '[7]'}, 'pci_device_pools'),
        'nested deeply': ({'pci_stats': '[' * 10_000}, 'pci_stats'),
        'pools of another release': (
            {'pci_stats': json.dumps({**wire_pools(), 'nova_object.version': '9.0'})},
            'nested facts',
        ),
        'no address': ({'host_ip': 'x'}, 'host_ip'),
        'no topology': ({'numa_topology': '[]'}, 'numa_topology'),
        'no host': ({'host': None, 'uuid': NODE}, 'host'),
        'no name, and no JSON': ({'hypervisor_hostname': None, 'stats': '{'}, 'stats'),
    },
)
def test_a_row_that_cannot_be_read(fields, field):
    with pytest.raises(errors.BadReport) as refused:
        report(row(**fields))
    assert refused.value.field == field
    assert len(str(refused.value)) < 500


def test_a_tree_that_cannot_be():
    with pytest.raises(errors.BadReport, match='VCPU reserved'):
        report(tree=providers(VCPU=inventory(1, reserved=2)))

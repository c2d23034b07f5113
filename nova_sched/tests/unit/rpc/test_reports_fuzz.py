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
"""Whatever a node sends: a report that the cluster takes, or an error that names node and
field."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors, objects
from nova_sched.rpc import reports
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import Report, check
from nova_sched.tests.builders import put, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.functional.harness import compute_node

NODE, CHILD = uuid_of('node host-0'), uuid_of('child')

odd_numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from(
        [0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**30), math.nan, math.inf, -math.inf]
    ),
)
odd_values = st.one_of(
    st.none(),
    st.booleans(),
    odd_numbers,
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
plain_numbers = st.integers(0, 4096)
NUMBERS = (
    'vcpus memory_mb local_gb vcpus_used memory_mb_used local_gb_used free_disk_gb '
    'disk_available_least hypervisor_version running_vms current_workload cpu_allocation_ratio '
    'ram_allocation_ratio disk_allocation_ratio'
).split()
OTHERS = (
    'uuid host hypervisor_hostname stats numa_topology metrics host_ip supported_hv_specs cpu_info'
).split()
json_like = st.recursive(
    odd_values,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
counts = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ['num_instances', 'io_workload', 'failed_builds', 'x'],
        st.text(max_size=4) | odd_numbers.map(str),
    ),
)
nodes = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(NUMBERS, plain_numbers | odd_numbers)
    | dict.fromkeys(OTHERS, json_like)
    | {'stats': counts, 'numa_topology': st.text(max_size=8) | st.just('{}') | st.just('[[]]')},
)


def mostly(good):
    """A sound value most of the time, or an odd one."""
    return st.one_of(good, good, good, good, odd_values)


def thing(name, fields):
    """An object of the wire, of whose fields some are odd or left out."""
    parts = {field: mostly(good) for field, good in fields.items()}
    return st.fixed_dictionaries(
        {
            'nova_object.name': st.just(name),
            'nova_object.namespace': st.just('nova'),
            'nova_object.version': st.sampled_from(['1.0', '1.1', '1.2', '1.5']),
            'nova_object.data': st.fixed_dictionaries({}, optional=parts)
            | st.fixed_dictionaries(parts),
        }
    )


some_cpus = st.lists(st.integers(0, 5), max_size=3)
page_sizes = {
    'size_kb': st.sampled_from([4, 2048]),
    'total': plain_numbers,
    'used': st.just(0),
    'reserved': st.just(0),
}
numa_cells = thing(
    'NUMACell',
    {
        'id': st.integers(0, 2),
        'memory': plain_numbers,
        'cpu_usage': st.just(0),
        'memory_usage': st.just(0),
        'siblings': st.lists(some_cpus, max_size=2),
        'mempages': st.lists(thing('NUMAPagesTopology', page_sizes), max_size=2),
        **dict.fromkeys(['cpuset', 'pcpuset', 'pinned_cpus'], some_cpus),
    },
)
topologies = thing('NUMATopology', {'cells': st.lists(numa_cells, max_size=2)}).map(json.dumps)
pools = thing(
    'PciDevicePool',
    {
        'vendor_id': st.just('8086'),
        'product_id': st.just('1572'),
        'numa_node': st.none() | st.integers(0, 1),
        'tags': st.dictionaries(st.text(max_size=2), st.none() | st.text(max_size=2), max_size=1),
        'count': plain_numbers,
    },
)
pool_lists = thing('PciDevicePoolList', {'objects': st.lists(pools, max_size=2)})
inventory = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ['total', 'reserved', 'min_unit', 'max_unit', 'step_size', 'allocation_ratio', 'odd'],
        plain_numbers | odd_values,
    ),
)
provider = st.fixed_dictionaries(
    {},
    optional={
        'inventories': st.dictionaries(
            st.sampled_from(['VCPU', 'CUSTOM_X', 'odd name', '']),
            inventory | odd_values,
            max_size=3,
        )
        | odd_values,
        'traits': st.lists(st.sampled_from(['HW_X', 'odd name', '']) | odd_values, max_size=3)
        | odd_values,
        'parent_provider_uuid': st.sampled_from([None, NODE, CHILD]) | odd_values,
        'more': json_like,
    },
)
trees = st.dictionaries(
    st.sampled_from([NODE, CHILD]) | st.text(max_size=4), provider | odd_values, max_size=3
)


def take(changes, **more):
    """What becomes of a node with these changes: its report, or the error that refuses it."""
    primitive = objects.to_primitive(compute_node())
    primitive['nova_object.data'].update(changes)
    try:
        return reports.report(objects.from_primitive(primitive), 'host-0', **more)
    except errors.Invalid as error:
        return error


def judge(found):
    if isinstance(found, errors.Invalid):
        assert isinstance(
            found, (errors.BadReport, errors.MalformedObject, errors.IncompatibleObject)
        )
        assert all(found.args)
        assert len(str(found)) < 1000
    else:
        assert check(found) is found
        assert Report.from_json(found.to_json()) == found
        node = put(Cluster(), found)
        told = bool(found.numa_topology or found.pci_pools)
        assert (node.machine is not None) == told, 'what the cluster cannot read is not taken'


@settings(max_examples=cases(100))
@given(nodes)
def test_any_node(changes):
    judge(take(changes))


@settings(max_examples=cases(100))
@given(st.none() | topologies, st.none() | pool_lists)
def test_any_cells_and_devices(cells, devices):
    changes = {'numa_topology': cells, 'pci_device_pools': devices}
    judge(take({name: value for name, value in changes.items() if value is not None}))


@settings(max_examples=cases(100))
@given(trees | json_like)
def test_any_inventories(inventories):
    judge(take({}, inventories=inventories))


@given(json_like, json_like)
def test_any_instances_and_cell(instances, cell_uuid):
    judge(take({}, instances=instances, cell_uuid=cell_uuid))


@given(json_like, json_like)
def test_anything_in_the_place_of_a_node(node, name):
    with pytest.raises(errors.BadReport) as refused:
        reports.report(node, name)
    assert refused.value.field == 'stats'


@given(
    st.fixed_dictionaries(
        {'total': plain_numbers, 'reserved': plain_numbers, 'allocation_ratio': st.floats(0.1, 16)}
    )
)
def test_sound_inventories_are_taken(figures):
    found = take({}, inventories={NODE: {'inventories': {'CUSTOM_X': figures}}})
    judge(found)
    assert isinstance(found, Report) == (figures['reserved'] <= figures['total'])

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
"""The Report of a ComputeNode whose inventories and use are Placement's.

What a report over RPC makes of it is in ``unit/rpc/test_reports.py``.
"""

import json

import pytest

from nova_sched import errors
from nova_sched.state import compute_node
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node as compute_node_object
from nova_sched.tests.rows import table

NODE, CHILD = uuid_of('node host-0'), uuid_of('child')
SIZE = 10_000  # characters of a report


def made(inventories, allocated, **fields):
    tree = {NODE: {'inventories': inventories}}
    node = compute_node_object(**fields)
    return compute_node.report(node, SIZE, inventories=tree, allocated=allocated)


@table(
    'inventories, allocated, found, used',
    {
        'a provider without inventories': ({}, {}, {}, {}),
        'no other class than those of the provider': (
            {'PCPU': {'total': 4}},
            {'PCPU': 1},
            {'PCPU': Inventory(4)},
            {'PCPU': 1},
        ),
        'the reserve is in use': (
            {'MEMORY_MB': {'total': 4096, 'reserved': 512}},
            {'MEMORY_MB': 1024},
            {'MEMORY_MB': Inventory(4096, 512)},
            {'MEMORY_MB': 1536},
        ),
        'use of a class that has no inventory any more': (
            {'VCPU': {'total': 4}},
            {'VCPU': 2, 'DISK_GB': 7},
            {'VCPU': Inventory(4)},
            {'VCPU': 2, 'DISK_GB': 7},
        ),
    },
)
def test_the_nodes_own_figures_count_nothing(inventories, allocated, found, used):
    report = made(inventories, allocated, vcpus_used=3, cpu_allocation_ratio=-1.0)
    assert (report.inventories, report.used) == (found, used)


def test_use_that_cannot_be_is_refused():
    with pytest.raises(errors.BadReport) as refused:
        made({'VCPU': {'total': 1}}, {'VCPU': 2**43 + 1})
    assert refused.value.field == 'VCPU used'


def test_children_are_kept():
    tree = {
        NODE: {'inventories': {}},
        CHILD: {
            'parent_provider_uuid': NODE,
            'inventories': {'VGPU': {'total': 8}},
            'used': {'VGPU': 1},
        },
    }
    report = compute_node.report(compute_node_object(), SIZE, inventories=tree, allocated={})
    assert json.loads(report.providers) == tree


@table(
    'own, found',
    {
        'the default': (None, uuid_of('default')),
        'its own': (uuid_of('own'), uuid_of('own')),
    },
)
def test_the_cell(own, found):
    node = compute_node_object()
    report = compute_node.report(node, SIZE, cell_uuid=own, default_cell_uuid=uuid_of('default'))
    assert report.cell_uuid == found


@pytest.mark.parametrize(
    'inventories, traits, what',
    [
        (compute_node.MAX_CLASSES, 0, None),
        (compute_node.MAX_CLASSES + 1, 0, '201 resource classes; at most 200'),
        (0, compute_node.MAX_TRAITS, None),
        (0, compute_node.MAX_TRAITS + 1, '2001 traits; at most 2000'),
    ],
)
def test_no_node_has_any_number_of_classes_and_traits(inventories, traits, what):
    """Each class is a column, and each trait a bit, of all hosts. Half of them are of a child."""
    tree = {NODE: {}, CHILD: {'parent_provider_uuid': NODE}}
    for place, provider in enumerate(tree.values()):
        provider['inventories'] = {
            f'CUSTOM_{number}': {'total': 1} for number in range(place, inventories, 2)
        }
        provider['traits'] = [f'CUSTOM_{number}' for number in range(place, traits, 2)]

    def read():
        return compute_node.report(compute_node_object(), 10**6, inventories=tree)

    if what is None:
        read()
    else:
        with pytest.raises(errors.BadReport, match=f'inventories: they have {what}'):
            read()

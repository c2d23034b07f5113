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
"""ResourceCapacity: what is free, in every resource class."""

import contextlib
import json

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import claim, cluster, hosts, mask_of, put, report, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each


@each(
    'columns, resources, mask',
    [
        pytest.param({'vcpus': [4, 3]}, {'VCPU': 4}, '10', id='exact fit'),
        pytest.param(
            {'vcpus': 4, 'vcpus_used': [15, 16], 'vcpus_ratio': 4.0}, {'VCPU': 1}, '10', id='ratio'
        ),
        pytest.param(
            {'vcpus': [4, 5], 'vcpus_ratio': 16.0}, {'VCPU': 5}, '01', id='no more than there are'
        ),
        pytest.param(
            {
                'memory_mb': 1000,
                'memory_mb_reserved': [400, 401],
                'memory_mb_used': 600,
                'memory_mb_ratio': 2.0,
            },
            {'MEMORY_MB': 1000},
            '10',
            id='the reserve is taken off before the ratio',
        ),
        pytest.param(
            {'vcpus': 3, 'vcpus_ratio': [1.5, 1.4]}, {'VCPU': 3}, '11', id='capacity is whole'
        ),
        pytest.param(
            {'vcpus': 3, 'vcpus_used': [1, 2], 'vcpus_ratio': 1.5},
            {'VCPU': 3},
            '10',
            id='4.5 is 4',
        ),
        pytest.param(
            {'vcpus': 8, 'memory_mb': [512, 511]},
            {'VCPU': 8, 'MEMORY_MB': 512},
            '10',
            id='every class',
        ),
        pytest.param({'vcpus': [None, 1]}, {'VCPU': 1}, '01', id='a node that has none of it'),
        pytest.param({}, {'CUSTOM_GOLD': 1}, '00', id='a class that nobody has'),
        pytest.param(
            {'disk_gb': 10, 'disk_slack_gb': 9}, {'DISK_GB': 10}, '11', id='recorded usage counts'
        ),
        pytest.param(
            {'vcpus': 4, 'vcpus_used': [4, 99]},
            {'VCPU': 1},
            '00',
            id='surprises take nothing more',
        ),
        pytest.param({}, {'MEMORY_MB': 10**30}, '00', id='more than any number'),
        pytest.param({}, {}, '*', id='nothing asked'),
    ],
)
def test_capacity(columns, resources, mask):
    assert mask_of(ResourceCapacity, hosts(2, **columns), request(resources=resources)) == mask


@each(
    'facts, old, new, fits',
    [
        pytest.param({}, {'VCPU': 6}, {'VCPU': 8}, True, id='one of the sizes runs'),
        pytest.param({}, {'VCPU': 6}, {'VCPU': 9}, False, id='more than there are'),
        pytest.param({'vcpus_used': 2}, {'VCPU': 5}, {'VCPU': 6}, True, id='beside others'),
        pytest.param(
            {'vcpus_used': 2}, {'VCPU': 5}, {'VCPU': 7}, False, id='others are in the way'
        ),
        pytest.param(
            {'vcpus_used': 3}, {'VCPU': 6}, {'VCPU': 2}, False, id='not while too much is in use'
        ),
        pytest.param({}, {'DISK_GB': 10}, {'DISK_GB': 90}, True, id='both disks'),
        pytest.param({}, {'DISK_GB': 11}, {'DISK_GB': 90}, False, id='both disks are too much'),
        pytest.param(
            {'disk_gb_ratio': 4.0}, {'DISK_GB': 60}, {'DISK_GB': 41}, False, id='for any ratio'
        ),
        pytest.param({}, {'DISK_GB': 10}, {'VCPU': 8}, True, id='to a volume'),
        pytest.param(
            {'disk_gb_used': 95},
            {'DISK_GB': 10},
            {'VCPU': 8},
            False,
            id='not while disk is overdrawn',
        ),
        pytest.param({}, {'VCPU': 2}, {'DISK_GB': 100}, True, id='from a volume'),
    ],
)
def test_an_instance_that_is_there_needs_what_both_sizes_take(facts, old, new, fits):
    """The rule lets it stay exactly where it can be claimed for."""
    made = cluster(1, **{'vcpus': 8, 'disk_gb': 100, 'memory_mb': 4096, **facts})
    node, asked = made.hosts.nodes[0], request(instance_uuid=uuid_of('one'), resources=new)
    made.add(Claim(uuid_of('one'), node.uuid, old, CONFIRMED))
    assert (ResourceCapacity().mask(made.hosts, asked) & True).tolist() == [fits]
    with contextlib.nullcontext() if fits else pytest.raises(errors.ComputeResourcesUnavailable):
        made.consume(node, asked)


@each(
    'inventory, amount, fits',
    [
        pytest.param(Inventory(8, max_unit=4), 4, True, id='max_unit'),
        pytest.param(Inventory(8, max_unit=4), 5, False, id='above max_unit'),
        pytest.param(Inventory(8, max_unit=99), 9, False, id='max_unit above the total'),
        pytest.param(Inventory(8, min_unit=2), 1, False, id='below min_unit'),
        pytest.param(Inventory(8, step_size=3), 6, True, id='step'),
        pytest.param(Inventory(8, step_size=3), 4, False, id='between steps'),
    ],
)
def test_units(inventory, amount, fits):
    made = cluster(1)
    put(made, report('other', inventories={'CUSTOM_GOLD': inventory}, used={}))
    mask = ResourceCapacity().mask(made.hosts, request(resources={'CUSTOM_GOLD': amount}))
    assert mask.tolist() == [False, fits]


def test_claims_take_capacity_until_they_are_dropped():
    made = cluster(1, vcpus=4)
    taken = claim(uuid_of('a'), made.hosts.nodes[0].uuid, vcpus=3)
    made.add(taken)
    assert mask_of(ResourceCapacity, made.hosts, request(vcpus=2)) == '0'
    made.drop(taken)
    assert mask_of(ResourceCapacity, made.hosts, request(vcpus=4)) == '1'


def test_a_node_that_left_is_never_asked_for_again():
    made = cluster(3, vcpus=[1, 8, 2])
    made.remove(made.hosts.nodes[1].uuid)
    assert mask_of(ResourceCapacity, made.hosts, request(vcpus=2)) == '01'
    put(made, report('new', vcpus=None))
    assert mask_of(ResourceCapacity, made.hosts, request(vcpus=2)) == '010'


DEDICATED = {'vcpus': 4, 'memory_mb': 0, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}
NODES = [
    {'PCPU': Inventory(4)},
    {'VCPU': Inventory(4)},
    {'PCPU': Inventory(2), 'VCPU': Inventory(8)},
]


@each(
    'words, strict, mask',
    [
        pytest.param(DEDICATED, False, '110', id='shared CPUs do where there are no others'),
        pytest.param(DEDICATED, True, '100', id='unless that is forbidden'),
        pytest.param(
            {'vcpus': 5, 'memory_mb': 0, 'extra_specs': DEDICATED['extra_specs']},
            False,
            '000',
            id='if there are enough',
        ),
        pytest.param(
            {'memory_mb': 0, 'extra_specs': {'resources:PCPU': '2'}},
            False,
            '101',
            id='not where they are named',
        ),
    ],
)
def test_dedicated_cpus(words, strict, mask):
    with settings({'workarounds.disable_fallback_pcpu_query': strict}):
        seen = hosts(3, inventories=NODES, used={})
        assert mask_of(ResourceCapacity, seen, request(**words)) == mask


def test_why_shared_cpus_do_not_do():
    words = {'vcpus': 5, 'memory_mb': 0, 'extra_specs': DEDICATED['extra_specs']}
    seen = hosts(3, inventories=NODES, used={})
    why = ResourceCapacity().why(seen, request(**words), np.array([1]))
    assert why == '5 vCPUs asked, the host has 4 in all'
    why = ResourceCapacity().why(seen, request(**words), np.array([0]))
    assert why == '5 dedicated CPUs asked, the host has 4 in all'


def test_what_only_devices_have_is_left_to_them():
    root = uuid_of('node host-0')
    device = {'inventories': {'CUSTOM_GPU': {'total': 1}}, 'parent_provider_uuid': root}
    trees = [json.dumps({root: {}, 'gpu': device}), None, None]
    seen = hosts(3, providers=trees, inventories=[{}, {}, {'CUSTOM_GPU': Inventory(1)}], used={})
    assert mask_of(ResourceCapacity, seen, request(resources={'CUSTOM_GPU': 2})) == '100'
    assert mask_of(ResourceCapacity, seen, request(resources={'CUSTOM_GPU': 1})) == '101'

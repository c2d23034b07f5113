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
"""Tests of the double check of a claim."""

import pytest

from nova_sched import errors
from nova_sched.claim import Resizing
from nova_sched.extensions.agent.instances import LocalInstance
from nova_sched.extensions.agent.service import ClaimableNode
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.agent.builders import NODE
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, shared, wanted
from nova_sched.tests.unit.hardware.builders import request as device

TEN = {
    'total': 10,
    'reserved': 0,
    'min_unit': 1,
    'max_unit': 10,
    'step_size': 1,
    'allocation_ratio': 1.0,
}
PINNED = {'hw:cpu_policy': 'dedicated'}


def node(holding=(), **inventories):
    """A node with ten of each class, but for what the words of a class change; ``holding`` are
    resources."""
    classes = {'VCPU': {}, 'MEMORY_MB': {'total': 10240, 'max_unit': 10240}, **inventories}
    held = [
        LocalInstance(uuid=uuid_of(str(number)), resources=resources)
        for number, resources in enumerate(holding)
    ]
    return ClaimableNode(NODE, {name: TEN | words for name, words in classes.items()}, held)


@table(
    'made, words, short',
    {
        'all of it': (node(), {'vcpus': 10}, None),
        'more than there is': (node(), {'vcpus': 11}, 'VCPU: 11 asked, the node has 10 in all'),
        'whatever the ratio': (
            node(VCPU={'allocation_ratio': 4.0}),
            {'vcpus': 11},
            'has 10 in all',
        ),
        'beside what is reserved': (node(VCPU={'reserved': 3}), {'vcpus': 7}, None),
        'of what is reserved': (node(VCPU={'reserved': 3}), {'vcpus': 8}, '8 asked, 7 available'),
        'the ratio is of what is not reserved': (
            node([{'VCPU': 30}], VCPU={'reserved': 2, 'allocation_ratio': 4.0}),
            {'vcpus': 3},
            '3 asked, 2 available',
        ),
        'beside instances': (
            node([{'VCPU': 4}, {'VCPU': 4}]),
            {'vcpus': 3},
            '3 asked, 2 available',
        ),
        'an overfull node': (node([{'VCPU': 12}]), {'vcpus': 1}, '1 asked, 0 available'),
        'dedicated': (node(PCPU={'total': 2}), {'vcpus': 2, 'extra_specs': PINNED}, None),
        'dedicated, but taken': (
            node([{'PCPU': 1}], PCPU={'total': 2}),
            {'vcpus': 2, 'extra_specs': PINNED},
            'PCPU: 2 asked, 1 available',
        ),
        'no dedicated CPU at all, nor a shared one': (
            node(VCPU={'total': 0}),
            {'extra_specs': PINNED},
            'VCPU: 1 asked, the node has 0',
        ),
        'custom class': (
            node([{'CUSTOM_GOLD': 9}], CUSTOM_GOLD={}),
            {'extra_specs': {'resources:CUSTOM_GOLD': '1'}},
            None,
        ),
        'custom class, used up': (
            node([{'CUSTOM_GOLD': 10}], CUSTOM_GOLD={}),
            {'extra_specs': {'resources:CUSTOM_GOLD': '1'}},
            'CUSTOM_GOLD: 1 asked, 0 available',
        ),
        'every shortage is told': (
            node(),
            {'vcpus': 11, 'memory_mb': 10241},
            'MEMORY_MB: 10241 asked',
        ),
    },
)
def test_the_double_check(made, words, short):
    if short is None:
        claim = made.instance_claim(request(**words))
        assert (claim.node_uuid, claim.resources) == (NODE, request(**words).resources)
    else:
        with pytest.raises(errors.ComputeResourcesUnavailable, match=short) as error:
            made.instance_claim(request(**words))
        assert error.value.node == NODE


def test_a_claim_is_consumed_and_released():
    made = node()
    claim = made.instance_claim(request(vcpus=6))
    with pytest.raises(errors.ComputeResourcesUnavailable, match='6 asked, 4 available'):
        made.instance_claim(request(vcpus=6))
    made.release(claim)
    assert made.instance_claim(request(vcpus=6)).resources['VCPU'] == 6


# Groups of resources: the node itself is the only provider there is.

GOLD = {'VCPU': {}, 'MEMORY_MB': {}, 'CUSTOM_GOLD': {'total': 3}}


def group(amount=2, suffix='1', required=()):
    return ResourceGroup(suffix, (('CUSTOM_GOLD', amount),), frozenset(required))


@table(
    'held, words, taken',
    {
        'one': ([], {'groups': (group(),)}, 2),
        'both from it': ([], {'groups': (group(2), group(1, '2')), 'group_policy': 'none'}, 3),
        'too much': ([], {'groups': (group(2), group(2, '2')), 'group_policy': 'none'}, None),
        'taken': ([{'CUSTOM_GOLD': 2}], {'groups': (group(),)}, None),
        'a trait': ([], {'groups': (group(required=['CUSTOM_X']),)}, 2),
        'a trait that it has not': ([], {'groups': (group(required=['CUSTOM_Y']),)}, None),
    },
)
def test_groups(held, words, taken):
    instances = [LocalInstance(uuid=uuid_of('held'), resources=one) for one in held]
    made = ClaimableNode(
        NODE, {name: TEN | some for name, some in GOLD.items()}, instances, traits=['CUSTOM_X']
    )
    asked = request(vcpus=1, memory_mb=1, **words)
    if taken is None:
        with pytest.raises(errors.ComputeResourcesUnavailable, match='child providers'):
            made.instance_claim(asked)
    else:
        claim = made.instance_claim(asked)
        assert claim.resources == {'VCPU': 1, 'MEMORY_MB': 1, 'CUSTOM_GOLD': taken}
        assert {one.provider_uuid for one in claim.parts.providers} == {NODE}


# CPUs, pages and devices.

HAS = machine(cell(0, [0, 1], range(2, 8), pages=[(4, 100_000), (2048, 4)]), pools=[pool(1)])
LARGE = {'memory_mb': 8, 'pagesize_kb': 2048}


def asks(pieces, **words):
    return request(pieces=pieces, **words)


@table(
    'has, pieces, short',
    {
        'all of it': (HAS, wanted(dedicated(6, **LARGE), requests=[device(1)]), None),
        'CPUs': (HAS, wanted(dedicated(7)), 'needs 7 dedicated CPUs, the best host cell has 6'),
        'pages': (
            HAS,
            wanted(shared(1, memory_mb=10, pagesize_kb=2048)),
            'needs 10 MiB in free pages of 2048 KiB, the best host cell has 8',
        ),
        'devices': (HAS, wanted(requests=[device(2)]), 'nic: 2 devices asked, 1 free'),
        'no cells': (machine(pools=[pool()]), wanted(shared()), 'reports no NUMA cells'),
        'nothing': (None, wanted(shared()), 'reports neither NUMA cells nor PCI devices'),
    },
)
def test_the_double_check_of_pieces(has, pieces, short):
    made = ClaimableNode(NODE, dict.fromkeys(('VCPU', 'MEMORY_MB'), TEN), [], has)
    if short is None:
        assert made.instance_claim(asks(pieces, memory_mb=1)).parts == has.fit(pieces)
    else:
        with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
            made.instance_claim(asks(pieces, memory_mb=1))
        assert made.machine == has


def test_what_a_resize_will_have_is_held_although_no_report_says_so():
    parts = HAS.fit(wanted(dedicated(4), requests=[device(1)]))
    growing = LocalInstance(
        uuid=uuid_of('growing'), resources={}, resizing=Resizing({}, {}, parts)
    )
    assert ClaimableNode(NODE, {}, [growing], HAS).machine == HAS.hold(parts)

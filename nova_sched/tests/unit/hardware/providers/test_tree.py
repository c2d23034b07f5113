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
"""Trees of providers, as nodes report them; what is taken from devices, and given back."""

import json

import pytest

from nova_sched import errors
from nova_sched.hardware import Overdrawn, providers
from nova_sched.hardware.providers import Allotted, Stock
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.hardware.providers.builders import (
    MILLI,
    ROOT,
    asked,
    device,
    group,
    tree,
)

REPORTED = {
    'gpu-b': {
        'name': 'b',
        'parent_provider_uuid': 'numa0',
        'inventories': {
            MILLI: {'total': 1000, 'max_unit': 500, 'step_size': 250, 'allocation_ratio': 1}
        },
        'traits': ['CUSTOM_A100'],
        'used': {MILLI: 250},
    },
    ROOT: {'inventories': {'VCPU': {'total': 4}}, 'traits': ['HW_X'], 'used': {'VCPU': 1}},
    'numa0': {'name': 'c', 'parent_provider_uuid': ROOT},
    'gpu-a': {'name': 'a', 'inventories': {'VGPU': {'total': 8, 'reserved': 1, 'min_unit': 2}}},
}


def test_what_a_node_reports():
    found = providers.ProviderTree.from_json(json.dumps(REPORTED), ROOT)
    assert found.providers == (
        providers.Provider(ROOT, {}, frozenset(['HW_X'])),
        providers.Provider('gpu-a', {'VGPU': Stock(8, reserved=1, min_unit=2)}, name='a'),
        providers.Provider(
            'gpu-b',
            {MILLI: Stock(1000, max_unit=500, step_size=250, used=250)},
            frozenset(['CUSTOM_A100']),
            'numa0',
            'b',
        ),
        providers.Provider('numa0', parent=ROOT, name='c'),
    )
    assert [one.uuid for one in found.children] == ['gpu-a', 'gpu-b', 'numa0']
    assert found.classes == {'VGPU', MILLI}
    assert found.above['gpu-b'] == {'gpu-b', 'numa0', ROOT}


def without(**changes):
    """The report with one provider changed."""
    return {**REPORTED, 'gpu-b': {**REPORTED['gpu-b'], **changes}}


@table(
    'reported, why',
    {
        'no mapping': ([], 'AttributeError'),
        'use of nothing': (
            without(used={'VGPU': 1}),
            'VGPU is in use, but not in the inventories',
        ),
        'use in words': (without(used={MILLI: 'x'}), 'ValueError'),
        'negative use': (without(used={MILLI: -1}), 'not within 0'),
        'use without a class': (without(used=[1]), 'AttributeError'),
        'no total': (without(used={}, inventories={MILLI: {'reserved': 1}}), "KeyError 'total'"),
        'reserved above total': (
            without(used={}, inventories={MILLI: {'total': 1, 'reserved': 2}}),
            'cannot be true',
        ),
        'no ratio': (
            without(used={}, inventories={MILLI: {'total': 1, 'allocation_ratio': 0}}),
            'cannot be true',
        ),
        'steps of nothing': (
            without(used={}, inventories={MILLI: {'total': 1, 'step_size': 0}}),
            'must be 1 or more',
        ),
        'traits that are none': (without(traits=5), 'TypeError'),
    },
)
def test_what_no_node_can_report(reported, why):
    with pytest.raises(errors.MalformedObject, match=why):
        providers.ProviderTree.from_json(json.dumps(reported), ROOT)


def test_a_text_that_is_none():
    with pytest.raises(errors.MalformedObject):
        providers.ProviderTree.from_json('{', ROOT)


@table(
    'stock, free, best',
    {
        'all': (Stock(10), 10, 10),
        'reserve, then ratio, then use': (Stock(10, reserved=2, ratio=1.5, used=3), 9, 9),
        'one consumer gets no more than there is': (Stock(10, ratio=4.0), 40, 10),
        'nor more than max_unit': (Stock(10, max_unit=4), 10, 4),
        'too much in use': (Stock(10, used=12), -2, 0),
        'whole units': (Stock(3, ratio=1.5), 4, 3),
    },
)
def test_what_is_left_of_a_stock(stock, free, best):
    assert (stock.free, stock.best) == (free, best)


@table(
    'stock, amount, gives',
    {
        'all': (Stock(8), 8, True),
        'more than is free': (Stock(8, used=1), 8, False),
        'too little': (Stock(8, min_unit=2), 1, False),
        'a step': (Stock(8, step_size=4), 4, True),
        'between steps': (Stock(8, step_size=4), 6, False),
    },
)
def test_what_a_stock_gives(stock, amount, gives):
    assert stock.gives(amount) is gives


def test_shapes_of_nodes_that_are_alike():
    def node(root, *uuids):
        children = (device(uuid, 1000, used, parent=root) for uuid, used in uuids)
        return providers.ProviderTree(root, (providers.Provider(root), *children))

    one, other = node('n1', ('a', 0), ('b', 500)), node('n2', ('c', 0), ('d', 500))
    assert one != other
    assert one.shape == other.shape
    assert hash(one.shape) == hash(other.shape)
    assert node('n3', ('e', 500), ('f', 500)).shape != one.shape


def test_parents_that_go_round_in_a_circle():
    found = tree(device('a', parent='b'), device('b', parent='a'))
    assert found.above['a'] == {'a', 'b'}


def test_the_node_itself_among_the_providers():
    found = tree(device('a'), root_traits=['X']).with_root({'VCPU': Stock(4)}, frozenset(['Y']))
    assert found.stock(ROOT, 'VCPU') == Stock(4)
    assert found.by_uuid[ROOT].traits == {'X', 'Y'}
    assert [one.uuid for one in found.children] == ['a']
    assert providers.ProviderTree('n').with_root({'VCPU': Stock(4)}).providers == (
        providers.Provider('n', {'VCPU': Stock(4)}),
    )


NODE = tree(device('a', used=600), device('b', used=700, traits=['NEW']), VCPU=2)


@table(
    'wanted, may_take',
    {
        'as much as the best has': (asked(group('1', 400)), True),
        'more': (asked(group('1', 401)), False),
        'as much as all have': (asked(group('1', 300), group('2', 400)), True),
        'more than all have': (asked(group('1', 400), group('2', 301)), False),
        'a trait': (asked(group('1', 1, required=['NEW'])), True),
        'a trait that none has': (asked(group('1', 1, required=['RED'])), False),
        'a class that none has': (asked(group('1', VF=1)), False),
        'of the node itself': (asked(group('1', VCPU=2)), True),
        'more, in no group': (asked(CUSTOM_GPU_MILLI=401), False),
        'a trait besides': (asked(CUSTOM_GPU_MILLI=1, required=['RED']), False),
    },
)
def test_may_take(wanted, may_take):
    assert NODE.summary.may_take(wanted) is may_take


USED_NODE = tree(device('a', used=200), device('b'))


def gpu(units, uuid='a', suffix='1'):
    return Allotted(suffix, uuid, {MILLI: units})


def used(found):
    return {one.uuid: one.stocks[MILLI].used for one in found.children}


def test_take():
    assert used(providers.take(USED_NODE, [gpu(300), gpu(500, suffix='2'), gpu(7, 'b')])) == {
        'a': 1000,
        'b': 7,
    }
    assert used(USED_NODE) == {'a': 200, 'b': 0}


@table(
    'taken, why',
    {
        'too much': ([gpu(801)], f'{MILLI} of provider a: 801 asked, 800 free'),
        'too much together': ([gpu(400), gpu(401)], '801 asked'),
        'a provider that is gone': ([gpu(1, 'z')], 'provider z: 1 asked, 0 free'),
        'a class that it has not': ([Allotted('', 'b', {'VF': 1})], 'VF of provider b'),
    },
)
def test_what_cannot_be_taken(taken, why):
    with pytest.raises(Overdrawn, match=why):
        providers.take(USED_NODE, taken)


def test_hold_takes_what_is_not_there():
    held = providers.hold(USED_NODE, [gpu(900), gpu(1, 'z'), Allotted('', 'b', {'VF': 1})])
    assert used(held) == {'a': 1100, 'b': 0}
    assert held.stock('a', MILLI).best == 0


def test_give_back():
    assert used(providers.give_back(USED_NODE, [gpu(150), gpu(50), gpu(1, 'z')])) == {
        'a': 0,
        'b': 0,
    }
    with pytest.raises(Overdrawn, match='201 given back, 200 in use'):
        providers.give_back(USED_NODE, [gpu(201)])


@table(
    'known, left',
    {
        'nobody known': ([], 200),
        'some known': ([gpu(150)], 50),
        'more than is in use': ([gpu(150), gpu(150)], 0),
    },
)
def test_less_known(known, left):
    assert used(providers.less_known(USED_NODE, known)) == {'a': left, 'b': 0}


def test_what_the_node_gives_is_consumed_elsewhere():
    own = [Allotted('1', ROOT, {'VCPU': 2}), Allotted('2', ROOT, {'VCPU': 1}), gpu(1)]
    assert providers.on_root(USED_NODE, own) == {'VCPU': 3}
    assert used(providers.take(USED_NODE, own)) == {'a': 201, 'b': 0}


def test_as_plain_values():
    one = Allotted('1', 'a', {MILLI: 500, 'VF': 1})
    assert one.to_plain() == ['1', 'a', {MILLI: 500, 'VF': 1}]
    assert Allotted.from_plain(one.to_plain()) == one


@each('plain', [None, [], ['1', 'a'], ['1', 'a', {MILLI: 'x'}], ['1', 'a', [1]]])
def test_plain_values_that_are_none(plain):
    with pytest.raises(errors.MalformedObject):
        Allotted.from_plain(plain)

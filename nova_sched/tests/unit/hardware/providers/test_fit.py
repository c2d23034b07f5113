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
"""Which device a group gets, and why a request does not fit, in words."""

import importlib
import itertools

import pytest

from nova_sched.hardware import Steps, Undecided, providers
from nova_sched.hardware.providers.fit import MAX_TRIES
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.hardware.providers.builders import (
    MILLI,
    ROOT,
    asked,
    device,
    group,
    tree,
    where,
)

HALF, WHOLE = 500, 1000
search_module = importlib.import_module('nova_sched.hardware.providers.fit')  # not the function


@table(
    'node, wanted, found',
    {
        'half a GPU': (tree(device('a')), asked(group('1', HALF)), {'1': 'a'}),
        'the started one is filled up first': (
            tree(device('a'), device('b', used=HALF)),
            asked(group('1', HALF)),
            {'1': 'b'},
        ),
        'if there is enough left of it': (
            tree(device('a', used=600), device('b', used=HALF)),
            asked(group('1', HALF)),
            {'1': 'b'},
        ),
        'never of two': (
            tree(device('a', used=600), device('b', used=600)),
            asked(group('1', HALF)),
            None,
        ),
        'two whole ones': (
            tree(device('a'), device('b')),
            asked(group('1', WHOLE), group('2', WHOLE)),
            {'1': 'a', '2': 'b'},
        ),
        'two of one, where that is large enough': (
            tree(device('a', 2000)),
            asked(group('1', WHOLE), group('2', WHOLE)),
            {'1': 'a', '2': 'a'},
        ),
        'but not when they are to be apart': (
            tree(device('a', 2000)),
            asked(group('1', WHOLE), group('2', WHOLE), isolate=True),
            None,
        ),
        'nor above max_unit together': (
            tree(device('a', 2000, max_unit=1500)),
            asked(group('1', WHOLE), group('2', WHOLE)),
            None,
        ),
        'two halves apart': (
            tree(device('a'), device('b', used=HALF)),
            asked(group('1', HALF), group('2', HALF), isolate=True),
            {'1': 'b', '2': 'a'},
        ),
        'the half leaves a whole one': (
            tree(device('a'), device('b', used=HALF)),
            asked(group('1', HALF), group('2', WHOLE)),
            {'1': 'b', '2': 'a'},
        ),
        'a required trait': (
            tree(device('a', traits=['OLD']), device('b', traits=['NEW'])),
            asked(group('1', HALF, required=['NEW'])),
            {'1': 'b'},
        ),
        'a forbidden trait': (
            tree(device('a', traits=['OLD']), device('b', traits=['NEW'])),
            asked(group('1', HALF, forbidden=['OLD'])),
            {'1': 'b'},
        ),
        "the node's traits are not the device's": (
            tree(device('a'), root_traits=['NEW']),
            asked(group('1', HALF, required=['NEW'])),
            None,
        ),
        'the choosy one first': (
            tree(device('a', traits=['NEW']), device('b')),
            asked(group('1', WHOLE), group('2', WHOLE, required=['NEW'])),
            {'1': 'b', '2': 'a'},
        ),
        'not in such parts': (tree(device('a', step_size=250)), asked(group('1', 300)), None),
        'in this tree': (tree(device('a')), asked(group('1', HALF, in_tree='a')), {'1': 'a'}),
        'in another tree': (tree(device('a')), asked(group('1', HALF, in_tree='z')), None),
        'of the node itself': (tree(device('a'), VCPU=4), asked(group('1', VCPU=2)), {'1': ROOT}),
        'nothing': (tree(device('a')), asked(), ()),
        'no providers at all': (providers.ProviderTree(ROOT), asked(group('1', HALF)), None),
    },
)
def test_fit(node, wanted, found):
    assert where(providers.fit(node, wanted)) == found


@table(
    'node, wanted, found',
    {
        'one': (
            tree(device('a', used=HALF), device('b')),
            asked(CUSTOM_GPU_MILLI=WHOLE),
            {'b': {MILLI: WHOLE}},
        ),
        'each class from another': (
            tree(device('a'), device('b', resource_class='VF')),
            asked(CUSTOM_GPU_MILLI=1, VF=2),
            {'a': {MILLI: 1}, 'b': {'VF': 2}},
        ),
        'both from one': (
            tree(providers.Provider('a', {MILLI: providers.Stock(9), 'VF': providers.Stock(9)})),
            asked(CUSTOM_GPU_MILLI=1, VF=2),
            {'a': {MILLI: 1, 'VF': 2}},
        ),
        'a trait that the node has not': (
            tree(device('a', used=HALF), device('b', traits=['NEW'])),
            asked(CUSTOM_GPU_MILLI=HALF, required=['NEW']),
            {'b': {MILLI: HALF}},
        ),
        'traits of all of them': (
            tree(device('a', traits=['X']), device('b', traits=['Y'], resource_class='VF')),
            asked(CUSTOM_GPU_MILLI=1, VF=1, required=['X', 'Y']),
            {'a': {MILLI: 1}, 'b': {'VF': 1}},
        ),
        'not of one that gives nothing': (
            tree(device('a'), device('b', traits=['NEW'], resource_class='VF')),
            asked(CUSTOM_GPU_MILLI=1, required=['NEW']),
            None,
        ),
        'forbidden': (
            tree(device('a', traits=['OLD'])),
            asked(CUSTOM_GPU_MILLI=1, forbidden=['OLD']),
            None,
        ),
        'beside a group that needs it': (
            tree(device('a')),
            asked(group('1', WHOLE), CUSTOM_GPU_MILLI=HALF),
            None,
        ),
    },
)
def test_what_is_in_no_group(node, wanted, found):
    allotted = providers.fit(node, wanted)
    assert (allotted and {one.provider_uuid: one.resources for one in allotted}) == found


NUMA = tree(
    providers.Provider('numa0', {}, frozenset(['NUMA']), ROOT),
    providers.Provider('numa1', {}, frozenset(['NUMA']), ROOT),
    device('gpu0', parent='numa0'),
    device('gpu1', parent='numa1'),
    device('nic', 1000, resource_class='VF', parent='numa1'),
)


@table(
    'wanted, found',
    {
        'under one cell': (
            asked(
                group('n', required=['NUMA']),
                group('g', 1),
                group('v', VF=1),
                subtrees=[['n', 'g', 'v']],
            ),
            {'n': 'numa1', 'g': 'gpu1', 'v': 'nic'},
        ),
        'anywhere': (
            asked(group('n', required=['NUMA']), group('g', 1), group('v', VF=1)),
            {'n': 'numa0', 'g': 'gpu0', 'v': 'nic'},
        ),
        'neither is above the other': (
            asked(group('g', 1), group('v', VF=1), subtrees=[['g', 'v']]),
            None,
        ),
        'of one': (
            asked(group('a', 1), group('b', 1), subtrees=[['a', 'b']]),
            {'a': 'gpu0', 'b': 'gpu0'},
        ),
    },
)
def test_subtrees(wanted, found):
    assert where(providers.fit(NUMA, wanted)) == found


@table(
    'preferred, found',
    {
        'one of those that fit': ('a', 'a'),
        'one that is full': ('c', 'b'),
        'one that is not there': ('z', 'b'),
        'none': (None, 'b'),
    },
)
def test_a_preferred_provider(preferred, found):
    """By itself, the fullest one is taken."""
    node = tree(device('a'), device('b', used=100), device('c', used=1000))
    (taken,) = providers.fit(node, asked(group('1', HALF)), preferred)
    assert taken.provider_uuid == found


def test_a_search_ends():
    """Bin packing that cannot be done, with devices that all differ."""
    node = tree(*(device(f'd{number}', 1000 + 7 * number, 3 * number) for number in range(16)))
    wanted = asked(*(group(str(number), 612 + 11 * number) for number in range(17)))
    assert providers.fit(node, wanted) is None


def test_alike_devices_cost_no_tries():
    node = tree(*(device(f'd{number:02}') for number in range(40)))
    wanted = asked(*(group(str(number), 600) for number in range(41)))
    assert MAX_TRIES > 40 * 41
    assert providers.fit(node, wanted) is None
    assert providers.fit(node, asked(*wanted.groups[:40])) is not None


def many(count, *, of=100, apart=False, **words):
    """So many groups of different sizes."""
    groups = (group(str(number), of + number, **words) for number in range(count))
    return asked(*groups, isolate=apart)


DIFFERENT = [device(f'd{number}', 1000, 10 * number) for number in range(8)]
NARROW = [device(f'n{number}', 100 + number) for number in range(12)]
# (providers, request, whether it fits): each is decided by counting, in this many steps.
COUNTED = {
    'more isolated groups than devices': (DIFFERENT, many(10, apart=True), False),
    'as many': (DIFFERENT, many(8, apart=True), True),
    'the small devices are for one group each': (NARROW, many(12, apart=True), True),
    'all groups want the same few devices': (
        [*DIFFERENT[:5], device('x', traits=['X']), device('y', traits=['X'])],
        many(3, apart=True, required=['X']),
        False,
    ),
    'one of them wants a device of few, after many that do not mind': (
        [device('x', traits=['X']), *DIFFERENT],
        asked(
            *(group(str(number), 100 + number) for number in range(8)),
            group('x', 900, required=['X']),
            isolate=True,
        ),
        True,
    ),
    'more units than all have': (DIFFERENT, many(17, of=490), False),
    'no two on one device': (DIFFERENT, many(9, of=501), False),
    'sixty groups': (
        [device(f'd{number:03}', 1000, number) for number in range(60)],
        many(61, apart=True),
        False,
    ),
    'two thousand groups, all on one device': ([device('d', 10**7)], many(2000, of=1), True),
}


@each('what', COUNTED)
def test_counting_ends_a_search(what, monkeypatch):
    devices, wanted, is_fit = COUNTED[what]
    monkeypatch.setattr(search_module, 'MAX_TRIES', len(wanted.groups))  # none goes back
    assert (search_module.search(tree(*devices), wanted) is not None) is is_fit


def packing(devices):
    """Groups that no counting refutes, as the last of their units are in the wrong places."""
    node = tree(*(device(f'd{number}', 3000 + 17 * number) for number in range(devices)))
    sizes = [size for number in range(devices) for size in (1400, 905 + 3 * number, 690 + number)]
    return node, asked(*(group(str(place), size) for place, size in enumerate(sizes)))


def test_a_search_that_is_too_long_is_undecided_and_says_so():
    node, wanted = packing(9)
    with pytest.raises(Undecided):
        search_module.search(node, wanted)
    assert providers.fit(node, wanted) is None
    assert not providers.fits(node, wanted)
    assert 'too many choices' in providers.why_not(node, wanted)
    assert 'too many choices' in providers.nearest_miss([(node, wanted)])


@each('count', [1, 2, 64, 200])
def test_a_claim_finds_equal_groups_apart_wherever_they_fit(count):
    node = tree(*(device(f'd{number:03}', 1000, number) for number in range(count)))
    wanted = many(count, apart=True)
    alike = asked(*(group(str(number), 100) for number in range(count)), isolate=True)
    for one in (wanted, alike):
        assert providers.fits(node, one) is (providers.fit(node, one) is not None)
    assert len({one.provider_uuid for one in providers.fit(node, alike)}) == count
    assert providers.fit(tree(*node.children[1:]), alike) is None


def test_many_nodes_share_their_steps(monkeypatch):
    """What is found without going back is found on each node; the rest is refused early."""
    hard, wanted = packing(9)
    shared = Steps(20_000)
    before = [shared.left]
    for place in range(6):
        if place < 2:
            assert not providers.fits(hard, wanted, shared)
        else:  # with more steps it may fit
            with pytest.raises(Undecided):
                providers.fits(hard, wanted, shared)
        before.append(shared.left)
    spent = [one - other for one, other in itertools.pairwise(before)]
    assert spent[0] > 9 * spent[-1] > 0
    roomy = tree(*(device(f'd{number}', 9000 + number) for number in range(9)))
    assert providers.fits(roomy, wanted, shared)


TWO = tree(device('a', used=600), device('b', used=700, traits=['NEW']))


@table(
    'node, wanted, why',
    {
        'it fits': (TWO, asked(group('1', 400)), ''),
        'too little': (
            TWO,
            asked(group('1', 500)),
            f'{MILLI}: 500 asked of one provider, the best has 400 free for group 1',
        ),
        'too little of the right one': (
            TWO,
            asked(group('1', 400, required=['NEW'])),
            f'{MILLI}: 400 asked of one provider, the best has 300 free for group 1',
        ),
        'no such trait': (
            TWO,
            asked(group('1', 400, required=['RED'], forbidden=['NEW'])),
            f'no provider of {MILLI} has trait RED and no trait NEW for group 1',
        ),
        'no such class': (TWO, asked(group('1', VF=1)), 'no provider has VF'),
        'the worst of several': (
            TWO,
            asked(group('1', 100), group('2', 500), VF=1),
            'no provider has VF',
        ),
        'not both': (
            TWO,
            asked(group('1', 400), group('2', 400)),
            'each group can be met, but not all 2 at once',
        ),
        'not apart': (
            tree(device('a')),
            asked(group('1', 1), group('2', 1), isolate=True),
            'each group can be met, but not all 2 at once from a provider each',
        ),
        'not near': (
            NUMA,
            asked(group('g', 1), group('v', VF=1), subtrees=[['g', 'v']]),
            'each group can be met, but not all 2 at once near to each other',
        ),
        'not in such parts': (
            tree(device('a', step_size=250)),
            asked(CUSTOM_GPU_MILLI=300),
            f'{MILLI} does not come in parts of 300',
        ),
        'a trait besides': (
            TWO,
            asked(CUSTOM_GPU_MILLI=1, required=['RED']),
            'no provider has RED as well',
        ),
        'elsewhere': (
            TWO,
            asked(group('1', 1, in_tree='z')),
            'the provider that group 1 names is elsewhere',
        ),
        'no devices': (
            providers.ProviderTree(ROOT),
            asked(CUSTOM_GPU_MILLI=1),
            f'no provider has {MILLI}',
        ),
    },
)
def test_why_not(node, wanted, why):
    assert providers.why_not(node, wanted) == why


def test_the_nearest_of_several_nodes():
    wanted = asked(group('1', 1000))
    nodes = [
        tree(),
        tree(device('a', used=900)),
        tree(device('a', used=300)),
        tree(device('a', used=500)),
    ]
    assert providers.nearest_miss((node, wanted) for node in nodes).endswith(
        'the best has 700 free for group 1'
    )
    assert providers.nearest_miss((node, wanted) for node in [*nodes, tree(device('a'))]) == ''
    assert providers.nearest_miss([]) == ''

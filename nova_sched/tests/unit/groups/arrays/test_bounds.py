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
"""Counting proves that there is no placement, says why, and never says so of what has one."""

import numpy as np
import pytest

from nova_sched.groups.arrays import bounds
from nova_sched.groups.arrays.bounds import whole_blocks
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.tally import PlacementTally, Wiring
from nova_sched.groups.quick import greedy
from nova_sched.tests.groups import policy, problem, random_problem
from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups.oracle import best, placements
from nova_sched.tests.unit.groups.random_problems import cells, shards

FOUR = dict.fromkeys('abcd', 1)
ALL = '4 x kind 0 (a and 3 more)'


@pytest.mark.parametrize(
    'members, free, rules, expected',
    [
        pytest.param(FOUR, [3, 3], [], None, id='it fits'),
        pytest.param(
            {'a': 5},
            [3, 3],
            [],
            ('hosts', 'the cluster', 0, 1, '1 x kind 0 (a): the cluster has a place for 0 of 1'),
            id='too large for any host',
        ),
        pytest.param(
            {'a': 2, 'b': 2, 'c': 3},
            [3, 3],
            [],
            ('resource 0', 'the cluster', 6, 7,
             '3 members: the cluster has, of resource 0, 6 of 7'),
            id='too little in all',
        ),
        pytest.param(
            {'a': 2, 'b': 2, 'c': 3},
            [4, 3],
            [],
            None,
            id='just enough',
        ),
        pytest.param(
            {'a': 2, 'b': 2, 'c': 2, 'd': 3},
            [3, 3, 3],
            [],
            ('places for kind 0', 'the cluster', 3, 4, None),
            id='enough in all, but in pieces too small',
        ),
        pytest.param(
            FOUR,
            [9, 9],
            [policy('anti-affinity', 'host', 'a b c')],
            ('hosts', 'the cluster', 2, 3, None),
            id='fewer hosts than members',
        ),
        pytest.param(
            {**FOUR, 'e': 2},
            [9, 9, 9, 9],
            [policy('anti-affinity', 'rack', 'a b e')],
            ('anti-affinity rack', 'the cluster', 2, 3, None),
            id='fewer racks than members',
        ),
        pytest.param(
            FOUR,
            [9, 9, 9, 0],
            [policy('spread', 'host', 'a b c d', min_domains=4)],
            ('spread host', 'the cluster', 3, 4, None),
            id='fewer hosts than a spread wants',
        ),
        pytest.param(
            FOUR,
            [1, 2, 2, 1],
            [policy('affinity', 'rack', 'a b c d')],
            ('hosts', 'rack rack0', 3, 4,
             f'{ALL}: rack rack0 comes nearest: it has a place for 3 of 4'),
            id='no rack has room for all',
        ),
        pytest.param(
            {**FOUR, 'e': 2},
            [9, 9, 9, 9],
            [policy('affinity', 'rack', 'a b e'), policy('anti-affinity', 'host', 'a b e')],
            ('anti-affinity host', 'rack rack0', 2, 3, None),
            id='no rack has hosts enough',
        ),
        pytest.param(
            FOUR,
            [9, 9],
            [policy('affinity', 'rack', 'a b'), policy('apart', 'rack', 'a', 'b')],
            ('apart rack', 'rack rack0', 0, 1, None),
            id='together and apart',
        ),
    ],
)  # fmt: skip
def test_first(members, free, rules, expected):
    failure = bounds.first(problem(members, free, *rules))
    if expected is None:
        assert failure is None
        return
    dimension, domain, held, asked, words = expected
    assert (failure.dimension, failure.domain, failure.held, failure.asked) == (
        dimension,
        domain,
        held,
        asked,
    )
    assert words is None or failure.words == words


# Two zones of two racks of two hosts each; eight members in one zone, four of them in one rack.
EIGHT = dict.fromkeys('abcdefgh', 1)
NESTED = [policy('affinity', 'zone', 'a b c d e f g h'), policy('affinity', 'rack', 'a b c d')]
RACKS, ZONES = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    'free, expected',
    [
        pytest.param(
            [2, 1, 3, 3, 1, 1, 1, 4], None, id='zone 0: six of nine places are in one rack'
        ),
        pytest.param(
            [3, 3, 0, 1, 3, 0, 2, 1], ('zone zone0', 7, 8), id='no zone has places for all'
        ),
        pytest.param(
            [3, 0, 3, 0, 3, 0, 2, 1], ('rack rack0', 3, 4), id='no rack has places for four'
        ),
    ],
)
def test_racks_of_a_zone(free, expected):
    failure = bounds.first(problem(EIGHT, free, *NESTED, racks=RACKS, zones=ZONES))
    assert (failure and (failure.domain, failure.held, failure.asked)) == expected


def test_a_zone_with_places_for_all_but_no_rack_for_the_four():
    """Zone 0 has nine places in racks of three at most, zone 1 a rack of four and nothing else."""
    zones = [0, 0, 0, 0, 0, 0, 1, 1]
    failure = bounds.first(
        problem(EIGHT, [2, 1, 2, 1, 2, 1, 2, 2], *NESTED, racks=RACKS, zones=zones)
    )
    assert (
        failure.words
        == '8 members: no zone has capacity for all, and for the parts that must be together'
    )
    assert (failure.dimension, failure.held, failure.asked) == ('parts', 1, 1)
    assert (
        bounds.first(problem(EIGHT, [2, 1, 2, 1, 2, 2, 2, 2], *NESTED, racks=RACKS, zones=zones))
        is None
    )


def test_a_mask_of_small_ones_does_not_hide_places_for_large_ones():
    """Hosts where the small kind may not go still take the large one, measured in places for small
    ones."""
    mask = np.array([[True, False], [True, True]])
    assert bounds.first(problem({'a': 1, 'b': 4}, [1, 4], mask=mask)) is None


def test_members_that_stay_count():
    rule = policy('anti-affinity', 'rack', 'a b c')
    failure = bounds.first(problem(FOUR, [9] * 4, rule, fixed={'a': 0, 'b': 1}))
    assert (failure.rule, failure.dimension) == (0, 'anti-affinity rack')
    assert bounds.first(problem(FOUR, [9] * 4, rule, fixed={'a': 0, 'b': 2})).held == 0
    assert bounds.first(problem(FOUR, [9] * 6, rule, fixed={'a': 0, 'b': 2})) is None


def test_no_member_to_place():
    assert bounds.first(problem({'a': 1}, [0], fixed={'a': 0})) is None


@each('seed', range(120))
def test_no_proof_is_false(seed):
    group = random_problem(seed, members=(1, 4), hosts=(2, 5), preferred=0)
    found = placements(group, limit=700)
    if found:
        assert bounds.first(group) is None


def test_most_that_have_no_placement_are_proven():
    """Not that bounds prove it all, but that they are worth their time."""
    empty = [
        group
        for seed in range(60)
        if placements(group := random_problem(seed, (1, 4), (2, 4), 0), limit=300) == []
    ]
    proven = [group for group in empty if bounds.first(group)]
    assert len(empty) > 20
    assert len(proven) >= 0.8 * len(empty)


@each('seed', range(30))
def test_bounds_stay_true_while_a_placement_grows(seed):
    """A domain that is ruled out for the rest of a block has no placement that goes on from the
    tally."""
    group = random_problem(seed, members=(2, 6), hosts=(3, 6), preferred=0)
    compiled = compile(group)
    hosts = greedy.place(compiled, None, attempts=5)
    if hosts is None:
        return
    tally = PlacementTally(Wiring(compiled))
    for c, units in enumerate(compiled.members):
        for at in compiled.layout.position[hosts[units[:, 0]]].tolist()[:-1]:
            tally.settle(c, at)
    every = np.arange(compiled.class_count)
    if len(every):
        for check in bounds.checks(tally, every, compiled.layout.whole, None):
            assert (check.held >= check.asked).all(), check


SIX = dict.fromkeys('abcdef', 1)
PAIRS = [policy('affinity', 'rack', pair) for pair in ('a b', 'c d', 'e f')]


@pytest.mark.parametrize(
    'members, free, rules, expected',
    [
        pytest.param(SIX, [2, 1, 2, 1, 0, 0], PAIRS, (2, 3), id='a rest in each rack'),
        pytest.param(SIX, [2, 1, 2, 2, 0, 0], PAIRS, None, id='one rack takes two'),
        pytest.param(
            {**SIX, 'a': 2, 'c': 2},
            [3, 0, 3, 0, 9, 0],
            PAIRS,
            None,
            id='the large ones in the large rack',
        ),
        pytest.param(
            {**SIX, 'a': 2, 'b': 2, 'c': 2, 'd': 2},
            [4, 2, 2, 2, 2, 1],
            PAIRS,
            None,
            id='each finds its own rack',
        ),
        pytest.param(
            {**SIX, 'a': 2, 'b': 2, 'c': 2, 'd': 2},
            [4, 2, 2, 1, 2, 1],
            PAIRS,
            (1, 2),
            id='two large ones, one large rack',
        ),
        pytest.param(
            SIX,
            [9, 9, 9, 9, 0, 0],
            [*PAIRS, *(policy('exclusive', 'rack', pair) for pair in ('a b', 'c d'))],
            (2, 3),
            id='two of them alone in their racks',
        ),
        pytest.param(
            SIX,
            [9, 9, 9, 9, 0, 0],
            [*PAIRS, policy('exclusive', 'rack', 'a b')],
            None,
            id='one of them alone in its rack',
        ),
    ],
)
def test_the_whole_cluster(members, free, rules, expected):
    group = problem(members, free, *rules)
    failure = bounds.first(group)
    if expected is None:
        assert failure is None
        assert greedy.place(group, None) is not None
    else:
        assert (failure.dimension, failure.held, failure.asked) == ('parts', *expected)
        assert f'a place for {expected[0]} of these parts' in failure.words


def test_a_region():
    """Three pairs in one zone, which has capacity for all six, but in racks that take one pair."""
    rules = [*PAIRS, policy('affinity', 'zone', 'a b c d e f')]
    group = problem(SIX, [2, 1, 2, 1, 0, 0], *rules)
    failure = bounds.first(group)
    assert failure is not None
    assert failure.dimension == 'parts'


def test_held_by_domain():
    compiled = compile(problem(SIX, [2, 1, 4, 1, 1, 0], *PAIRS))
    tally = PlacementTally(Wiring(compiled))
    passing = greedy.passing_of(tally)
    ((_, blocks, most),) = whole_blocks(tally, compiled.blocks, passing)
    assert len(blocks) == 3
    assert sorted(most.tolist())[-2:] == [1, 2]
    assert np.sum(most) == 3


@pytest.mark.parametrize('generate', [cells, shards])
def test_no_placement_is_refused(generate):
    wrong, proven = [], 0
    for seed in range(80):
        one = generate(seed)
        if bounds.first(one) is not None:
            proven += 1
            if best(one, goal=False) is not None:
                wrong.append(seed)
    assert wrong == []
    assert proven > 5

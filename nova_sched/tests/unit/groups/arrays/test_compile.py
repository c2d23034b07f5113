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
"""A problem, and its classes, blocks and live hosts: a smaller problem that says the same."""

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import Rule, demand_sums, thrifty_ways
from nova_sched.tests.groups import LEVELS, policy, problem, random_problem
from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups.oracle import placements


def classes(compiled):
    """Each class as the paths of its units, a unit's members joined by +."""
    names = compiled.problem.names
    return [
        ' '.join('+'.join(names[m] for m in unit) for unit in units) for units in compiled.members
    ]


FOUR = dict.fromkeys('abcd', 1)


@pytest.mark.parametrize(
    'members, rules, expected',
    [
        pytest.param(FOUR, [], ['a b c d'], id='all equal'),
        pytest.param({'a': 1, 'b': 2, 'c': 1}, [], ['a c', 'b'], id='two kinds'),
        pytest.param(
            FOUR,
            [policy('anti-affinity', 'host', 'a b')],
            ['a b', 'c d'],
            id='counted by a policy',
        ),
        pytest.param(
            FOUR, [policy('anti-affinity', 'host', 'a b', most=2)], ['a b c d'], id='never broken'
        ),
        pytest.param(FOUR, [policy('near', 'rack', 'a b', 'c d')], ['a b', 'c d'], id='two sides'),
        pytest.param(
            FOUR, [policy('affinity', 'host', 'a c')], ['a+c', 'b d'], id='one host is one unit'
        ),
        pytest.param(
            FOUR,
            [policy('affinity', 'rack', 'a b'), policy('affinity', 'rack', 'c d')],
            ['a b', 'c d'],
            id='two racks',
        ),
        pytest.param(FOUR, [policy('affinity', 'rack', 'a b c d')], ['a b c d'], id='one rack'),
        pytest.param(
            FOUR,
            [policy('affinity', 'host', 'a b'), policy('affinity', 'host', 'c d')],
            ['a+b c+d'],
            id='two equal units',
        ),
    ],
)
def test_classes(members, rules, expected):
    assert classes(compile(problem(members, [9] * 4, *rules))) == expected


def test_who_has_another_home_is_of_another_class():
    assert classes(compile(problem(FOUR, [9] * 4, home={'b': 1, 'c': 1}))) == ['a d', 'b c']


def test_who_stays_is_counted_and_not_placed():
    compiled = compile(
        problem(
            FOUR, [9] * 4, policy('anti-affinity', 'rack', 'a b', most=1), fixed={'a': 0, 'd': 2}
        )
    )
    assert classes(compiled) == ['b', 'c']
    assert compiled.active[0].fixed_a.tolist() == [1, 0]
    assert compiled.active[0].left_a == 1
    assert compiled.open.tolist() == [[False, False, True, True], [True] * 4]


def cells(*more, count=3):
    """Cells of a head and two workers in a rack each."""
    members = {
        f'{role}{cell}': size
        for cell in range(count)
        for role, size in (('h', 2), ('v', 1), ('w', 1))
    }
    rules = [
        rule
        for cell in range(count)
        for rule in (
            policy('affinity', 'rack', f'h{cell} v{cell} w{cell}'),
            policy('anti-affinity', 'host', f'h{cell} v{cell} w{cell}'),
        )
    ]
    return compile(problem(members, [9] * 8, *rules, *more))


def test_a_cap_that_binds_is_a_resource():
    compiled = compile(problem(FOUR, [9, 9], cap=np.array([[1, 99]])))
    assert compiled.free.tolist() == [[9, 1], [9, 99]]
    assert compiled.shapes[0].slots.tolist() == [1, 9]
    assert compile(problem(FOUR, [9, 9], cap=np.array([[4, 99]]))).free.shape == (2, 1)


def test_a_unit_has_the_ways_of_all_its_members():
    cells = [[2, 0], [0, 2]]
    group = problem({'a': cells, 'b': cells}, [[4, 4]], policy('affinity', 'host', 'a b'))
    assert sorted(compile(group).shapes[0].ways.tolist()) == [[0, 4], [2, 2], [4, 0]]


@each('seed', range(40))
def test_members_of_a_class_may_change_places(seed):
    """Whatever a placement breaks and costs, it does so after units of one class have been
    shuffled."""
    group = random_problem(seed, members=(3, 8))
    compiled = compile(group)
    chance = np.random.default_rng(seed)
    live = compiled.layout.live
    if not len(live):
        return
    at = [chance.integers(len(live), size=len(units)).tolist() for units in compiled.members]
    shuffled = [chance.permutation(places).tolist() for places in at]
    one, other = compiled.placement(at), compiled.placement(shuffled)
    assert policies.cost(group, one) == policies.cost(group, other)
    assert [
        what for what, _ in policies.broken(group, one) if what not in ('capacity', 'mask')
    ] == [what for what, _ in policies.broken(group, other) if what not in ('capacity', 'mask')]


@each('seed', range(80))
def test_every_placement_is_one_of_the_compiled_problem(seed):
    """No placement is lost: it keeps to live hosts, open ones, slots, units and blocks."""
    group = random_problem(seed, members=(1, 4), hosts=(2, 5), preferred=0.1)
    compiled = compile(group)
    found = placements(group, most=40)
    assert not (found and compiled.hopeless)
    for hosts in found:
        for c, units in enumerate(compiled.members):
            at = compiled.layout.position[hosts[units]]
            assert (at >= 0).all()
            assert (at == at[:, :1]).all()
            assert compiled.open[c, at[:, 0]].all()
            assert (
                np.bincount(at[:, 0], minlength=len(compiled.layout.live)) <= compiled.slots(c)
            ).all()
        for block in compiled.blocks:
            ids = group.domains[block.level]
            assert (
                len({int(ids[hosts[m]]) for c in block.classes for m in compiled.members[c].flat})
                == 1
            )


def blocks(compiled):
    """Each block as level and classes."""
    names = classes(compiled)
    return [
        (compiled.problem.levels[block.level], [names[c] for c in block.classes])
        for block in compiled.blocks
    ]


@pytest.mark.parametrize(
    'rules, expected',
    [
        pytest.param([policy('affinity', 'rack', 'a b')], [('rack', ['a b'])], id='one rack'),
        pytest.param(
            [policy('affinity', 'rack', 'a b'), policy('affinity', 'rack', 'b c')],
            [('rack', ['a b c'])],
            id='overlapping affinity is one',
        ),
        pytest.param(
            [policy('affinity', 'zone', 'a b c d'), policy('affinity', 'rack', 'a b')],
            [('rack', ['a b']), ('zone', ['a b', 'c d'])],
            id='a rack in a zone',
        ),
        pytest.param(
            [policy('affinity', 'zone', 'a b'), policy('affinity', 'rack', 'a b')],
            [('rack', ['a b'])],
            id='the finer says it all',
        ),
        pytest.param([policy('affinity', 'host', 'a b')], [], id='a unit is no block'),
        pytest.param(
            [policy('near', 'rack', 'a b', 'c')],
            [('rack', ['a b', 'c'])],
            id='near one is affinity',
        ),
        pytest.param(
            [policy('near', 'rack', 'a', 'b c'), policy('affinity', 'rack', 'b c')],
            [('rack', ['a', 'b c'])],
            id='near what is together is affinity',
        ),
        pytest.param([policy('near', 'rack', 'a', 'b c')], [], id='near two is not'),
        pytest.param([policy('affinity', 'rack', 'a b', weight=1.0)], [], id='a wish is no block'),
    ],
)
def test_blocks(rules, expected):
    found = blocks(compile(problem(FOUR, [9] * 8, *rules, zones=[0, 0, 0, 0, 1, 1, 1, 1])))
    assert [(level, sorted(' '.join(names).split())) for level, names in found] == [
        (level, sorted(' '.join(names).split())) for level, names in expected
    ]


def test_levels_that_do_not_nest_say_nothing_of_each_other():
    """Racks lie across zones here, so that a rack in common is no zone in common."""
    rules = [policy('affinity', 'rack', 'a b'), policy('affinity', 'zone', 'a b')]
    compiled = compile(problem(FOUR, [9] * 4, *rules, racks=[0, 0, 1, 1], zones=[0, 1, 0, 1]))
    assert [(level, names) for level, names in blocks(compiled)] == [
        ('rack', ['a b']),
        ('zone', ['a b']),
    ]
    assert compiled.layout.nests.tolist() == [
        [True, True, True],
        [False, True, False],
        [False, False, True],
    ]


@pytest.mark.parametrize(
    'more, expected',
    [
        pytest.param([], [[0, 1, 2]], id='all alike'),
        pytest.param(
            [policy('anti-affinity', 'rack', 'h0 h1 h2')],
            [[0, 1, 2]],
            id='a policy on all of them',
        ),
        pytest.param(
            [policy('anti-affinity', 'rack', 'h0 h1')], [[0, 1], [2]], id='one is not in it'
        ),
        pytest.param(
            [policy('spread', 'host', 'v0 w0', min_domains=2)],
            [[0], [1, 2]],
            id='a spread of its own',
        ),
        pytest.param([policy('near', 'rack', 'h0', 'h1 h2')], [[0], [1, 2]], id='near the others'),
    ],
)
def test_types_of_blocks(more, expected):
    compiled = cells(*more)
    assert sorted(sorted(one.blocks) for one in compiled.block_types) == expected
    for one in compiled.block_types:
        shapes = compiled.shape[one.classes]
        assert (shapes == shapes[0]).all()
        assert (compiled.count[one.classes] == compiled.count[one.classes][0]).all()


def test_only_live_hosts_are_left_and_domains_are_slices():
    group = problem(
        FOUR,
        [0, 5, 0, 0, 5, 5],
        racks=[2, 0, 1, 1, 2, 0],
        zones=[0, 1, 0, 0, 0, 1],
        fixed={'a': 2},
    )
    layout = compile(group).layout
    assert sorted(layout.live.tolist()) == [1, 2, 4, 5]
    for level, ids in zip(layout.levels, group.domains, strict=True):
        assert level.numbers[level.ids].tolist() == ids[layout.live].tolist()
        assert level.order is None
        for domain in range(level.count):
            assert (level.ids[level.rows(domain)] == domain).all()


def test_sums_over_domains_in_pieces():
    """Racks in order make zones that are not in one piece."""
    group = problem(
        FOUR,
        [1, 2, 3, 4],
        policy('affinity', 'rack', 'a b'),
        racks=[0, 0, 1, 1],
        zones=[0, 1, 0, 1],
    )
    layout = compile(group).layout
    rack, zone = layout.levels[1:]
    free = group.free[layout.live, 0]
    assert sorted(rack.sum(free).tolist()) == [3, 7]
    assert sorted(zone.sum(free).tolist()) == [4, 6]
    assert sorted(zone.max(free).tolist()) == [3, 4]
    assert zone.any(free > 3).tolist() == (zone.max(free) > 3).tolist()


def test_a_rule_has_sorted_numbers_of_its_members():
    index = {'a': 0, 'b': 1, 'c': 2}
    rule = Rule.of(policy('apart', 'rack', 'c a', 'b', weight=2.0), index, LEVELS)
    assert (rule.kind, rule.level, rule.weight) == ('apart', 1, 2.0)
    assert (rule.a.tolist(), rule.b.tolist(), rule.a.dtype) == ([0, 2], [1], np.int32)
    assert not rule.is_required


def test_a_rule_without_members():
    rule = Rule.of(policy('spread', 'zone', ''), {}, LEVELS)
    assert rule.a.tolist() == [] == rule.b.tolist()
    assert rule.is_required


def test_what_is_not_said_has_a_value():
    group = problem({'a': 1, 'b': 2}, [4, 4, 4])
    assert (group.member_count, group.host_count, group.size(1)) == (2, 3, 2)
    assert group.fixed.tolist() == [-1, -1] == group.home.tolist()
    assert len(group.resources) == 1
    assert len(group.kind_names) == 2


def test_sums_are_different_ones():
    assert demand_sums([np.array([[2, 0], [0, 2]])] * 2).tolist() == [[0, 4], [2, 2], [4, 0]]


def test_a_wasteful_way_is_no_choice():
    assert thrifty_ways(np.array([[3, 1], [1, 1], [0, 2]])).tolist() == [[1, 1], [0, 2]]

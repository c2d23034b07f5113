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
"""An attempt: a tally keeps count and forgets what is taken back; rules close, allow and cost."""

import copy

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.tally import PlacementTally, Wiring
from nova_sched.tests.groups import policy, problem, random_problem
from nova_sched.tests.rows import each

FOUR = dict.fromkeys('abcd', 1)


def tally(*rules, free=(9,) * 6, members=FOUR, **more):
    """A tally of a group on three racks of two hosts, and the class of each member by path."""
    compiled = compile(problem(members, list(free), *rules, **more))
    class_of = {
        compiled.problem.names[m]: c
        for c, units in enumerate(compiled.members)
        for m in units.flat
    }
    return PlacementTally(Wiring(compiled)), class_of


def state(one):
    """Everything that a placement changes, as plain lists."""
    rules = [(rule.a.tolist(), rule.b.tolist(), rule.left_a, rule.left_b) for rule in one.rules]
    return one.free.tolist(), one.slots.tolist(), one.closed.tolist(), rules


@each('seed', range(60))
def test_what_is_taken_back_was_never_there(seed):
    compiled = compile(random_problem(seed, members=(3, 8)))
    one = PlacementTally(Wiring(compiled))
    chance = np.random.default_rng(seed)
    before, stack = [], []
    for c in chance.permutation(compiled.class_count).tolist():
        for _ in range(int(compiled.count[c])):
            hosts = np.flatnonzero(one.slots[compiled.shape[c]] > 0)
            if len(hosts):
                host = int(chance.choice(hosts))
                before.append(copy.deepcopy(state(one)))
                stack.append((c, host, one.place(c, host, one.wiring.concerns[c])))
    while stack:
        c, host, way = stack.pop()
        one.take_back(c, host, way, one.wiring.concerns[c])
        assert state(one) == before.pop()


def test_a_way_is_taken_that_leaves_room_for_its_like():
    cells = [[2, 0], [0, 2]]
    one, class_of = tally(members=dict.fromkeys('ab', cells) | {'c': [2, 0]}, free=[[3, 4]])
    assert one.slots[:, 0].tolist() == [3, 1]
    one.settle(class_of['a'], 0)
    assert one.free[0].tolist() == [1, 4]  # three are left of a cell that has room for one anyway
    one.settle(class_of['b'], 0)
    assert one.free[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    'rules, members, expected',
    [
        pytest.param([], 'c', {0: 16, 1: 12, 2: 36}, id='the best host takes all'),
        pytest.param(
            [policy('anti-affinity', 'host', 'a b')], 'a', {0: 5, 1: 6, 2: -np.inf}, id='two hosts'
        ),
        pytest.param(
            [
                policy('anti-affinity', 'host', 'a b c d'),
                policy('near', 'rack', 'a', 'c d', weight=1.0),
            ],
            'a b',
            {0: 5, 1: 6, 2: -np.inf},
            id='two classes of which no two share a host',
        ),
    ],
)
def test_reach_is_what_the_best_hosts_of_a_domain_are_worth(rules, members, expected):
    score = np.array([[1, 4, 3, 3, 9, 0]], dtype=np.float32)
    one, class_of = tally(*rules, score=score, free=[9, 9, 9, 9, 9, 0])
    classes = np.unique([class_of[path] for path in members.split()])
    level = one.compiled.layout.levels[1]
    assert (
        dict(zip(level.numbers.tolist(), one.reach(classes, 1).tolist(), strict=True)) == expected
    )


CLOSING = ('anti-affinity', 'apart', 'exclusive')


@each('seed', range(200))
def test_hosts_are_closed_where_a_member_would_break_a_rule(seed):
    """Of rules that only close hosts, and against the rules as they are checked in the end."""
    group = random_problem(seed, members=(3, 8), preferred=0.2)
    group.rules = [rule for rule in group.rules if rule.kind in CLOSING]
    group.demand = group.demand[:, :1]  # of several ways, some leave less than they could
    group.fixed[:] = -1
    compiled = compile(group)
    one, chance = PlacementTally(Wiring(compiled)), np.random.default_rng(seed)
    hosts, live = np.full(group.member_count, -1, dtype=np.int32), compiled.layout.live
    for c in chance.permutation(compiled.class_count).tolist():
        for unit in compiled.members[c]:
            (member,) = unit
            usable = one.usable(c)
            assert usable.tolist() == policies.allowed(group, hosts, member)[live].tolist()
            if usable.any() and chance.random() < 0.7:
                place = int(chance.choice(np.flatnonzero(usable)))
                one.settle(c, place)
                hosts[member] = live[place]


NEAR = policy('near', 'rack', 'a b', 'c d')


LEVEL = policy('spread', 'rack', 'a b c d', max_skew=0)


@pytest.mark.parametrize(
    'rule, placed, a, b, racks',
    [
        pytest.param(NEAR, {}, 1, 0, [0, 1, 2], id='near: anchors are to come'),
        pytest.param(NEAR, {'c': 0, 'd': 2}, 1, 0, [0, 1], id='near: no more are to come'),
        pytest.param(NEAR, {'a': 0, 'b': 2, 'c': 0}, 0, 1, [1], id='near: the last one must'),
        pytest.param(
            policy('spread', 'rack', 'a b c', min_domains=3),
            {'a': 0},
            1,
            0,
            [1, 2],
            id='all are needed',
        ),
        pytest.param(
            policy('spread', 'rack', 'a b c d', min_domains=3),
            {'a': 0},
            1,
            0,
            [0, 1, 2],
            id='one is spare',
        ),
        pytest.param(
            policy('spread', 'rack', 'a b c', max_skew=0),
            {'a': 0, 'b': 2},
            1,
            0,
            [2],
            id='none may be two',
        ),
        pytest.param(LEVEL, {'a': 0, 'b': 0, 'c': 2}, 1, 0, [1], id='one is behind'),
        pytest.param(
            policy('anti-affinity', 'rack', 'a b c d', most=2),
            {'a': 0},
            2,
            0,
            [1, 2],
            id='two at once',
        ),
        pytest.param(
            policy('apart', 'rack', 'a b', 'c d'), {'a': 0}, 1, 1, [], id='both sides at once'
        ),
    ],
)
def test_what_is_wise(rule, placed, a, b, racks):
    one, class_of = tally(rule)
    for path, host in placed.items():
        one.settle(class_of[path], host)
    allowed = one.rules[0].allowed(a, b)
    assert one.rules[0].level.numbers[allowed].tolist() == racks


@each('seed', range(60))
def test_prices_add_up_to_what_a_placement_costs(seed):
    """Of policies whose cost only grows: paid unit by unit it is the cost of the whole."""
    group = random_problem(seed, members=(3, 8), preferred=1.0)
    group.fixed[:] = -1
    compiled = compile(group)
    one = PlacementTally(Wiring(compiled))
    chance = np.random.default_rng(seed)
    kinds = ('affinity', 'anti-affinity', 'apart', 'exclusive')
    paid, whole = 0.0, True
    for c in range(compiled.class_count):
        for _ in range(int(compiled.count[c])):
            hosts = np.flatnonzero(one.slots[compiled.shape[c]] > 0)
            if not len(hosts):
                whole = False
                break
            host = int(chance.choice(hosts))
            for rule in (one.rules[n] for n in one.wiring.priced[c]):
                if rule.rule.kind in kinds:
                    price = rule.price(int(rule.active.a[c]), int(rule.active.b[c]))
                    paid += (
                        rule.rule.weight
                        * np.broadcast_to(price, rule.level.count)[rule.level.ids[host]]
                    )
            one.settle(c, host)
    if whole:
        group.rules = [rule for rule in group.rules if rule.kind in kinds]
        assert paid == pytest.approx(policies.cost(group, compiled.placement(one.at)).preferred)


@pytest.mark.parametrize(
    'rule, fixed, hopeless',
    [
        pytest.param(
            policy('affinity', 'rack', 'a b c'), {'a': 0, 'b': 3}, True, id='affinity torn'
        ),
        pytest.param(
            policy('affinity', 'rack', 'a b c'), {'a': 0, 'b': 1}, False, id='affinity kept'
        ),
        pytest.param(
            policy('anti-affinity', 'rack', 'a b c'), {'a': 0, 'b': 1}, True, id='anti-affinity'
        ),
        pytest.param(policy('apart', 'rack', 'a', 'b'), {'a': 0, 'b': 1}, True, id='apart'),
        pytest.param(
            policy('near', 'rack', 'a b', 'c d'), {'a': 0, 'c': 4}, False, id='near, to come'
        ),
        pytest.param(
            policy('near', 'rack', 'a b', 'c d'),
            {'a': 0, 'b': 2, 'c': 4, 'd': 0},
            True,
            id='near, nobody to come',
        ),
        pytest.param(policy('exclusive', 'rack', 'a b'), {'a': 0, 'c': 1}, True, id='exclusive'),
        pytest.param(
            policy('spread', 'rack', 'a b', min_domains=3),
            {},
            True,
            id='more domains than members',
        ),
        pytest.param(
            policy('apart', 'rack', 'a', 'b', weight=1.0),
            {'a': 0, 'b': 1},
            False,
            id='only a wish',
        ),
    ],
)
def test_hopeless_is_what_no_placement_can_mend(rule, fixed, hopeless):
    assert compile(problem(FOUR, [9] * 6, rule, fixed=fixed)).hopeless == ([0] if hopeless else [])

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
"""The solver: a placement exactly when there is one, the best one, and the most that fit."""

import numpy as np
import pytest

from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    EXCLUSIVE,
    NEAR,
    SPREAD,
)
from nova_sched.groups.exact import symmetry, tasks
from nova_sched.tests.groups import policy
from nova_sched.tests.unit.groups import oracle, random_problems

LONG_S = 60.0  # nothing here takes a second


def problem(racks, free, members, *kept, room=None, **rest):
    """Hosts in racks of these sizes, all with ``free``; members by kind, asking for 1, 2, ...;
    policies."""
    rack = np.repeat(np.arange(len(racks)), racks)
    hosts = len(rack)
    names = [f'{kind}/{number}' for kind, count in members.items() for number in range(count)]
    kind = np.repeat(np.arange(len(members)), list(members.values()))
    index = {name: number for number, name in enumerate(names)}
    plain = {
        'names': names,
        'kind': kind.astype(np.int32),
        'demand': np.arange(1, len(members) + 1, dtype=np.int64)[:, None, None],
        'mask': np.ones((len(members), hosts), dtype=bool),
        'score': np.zeros((len(members), hosts), dtype=np.float32),
        'free': np.full((hosts, 1), free, dtype=np.int64)
        if room is None
        else np.array(room)[:, None],
        'domains': [np.arange(hosts, dtype=np.int32), rack.astype(np.int32)],
        'levels': ['host', 'rack'],
        'domain_names': [
            [f'host-{h}' for h in range(hosts)],
            [f'rack-{r}' for r in range(len(racks))],
        ],
        'occupied': np.zeros(hosts, dtype=bool),
        'rules': [Rule.of(policy, index, ['host', 'rack']) for policy in kept],
    }
    return Problem(**(plain | rest))


def paths(kind, count):
    return [f'{kind}/{number}' for number in range(count)]


def at(*hosts):
    return np.array(hosts, dtype=np.int32)


A2 = paths('a', 2)
TRIPLES = [[f'a/{number}' for number in cell] for cell in ((0, 1, 2), (3, 4, 5), (6, 7, 8))]
CELLS = [
    *(policy(AFFINITY, 'rack', cell) for cell in TRIPLES),
    *(policy(ANTI_AFFINITY, 'host', cell) for cell in TRIPLES),
]
GENERATORS = [
    pytest.param(random_problems.mixture, range(150), id='mixtures'),
    pytest.param(random_problems.cells, range(40), id='cells'),
    pytest.param(random_problems.shards, range(60), id='shards'),
]


@pytest.mark.parametrize('generate, seeds', GENERATORS)
def test_the_best_placement_is_found_exactly_when_there_is_one(generate, seeds):
    """Without scores, as few preferences are broken and as few members move."""
    wrong, possible = [], 0
    for seed in seeds:
        one = generate(seed)
        best = oracle.best(one)
        hosts, proven = tasks.repair(one, LONG_S)
        possible += best is not None
        if hosts is None or best is None:
            if (hosts, best, proven) != (None, None, True):
                wrong.append(seed)
            continue
        for scores, parts in ((True, 4), (False, 2)):
            better = tasks.improve(one, hosts, scores, seconds=LONG_S)
            cost = tuple(policies.cost(one, better))
            faults = policies.broken(one, hosts) + policies.broken(one, better)
            if proven or faults or cost[:parts] != best[:parts]:
                wrong.append(seed)
    assert wrong == []
    assert 0.2 < possible / len(seeds) < 0.8  # or else it proves little


def test_without_time_the_placement_stays_as_it_was():
    one = random_problems.mixture(3)
    hosts, _ = tasks.repair(one, LONG_S)
    assert policies.cost(one, tasks.improve(one, hosts, seconds=0.0)) <= policies.cost(one, hosts)


def test_a_group_is_placed_on_many_hosts():
    members = dict.fromkeys('abcdefghij', 4)
    one = problem(
        [20] * 20,
        12,
        members,
        *(policy(ANTI_AFFINITY, 'rack', paths(kind, 4)) for kind in members),
    )
    hosts, _ = tasks.repair(one, LONG_S)
    assert policies.broken(one, hosts) == []


@pytest.mark.parametrize(
    'one, fits',
    [
        pytest.param(problem([4], 1, {'a': 6}), 4, id='as many as there is room for'),
        pytest.param(
            problem([2, 3], 1, {'a': 6}, policy(AFFINITY, 'rack', paths('a', 6))),
            3,
            id='all in one rack',
        ),
        pytest.param(
            problem([3, 3, 2], 0, {'a': 9}, *CELLS, room=[1, 1, 1, 1, 1, 1, 2, 2]),
            6,
            id='blocks whole or not at all',
        ),
        pytest.param(
            problem([2, 1], 1, {'a': 3}, policy(SPREAD, 'host', paths('a', 3), min_domains=4)),
            0,
            id='too few',
        ),
        pytest.param(
            problem(
                [2, 2],
                0,
                {'a': 2, 'b': 2},
                policy(NEAR, 'rack', A2, paths('b', 2)),
                room=[1, 1, 2, 1],
            ),
            2,
            id='nobody without the partner',
        ),
    ],
)
def test_the_most_that_fit(one, fits):
    hosts, is_most = tasks.largest(one, LONG_S)
    assert (int((hosts >= 0).sum()), is_most) == (fits, True)


@pytest.mark.parametrize(
    'one, found',
    [
        pytest.param(problem([2], 3, {}), True, id='nobody to place'),
        pytest.param(problem([], 3, {'a': 1}), False, id='no hosts'),
        pytest.param(problem([2], 0, {'a': 1}), False, id='no room'),
        pytest.param(
            problem([2], 0, {'a': 2}, fixed=at(0, 1)), True, id='all fixed, where no room is'
        ),
        pytest.param(
            problem([1, 1], 9, {'a': 2}, policy(AFFINITY, 'rack', A2), fixed=at(0, 1)),
            False,
            id='all fixed, apart',
        ),
        pytest.param(
            problem(
                [1, 1],
                9,
                {'a': 3},
                policy(SPREAD, 'rack', paths('a', 3), max_skew=0),
                fixed=at(0, 0, 1),
            ),
            False,
            id='all fixed, uneven',
        ),
        pytest.param(
            problem([3], 1, {'a': 3}, policy(EXCLUSIVE, 'rack', ['a/0'])),
            False,
            id='others have nowhere to go',
        ),
    ],
)
def test_edges(one, found):
    hosts, proven = tasks.repair(one, LONG_S)
    assert (hosts is not None, proven) == (found, not found)


def test_homes_are_kept_where_members_of_one_class_change_places():
    one = problem([4], 1, {'a': 3}, home=at(2, 0, 1))
    better = tasks.improve(one, at(0, 1, 3), seconds=LONG_S)
    assert better.tolist() == [2, 0, 1]


def test_blocks_in_the_counts_are_told_apart_by_search_where_dealing_does_not():
    rows, caps = (
        [[0, 1], [0, 1]],
        [(1, [1, 1])],
    )  # two blocks of a head and a worker, never on one host
    assert not symmetry._kept([[row[block::2] for row in rows] for block in range(2)], caps)
    shares = symmetry._shares(rows, 2, caps, [4, 5])
    assert symmetry._kept(shares, caps)
    assert sorted(h for share in shares for h in share[0]) == [0, 1]


def test_blocks_that_cannot_be_told_apart_are_an_error_that_is_mended():
    with pytest.raises(symmetry.CannotSplitError) as error:
        symmetry._shares([[0, 0], [1, 1]], 2, [(1, [2, 1])], [4, 5])
    assert error.value.blocks == [4, 5]


@pytest.mark.parametrize(
    'members, rules, hosts',
    [
        # Two racks hold twice the members; three are spare.
        pytest.param(12, [], range(10, 20), id='single members'),
        # Twice the one block, and four are spare.
        pytest.param(6, [policy(AFFINITY, 'rack', paths('a', 6))], range(8, 20), id='a block'),
    ],
)
def test_domains_with_the_most_places_are_kept(members, rules, hosts):
    """Ten racks of two hosts; a host takes 1, 2, ... 10 members, by rack."""
    room = np.repeat(np.arange(1, 11), 2)
    given = symmetry.symmetry_of(compile(problem([2] * 10, 0, {'a': members}, *rules, room=room)))
    kept = symmetry.roomy(given)
    assert np.flatnonzero(kept.sets[0].most).tolist() == [*hosts]
    assert kept.size == len(hosts) < given.size


def test_the_best_hosts_and_the_hosts_at_present_are_kept():
    score = np.arange(100, dtype=np.float32)[None]
    apart = policy(ANTI_AFFINITY, 'host', paths('a', 2))
    given = symmetry.symmetry_of(compile(problem([100], 1, {'a': 2}, apart, score=score)))
    counts = symmetry.counted(given, np.array([3, 5]))
    (alike,) = symmetry.promising(given, counts, 10).sets
    assert np.flatnonzero(alike.most).tolist() == [3, 5, *range(90, 100)]

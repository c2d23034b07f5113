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
"""Why a group cannot be placed: counts, policies that collide, contradictions, and what would
fit."""

import dataclasses
import json
import random
import re

import numpy as np
import pytest

from nova_sched.groups import joint, why
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    NEAR,
    RELATIONS,
    SPREAD,
    Definition,
    GroupPolicy,
    Member,
    MemberFlavor,
)
from nova_sched.groups.exact import tasks, worker
from nova_sched.groups.limits import PlanLimits
from nova_sched.groups.topology import DomainTopology
from nova_sched.tests.groups import policy
from nova_sched.tests.groups import problem as problem_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.groups import oracle, random_problems
from nova_sched.tests.unit.groups.exact.test_solver import CELLS, paths, problem

LIMITS = PlanLimits(greedy_s=1.0, repair_s=60.0, improve_s=0.0, explain_s=60.0)
A4 = paths('a', 4)


@pytest.fixture(scope='module')
def solver():
    with worker.Solver() as solver:
        yield solver


@pytest.mark.parametrize(
    'one, core, contradicts, fits',
    [
        pytest.param(
            problem([2], 1, {'a': 3}), [], False, '2 of 3 members (a 2 of 3)', id='no room at all'
        ),
        pytest.param(
            problem(
                [2, 2],
                1,
                {'a': 4},
                policy(AFFINITY, 'rack', A4),
                policy(ANTI_AFFINITY, 'host', A4, most=3),
            ),
            ['affinity rack'],
            False,
            '2 of 4 members (a 2 of 4)',
            id='no rack is large enough',
        ),
        pytest.param(
            problem(
                [4], 9, {'a': 4}, policy(AFFINITY, 'host', A4), policy(ANTI_AFFINITY, 'host', A4)
            ),
            ['affinity host', 'anti-affinity host'],
            True,
            '0 of 4 members (a 0 of 4)',
            id='together and apart',
        ),
        pytest.param(
            problem(
                [2, 2],
                9,
                {'a': 4, 'b': 1},
                policy(APART, 'rack', A4, ['b/0']),
                policy(NEAR, 'rack', A4, ['b/0']),
            ),
            ['apart rack', 'near rack'],
            True,
            '1 of 5 members (a 0 of 4)',
            id='near and apart',
        ),
        pytest.param(
            problem([2, 2], 9, {'a': 4}, policy(SPREAD, 'rack', A4, min_domains=3)),
            ['spread rack'],
            True,
            '0 of 4 members (a 0 of 4)',
            id='more racks than there are',
        ),
        pytest.param(
            problem([3, 3, 2], 0, {'a': 9}, *CELLS, room=[1, 1, 1, 1, 1, 1, 2, 2]),
            ['affinity rack'] * 2 + ['anti-affinity host'] * 3,
            False,
            '6 of 9 members (a 6 of 9)',
            id='one cell too many',
        ),
    ],
)
def test_reasons(solver, one, core, contradicts, fits):
    result = joint.plan(one, LIMITS, solver)
    reason = result.reason
    assert result.proven
    assert sorted(reason.core) == core
    assert (reason.minimal, reason.contradicts, reason.fits) == (True, contradicts, fits)
    assert json.loads(json.dumps(reason.to_plain()))['core'] == list(reason.core)
    assert not re.search(r'host-\d', str(reason.to_plain()))


def test_the_failing_count_names_the_domain_that_comes_nearest():
    one = problem([2, 3], 1, {'a': 4}, policy(AFFINITY, 'rack', A4))
    failing = joint.plan(one).reason.to_plain()['failing']
    assert (failing['domain'], failing['held'], failing['asked']) == ('rack rack-1', 3, 4)


def test_a_domain_that_is_a_single_host_is_not_named():
    one = problem([2, 3], 1, {'a': 4}, policy(AFFINITY, 'rack', A4))
    one.domain_names[1] = ['r1', 'host-2']  # the second rack is a node's own, which tells none
    reason = joint.plan(one).reason
    assert 'host-2' not in reason.words
    assert reason.failing.domain == 'a rack of one host'


def test_what_is_not_proven_has_no_core():
    pairs = (['a/0', 'a/1'], ['a/1', 'a/2'], ['a/2', 'a/0'])
    one = problem([3, 3], 1, {'a': 3}, *(policy(APART, 'rack', [a], [b]) for a, b in pairs))
    reason = joint.plan(one).reason
    assert (reason.core, reason.minimal, reason.failing) == (None, False, None)


KINDS = (AFFINITY, ANTI_AFFINITY, ANTI_AFFINITY, SPREAD, EXCLUSIVE, NEAR, APART)
LEVELS = ('host', 'rack', 'zone')
HOSTS = 4


def alike(seed):
    """Three or four members of one flavor, and policies of a few kinds on sets of members of one
    size."""
    chance = random.Random(seed)
    names = [f'm{number}' for number in range(chance.choice([3, 4, 4]))]
    kept = []
    for _ in range(chance.randint(1, 3)):
        kind, level, size = chance.choice(KINDS), chance.choice(LEVELS), chance.choice([2, 2, 3])
        domains = {'min_domains': 2} if kind == SPREAD else {}
        for _ in range(chance.randint(1, 5)):
            a = chance.sample(names, size)
            b = [name for name in names if name not in a][:1] if kind in RELATIONS else ()
            kept.append(policy(kind, level, a, b, **domains))
    places = {'racks': [0, 0, 1, 1], 'zones': [0, 0, 0, 1]}
    free = [chance.randint(0, 3) for _ in range(HOSTS)]
    occupied = np.array([chance.random() < 0.2 for _ in range(HOSTS)])
    return problem_of(dict.fromkeys(names, 1), free, *kept, occupied=occupied, **places)


@pytest.mark.parametrize(
    'generate, seeds',
    [
        (random_problems.mixture, range(50)),
        (random_problems.cells, range(15)),
        (alike, range(40)),
    ],
)
def test_a_core_cannot_be_kept_and_without_one_of_it_can(generate, seeds, monkeypatch):
    monkeypatch.setattr(why, 'SETTLE_S', 60.0)  # the machine may be busy
    wrong, cores = [], 0
    for seed in seeds:
        one = generate(seed)
        if tasks.repair(one, 60.0)[0] is not None:
            continue
        families, minimal = why.core(one, (why.counted, tasks._settle), lambda: float('inf'))
        core = [number for family in families for number in family]
        cores += 1
        spared = [[other for other in core if other != number] for number in core]
        needed = [oracle.best(why.only(one, fewer), goal=False) is not None for fewer in spared]
        if (
            oracle.best(why.only(one, core), goal=False) is not None
            or not minimal
            or not all(needed)
        ):
            wrong.append(seed)
    assert wrong == []
    assert cores > 5


def empty(one):
    """The whole cluster without instances and with unlimited capacity, all members alike."""
    whole = why.ideal(one)
    hosts = one.host_count
    large = problem([hosts], 99, {'a': len(one.names)}, names=one.names, rules=whole.rules)
    large.domains, large.domain_names, large.levels = one.domains, one.domain_names, one.levels
    return whole, large


@pytest.mark.parametrize('seeds', [pytest.param(range(40), id='mixtures')])
def test_policies_contradict_each_other_exactly_if_no_empty_cluster_can_keep_them(seeds):
    wrong, clashes = [], 0
    for seed in seeds:
        small, large = empty(
            random_problems.mixture(seed, members=(2, 4), hosts=(2, 14), preferred=False)
        )
        clash = oracle.best(large, goal=False) is None
        clashes += clash
        if (why.clash(large, tasks._settle, 60.0) != '') != clash or (
            tasks.repair(small, 60.0)[0] is None
        ) != clash:
            wrong.append(seed)
    assert wrong == []
    assert clashes > 5


def test_the_ideal_cluster_is_no_larger_than_the_group_can_use():
    one = problem([20] * 50, 1, {'a': 3})
    small = why.ideal(one)
    assert (small.host_count, small.size(1)) == (9, 3)
    assert np.bincount(small.domains[1]).tolist() == [3, 3, 3]


def contradiction(one, limits, by):
    """Why the policies of a problem cannot be kept, as an author of a template is told."""
    known = why.quick(why.ideal(one), why.QUICK_S)
    if known:
        return None
    return why.explained(one, known is False, limits.explain_s, by, why.counted_clash)


@pytest.mark.parametrize(
    'kept, words',
    [
        pytest.param([policy(AFFINITY, 'host', A4)], None, id='nothing but room is missing'),
        pytest.param(
            [policy(AFFINITY, 'host', A4), policy(ANTI_AFFINITY, 'host', A4)],
            'These policies contradict each other, whatever is free: affinity host, '
            'anti-affinity host.',
            id='they contradict each other',
        ),
    ],
)
@pytest.mark.parametrize('has_solver', [True, False])
def test_contradiction(solver, kept, words, has_solver):
    one = problem([4], 0, {'a': 4}, *kept)
    assert contradiction(one, LIMITS, solver if has_solver else None) == words


@pytest.mark.parametrize('has_solver', [True, False])
def test_a_wish_is_not_blamed_for_what_required_policies_do(solver, has_solver):
    """The ideal cluster has no wishes, so that it numbers its rules in another way."""
    wish = policy(NEAR, 'rack', A4, ['b/0'], weight=1.0)
    unmet = policy(SPREAD, 'rack', A4, min_domains=3)
    one = problem([2, 2], 9, {'a': 4, 'b': 1}, wish, unmet)
    reason = joint.plan(one, LIMITS, solver if has_solver else None).reason
    assert (reason.core, reason.contradicts) == (('spread rack',), True)
    assert 'do not allow spread rack.' in reason.words
    assert 'near' not in reason.words
    assert 'do not allow spread rack.' in contradiction(
        one, LIMITS, solver if has_solver else None
    )


def hostless(*kept, members=4):
    """A problem on a cluster that has not one host."""
    one = problem([1], 1, {'a': members}, *kept)
    return dataclasses.replace(
        one,
        mask=one.mask[:, :0],
        score=one.score[:, :0],
        free=one.free[:0],
        domains=[ids[:0] for ids in one.domains],
        domain_names=[[] for _ in one.domains],
        occupied=one.occupied[:0],
    )


NO_HOSTS = [
    pytest.param(hostless(), id='no policies'),
    pytest.param(
        hostless(policy(AFFINITY, 'rack', A4), policy(ANTI_AFFINITY, 'rack', A4)), id='a collision'
    ),
    pytest.param(hostless(policy(SPREAD, 'rack', A4, min_domains=9)), id='hopeless'),
    pytest.param(hostless(policy(NEAR, 'rack', A4, A4, weight=1.0)), id='a wish'),
]


@each('one', NO_HOSTS)
@each('limits', [LIMITS, PlanLimits(0.0, 0.0, 0.0, 0.0)])
@each('has_solver', [True, False])
def test_without_hosts_that_is_the_reason(solver, one, limits, has_solver):
    by = solver if has_solver else None
    result = joint.plan(one, limits, by)
    assert (result.hosts, result.proven, result.figures['by']) == (None, True, 'counts')
    assert (result.reason.words, result.reason.core) == ('There are no hosts.', ())
    assert json.loads(json.dumps(result.reason.to_plain()))['failing']['asked'] == 4
    assert contradiction(one, limits, by) == 'There are no hosts.'


@each('one', NO_HOSTS)
@each('settle, largest', [(why.counted, None), (tasks._settle, tasks.largest)])
def test_without_hosts_nothing_is_looked_for(one, settle, largest):
    for proven in (True, False):
        reason, hosts = why.explain(one, settle, largest, 1.0, proven)
        assert (reason.words, reason.contradicts, hosts) == ('There are no hosts.', False, None)
    assert why.clash(one, settle, 1.0) == 'There are no hosts.'
    assert why.quick(one, 1.0) is why.counted(one) is False
    assert why.failure(one).words == 'there are no hosts'
    assert tasks.repair(one, 1.0) == (None, True)
    assert tasks.largest(one, 1.0)[0].tolist() == [-1] * 4


def test_no_members_need_no_hosts():
    assert not why.has_no_hosts(hostless(members=0))
    assert why.failure(hostless(members=0)) is None


OF_A_CLOUD = DomainTopology(orders=['host < power']).levels
STRICT = {('rack', 'room'), ('rack', 'zone'), ('room', 'zone')}
FLAVOR = MemberFlavor(vcpus=1, memory_mb=1)


def group_with(*policies, members=3):
    paths = tuple(f'app/{number}' for number in range(members))
    made = (
        GroupPolicy(**{'name': f'{one["kind"]} at {one["level"]}', 'a': paths, **one})
        for one in policies
    )
    return Definition({path: Member(path=path, flavor=FLAVOR) for path in paths}, tuple(made))


def on(kind, level, **more):
    return {'kind': kind, 'level': level, **more}


TWO_ZONES = on('anti-affinity', 'zone')


@each(
    'policies, nests, named',
    [
        pytest.param([], STRICT, [], id='none'),
        pytest.param(
            [on('anti-affinity', 'host'), on('affinity', 'rack')], STRICT, [], id='hosts of a rack'
        ),
        pytest.param(
            [on('anti-affinity', 'power'), on('affinity', 'rack')], STRICT, [], id='no nesting'
        ),
        pytest.param(
            [on('spread', 'zone', min_domains=3)], STRICT, [], id='as many zones as members'
        ),
        pytest.param(
            [TWO_ZONES, on('affinity', 'rack')],
            STRICT,
            ['anti-affinity at zone', 'affinity at rack'],
            id='zones of a rack',
        ),
        pytest.param(
            [on('anti-affinity', 'power'), on('affinity', 'host')],
            STRICT,
            ['anti-affinity at power', 'affinity at host'],
            id='power feeds of a host',
        ),
        pytest.param(
            [on('spread', 'rack', min_domains=4)], STRICT, ['spread at rack'], id='too few members'
        ),
        pytest.param(
            [on('spread', 'rack', min_domains=4, weight=1.0)], STRICT, [], id='only a preference'
        ),
        pytest.param([TWO_ZONES, on('affinity', 'room')], set(), [], id='a room spans zones'),
        pytest.param(
            [TWO_ZONES, on('affinity', 'room')],
            {('rack', 'room'), ('rack', 'zone')},
            [],
            id='racks lie in both',
        ),
        pytest.param(
            [TWO_ZONES, on('affinity', 'room')],
            {('room', 'zone')},
            ['anti-affinity at zone', 'affinity at room'],
            id='rooms lie in zones',
        ),
        pytest.param(
            [TWO_ZONES, on('affinity', 'host')],
            set(),
            ['anti-affinity at zone', 'affinity at host'],
            id='zones of a host',
        ),
    ],
)
def test_contradictions(policies, nests, named):
    """Levels lie in each other only where they are said to."""
    words = why.contradiction_anywhere(group_with(*policies), OF_A_CLOUD, nests)
    assert bool(words) == bool(named)
    assert all(name in words for name in named)


def test_the_cluster_has_all_that_the_group_can_use():
    made = why.imagined(group_with(on('affinity', 'zone'), on('apart', 'power', b=())), OF_A_CLOUD)
    assert made.levels == ['host', 'zone', 'power']
    assert [len(set(ids.tolist())) for ids in made.domains] == [27, 3, 3]
    nested = why.imagined(
        group_with(on('affinity', 'rack'), on('affinity', 'room')), OF_A_CLOUD, STRICT
    )
    assert [len(set(ids.tolist())) for ids in nested.domains] == [27, 9, 3]
    rack_to_room = set(zip(nested.domains[1].tolist(), nested.domains[2].tolist(), strict=True))
    assert len(rack_to_room) == 9  # each rack is in one room


def test_a_group_that_could_use_more_than_can_be_looked_through():
    large = group_with(on('anti-affinity', 'rack'), on('affinity', 'zone'), members=200)
    assert why.imagined(large, OF_A_CLOUD) is None
    assert why.contradiction_anywhere(large, OF_A_CLOUD) is None


def test_a_group_without_members_is_not_checked():
    assert (
        why.contradiction_anywhere(
            group_with(on('spread', 'rack', min_domains=2), members=0), OF_A_CLOUD
        )
        is None
    )

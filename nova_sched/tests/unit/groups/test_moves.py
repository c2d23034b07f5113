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
"""Which servers of a group have to move, against every way to place small groups."""

import itertools
import random

import numpy as np
import pytest

from nova_sched.groups import joint
from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    NEAR,
    RELATIONS,
    SPREAD,
)
from nova_sched.groups.exact import tasks
from nova_sched.groups.limits import PlanLimits
from nova_sched.tests.groups import policy, problem
from nova_sched.tests.rows import each

HOSTS = 4
PLACES = {'racks': [0, 0, 1, 1], 'zones': [0, 1, 1, 1]}
KINDS = (AFFINITY, ANTI_AFFINITY, SPREAD, EXCLUSIVE, NEAR, APART)
LIMITS = PlanLimits(1.0, 60.0, 0.0, 0.0)


def exactly(given, limits):
    """A planner that always knows."""
    hosts, proven = tasks.repair(given, limits.repair_s)
    return joint.PlanResult(hosts, proven)


def quickly(given, limits):
    return joint.plan(given, limits)


def some(seed):
    """A group of which some members are built, perhaps with moves that were planned, and other
    policies."""
    chance = random.Random(seed)
    names = [f'm{number}' for number in range(chance.choice([2, 3, 4, 4]))]
    kept = []
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice(KINDS)
        a = chance.sample(names, chance.randint(1, len(names)))
        b = [name for name in names if name not in a][:2] or names[:1]
        more = {'min_domains': 2} if kind == SPREAD else {}
        kept.append(
            policy(
                kind,
                chance.choice(['host', 'rack', 'zone']),
                a,
                b if kind in RELATIONS else (),
                **more,
            )
        )

    def rows(share):
        return np.array(
            [chance.randrange(HOSTS) if chance.random() < share else -1 for _ in names],
            dtype=np.int32,
        )

    built, planned, bound = rows(0.8), rows(0.3), rows(0.15)
    bound[built < 0] = -1
    bound[bound == built] = -1
    planned[(planned == built) | (bound >= 0)] = -1
    one = problem(
        {name: chance.randint(1, 2) for name in names},
        [chance.randint(1, 4) for _ in range(HOSTS)],
        *kept,
        occupied=np.array([chance.random() < 0.2 for _ in range(HOSTS)]),
        fixed={name: int(row) for name, row in zip(names, built, strict=True)},
        home={
            name: int(row)
            for name, row in zip(names, np.where(built < 0, planned, -1), strict=True)
        },
        **PLACES,
    )
    one.mask &= np.array([[chance.random() < 0.85 for _ in range(HOSTS)] for _ in one.mask])
    return one, joint.Sites(built, bound, planned)


def is_good(one, sites, hosts):
    """Whether a placement keeps the policies, with servers that stay, arrive where they are on
    their way to, or move to where there is free space next to all that is held now."""
    moved = sites.is_built & (hosts != sites.built)
    if (moved & (sites.bound >= 0) & (hosts != sites.bound)).any():
        return False
    come = ~sites.is_built | (moved & (sites.bound < 0))
    need = np.zeros(HOSTS, dtype=np.int64)
    np.add.at(need, hosts[come], one.demand[one.kind[come], 0, 0])
    fits = (need <= one.free[:, 0]) | (need == 0)
    passes = one.mask[one.kind[come], hosts[come]]
    broken = [found for found in policies.broken(one, hosts) if not isinstance(found[0], str)]
    return fits.all() and passes.all() and not broken


def movers_of(one, sites):
    """The sets of servers that move in some good placement."""
    found = set()
    for every in itertools.product(range(HOSTS), repeat=one.member_count):
        hosts = np.array(every, dtype=np.int32)
        moved = frozenset(np.flatnonzero(sites.is_built & (hosts != sites.built)).tolist())
        if moved not in found and is_good(one, sites, hosts):
            found.add(moved)
    return found


@pytest.mark.parametrize('plan', [exactly, quickly])
def test_no_member_moves_without_need(plan):
    wrong, seen = [], {'none': 0, 'stay': 0, 'move': 0}
    for seed in range(50):
        one, sites = some(seed)
        ways = movers_of(one, sites)
        hosts = joint.place(one, sites, plan, LIMITS, True).hosts
        if hosts is None:
            seen['none'] += 1
            if ways and plan is exactly:
                wrong.append(seed)
            continue
        moved = frozenset(np.flatnonzero(sites.is_built & (hosts != sites.built)).tolist())
        seen['move' if moved else 'stay'] += 1
        spared = any(way < moved for way in ways)
        if not is_good(one, sites, hosts) or (spared and (plan is exactly or frozenset() in ways)):
            wrong.append(seed)
    assert wrong == []
    assert min(seen.values()) > 5, seen


@each('seed', range(20))
def test_a_new_plan_moves_no_server_that_was_not_to_move(seed):
    one, sites = some(seed)
    hosts = joint.place(one, sites, exactly, LIMITS, False).hosts
    if hosts is not None:
        stays = sites.is_built & ~sites.is_leaving
        assert (hosts[stays] == sites.built[stays]).all()
        assert is_good(one, sites, hosts)


def test_of_a_large_group_those_in_the_way_move():
    """Two of 300 servers share a host; that the others may stay is not looked for one by one."""
    count = 300
    names = [f'm{number}' for number in range(count)]
    built = np.arange(count, dtype=np.int32)
    built[1] = 0
    where = {name: int(row) for name, row in zip(names, built, strict=True)}
    one = problem(
        dict.fromkeys(names, 1), [2] * count, policy(ANTI_AFFINITY, 'host', names), fixed=where
    )
    nowhere = np.full(count, -1, dtype=np.int32)
    asked = []

    def plan(given, limits):
        asked.append(int((given.fixed < 0).sum()))
        return quickly(given, limits)

    hosts = joint.place(one, joint.Sites(built, nowhere, nowhere), plan, LIMITS, True).hosts
    assert np.flatnonzero(hosts != built).tolist() in ([0], [1])
    assert max(asked) == 2

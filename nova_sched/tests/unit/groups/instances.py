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
"""Small random problems of every kind, and all placements of one, by plain enumeration."""

import itertools

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.tests import checker

LEVELS = ('host', 'rack', 'feed', 'zone')
MOST_PLACEMENTS = 3000
RACKS = 2  # hosts in each


def problem(chance):
    """A Problem that a ``random.Random`` makes up: 2 to 4 levels that nest or do not, 1 to 6
    members."""
    hosts = chance.randint(2, 5)
    members = chance.randint(
        1, max(size for size in range(1, 7) if hosts**size <= MOST_PLACEMENTS)
    )
    kinds, resources = chance.randint(1, min(3, members)), chance.randint(1, 2)
    names = [f'app/{number}' for number in range(members)]
    domains = _domains(chance, hosts, chance.randint(2, 4))
    levels = LEVELS[: len(domains)]
    policies = [_policy(chance, number, names, levels) for number in range(chance.randint(0, 5))]
    index = {name: number for number, name in enumerate(names)}
    generous = chance.random() < 0.5
    return Problem(
        names=names,
        kind=_array(chance, members, lambda: chance.randrange(kinds), np.int32),
        demand=_demand(chance, kinds, chance.choice([1, 1, 2]), resources),
        mask=_array(chance, (kinds, hosts), lambda: chance.random() < 0.85, bool),
        score=_array(chance, (kinds, hosts), lambda: chance.randint(0, 8) / 8, np.float32),
        free=_array(
            chance, (hosts, resources), lambda: chance.randint(-1, 12 if generous else 5), np.int64
        ),
        domains=domains,
        levels=list(levels),
        domain_names=[
            [f'{level}-{number}' for number in range(int(ids.max()) + 1)]
            for level, ids in zip(levels, domains, strict=True)
        ],
        occupied=_array(chance, hosts, lambda: chance.random() < 0.3, bool),
        rules=[Rule.of(policy, index, levels) for policy in policies],
        cap=_array(chance, (kinds, hosts), lambda: chance.randint(0, 3), np.int32)
        if chance.random() < 0.25
        else None,
        **_stays(chance, members, hosts),
    )


def placements(one):
    """Every placement of a Problem that keeps all required policies, by path, as the checker
    judges."""
    _, needs, policies, cluster = checker.of_problem(one, None)
    choices = [[need.stays] if need.stays else sorted(need.hosts) for need in needs.values()]
    for hosts in itertools.product(*choices):
        placement = dict(zip(needs, hosts, strict=True))
        if not checker.violations(placement, needs, policies, cluster):
            yield placement


def _array(chance, shape, draw, dtype):
    return np.array([draw() for _ in range(int(np.prod(shape)))], dtype=dtype).reshape(shape)


def _domains(chance, hosts, count):
    """Per level int32 [H]: racks of neighbours, and above them domains of racks, or of any
    hosts."""
    ids = [np.arange(hosts), chance.randrange(2) + np.arange(hosts) // RACKS]
    while len(ids) < count:
        nests, below = chance.random() < 0.5, ids[-1]
        one_each = [chance.randrange(2) for _ in range(hosts)]
        ids.append(
            np.array([one_each[int(place)] for place in below]) if nests else np.array(one_each)
        )
    return [np.unique(one, return_inverse=True)[1].astype(np.int32) for one in ids]


def _demand(chance, kinds, ways, resources):
    """int64 [K, V, R], each way asking for something; half of the kinds have only one way."""
    made = []
    for _ in range(kinds):
        every = [[chance.randint(0, 3) for _ in range(resources)] for _ in range(ways)]
        for way in every:
            way[0] = max(way[0], 1)
        made.append(every if chance.random() < 0.5 else [every[0]] * ways)
    return np.array(made, dtype=np.int64)


def _policy(chance, number, names, levels):
    kind = chance.choice(definition.KINDS)
    members = chance.sample(names, chance.randint(1, len(names)))
    others = chance.sample(names, chance.randint(1, len(names)))
    if kind == definition.APART and chance.random() < 0.8:  # no member is apart from itself
        others = [name for name in names if name not in members][: len(others)]
    spreads = kind == definition.SPREAD
    return definition.GroupPolicy(
        name=f'{number}: {kind}',
        kind=kind,
        level=chance.choice(levels),
        a=tuple(members),
        b=tuple(others) if kind in definition.RELATIONS else (),
        weight=None if chance.random() < 0.65 else chance.choice([0.5, 1.0, 2.0]),
        most=chance.randint(1, 2) if kind == definition.ANTI_AFFINITY else 1,
        min_domains=chance.randint(1, 3) if spreads else 1,
        max_skew=chance.choice([None, 0, 1, 2]) if spreads else None,
    )


def _stays(chance, members, hosts):
    """No member is there yet, or some members are: fixed, or at home."""
    if chance.random() < 0.6:
        return {}
    fixed, home = [-1] * members, [-1] * members
    for member in range(members):
        where, fate = chance.randrange(hosts), chance.random()
        if fate < 0.3:
            fixed[member] = where
        elif fate < 0.6:
            home[member] = where
    return {'fixed': np.array(fixed, dtype=np.int32), 'home': np.array(home, dtype=np.int32)}

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
"""Small problems for the planner: built by hand from words, or at random."""

import random

import numpy as np

from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.groups.definition import (
    ANTI_AFFINITY,
    APART,
    KINDS,
    RELATIONS,
    SPREAD,
    GroupPolicy,
)

LEVELS = ('host', 'rack', 'zone')


def policy(kind, level, a, b=(), **more):
    """A policy on members by path; ``a`` and ``b`` may be words, split at blanks."""
    a, b = (tuple(side.split()) if isinstance(side, str) else tuple(side) for side in (a, b))
    return GroupPolicy(f'{kind} {level}', kind, level, a, b, **more)


def problem(members, free, *policies, racks=None, zones=None, **more):
    """``members``: path -> demand (a number, a row, or several rows: ways), one kind for each.

    ``free``: a number or a row for each host. ``racks``, ``zones``: each host's domain number; by
    default a rack for each two hosts and one zone. ``fixed`` and ``home``: path -> host. The rest
    is as in Problem.
    """
    ways = {path: np.array(demand, dtype=np.int64, ndmin=2) for path, demand in members.items()}
    most = max(len(one) for one in ways.values())
    kinds = list({one.tobytes(): one for one in ways.values()}.values())
    which = {one.tobytes(): number for number, one in enumerate(kinds)}
    free = np.array(free, dtype=np.int64)
    free = free[:, None] if free.ndim == 1 else free
    hosts = len(free)
    racks = [host // 2 for host in range(hosts)] if racks is None else racks
    zones = [0] * hosts if zones is None else zones
    names = list(members)
    index = {path: number for number, path in enumerate(names)}
    domains = [np.arange(hosts), *(np.array(ids) for ids in (racks, zones))]
    for name in ('fixed', 'home'):
        if name in more:
            places = np.full(len(names), -1, dtype=np.int32)
            for path, host in more[name].items():
                places[index[path]] = host
            more[name] = places
    given = {
        'mask': np.ones((len(kinds), hosts), dtype=bool),
        'score': np.zeros((len(kinds), hosts), dtype=np.float32),
        'occupied': np.zeros(hosts, dtype=bool),
    }
    return Problem(
        names=names,
        kind=np.array([which[one.tobytes()] for one in ways.values()], dtype=np.int32),
        demand=np.array([np.vstack([one, *[one[:1]] * (most - len(one))]) for one in kinds]),
        free=free,
        domains=[ids.astype(np.int32) for ids in domains],
        levels=list(LEVELS),
        domain_names=[
            [f'{level}{number}' for number in range(int(ids.max()) + 1)]
            for level, ids in zip(LEVELS, domains, strict=True)
        ],
        rules=[Rule.of(one, index, LEVELS) for one in policies],
        **{**given, **more},
    )


def random_problem(seed, members=(2, 6), hosts=(3, 7), preferred=0.25):
    """A small problem of any kind; ``members`` and ``hosts`` are the fewest and the most.

    One to four levels that nest or not, overlapping policies of all kinds, masks, caps, ways,
    members that stay and members with a home.
    """
    chance = random.Random(seed)
    count, size = chance.randint(*members), chance.randint(*hosts)
    kinds, resources = chance.randint(1, 3), chance.randint(1, 2)
    levels = ['host', 'rack', 'zone', 'feed'][: chance.choice([1, 2, 3, 3, 4, 4])]
    domains = _random_domains(chance, size, len(levels))
    ways = chance.choice([1, 1, 1, 2])
    demand = np.array(
        [
            [[chance.randint(0, 3) for _ in range(resources)] for _ in range(ways)]
            if chance.random() < 0.5
            else [[chance.randint(1, 3) for _ in range(resources)]] * ways
            for _ in range(kinds)
        ],
        dtype=np.int64,
    )
    free = np.array(
        [[chance.randint(-1, 7) for _ in range(resources)] for _ in range(size)], dtype=np.int64
    )
    names = [f'm{number}' for number in range(count)]
    index = {name: number for number, name in enumerate(names)}
    fixed, home = np.full(count, -1, dtype=np.int32), np.full(count, -1, dtype=np.int32)
    moody = chance.random()
    for member in range(count):
        if moody < 0.3 and chance.random() < 0.3:
            fixed[member] = chance.randrange(size)
        elif moody > 0.8 and chance.random() < 0.5:
            home[member] = chance.randrange(size)
    cap = None
    if chance.random() < 0.2:
        cap = np.array(
            [[chance.randint(0, 3) for _ in range(size)] for _ in range(kinds)], dtype=np.int32
        )
    policies = [
        _random_policy(chance, names, levels, preferred) for _ in range(chance.randint(0, 4))
    ]
    return Problem(
        names=names,
        kind=np.array([chance.randrange(kinds) for _ in names], dtype=np.int32),
        demand=demand,
        mask=np.array([[chance.random() < 0.85 for _ in range(size)] for _ in range(kinds)]),
        score=np.array(
            [[chance.randint(0, 8) for _ in range(size)] for _ in range(kinds)], dtype=np.float32
        ),
        free=free,
        domains=domains,
        levels=levels,
        domain_names=[
            [f'{level}{number}' for number in range(int(ids.max()) + 1)]
            for level, ids in zip(levels, domains, strict=True)
        ],
        occupied=np.array([chance.random() < 0.3 for _ in range(size)]),
        rules=[Rule.of(one, index, levels) for one in policies],
        cap=cap,
        fixed=fixed,
        home=home,
    )


def _random_domains(chance, hosts, levels):
    racks = [chance.randrange(max(2, hosts // 2)) for _ in range(hosts)]
    zones = [chance.randrange(2) for _ in range(hosts)]
    feeds = [chance.randrange(2) for _ in range(hosts)]
    nested = [zones[rack % hosts] for rack in racks] if chance.random() < 0.7 else zones
    every = [np.arange(hosts), *(_dense(ids) for ids in (racks, nested, feeds))]
    return [ids.astype(np.int32) for ids in every[:levels]]


def _dense(ids):
    return np.unique(ids, return_inverse=True)[1]


def _random_policy(chance, names, levels, preferred):
    kind = chance.choice(KINDS)
    a = chance.sample(names, chance.randint(1, len(names)))
    b = (
        chance.sample(names, chance.randint(1, max(1, len(names) // 2)))
        if kind in RELATIONS
        else ()
    )
    if kind == APART and chance.random() < 0.9:
        b = [name for name in names if name not in a] or b
    more = {}
    if kind == ANTI_AFFINITY:
        more['most'] = chance.choice([1, 1, 2, 3])
    if kind == SPREAD:
        more = {'min_domains': chance.randint(1, 3), 'max_skew': chance.choice([None, 0, 1, 2])}
    if chance.random() < preferred:
        more['weight'] = chance.choice([0.5, 1.0, 2.0])
    return policy(kind, chance.choice(levels), a, b, **more)

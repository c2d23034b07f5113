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
"""Small random problems: mixtures of all that there is, and blocks that are mostly alike."""

import random

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.problem import NOWHERE, Problem, Rule
from nova_sched.groups.definition import AFFINITY, ANTI_AFFINITY, NEAR, SPREAD, GroupPolicy

LEVELS = ['host', 'rack', 'zone', 'feed']  # feeds cross racks and zones


def mixture(seed, members=(2, 9), hosts=(2, 12), preferred=True):
    """A problem of a few members with any mixture of policies, fixed members, homes, ways and
    caps."""
    chance = random.Random(seed)
    m, h = chance.randint(*members), chance.randint(*hosts)
    kinds = chance.randint(1, 3)
    ways = chance.choice([1, 1, 1, 2])
    rack = np.sort([chance.randrange(max(1, h // 2)) for _ in range(h)])
    domains = [np.arange(h), rack, rack // 2, np.array([chance.randrange(3) for _ in range(h)])]
    order = np.array(chance.sample(range(h), h))  # hosts come in any order
    domains = [np.arange(h), *(_dense(ids[order]) for ids in domains[1:])]
    demand = np.array(
        [[[chance.randint(0, 3), chance.randint(1, 3)] for _ in range(ways)] for _ in range(kinds)]
    )
    if ways == 2:  # what one way takes of the first resource, the other takes of a third
        third = demand[:, :, :1].copy()
        third[:, 0] = 0
        demand[:, 1, 0] = 0
        demand = np.concatenate([demand, third], axis=2)
    free = np.array([[chance.randint(-1, 7) for _ in range(demand.shape[2])] for _ in range(h)])
    kind = np.array([chance.randrange(kinds) for _ in range(m)], dtype=np.int32)
    members = [f'app/{number}' for number in range(m)]
    policies = [
        _policy(chance, number, members, preferred) for number in range(chance.randint(0, 5))
    ]
    index = {path: number for number, path in enumerate(members)}
    fixed = np.array(
        [chance.randrange(h) if chance.random() < 0.1 else -1 for _ in range(m)], dtype=np.int32
    )
    home = np.array(
        [chance.randrange(h) if chance.random() < 0.5 else -1 for _ in range(m)], dtype=np.int32
    )
    home[fixed >= 0] = -1
    some = chance.random
    rules = [Rule.of(policy, index, LEVELS) for policy in policies]
    others = random.Random(f'outsiders {seed}')
    for rule in rules:
        if rule.kind == definition.EXCLUSIVE and others.random() < 0.5:
            rule.outside = np.array([others.random() < 0.3 for _ in range(h)])
    return Problem(
        names=members,
        kind=kind,
        demand=demand.astype(np.int64),
        mask=np.array([[chance.random() < 0.85 for _ in range(h)] for _ in range(kinds)]),
        score=np.array(
            [[chance.randint(0, 5) for _ in range(h)] for _ in range(kinds)], dtype=np.float32
        ),
        free=free.astype(np.int64),
        domains=[ids.astype(np.int32) for ids in domains],
        levels=LEVELS,
        domain_names=_names(domains),
        occupied=np.array([chance.random() < 0.3 for _ in range(h)]),
        rules=rules,
        cap=np.array(
            [[chance.randint(0, 3) for _ in range(h)] for _ in range(kinds)], dtype=np.int32
        )
        if some() < 0.3
        else None,
        fixed=fixed if some() < 0.4 else NOWHERE,
        home=home if some() < 0.3 else NOWHERE,
    )


def _names(domains):
    return [
        [f'{level}-{d}' for d in range(max(ids) + 1)]
        for level, ids in zip(LEVELS, domains, strict=True)
    ]


def _dense(ids):
    return np.unique(ids, return_inverse=True)[1]


def _policy(chance, number, members, preferred):
    kind = chance.choice(definition.KINDS)
    some = [path for path in members if chance.random() < chance.choice([0.4, 1.0])] or members[:1]
    others = [path for path in members if chance.random() < 0.5] or members[-1:]
    return GroupPolicy(
        name=f'{kind} {number}',
        kind=kind,
        level=chance.choice(LEVELS),
        a=tuple(some),
        b=tuple(others) if kind in definition.RELATIONS else (),
        weight=chance.choice([1, 2, 5]) if preferred and chance.random() < 0.35 else None,
        most=chance.choice([1, 1, 2, 3]),
        min_domains=chance.choice([1, 1, 2, 3]) if kind == SPREAD else 1,
        max_skew=chance.choice([None, 0, 1, 1]) if kind == SPREAD else None,
    )


def cells(seed):
    """Blocks that are mostly alike, which the planner merges: few hosts, and just about enough."""
    chance = random.Random(seed)
    racks, per_rack = chance.randint(2, 4), chance.randint(2, 4)
    h = racks * per_rack
    rack = np.repeat(np.arange(racks), per_rack)
    feed = np.array([chance.randrange(2) for _ in range(h)])
    domains = [np.arange(h), rack, rack // 2, _dense(feed)]
    blocks, heads, workers = chance.randint(2, 4), chance.randint(0, 2), chance.randint(1, 3)
    level = chance.choice(['rack', 'rack', 'zone', 'feed'])
    members, kind, policies, every_head = [], [], [], []

    def keep(*given, **rest):
        policies.append(GroupPolicy(f'{len(policies)}', *given, **rest))

    most = chance.choice([1, 1, 2])
    joint = chance.random() < 0.6
    most_heads = chance.choice([1, 2])
    for block in range(blocks):
        extra = chance.random() < 0.15
        names = [f'{block}/head/{n}' for n in range(heads)]
        names += [f'{block}/worker/{n}' for n in range(workers + extra)]
        keep(AFFINITY, level, tuple(names))
        keep(ANTI_AFFINITY, 'host', tuple(names if joint else names[heads:]), most=most)
        members += names
        kind += [1] * heads + [0] * (workers + extra)
        every_head += names[:heads]
    if every_head and chance.random() < 0.5:
        keep(ANTI_AFFINITY, chance.choice(LEVELS), tuple(every_head), most=most_heads)
    if chance.random() < 0.3:
        keep(AFFINITY, chance.choice(['zone', 'feed']), tuple(members))
    if chance.random() < 0.3:
        keep(SPREAD, chance.choice(['rack', 'zone']), tuple(members), min_domains=2, max_skew=2)
    if every_head and chance.random() < 0.3:
        keep(NEAR, 'rack', tuple(members[-1:]), tuple(every_head))
    if chance.random() < 0.3:
        keep(chance.choice([AFFINITY, SPREAD]), 'zone', tuple(members), weight=2, min_domains=2)
    index = {path: number for number, path in enumerate(members)}
    homes = [chance.randrange(h) if chance.random() < 0.5 else -1 for _ in members]
    return Problem(
        names=members,
        kind=np.array(kind, dtype=np.int32),
        demand=np.array([[[1]], [[chance.randint(1, 2)]]], dtype=np.int64),
        mask=np.ones((2, h), dtype=bool),
        score=np.array(
            [[chance.randint(0, 5) for _ in range(h)] for _ in range(2)], dtype=np.float32
        ),
        free=np.array([[chance.randint(0, 4)] for _ in range(h)], dtype=np.int64),
        domains=[ids.astype(np.int32) for ids in domains],
        levels=LEVELS,
        domain_names=_names(domains),
        occupied=np.zeros(h, dtype=bool),
        rules=[Rule.of(policy, index, LEVELS) for policy in policies],
        home=np.array(homes, dtype=np.int32) if chance.random() < 0.2 else NOWHERE,
    )


def shards(seed):
    """Sets of members that differ in nothing but an anti-affinity of their own, which the planner
    merges."""
    chance = random.Random(seed)
    racks, per_rack = chance.randint(2, 4), chance.randint(1, 4)
    h = racks * per_rack
    rack = np.repeat(np.arange(racks), per_rack)
    domains = [
        np.arange(h),
        rack,
        rack // 2,
        _dense(np.array([chance.randrange(2) for _ in range(h)])),
    ]
    members, policies = [], []

    def keep(*given, **rest):
        policies.append(GroupPolicy(f'{len(policies)}', *given, **rest))

    levels = chance.choice([('host',), ('rack',), ('rack', 'host'), ('rack', 'feed')])
    most = chance.choice([1, 2])
    for shard in range(chance.randint(2, 4)):
        size = chance.choice([2, 2, 3])
        pair = chance.random() < 0.3  # of two who share a host
        names = [f'{shard}/{n}' for n in range(size)]
        for level in levels:
            keep(ANTI_AFFINITY, level, tuple(names), most=most + pair)
        if pair:
            keep(AFFINITY, 'host', tuple(names[:2]))
        members += names
    if chance.random() < 0.4:
        skew = chance.choice([None, 1])
        keep(SPREAD, chance.choice(['rack', 'zone']), tuple(members), min_domains=2, max_skew=skew)
    if chance.random() < 0.3:
        keep(NEAR, 'rack', tuple(members[:1]), tuple(members[1:]))
    if chance.random() < 0.3:
        keep(ANTI_AFFINITY, 'rack', tuple(members), most=2, weight=1)
    index = {path: number for number, path in enumerate(members)}
    homes = [chance.randrange(h) if chance.random() < 0.5 else -1 for _ in members]
    return Problem(
        names=members,
        kind=np.zeros(len(members), dtype=np.int32),
        demand=np.array([[[1]]], dtype=np.int64),
        mask=np.ones((1, h), dtype=bool),
        score=np.array([[chance.randint(0, 5) for _ in range(h)]], dtype=np.float32),
        free=np.array([[chance.randint(0, 3)] for _ in range(h)], dtype=np.int64),
        domains=[ids.astype(np.int32) for ids in domains],
        levels=LEVELS,
        domain_names=_names(domains),
        occupied=np.zeros(h, dtype=bool),
        rules=[Rule.of(policy, index, LEVELS) for policy in policies],
        home=np.array(homes, dtype=np.int32) if chance.random() < 0.2 else NOWHERE,
    )

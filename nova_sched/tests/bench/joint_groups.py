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
"""Random fleets that are nearly full, and groups such as people build, for the benchmark of joint
plans.

Hosts: 70 % have 64 vCPUs and 256 GiB, 30 % have 48 and 160, in racks of 20 of one size, in three
zones (five at 10,000 hosts). They are filled with servers of the sizes and frequencies of
``extensions/simulator/data`` to a share of all vCPUs, unevenly by rack and by host; 1 % are empty.
"""

import collections
import dataclasses
import functools
import random

import numpy as np

from nova_sched.extensions.simulator import trace
from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    APART,
    EXCLUSIVE,
    NEAR,
    SPREAD,
    Definition,
    GroupPolicy,
    Member,
    MemberFlavor,
)

GIB = 1024
LEVELS = ('host', 'rack', 'zone')
RESOURCES = ('VCPU', 'MEMORY_MB')
LARGE, SMALL = (64, 256 * GIB), (48, 160 * GIB)
RACK = 20
EMPTY = 0.01
# How alike racks and hosts are: the sum of the two parameters of a beta distribution.
ALIKE_RACKS, ALIKE_HOSTS = 40, 5
SMALLEST = 1, round(1.75 * GIB)  # by far the most frequent size
FAST = 'trait:CUSTOM_FAST_DISK'  # half of the racks have it
CARELESS = 0.1  # of the authors ask for what may contradict itself, or no cluster of this size has
SHAPES = {'tiers': 0.5, 'cells': 0.3, 'tight': 0.2}

# vCPUs and GiB; all are sizes of the trace.
SIZES = {
    'balancer': [(2, 4), (4, 7)],
    'web': [(2, 4), (4, 8)],
    'app': [(4, 8), (8, 14), (8, 16)],
    'cache': [(2, 14), (4, 28)],
    'database': [(4, 32), (8, 56), (8, 64)],
    'worker': [(2, 4), (4, 8), (8, 16)],
    'head': [(2, 14), (4, 28)],
    'node': [(2, 4), (4, 8), (8, 16)],
}


@dataclasses.dataclass(frozen=True, eq=False)
class Fleet:
    """Hosts in order of zone and rack. ``total`` and ``free`` int64 [H, 2]: vCPUs, MiB; the rest
    by host."""

    total: np.ndarray
    free: np.ndarray
    rack: np.ndarray
    zone: np.ndarray
    fast: np.ndarray

    @functools.cached_property
    def domain_names(self):
        return [
            [f'host-{host}' for host in range(len(self.free))],
            [f'rack-{rack}' for rack in range(int(self.rack[-1]) + 1)],
            [f'zone-{zone}' for zone in range(int(self.zone[-1]) + 1)],
        ]


@functools.lru_cache(maxsize=2)
def fleet(hosts, share, seed):
    """A fleet of so many hosts with ``share`` of all vCPUs in use."""
    chance = np.random.default_rng([hosts, round(share * 1000), seed])
    racks = hosts // RACK
    large = chance.permutation(racks) < round(0.7 * racks)
    rack = np.repeat(np.arange(racks, dtype=np.int32), RACK)
    total = np.where(large[rack, None], LARGE, SMALL).astype(np.int64)
    zones = 5 if hosts >= 10_000 else 3
    used = _filled(total, rack, share, chance)
    fast = (chance.permutation(racks) < racks // 2)[rack]
    return Fleet(total, total - used, rack, (rack * zones // racks).astype(np.int32), fast)


def _filled(total, rack, share, chance):
    """What is in use: servers one after the other, until the next is more than the host's own
    share."""
    counts = collections.Counter()
    for arrival in trace.load():
        counts[arrival.flavor.vcpus, arrival.flavor.memory_mb] += len(arrival)
    sizes = np.array(list(counts), dtype=np.int64)
    weights = np.array(list(counts.values())) / counts.total()
    sums = np.cumsum(sizes[chance.choice(len(sizes), (len(total), LARGE[0]), p=weights)], axis=1)
    empty, seed = chance.random(len(total)) < EMPTY, int(chance.integers(2**32))
    low, high = (
        share,
        0.9999,
    )  # the last server seldom fits: the mean asked for is above what is reached
    for _ in range(12):
        mean = (low + high) / 2
        again = np.random.default_rng(seed)
        by_rack = _beta(again, np.full(int(rack[-1]) + 1, mean), ALIKE_RACKS)
        used = _prefix(sums, total, np.where(empty, 0.0, _beta(again, by_rack[rack], ALIKE_HOSTS)))
        low, high = (mean, high) if used[:, 0].sum() < share * total[:, 0].sum() else (low, mean)
    return used


def _beta(chance, mean, alike):
    mean = np.clip(mean, 0.001, 0.999)
    return chance.beta(mean * alike, (1 - mean) * alike)


def _prefix(sums, total, share):
    """The first servers that stay within the host's share of vCPUs; what is left of it in the
    smallest."""
    within = sums[:, :, 0] <= (share * total[:, 0])[:, None]
    count = np.argmin(np.column_stack([within, np.zeros(len(total), bool)]), axis=1)
    used = np.where(count[:, None] > 0, sums[np.arange(len(total)), count - 1], 0)
    left = np.floor(share * total[:, 0]).astype(np.int64) - used[:, 0]
    return used + left[:, None] * SMALLEST


def group(shape, members, seed):
    """A random Definition of exactly so many members; ``shape`` is one of SHAPES."""
    chance = random.Random(f'{shape} {members} {seed}')
    draft = _Draft(chance)
    {'tiers': _tiers, 'cells': _cells, 'tight': _tight}[shape](draft, members, chance)
    return Definition(draft.members, tuple(draft.policies))


def shape(seed):
    """Which of SHAPES, by their shares."""
    return random.Random(f'shape {seed}').choices(list(SHAPES), list(SHAPES.values()))[0]


def problem(cluster, definition, seed):
    """The planner's arrays of a group on a Fleet: masks by trait, scores 70 % free share and 30 %
    noise."""
    kinds = {member.flavor.name: member.flavor for member in definition.members.values()}
    numbers = {name: number for number, name in enumerate(kinds)}
    index = {path: number for number, path in enumerate(definition.members)}
    chance = np.random.default_rng(seed)
    hosts = len(cluster.free)
    free_share = np.clip(cluster.free[:, 0] / cluster.total[:, 0], 0.0, 1.0)
    everywhere = np.ones(hosts, dtype=bool)
    return Problem(
        names=list(definition.members),
        kind=np.array(
            [numbers[one.flavor.name] for one in definition.members.values()], dtype=np.int32
        ),
        demand=np.array(
            [[[kind.vcpus, kind.memory_mb]] for kind in kinds.values()], dtype=np.int64
        ),
        mask=np.array(
            [cluster.fast if FAST in kind.extra_specs else everywhere for kind in kinds.values()]
        ),
        score=(0.7 * free_share + 0.3 * chance.random((len(kinds), hosts))).astype(np.float32),
        free=cluster.free.copy(),
        domains=[np.arange(hosts, dtype=np.int32), cluster.rack, cluster.zone],
        levels=list(LEVELS),
        domain_names=cluster.domain_names,
        occupied=cluster.free[:, 0] < cluster.total[:, 0],
        rules=[Rule.of(policy, index, LEVELS) for policy in definition.policies],
        resources=list(RESOURCES),
        kind_names=list(kinds),
    )


class _Draft:
    """A definition that grows."""

    def __init__(self, chance):
        self.members, self.policies = {}, []
        self._chance = chance
        self._sizes = {role: chance.choice(sizes) for role, sizes in SIZES.items()}

    def add(self, role, count, name=None, fast=False):
        """Paths of ``count`` new members of one role, all of one size."""
        vcpus, gib = self._sizes[role]
        flavor = MemberFlavor(
            vcpus,
            gib * GIB,
            extra_specs={FAST: 'required'} if fast else {},
            name=f'{vcpus} vCPUs, {gib} GiB' + (', fast disk' if fast else ''),
        )
        paths = [f'{name or role}/{number}' for number in range(count)]
        self.members |= {path: Member(path, flavor) for path in paths}
        return paths

    def keep(self, kind, level, a, b=(), **rest):
        name = f'{kind} {a[0].rpartition("/")[0]} {level}'
        self.policies.append(GroupPolicy(name, kind, level, tuple(a), tuple(b), **rest))


def _shares(members, **shares):
    """How many of each role; the last takes what is left."""
    counts = {role: max(1, round(members * share)) for role, share in shares.items()}
    last = list(counts)[-1]
    counts[last] = members - sum(counts.values()) + counts[last]
    return counts


def _tiers(draft, members, chance):
    """A service in tiers: balancers, web, app, cache, and a database in shards of three."""
    shards = max(1, round(members * 0.06))
    counts = _shares(members - 3 * shards, balancer=0.06, cache=0.12, app=0.4, web=0.42)
    fast = chance.random() < 0.4
    database = [draft.add('database', 3, f'database/{number}', fast) for number in range(shards)]
    tier = {role: draft.add(role, count) for role, count in counts.items()}
    is_near = (
        chance.random() < 0.5
    )  # each rack of app has a cache; few authors ask for more racks than caches
    most = len(tier['cache']) if is_near and chance.random() > CARELESS else members
    draft.keep(ANTI_AFFINITY, 'host', tier['balancer'])
    if len(tier['balancer']) > 1:
        draft.keep(SPREAD, 'rack', tier['balancer'], min_domains=2)
    for role in ('web', 'app'):
        count = len(tier[role])
        draft.keep(ANTI_AFFINITY, 'host', tier[role], most=chance.choice([1, 2, 4]))
        racks = min(count, chance.choice([2, 3, 4]), most if role == 'app' else members)
        skew = chance.choice([None, None, 1, 2])
        draft.keep(SPREAD, 'rack', tier[role], min_domains=racks, max_skew=skew)
    draft.keep(ANTI_AFFINITY, 'host', tier['cache'])
    for shard in database:
        draft.keep(ANTI_AFFINITY, chance.choice(['host', 'rack']), shard)
    if chance.random() < 0.5:
        draft.keep(AFFINITY, 'zone', list(draft.members))
    else:
        for paths in (*database, tier['web']):
            draft.keep(SPREAD, 'zone', paths, min_domains=min(len(paths), chance.choice([2, 3])))
    if is_near:
        draft.keep(NEAR, 'rack', tier['app'], tier['cache'])
    if chance.random() < 0.3:
        draft.keep(NEAR, 'zone', tier['web'], tier['app'])
    draft.keep(APART, 'host', tier['cache'], [path for shard in database for path in shard])
    if chance.random() < 0.5:
        draft.keep(APART, 'rack', tier['balancer'], database[0])
    if chance.random() < 0.15:
        draft.keep(EXCLUSIVE, 'host', database[0][:1])
    if chance.random() < 0.3:
        draft.keep(NEAR, 'rack', tier['web'], tier['cache'], weight=0.1)


def _cells(draft, members, chance):
    """Cells of a few workers in a rack each, with a head, and controllers near the heads."""
    controllers = max(1, members // 40)
    size = min(members - controllers, chance.choice([4, 5, 6, 8, 10]))
    count = max(1, (members - controllers) // size)
    sizes = [size] * count
    for extra in range(members - controllers - size * count):
        sizes[extra % count] += 1
    heads = []
    for number, workers in enumerate(sizes):
        head = draft.add('head', 1, f'cell/{number}/head')
        cell = head + draft.add('worker', workers - 1, f'cell/{number}/worker')
        draft.keep(AFFINITY, 'rack', cell)
        draft.keep(ANTI_AFFINITY, 'host', cell)
        heads += head
    most = max(chance.choice([1, 2, 3]), -(-count // 8) if chance.random() > CARELESS else 1)
    draft.keep(ANTI_AFFINITY, 'rack', heads, most=most)
    control = draft.add('balancer', controllers, 'control')
    draft.keep(ANTI_AFFINITY, 'host', control)
    draft.keep(NEAR, chance.choice(['rack', 'zone']), control, heads)
    if chance.random() < 0.5:
        draft.keep(AFFINITY, 'zone', list(draft.members))
    elif count > 1:
        draft.keep(SPREAD, 'zone', heads, min_domains=2)


def _tight(draft, members, chance):
    """Blocks of many in one rack, at most two on a host, apart from each other; a head near the
    first."""
    size = min(members - 1, chance.choice([8, 12, 16]))
    count = max(1, (members - 1) // size)
    sizes = [size] * count
    for extra in range(members - 1 - size * count):
        sizes[extra % count] += 1
    blocks = [draft.add('node', nodes, f'block/{number}') for number, nodes in enumerate(sizes)]
    for block in blocks:
        draft.keep(AFFINITY, 'rack', block)
        draft.keep(ANTI_AFFINITY, 'host', block, most=2)
    draft.keep(NEAR, 'rack', draft.add('head', 1, 'head'), blocks[0])
    for one, other in zip(blocks[::2], blocks[1::2], strict=False):
        draft.keep(APART, 'rack', one, other)
    if chance.random() < 0.3:
        draft.keep(AFFINITY, 'zone', list(draft.members))

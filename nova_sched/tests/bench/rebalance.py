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
"""How long plans of moves take, and how many hosts they empty: `python -m
nova_sched.tests.bench.rebalance`.

The clouds have hosts of 64 vCPUs and 160 GiB, in three zones. Servers of the sizes of flavors
come and go until the given share of the vCPUs is in use, placed by best fit or on the emptiest
host; three of ten are bound to a zone, a quarter are in anti-affine groups of 2 to 8, and 3 of 100
stay. The plan is for 1 % of the servers.
"""

import argparse
import time

import numpy as np

from nova_sched.extensions.optimize.rebalance.bound import most_emptied
from nova_sched.extensions.optimize.rebalance.greedy import empty, fit, spread
from nova_sched.extensions.optimize.rebalance.problem import RebalanceProblem, Servers

SIZES = np.array(
    [(1, 2), (2, 4), (2, 8), (4, 8), (4, 16), (8, 16), (8, 32), (16, 32), (1, 1), (2, 2)],
    dtype=np.int64,
)
WEIGHTS = (30, 20, 12, 10, 8, 6, 4, 2, 5, 3)
ZONES = 3
HOST = (64, 160)
LARGE = (16, 40)


def made(hosts, policy, load, seed=1, churn=1.0):
    """A RebalanceProblem, after ``churn`` times as many departures as it holds servers."""
    random = np.random.default_rng(seed)
    free = np.tile(np.array(HOST, dtype=np.int64), (hosts, 1))
    zone = (np.arange(hosts) % ZONES).astype(np.int32)
    share = np.array(WEIGHTS) / sum(WEIGHTS)
    servers: list = []
    used, goal, left = 0, int(load * hosts * HOST[0]), None
    group, members, number = -1, 0, 0
    there: dict[int, list[int]] = {}
    while True:
        if used >= goal:
            if left is None:
                left = int(churn * len(servers))
            if left <= 0:
                break
            place = int(random.integers(len(servers)))
            host, size, _, family, _ = servers[place]
            servers[place] = servers[-1]
            servers.pop()
            free[host] += SIZES[size]
            used -= SIZES[size][0]
            if family >= 0:
                there[family].remove(host)
            left -= 1
            continue
        if members == 0:
            number += 1
            grouped = random.random() < 0.1
            group, members = (number, int(random.integers(2, 9))) if grouped else (-1, 1)
        members -= 1
        size = int(random.choice(len(SIZES), p=share))
        bound = int(random.integers(ZONES)) if random.random() < 0.3 else -1
        fits = (free >= SIZES[size]).all(axis=1)
        if bound >= 0:
            fits &= zone == bound
        if group >= 0:
            fits[there.setdefault(group, [])] = False
        rows = np.flatnonzero(fits)
        if not len(rows):
            continue
        volume = (free[rows] / HOST).sum(axis=1)
        host = int(rows[volume.argmin() if policy == 'best fit' else volume.argmax()])
        free[host] -= SIZES[size]
        used += SIZES[size][0]
        if group >= 0:
            there[group].append(host)
        servers.append((host, size, bound, group, random.random() < 0.03))
    return _problem(free, zone, servers, random)


def _problem(free, zone, servers, random):
    hosts = len(free)
    host, size, bound, family, stays = (np.array(part) for part in zip(*servers, strict=True))
    kinds = len(SIZES) * (ZONES + 1)
    allowed = np.ones((kinds, hosts), dtype=bool)
    for kind in range(kinds):
        if kind % (ZONES + 1):
            allowed[kind] = zone == kind % (ZONES + 1) - 1
    return RebalanceProblem(
        nodes=[f'node-{row}' for row in range(hosts)],
        names=[f'host-{row}' for row in range(hosts)],
        columns=['VCPU', 'MEMORY_MB'],
        total=np.tile(np.array(HOST, dtype=np.int64), (hosts, 1)),
        free=free,
        demand=np.repeat(SIZES, ZONES + 1, axis=0),
        allowed=allowed,
        closed_by=[None] * kinds,
        servers=Servers(
            uuids=[f'server-{row}' for row in range(len(servers))],
            host=host.astype(np.int32),
            kind=(size * (ZONES + 1) + bound + 1).astype(np.int32),
            fixed=stays.astype(np.int16),
            families=np.stack([family, np.full(len(family), -1)], axis=1).astype(np.int32),
            confined=np.zeros(len(servers), dtype=bool),
            created_s=random.random(len(servers)),
        ),
        strangers=np.zeros(hosts, dtype=np.int64),
        domain=zone,
        sources=np.ones(hosts, dtype=bool),
        destinations=np.ones(hosts, dtype=bool),
        reasons=['', 'devices of its own'],
    )


def joined(problem, times):
    """The problem, ``times`` times side by side."""
    servers, hosts = problem.servers, len(problem)

    def repeated(array):
        return np.concatenate([array] * times)

    offsets = np.repeat(np.arange(times, dtype=np.int32), len(servers.uuids))
    families = repeated(servers.families)
    apart = offsets[:, np.newaxis] * (int(servers.families.max()) + 1)
    return RebalanceProblem(
        nodes=[f'node-{row}' for row in range(hosts * times)],
        names=[f'host-{row}' for row in range(hosts * times)],
        columns=problem.columns,
        total=repeated(problem.total),
        free=repeated(problem.free),
        demand=problem.demand,
        allowed=np.concatenate([problem.allowed] * times, axis=1),
        closed_by=problem.closed_by,
        servers=Servers(
            uuids=[f'server-{row}' for row in range(len(servers.uuids) * times)],
            host=repeated(servers.host) + offsets * hosts,
            kind=repeated(servers.kind),
            fixed=repeated(servers.fixed),
            families=np.where(families >= 0, families + apart, -1).astype(np.int32),
            confined=repeated(servers.confined),
            created_s=repeated(servers.created_s),
        ),
        strangers=repeated(problem.strangers),
        domain=repeated(problem.domain),
        sources=repeated(problem.sources),
        destinations=repeated(problem.destinations),
        reasons=problem.reasons,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=1000)
    parser.add_argument('--times', type=int, nargs='+', default=[1, 10])
    parser.add_argument('--share', type=float, nargs='+', default=[0.01])
    parser.add_argument('--others', action='store_true', help='also the goals fit and spread')
    options = parser.parse_args()
    print('state               hosts  servers  moves    goal     s      before  after  bound  by')
    for policy, load in (('spread', 0.8), ('best fit', 0.8), ('best fit', 0.9)):
        one = made(options.hosts, policy, load)
        for times in options.times:
            problem = joined(one, times)
            for share in options.share:
                _show(f'{policy} {load:.0%}', problem, share, options.others)


def _show(name, problem, share, others):
    most = int(len(problem.servers.uuids) * share)
    bound = most_emptied(problem, most)
    goals = {'empty': lambda: empty(problem, most, bound)}
    if others:
        everywhere = np.ones(len(problem), dtype=bool)
        goals['fit'] = lambda: fit(problem, np.array(LARGE), everywhere, most)
        goals['spread'] = lambda: spread(problem, most)
    for goal, make in goals.items():
        begin_s = time.perf_counter()
        plan = make()
        took_s = time.perf_counter() - begin_s
        print(
            f'{name:18} {len(problem):6} {len(problem.servers.uuids):8} {len(plan.moves):6}  '
            f'{goal:7} {took_s:6.3f}  {plan.before:7.4g} {plan.after:6.4g}  '
            f'{_gain(bound, plan, goal)}',
            flush=True,
        )


def _gain(bound, plan, goal):
    return f'{len(plan.emptied)}/{bound.most}  {bound.by}' if goal == 'empty' else '-'


if __name__ == '__main__':
    main()

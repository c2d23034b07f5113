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
"""Small problems for the tests of plans: built by hand, and random ones."""

import numpy as np

from nova_sched.extensions.optimize.rebalance.problem import RebalanceProblem, Servers

COLUMNS = ['VCPU', 'MEMORY_MB', 'DISK_GB']


def problem(hosts, kinds, servers, **fields):
    """A RebalanceProblem. ``hosts``: the total of each host, ``kinds``: the demand of each kind (a
    row of COLUMNS, or the vCPUs alone, each with 1 of the rest). ``servers``: (host, kind) of
    each, or (host, kind, fields), where ``fixed`` is a reason, and ``families`` are numbers."""
    total = np.array([_row(one, 1000) for one in hosts], dtype=np.int64).reshape(len(hosts), 3)
    demand = np.array([_row(one, 1) for one in kinds], dtype=np.int64)
    reasons, rows = [''], []
    for host, kind, *more in servers:
        words = more[0] if more else {}
        why = words.get('fixed', '')
        if why not in reasons:
            reasons.append(why)
        families = (*words.get('families', ()), -1, -1)[:2]
        rows.append((host, kind, reasons.index(why), families, words.get('confined', False)))
    host, kind, fixed, families, confined = zip(*rows, strict=True) if rows else [()] * 5
    host, kind = np.array(host, dtype=np.int32), np.array(kind, dtype=np.int32)
    free = total.copy()
    np.subtract.at(free, host, demand[kind])
    return RebalanceProblem(
        nodes=[f'node-{row}' for row in range(len(hosts))],
        names=[f'host-{row}' for row in range(len(hosts))],
        columns=COLUMNS,
        total=total,
        free=free,
        demand=demand,
        allowed=fields.get('allowed', np.ones((len(kinds), len(hosts)), dtype=bool)),
        closed_by=[None] * len(kinds),
        servers=Servers(
            uuids=[f'server-{row}' for row in range(len(rows))],
            host=host,
            kind=kind,
            fixed=np.array(fixed, dtype=np.int16),
            families=np.array(families, dtype=np.int32).reshape(-1, 2),
            confined=np.array(confined, dtype=bool),
            created_s=fields.get('created_s', np.arange(len(rows), dtype=float)),
        ),
        strangers=fields.get('strangers', np.zeros(len(hosts), dtype=np.int64)),
        domain=fields.get('domain', np.zeros(len(hosts), dtype=np.int32)),
        sources=fields.get('sources', np.ones(len(hosts), dtype=bool)),
        destinations=fields.get('destinations', np.ones(len(hosts), dtype=bool)),
        reasons=reasons,
    )


def _row(one, rest):
    return one if isinstance(one, tuple) else (one, rest, rest)


def random_problem(random, hosts=12, fill=0.6):
    """A problem with zones (``domain``, and kinds that may go to one only), families of members on
    different hosts, and servers that stay."""
    domain = random.integers(0, 3, hosts).astype(np.int32)
    sizes = [(1, 2, 1), (2, 2, 5), (2, 8, 1), (4, 4, 10), (4, 16, 0), (8, 16, 20)]
    kinds = [size for size in sizes for _ in range(4)]  # each anywhere, or in one zone
    allowed = np.stack([domain == zone for _ in sizes for zone in range(-1, 3)])
    allowed[::4] = True
    allowed &= random.random(allowed.shape) < 0.95
    total = [(16, 64, 80) if random.random() < 0.7 else (32, 64, 100) for _ in range(hosts)]
    free = np.array(total)
    servers, last = [], {}
    for _ in range(hosts * 8):
        kind, host = int(random.integers(len(kinds))), int(random.integers(hosts))
        if not allowed[kind, host] or (free[host] < kinds[kind]).any():
            continue
        if free[host, 0] - kinds[kind][0] < total[host][0] * (1 - fill) * random.random():
            continue
        words, draw = {}, random.random()
        if draw < 0.3:
            family = int(random.integers(6))
            if host in last.setdefault(family, set()) and random.random() < 0.8:
                continue
            last[family].add(host)
            words = {'families': (family,), 'confined': family >= 4}
        elif draw < 0.35:
            words = {'fixed': 'devices of its own'}
        free[host] -= kinds[kind]
        servers.append((host, kind, words))
    return problem(
        total,
        kinds,
        servers,
        allowed=allowed,
        domain=domain,
        created_s=random.random(len(servers)),
        strangers=(random.random(hosts) < 0.05).astype(np.int64),
    )

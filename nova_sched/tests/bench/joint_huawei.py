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
"""Servers of a real cloud, many of them in groups, into the racks and NUMA cells of its hosts.

Our reading of the data: affinity is one rack, anti-affinity different hosts, members of different
fault domains share no rack; row i of the hosts is ``host-i``; a server of one cell takes either, a
server of two takes half of each. Servers come in the order of the sequence, and none leaves.

- one by one: a member that finds no host that keeps its group's policy is left out;
- at once: the whole group when its first member comes, but member by member, all or none;
- jointly: the whole group when its first member comes, planned as a whole, all or none.
"""

import collections
import csv
import dataclasses
import gzip
import itertools
import pathlib
import time

import numpy as np

from nova_sched.groups import definition, joint
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.problem import Problem, Rule, demand_sums
from nova_sched.groups.definition import GroupPolicy
from nova_sched.groups.limits import PlanLimits
from nova_sched.tests.bench.joint_tables import RACKS
from nova_sched.tests.bench.timing import p50_ms, p99_ms

DATA = pathlib.Path(__file__).parents[1] / 'data' / 'huawei-numa-topology-2025'
SEQUENCES = 'C1', 'C2', 'C3'
AFFINITY, ANTI_AFFINITY, FAULT_DOMAIN = 'affinity', 'anti-affinity', 'fault_domain'
ORDERS = 'first fit', 'pack', 'spread'
WAYS = 'one by one', 'at once', 'jointly'
LIMITS = PlanLimits(greedy_s=0.2, repair_s=0.0, improve_s=0.0, explain_s=0.0)
FIRST_HOSTS = 1_300  # the part of the hosts on which it is harder


@dataclasses.dataclass(frozen=True)
class Server:
    """One row: GiB and whole CPUs. ``group`` is its strategy and number there, None if it has
    none."""

    name: str
    vcpus: int
    ram_gb: int
    cells: int
    group: tuple[str, str] | None
    fault_domain: int | None

    @property
    def ways(self):
        """What it takes of the four resources of a host, in one of its ways."""
        cpus, ram_gb = self.vcpus // self.cells, self.ram_gb // self.cells
        if self.cells == 2:
            return [[cpus, ram_gb, cpus, ram_gb]] * 2
        return [[cpus, ram_gb, 0, 0], [0, 0, cpus, ram_gb]]


def servers(sequence):
    """All servers of a sequence, in their order."""
    return [
        Server(
            f'{sequence}-{number}',
            int(row['flavor_vcpus']),
            int(row['flavor_ram']),
            int(row['numa']),
            (row['strategy'], row['group']) if row['strategy'] else None,
            int(row['domain']) if row['domain'] else None,
        )
        for number, row in enumerate(table(f'VM_data_{sequence}'))
    ]


def hosts():
    """Free CPUs and GiB of the two cells, int64 [H, 4], and the rack, int32 [H], of each host."""
    free = np.array(
        [[int(row[name]) for name in ('CPU1', 'RAM1', 'CPU2', 'RAM2')] for row in table('PM_res')]
    )
    racks = {row['host_id']: row['rack_id'] for row in table('topology_provider')}
    names = [racks[f'host-{number}'] for number in range(len(free))]
    return free, np.unique(names, return_inverse=True)[1].astype(np.int32)


def table(name):
    """Rows of one file, as mappings."""
    with gzip.open(DATA / f'{name}.csv.gz', 'rt') as file:
        return list(csv.DictReader(file))


def policies_of(group, members, by_domain, level='rack'):
    """The policies of one group; ``by_domain``: its members by fault domain."""
    strategy, number = group
    name = f'{strategy} {number}'
    if strategy == AFFINITY:
        return [GroupPolicy(name, definition.AFFINITY, level, tuple(members))]
    if strategy == ANTI_AFFINITY:
        return [GroupPolicy(name, definition.ANTI_AFFINITY, 'host', tuple(members))]
    return [
        GroupPolicy(
            f'{name}: {one} and {other}',
            definition.APART,
            level,
            tuple(by_domain[one]),
            tuple(by_domain[other]),
        )
        for one, other in itertools.combinations(sorted(by_domain), 2)
    ]


class Cloud:
    """The hosts as arrays, and who was placed."""

    def __init__(self, order, count=None):
        free, racks = hosts()
        self.free, self.racks = free[:count], racks[:count]
        self._order = order
        self.placed = {}  # host by name of a server
        self.plan_s = []

    def score(self):
        """float32 [H]: best first, as the order says."""
        if self._order == 'first fit':
            return -np.arange(len(self.free), dtype=np.float32)
        left = (self.free[:, 1] + self.free[:, 3]).astype(
            np.float32
        )  # memory, as Nova's weigher has it
        return -left if self._order == 'pack' else left

    def place(self, server, allowed=True):
        """The host of one more server, which is taken, or None."""
        fits = (
            np.logical_or.reduce([(self.free >= way).all(axis=1) for way in np.array(server.ways)])
            & allowed
        )
        if not fits.any():
            return None
        host = int(np.argmax(np.where(fits, self.score(), -np.inf)))
        self._take(host, [server])
        return host

    def plan(self, problem, members):
        """Hosts of all members, which are taken, or None."""
        began_s = time.perf_counter()
        result = joint.plan(problem, LIMITS, None)
        self.plan_s.append(time.perf_counter() - began_s)
        if result.hosts is None:
            return None
        if wrong := policies.broken(problem, result.hosts):
            raise AssertionError(wrong)
        for host in np.unique(result.hosts):
            self._take(int(host), [members[one] for one in np.flatnonzero(result.hosts == host)])
        return [int(host) for host in result.hosts]

    def _take(self, host, members):
        """Of all ways to put them into the cells, the one that leaves the largest piece, or the
        evenest."""
        sums = demand_sums([np.array(member.ways) for member in members], self.free[host])
        left = self.free[host] - sums
        largest = np.maximum(left[:, 0], left[:, 2])
        best = np.argmin(largest) if self._order == 'spread' else np.argmax(largest)
        self.free[host] = left[best]
        if (left[best] < 0).any():
            raise AssertionError(f'host {host} is too full')


class Group:
    """The members of one group, and where those that are placed are."""

    def __init__(self, name, members):
        self.name, self.members = name, members
        self._hosts, self._racks = set(), {}

    def allowed(self, server, racks):
        """Hosts that keep the policy for one more member, against those that are placed."""
        if self.name[0] == AFFINITY:
            return np.isin(racks, list(self._racks)) if self._racks else True
        if self.name[0] == ANTI_AFFINITY:
            return ~np.isin(np.arange(len(racks)), list(self._hosts))
        others = [rack for rack, domain in self._racks.items() if domain != server.fault_domain]
        return ~np.isin(racks, others)

    def add(self, server, host, rack):
        self._hosts.add(host)
        self._racks[rack] = server.fault_domain

    def problem(self, cloud):
        by_domain = collections.defaultdict(list)
        for member in self.members:
            by_domain[member.fault_domain].append(member.name)
        names = [member.name for member in self.members]
        kinds = {(one.vcpus, one.ram_gb, one.cells): one.ways for one in self.members}
        numbers = {kind: number for number, kind in enumerate(kinds)}
        count, index = len(cloud.free), {name: number for number, name in enumerate(names)}
        levels = ['host', 'rack']
        return Problem(
            names=names,
            kind=np.array(
                [numbers[one.vcpus, one.ram_gb, one.cells] for one in self.members], dtype=np.int32
            ),
            demand=np.array(list(kinds.values()), dtype=np.int64),
            mask=np.ones((len(kinds), count), dtype=bool),
            score=np.tile(cloud.score(), (len(kinds), 1)),
            free=cloud.free.copy(),
            domains=[np.arange(count, dtype=np.int32), cloud.racks],
            levels=levels,
            domain_names=[
                [f'host-{host}' for host in range(count)],
                [f'rack-{rack}' for rack in range(int(cloud.racks.max()) + 1)],
            ],
            occupied=np.ones(count, dtype=bool),
            rules=[
                Rule.of(policy, index, levels)
                for policy in policies_of(self.name, names, by_domain)
            ],
            resources=['CPU of cell 0', 'GiB of cell 0', 'CPU of cell 1', 'GiB of cell 1'],
        )


def replay(sequence, order, way, count=None):
    """A Cloud after the sequence, and its groups."""
    cloud, arrivals = Cloud(order, count), servers(sequence)
    members = collections.defaultdict(list)
    for server in arrivals:
        if server.group:
            members[server.group].append(server)
    groups = {name: Group(name, own) for name, own in members.items()}
    settled = set()
    for server in arrivals:
        if server.group is None or way == 'one by one':
            _alone(cloud, server, groups.get(server.group))
        elif server.group not in settled:
            settled.add(server.group)
            (_at_once if way == 'at once' else _jointly)(cloud, groups[server.group])
    return cloud, groups


def _alone(cloud, server, group):
    host = cloud.place(server, True if group is None else group.allowed(server, cloud.racks))
    if host is not None:
        cloud.placed[server.name] = host
        if group is not None:
            group.add(server, host, int(cloud.racks[host]))
    return host is not None


def _at_once(cloud, group):
    free, placed = cloud.free.copy(), dict(cloud.placed)
    if not all(_alone(cloud, member, group) for member in group.members):
        cloud.free, cloud.placed = free, placed


def _jointly(cloud, group):
    planned = cloud.plan(group.problem(cloud), group.members)
    if planned is not None:
        cloud.placed |= {
            member.name: host for member, host in zip(group.members, planned, strict=True)
        }


def satisfied(cloud, groups):
    """How many groups have all their members placed."""
    return sum(
        all(member.name in cloud.placed for member in group.members) for group in groups.values()
    )


def rows(_budget_s=0.0):
    for count, sequence, order in itertools.product((None, FIRST_HOSTS), SEQUENCES, ORDERS):
        cells, plan_s = [], []
        for way in WAYS:
            cloud, groups = replay(sequence, order, way, count)
            cells.append(f'{satisfied(cloud, groups)} of {len(groups)} / {len(cloud.placed):,}')
            plan_s = cloud.plan_s
        what = f'{sequence}, {"all" if count is None else f"{count:,}"} hosts'
        times = f'{p50_ms(plan_s):.1f} ms', f'{p99_ms(plan_s):.1f} ms'
        yield dict(zip(RACKS, (what, order, *cells, *times), strict=True))

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
"""A plan of moves: where servers may go while it grows, and the rules that kept it from being
longer.

A host is either a source or a destination, never both: destinations only gain servers, and what
servers take of their sources stays taken. So the moves of a plan may be made in any order, some at
the same time, and none of them waits for another one.
"""

import collections
import dataclasses

import numpy as np

from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.extensions.optimize.rebalance.problem import MOVABLE, RebalanceProblem

ALONE = 'no other host'
ROOM, FAMILY, SCOPE, ROLE = 'no room', 'server group', 'scope of the plan', 'sources of the plan'
DOMAIN = 'domains of a placement group'
STRANGER = 'servers without a claim'
ONLY_EMPTY = 'only empty hosts have room'
PLACE_LOST = 'a place of the flavor would be lost'
NOT_LOWER = 'no host would be less full'


class Room:
    """The free amounts of destinations, the hosts of families, and what kept the plan from being
    longer. ``host_of`` has the moves so far: server -> destination (rows)."""

    def __init__(self, problem: RebalanceProblem):
        self.problem = problem
        self.free = problem.free.copy(order='F')  # columns are compared more often than rows
        self.host_of: dict[int, int] = {}
        self.leaving = np.zeros(len(problem), dtype=bool)  # sources
        self.gains = np.zeros(len(problem), dtype=np.int64)  # servers that come
        self._shares = problem.shares
        # The free share of each host, summed over the weighed columns.
        self.slack = (self.free * self._shares).sum(axis=1)
        self._volumes: dict[int, np.ndarray] = {}  # of a kind, in shares of each host
        self._open = problem.destinations.copy()
        # Family -> hosts that its members go to.
        self._goals: dict[int, set[int]] = collections.defaultdict(set)
        # Rule -> host -> a server that it keeps there.
        self._kept: dict[str, dict[int, int | None]] = collections.defaultdict(dict)

    def kind(self, server):
        return int(self.problem.servers.kind[server])

    def families_of(self, server):
        return [family for family in self.problem.servers.families[server].tolist() if family >= 0]

    def why_fixed(self, server):
        """Why the server cannot leave its host, wherever it would go; None if it can."""
        fixed = int(self.problem.servers.fixed[server])
        if fixed != MOVABLE:
            return self.problem.reasons[fixed]
        return FAMILY if self.problem.joined[server] else None

    def by_amounts(self, kind):
        """The destinations (bool) that have the free amounts for one more of the kind."""
        fits = self.problem.allowed[kind] & self._open
        for column, amount in enumerate(self.problem.demand[kind].tolist()):
            if amount:
                fits &= self.free[:, column] >= amount
        return fits

    def fits(self, server):
        """The hosts (bool) that the server may go to now."""
        servers, home = self.problem.servers, int(self.problem.servers.host[server])
        fits = self.by_amounts(self.kind(server))
        fits[home] = False
        if servers.confined[server]:
            fits &= self.problem.domain == self.problem.domain[home]
        for family in self.families_of(server):
            fits[self.problem.hosts_of_family(family)] = False
            fits[list(self._goals[family])] = False
        return fits

    def tightest(self, server, fits, tiers=()):
        """The host of these (bool) that has the least free share afterwards; None without one.

        ``tiers`` are masks: the hosts of the first one that has any come first.
        """
        for tier in tiers:
            first = fits & tier
            if first.any():
                fits = first
                break
        host = int(np.where(fits, self.slack - self.volume(self.kind(server)), np.inf).argmin())
        return host if fits[host] else None

    def volume(self, kind):
        """How large a server of the kind is, in shares of each host (float64 [host])."""
        if kind not in self._volumes:
            self._volumes[kind] = self._shares @ self.problem.demand[kind]
        return self._volumes[kind]

    def place(self, server, host):
        """Let the server of a source go to a host."""
        self._add(server, host, 1)
        self.host_of[server] = host

    def undo(self, server):
        """Take back a move."""
        self._add(server, self.host_of.pop(server), -1)

    def stay(self, host):
        """Make a source that no server leaves an ordinary host again."""
        self.leaving[host] = False
        self._open[host] = self.problem.destinations[host]

    def leave(self, host):
        """Make a host a source: nothing goes there any more."""
        self.leaving[host], self._open[host] = True, False

    def _add(self, server, host, sign):
        demand = self.problem.demand[self.kind(server)]
        self.free[host] -= sign * demand
        self.slack[host] -= sign * float(self.volume(self.kind(server))[host])
        self.gains[host] += sign
        for family in self.families_of(server):
            change = self._goals[family].add if sign > 0 else self._goals[family].remove
            change(host)

    def keep(self, rule, host, server=None):
        """Note that a rule keeps a server (a row; None: one without a claim) on its host."""
        self._kept[rule].setdefault(host, server)

    def plan(self, is_spent, gone=None, before=None, after=None):
        """The Plan of the moves so far; ``gone`` are the hosts that are emptied, if known."""
        problem, obstacles = self.problem, []
        for rule, hosts in self._kept.items():
            host, server = next(iter(hosts.items()))
            name = None if server is None else problem.servers.uuids[server]
            obstacles.append(Obstacle(rule, len(hosts), name, host))
        return Plan(
            problem,
            ordered(problem, self.host_of),
            emptied(problem, self.host_of) if gone is None else gone,
            sorted(obstacles, key=lambda obstacle: (-obstacle.hosts, obstacle.rule)),
            is_spent,
            before,
            after,
        )

    def why_not(self, server):
        """The rule that stops a server which fits nowhere, as text."""
        problem, kind = self.problem, self.kind(server)
        home = int(problem.servers.host[server])
        allowed = problem.allowed[kind].copy()
        allowed[home] = False
        if not allowed.any():
            return problem.closed_by[kind] or ALONE
        if not (allowed & problem.destinations).any():
            return SCOPE
        allowed &= problem.destinations
        if not (allowed & ~self.leaving).any():
            return ROLE
        fits = self.by_amounts(kind)
        fits[home] = False
        if not fits.any():
            return self._short(allowed & self._open, kind)
        if (
            problem.servers.confined[server]
            and not (fits & (problem.domain == problem.domain[home])).any()
        ):
            return DOMAIN
        return FAMILY

    def _short(self, rows, kind):
        """Which column is short on the hosts that lack the fewest columns."""
        demand, free = self.problem.demand[kind], self.free[rows]
        short = (free < demand) & (demand > 0)
        counts = short.sum(axis=1)
        nearest = short[counts == counts.min()].sum(axis=0)
        return f'{ROOM}: {self.problem.columns[int(nearest.argmax())]}'


@dataclasses.dataclass(slots=True)
class Obstacle:
    """A rule that stopped the plan on ``hosts`` hosts; ``server`` and ``host`` (a row) are an
    example."""

    rule: str
    hosts: int
    server: str | None
    host: int


@dataclasses.dataclass(slots=True)
class Plan:
    """Moves in the order in which to make them: ``moves`` (server and destination, rows).

    ``emptied``: rows of the hosts that lose their last server. ``before`` and ``after`` are the
    figure of the goal: empty hosts, servers on the hosts to drain, places, or the highest share
    of use. ``bound``: the most hosts that any plan of this shape empties, found by the method
    ``bound_by``; None without one for the goal. ``is_spent``: the allowed moves are used, or the
    next host has more servers than moves are left.
    """

    problem: RebalanceProblem
    moves: list[tuple[int, int]]
    emptied: list[int]
    obstacles: list[Obstacle]
    is_spent: bool
    before: float | None = None
    after: float | None = None
    bound: int | None = None
    bound_by: str | None = None

    def to_moves(self):
        """The moves as Move, by UUID."""
        problem = self.problem
        return [
            Move(
                problem.servers.uuids[server],
                problem.nodes[problem.servers.host[server]],
                problem.nodes[host],
            )
            for server, host in self.moves
        ]


def ordered(problem, host_of):
    """The moves (server -> destination), the oldest server first: those that would end by
    themselves are mostly young."""
    created_s, uuids = problem.servers.created_s, problem.servers.uuids
    return sorted(host_of.items(), key=lambda move: (created_s[move[0]], uuids[move[0]]))


def emptied(problem, host_of):
    """The rows of hosts that have no server left."""
    lost = collections.Counter(int(problem.servers.host[server]) for server in host_of)
    counts = problem.counts
    return sorted(
        host
        for host, count in lost.items()
        if count == counts[host] and not problem.strangers[host]
    )

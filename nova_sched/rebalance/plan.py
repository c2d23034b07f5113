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
"""A plan of moves, and the rules that kept it from being longer."""

import collections
import dataclasses

from nova_sched.rebalance.fleet import Fleet
from nova_sched.rebalance.move import Move

STRANGER = 'servers without a claim'
ONLY_EMPTY = 'only empty hosts have room'
PLACE_LOST = 'a place of the flavor would be lost'
NOT_LOWER = 'no host would be less full'


@dataclasses.dataclass(slots=True)
class Obstacle:
    """A rule that stopped the plan on ``hosts`` hosts; ``server`` and ``host`` (a row) are an
    example."""

    rule: str
    hosts: int
    server: str | None
    host: int


class Obstacles:
    """Counts the hosts by the rule that kept their servers, for ``Plan.obstacles``."""

    def __init__(self, fleet: Fleet):
        self._fleet = fleet
        self._hosts: dict[str, dict[int, int | None]] = collections.defaultdict(dict)

    def add(self, rule, host, server=None):
        """Note that a rule keeps a server (a row; None: one without a claim) on its host."""
        self._hosts[rule].setdefault(host, server)

    def sorted(self):
        """A list of Obstacle, those of most hosts first."""
        found = []
        for rule, hosts in self._hosts.items():
            host, server = next(iter(hosts.items()))
            name = None if server is None else self._fleet.servers.uuids[server]
            found.append(Obstacle(rule, len(hosts), name, host))
        return sorted(found, key=lambda one: (-one.hosts, one.rule))


@dataclasses.dataclass(slots=True)
class Plan:
    """Moves in the order in which to make them: ``moves`` (server and destination, rows).

    ``emptied``: rows of the hosts that lose their last server. ``before`` and ``after`` are the
    figure of the goal: empty hosts, servers on the hosts to drain, places, or the highest share
    of use. ``bound``: the most hosts that any plan of this shape empties, found by the method
    ``bound_by``; None without one for the goal. ``is_spent``: the allowed moves are used, or the
    next host has more servers than moves are left.
    """

    fleet: Fleet
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
        fleet = self.fleet
        return [
            Move(
                fleet.servers.uuids[server],
                fleet.nodes[fleet.servers.host[server]],
                fleet.nodes[host],
            )
            for server, host in self.moves
        ]


def ordered(fleet, host_of):
    """The moves (server -> destination), the oldest server first: those that would end by
    themselves are mostly young."""
    created_s, uuids = fleet.servers.created_s, fleet.servers.uuids
    return sorted(host_of.items(), key=lambda move: (created_s[move[0]], uuids[move[0]]))


def emptied(fleet, host_of):
    """The rows of hosts that have no server left."""
    lost = collections.Counter(int(fleet.servers.host[server]) for server in host_of)
    counts = fleet.counts
    return sorted(
        host for host, count in lost.items() if count == counts[host] and not fleet.strangers[host]
    )

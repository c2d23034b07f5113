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
"""Replays the moves of a plan, and says which rule breaks. It knows nothing of the planner.

A server that moves holds its amounts on both hosts until its move is confirmed, and for good if
the move fails half-way; then the destination gives them back, or keeps them.
"""


class Broken(AssertionError):
    """A rule does not hold at some moment."""


class Replay:
    """The state of a RebalanceProblem of plain dictionaries, while moves are made."""

    def __init__(self, problem):
        self.problem = problem
        self.free = [list(map(int, row)) for row in problem.free]
        servers = problem.servers
        self.at = {row: {int(servers.host[row])} for row in range(len(servers.uuids))}
        self.moved = set()

    def begin(self, server, target):
        """The move starts: the destination holds the server too."""
        problem, servers = self.problem, self.problem.servers
        kind, source = int(servers.kind[server]), int(servers.host[server])
        self._check(self.at[server] == {source}, 'it is not on its source', server, target)
        self._check(target != source, 'it stays', server, target)
        self._check(servers.fixed[server] == 0, 'it is immovable', server, target)
        self._check(problem.allowed[kind, target], 'a filter refuses', server, target)
        self._check(problem.destinations[target], 'it is out of scope', server, target)
        self._check(problem.sources[source], 'its host is out of scope', server, target)
        if servers.confined[server]:
            same = problem.domain[source] == problem.domain[target]
            self._check(same, 'it leaves its domain', server, target)
        for family in {int(one) for one in servers.families[server]} - {-1}:
            for other, hosts in self.at.items():
                if other != server and family in servers.families[other]:
                    self._check(target not in hosts, 'a member is there', server, target)
                    self._check(source not in hosts, 'it leaves a member', server, target)
        for column, amount in enumerate(map(int, problem.demand[kind])):
            self.free[target][column] -= amount
            short = amount and self.free[target][column] < 0
            self._check(not short, f'no {problem.columns[column]}', server, target)
        self.at[server].add(target)

    def confirm(self, server, target):
        """The move is done: the source is free."""
        self._leave(server, int(self.problem.servers.host[server]))
        self.moved.add(server)

    def fail(self, server, target):
        """The move failed: the destination is free again, and the server is where it was."""
        self._leave(server, target)

    def _leave(self, server, host):
        self.at[server].remove(host)
        for column, amount in enumerate(
            map(int, self.problem.demand[self.problem.servers.kind[server]])
        ):
            self.free[host][column] += amount

    def emptied(self):
        """The hosts that have no server left, and had one."""
        full = {host for hosts in self.at.values() for host in hosts}
        before = {int(host) for host in self.problem.servers.host}
        strange = {row for row, count in enumerate(self.problem.strangers) if count}
        return sorted(before - full - strange)

    def _check(self, holds, why, server, target):
        if not holds:
            raise Broken(f'server {server} to host {target}: {why}')


def replay(problem, moves, random=None, in_flight=1, fails=0.0, most=None):
    """Make the moves: in order, or in a random one; up to ``in_flight`` at once, of which any is
    settled first; each fails with the probability ``fails``; ``most`` of them are begun. Returns
    the Replay. Raises Broken."""
    state, waiting, moves = Replay(problem), [], list(moves)
    if random is not None:
        random.shuffle(moves)
    for move in moves[:most]:
        state.begin(*move)
        waiting.append(move)
        while len(waiting) >= in_flight:
            place = 0 if random is None else int(random.integers(len(waiting)))
            fails_now = random is not None and random.random() < fails
            (state.fail if fails_now else state.confirm)(*waiting.pop(place))
    for move in waiting:
        state.confirm(*move)
    return state

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
"""One scheduler with its moves in a database, and conductors that a test plays."""

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims import ANY, ClaimSelector
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.rebalances import SqlRebalances
from nova_sched.db.tables import CLAIMS, MOVES
from nova_sched.engine.clock import StoreClock
from nova_sched.extensions.optimize.moves import RUNNING, RebalanceSettings
from nova_sched.extensions.optimize.moves.move_runner import MoveRunner
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.world import World

HOSTS = ('host-0', 'host-1', 'host-2')
SERVERS = tuple(uuid_of(f'server {number}') for number in range(4))


def node(host):
    return uuid_of(f'node {host}')


def move(server, source='host-0', destination='host-1'):
    return Move(server, node(source), node(destination))


class Conductors:
    """``answers``: what ``start`` returns or raises for a server; without one, that it runs.
    ``started`` are the entries that were handed over, ``unknown`` the servers without a spec."""

    def __init__(self):
        self.answers, self.started, self.unknown = {}, [], set()
        self.is_away = False

    def request(self, server):
        if self.is_away:
            raise errors.NoAnswer('request_spec', 'no conductor runs')
        if server in self.unknown:
            raise errors.NotFound(f'Server {server}')
        return request(instance_uuid=server, vcpus=1, memory_mb=512)

    def start(self, entry, source, destination):
        if self.is_away:
            raise errors.NoAnswer('start', 'no conductor runs')
        self.started.append(entry)
        answer = self.answers.get(entry.server, (RUNNING, None))
        if isinstance(answer, Exception):
            raise answer
        return answer


class Direct:
    """A scheduler whose loop turns in the thread of the caller. ``before(work)`` is called before
    each call, for tests of what happens between two of them."""

    def __init__(self, world):
        self._world = world
        self.state_sync, self.claim_service = world.state_sync, world.claim_service
        self.position_and_count = (0, 1)
        self.before = lambda work: None

    def call(self, work, *args):
        self.before(work)
        return self._world.call(work, *args)

    def place(self, requests, claim=True):
        return self._world.place(*requests, claim=claim)


class MovingWorld:
    """Three hosts with 4 CPUs; servers 0 and 1 run on the first of them."""

    reads_nova = False

    def __init__(self, database, planner=None, **settings):
        self.store = SqlClaimStore(database)
        self.world = World(
            self.store, clock=StoreClock(self.store.now_s), reads_nova=self.reads_nova
        )
        self.cluster = self.world.cluster
        self.rebalances, self.conductors = SqlRebalances(database), Conductors()
        self.settings = RebalanceSettings(**settings)
        self.running = {host: set() for host in HOSTS}
        self.scheduler = Direct(self.world)
        self.runner = self.another(planner)

    def another(self, planner=None):
        """One more runner, as after a restart."""
        return MoveRunner(
            self.scheduler,
            self.world.context,
            self.rebalances,
            self.conductors,
            lambda: self.settings,
            planner,
        )

    def boot(self, host, *servers):
        """Servers run on a host, which has reported them."""
        self.report(host)
        for server in servers:
            asked = request(instance_uuid=server, vcpus=1, memory_mb=512)
            self.world.call(self.world.claim_service.claim, asked, host, host)
            self.running[host].add(server)
        self.report(host)
        self._age(servers)

    def _age(self, servers):
        """Each of the servers is a second younger than the one before: clocks have only
        milliseconds."""
        with self.rebalances._sessions.transaction() as connection:
            for place, server in enumerate(servers):
                change = sa.update(CLAIMS).where(CLAIMS.c.consumer_uuid == server)
                age_s = len(servers) - place
                connection.execute(change.values(created_s=CLAIMS.c.created_s - age_s))

    def report(self, host):
        here = frozenset(self.running.get(host, ()))
        self.world.report(
            report(host, vcpus=4, vcpus_used=len(here), memory_mb_used=512 * len(here),
                   instances=here)
        )  # fmt: skip

    def migrate(self, server, source='host-0', destination='host-1'):
        """The server is on another host, and nothing was told of it."""
        self.running[source].discard(server)
        self.running[destination].add(server)

    def hosts(self, server):
        """(host, state, move) of each claim of the server."""
        names = {one.uuid: one.host for one in self.cluster}
        return [(names[one.node_uuid], one.state, one.move) for one in self.store.claims(server)]

    def wait(self):
        """Nothing was heard of the moves in flight for long."""
        with self.rebalances._sessions.transaction() as connection:
            connection.execute(sa.update(MOVES).values(due_s=0.0))

    def turn_later(self):
        """The next pass looks at all moves in flight."""
        self.wait()
        self.runner.turn()

    def age(self, seconds):
        """So much of the time of the pending claims is over."""
        with self.rebalances._sessions.transaction() as connection:
            connection.execute(sa.update(CLAIMS).values(expires_s=CLAIMS.c.expires_s - seconds))

    def claim_by_hand(self, server, host, move=None, new=False, vcpus=1):
        """Another request claims for a server; a move names the pending claim that gives way."""
        asked = request(instance_uuid=server, vcpus=vcpus, memory_mb=512)
        pending = [one.name for one in self.store.claims(server) if not one.is_confirmed]
        meant = ClaimSelector(pending[0]) if move and pending else ANY
        claim = self.world.claim_service.claim
        return self.world.call(claim, asked, host, host, 'req', None, move, new, meant)

    def delete(self, server, host):
        """A user deletes a server: its conductor knows it no more, and its host reports that."""
        self.conductors.unknown.add(server)
        self.running[host].discard(server)
        self.report(host)
        self.report(host)

    def entries(self, rebalance):
        return {one.server: one for one in self.rebalances.moves(rebalance)}

    def states(self, rebalance):
        return [one.state for one in self.rebalances.moves(rebalance)]


STAYS, ARRIVED = ('host-0', CONFIRMED, None), ('host-1', CONFIRMED, None)

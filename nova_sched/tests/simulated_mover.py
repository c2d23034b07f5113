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
"""Moves of servers between simulated nodes, as a conductor that live-migrates them."""

import contextlib
import threading

from nova_sched import errors
from nova_sched.extensions.optimize import bus as moves
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.rpc import translate
from nova_sched.rpc.client import ClaimsClient


class SimulatedMigrations:
    """The servers, and the migrations of them, as all conductors share them in a database.

    ``specs`` maps each server to its RequestSpec. ``outcomes`` maps a move's UUID to (outcome,
    why).
    """

    def __init__(self, hosts):
        self.hosts, self.specs, self.outcomes = hosts, {}, {}
        self._lock = threading.Lock()
        self._moving = set()  # servers

    def host_of(self, server):
        """Return the host where a server runs, or None."""
        for node in self.hosts.nodes.values():
            if server in node.instances:
                return node.host
        return None

    def begin(self, move, server, host):
        """Return the recorded (outcome, why) of a move, or None for one that begins now. Raise
        MoveRefused while the server is moving otherwise.

        The record of a move whose conductor has died says where the server is.
        """
        with self._lock:
            if move in self.outcomes:
                return self.outcomes[move]
            if server in self._moving:
                raise errors.MoveRefused('another migration of the server runs')
            self._moving.add(server)
            self.outcomes[move] = RUNNING, None
            return None

    def migrate(self, move, server, source, host):
        """The server is on the node at once. Return (outcome, why), and record it."""
        nodes = self.hosts.nodes
        outcome, why = DONE, None
        with self._lock:
            try:
                (request,) = translate.requests(self.specs[server], [server])
                if server not in nodes[source].instances:
                    raise errors.MoveRefused(f'the server is not on host {source}')
                nodes[host].build(request)
                nodes[source].drop(server)
            except (errors.SchedError, KeyError) as error:
                outcome, why = FAILED, str(error)
            self._moving.discard(server)
            self.outcomes[move] = outcome, why
        return outcome, why

    def abandon(self, move, server):
        """The conductor of a migration has died before the server moved: it stays."""
        with self._lock:
            if self.outcomes[move][0] == RUNNING:
                self._moving.discard(server)
                del self.outcomes[move]


class SimulatedMover:
    """One conductor, on a bus under the name ``host``. ``pool`` runs its migrations.

    ``pause()`` is called in each migration before the server moves, and ``tell_times()`` is how
    often the outcome is told then.
    """

    def __init__(self, bus, host, migrations, pool, pause=lambda: None, tell_times=lambda: 1):
        self._migrations, self._pool = migrations, pool
        self._pause, self._tell_times = pause, tell_times
        self._claims, self._rebalance = (
            ClaimsClient(bus, moves.TIMEOUT_S),
            moves.RebalanceClient(bus),
        )
        self._server = moves.conductor_server(bus, host, self)
        self._killed = False

    def serve(self):
        """Take calls from now on."""
        self._server.start()

    def stop(self):
        """Take no more calls."""
        self._server.stop()
        self._server.finish()

    def kill(self):
        """Die in the middle of the work: nothing more is done, and nothing is told."""
        self._killed = True
        self.stop()

    # What MovesEndpoint calls.

    def request_spec(self, server):
        """Return the RequestSpec of a server. Raise NotFound."""
        if server not in self._migrations.specs:
            raise errors.NotFound(f'Server {server}')
        return self._migrations.specs[server]

    def start(self, move, server, claim, source, host, nodename):
        """Begin a migration. Return its outcome until now."""
        self.request_spec(server)
        known = self._migrations.begin(move, server, host)
        if known is not None:
            return known
        try:
            has_claim = any(held.uuid == claim for held in self._claims.show(server))
        except errors.SchedError:
            self._migrations.abandon(move, server)  # nothing has begun: the next call may begin it
            raise
        if not has_claim:
            self._migrations.abandon(move, server)
            raise errors.MoveRefused(f'claim {claim} on host {host} has ended')
        self._pool.submit(self._migrate, move, server, source, host)
        return RUNNING, None

    def _migrate(self, move, server, source, host):
        self._pause()
        if self._killed:
            self._migrations.abandon(move, server)
            return
        outcome, why = self._migrations.migrate(move, server, source, host)
        if self._killed:
            return
        for _ in range(self._tell_times()):
            with contextlib.suppress(errors.NoAnswer):  # a scheduler asks for the outcome then
                self._rebalance.finished(move, outcome, why)

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
"""The scheduler that has a move is stopped with SIGSTOP in each state, and goes on much later."""

import threading

import pytest

from nova_sched import errors
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine as db_engine
from nova_sched.db.rebalances import CONFIRMED, HANDED_OVER, HELD, REVERTED, WAITING, SqlRebalances
from nova_sched.extensions.optimize import bus as moves
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.rpc.client import StatsClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.functional.harness import compute_node, eventually, spec
from nova_sched.tests.integration import audit
from nova_sched.tests.integration.cloud import Cloud
from nova_sched.tests.integration.stage import upgraded

SERVER = uuid_of('server')
TAKES_S = 120.0  # until a scheduler has taken a move over, on a busy machine
GOES_ON_S = 12.0  # longer than a scheduler waits for the answer of a conductor
TTL_S = 4
STAYS, COMING = ('a', 'confirmed', None), ('b', 'pending', 'live-migration')
ARRIVED = ('b', 'confirmed', None)


class Mover:
    """A conductor. ``at(step)`` is called with the name of the method before it answers.

    ``outcomes`` are the recorded moves; one without a record begins. ``begun`` counts them.
    """

    def __init__(self):
        self.outcomes, self.begun, self.asked = {}, 0, 0
        self.at = lambda step: None
        self._lock = threading.Lock()

    def request_spec(self, server):
        self.at('request_spec')
        if server != SERVER:
            raise errors.NotFound(f'Server {server}')
        return spec()

    def start(self, move, server, claim, source, host, nodename):
        with self._lock:
            self.begun += move not in self.outcomes
            self.asked += 1
            found = self.outcomes.setdefault(move, (RUNNING, None))
        self.at('start')
        return found


class Stage:
    """SERVER runs on host a; a conductor and one scheduler run."""

    def __init__(self, cloud):
        self._cloud, self.mover = cloud, Mover()
        self.one = cloud.daemon('one')
        self._stats, self._seen = StatsClient(cloud.bus, timeout_s=60), {}
        self.report('a')
        self.report('b')
        cloud.claims.instance_claim(spec(), SERVER, 'a', 'a')
        self.report('a', SERVER)
        self._engine = db_engine.create(cloud.database)
        self.rebalances = SqlRebalances(self._engine)
        self._server = moves.conductor_server(cloud.bus, 'conductor', self.mover)
        self._server.start()

    def close(self):
        self._server.stop()
        self._engine.dispose()

    def report(self, host, *instances):
        """Twice: the second report has seen what the first one could not know of."""
        for _ in range(2):
            self._report(host, instances)

    def _report(self, host, instances):
        used = {'vcpus_used': len(instances), 'memory_mb_used': 512 * len(instances)}
        answer = self._stats.update_resource_stats(
            host, compute_node(host, **used), list(instances), seen=self._seen.get(host, 0)
        )
        self._seen[host] = answer['generation']

    def move(self):
        """A rebalance that moves the server from a to b."""
        nodes = (uuid_of(f'node {host}') for host in 'ab')
        self.rebalance = self.rebalances.create([Move(SERVER, *nodes)])

    @property
    def entry(self):
        (found,) = self.rebalances.moves(self.rebalance)
        return found

    def claims(self):
        """Of the database: schedulers may stand still."""
        claims, nodes = audit.rows(self._cloud.database, 'claims', 'nodes')
        hosts = {row['uuid']: row['host'] for row in nodes}
        return sorted((hosts[row['node_uuid']], row['state'], row['move']) for row in claims)

    def expire(self):
        """End the claims that were not renewed in time, as each scheduler that runs does."""
        return SqlClaimStore(self._engine).expire()

    def until(self, *states):
        eventually(lambda: self.entry.state in states, TAKES_S)

    def another(self):
        """One more scheduler, which goes on with what the first one has begun."""
        return self._cloud.daemon('two')

    def pause_at(self, step):
        """Stop the first scheduler when it calls this method of the conductor for the first time.
        Returns an event for when it stands still."""
        stopped = threading.Event()

        def at(name):
            if name == step and not stopped.is_set():
                self.one.pause()
                stopped.set()

        self.mover.at = at
        return stopped


@pytest.fixture
def stage(rabbitmq, postgresql, tmp_path):
    cloud = Cloud(tmp_path, rabbitmq.fresh(), upgraded(postgresql))
    cloud.options = {'claims.pending_ttl': 600}
    made = Stage(cloud)
    yield made
    made.close()
    cloud.close()


ENDS = {DONE: (CONFIRMED, [ARRIVED]), FAILED: (REVERTED, [STAYS])}


@pytest.mark.parametrize(
    'state, step, outcome',
    [
        pytest.param(WAITING, None, DONE, id='waiting-done'),
        pytest.param(WAITING, None, FAILED, id='waiting-failed', marks=ONLY_THOROUGH),
        pytest.param(HELD, 'request_spec', DONE, id='held-done'),
        pytest.param(HELD, 'request_spec', FAILED, id='held-failed', marks=ONLY_THOROUGH),
        pytest.param(HANDED_OVER, 'start', DONE, id='handed-over-done', marks=ONLY_THOROUGH),
        pytest.param(HANDED_OVER, 'start', FAILED, id='handed-over-failed'),
    ],
)
def test_a_standstill(stage, state, step, outcome):
    """Another scheduler carries the move to its end; then the first one goes on."""
    if state == WAITING:
        stage.one.pause()
        stage.move()
    else:
        stopped = stage.pause_at(step)
        stage.move()
        assert stopped.wait(TAKES_S)
    assert stage.entry.state == state
    stage.another()
    eventually(lambda: stage.mover.asked > (state == HANDED_OVER), TAKES_S)
    stage.mover.outcomes[stage.entry.uuid] = outcome, 'too busy' if outcome == FAILED else None
    stage.until(CONFIRMED, REVERTED)
    ended = stage.entry
    assert (ended.state, stage.claims()) == ENDS[outcome]
    stage.one.resume()
    began_s = stage.rebalances.now_s()
    eventually(lambda: stage.rebalances.now_s() > began_s + GOES_ON_S, TAKES_S)
    here, there = ([], [SERVER]) if outcome == DONE else ([SERVER], [])
    for _ in range(2):
        stage.report('a', *here)
        stage.report('b', *there)
    assert (stage.entry, stage.claims()) == (ended, ENDS[outcome][1])
    assert stage.mover.begun == 1
    assert audit.faults(stage._cloud.database) == []


def test_a_standstill_that_is_longer_than_a_claim_lives(stage):
    """The scheduler stands still while its move runs, and another one ends its claim; it claims
    again, and the server arrives."""
    stage._cloud.options = {'claims.pending_ttl': TTL_S}
    stage.one.stop()
    stage.one = stage._cloud.daemon('short')
    stage.move()
    eventually(lambda: stage.mover.asked > 3, TAKES_S)  # it is renewed
    first = stage.entry.claim_uuid
    assert stage.claims() == [STAYS, COMING]
    began_s = stage.rebalances.now_s()
    eventually(lambda: stage.rebalances.now_s() > began_s + 2 * TTL_S, TAKES_S)
    assert (stage.entry.claim_uuid, stage.claims()) == (first, [STAYS, COMING])
    stage.one.pause()
    eventually(stage.expire, TAKES_S)
    stage.one.resume()
    eventually(lambda: stage.entry.claim_uuid != first, TAKES_S)
    assert (stage.entry.state, stage.claims()) == (HANDED_OVER, [STAYS, COMING])
    assert 'has it again' in stage.one.said()
    stage.mover.outcomes[stage.entry.uuid] = DONE, None
    stage.until(CONFIRMED)
    assert (stage.entry.why, stage.claims()) == (None, [ARRIVED])
    assert stage.mover.begun == 1

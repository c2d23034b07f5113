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
"""Over a bus: a scheduler and a conductor carry out moves."""

import types

import pytest

from nova_sched import errors
from nova_sched.db import engine as db_engine
from nova_sched.db.rebalances import CONFIRMED, HANDED_OVER, REFUSED, REVERTED, SqlRebalances
from nova_sched.extensions.optimize import bus as moves
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.simulated_mover import SimulatedMigrations, SimulatedMover

ONE, TWO = uuid_of('one'), uuid_of('two')


class Mover:
    """A conductor that does what a test says; ``started`` are the moves that it got."""

    def __init__(self):
        self.specs, self.answer, self.started = {}, (RUNNING, None), []

    def request_spec(self, server):
        if server not in self.specs:
            raise errors.NotFound(f'Server {server}')
        return self.specs[server]

    def start(self, move, server, claim, source, host, nodename):
        self.started.append((move, server, claim, source, host, nodename))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def mover(daemon):
    made = Mover()
    server = moves.conductor_server(daemon.bus, 'conductor', made)
    server.start()
    yield made
    server.stop()
    server.finish()


@pytest.fixture
def rebalances(daemon):
    made = db_engine.create(f'sqlite:///{daemon.database}')
    yield SqlRebalances(made)
    made.dispose()


@pytest.fixture
def move(daemon, mover, rebalances):
    """Server ONE runs on a; a function that moves a server to b, and returns its entry when it
    is in one of these states."""
    daemon.add('a', 'b')
    mover.specs[ONE] = spec()
    daemon.claims.instance_claim(spec(), ONE, 'a', 'a')
    daemon.add('a', instances=[ONE])
    nodes = {row[1]: row[0] for row in daemon.table('nodes')}

    def run(server, *states):
        made = rebalances.create([Move(server, nodes['a'], nodes['b'])])
        return eventually(
            lambda: next((one for one in rebalances.moves(made) if one.state in states), None)
        )

    return run


def held(daemon):
    return [(one.host, one.state, one.move) for one in daemon.claims.show(ONE)]


def test_a_move_from_its_plan_to_its_end(daemon, mover, rebalances, move):
    entry = move(ONE, HANDED_OVER)
    coming = held(daemon)
    assert coming == [('a', 'confirmed', None), ('b', 'pending', 'live-migration')]
    eventually(lambda: mover.started)
    assert mover.started == [(entry.uuid, ONE, entry.claim_uuid, 'a', 'b', 'b')]
    client = moves.RebalanceClient(daemon.bus)
    client.finished(entry.uuid, DONE)
    client.finished(entry.uuid, FAILED, 'late')
    assert rebalances.find(entry.uuid).state == CONFIRMED
    assert held(daemon) == [('b', 'confirmed', None)]


def test_a_move_that_the_conductor_refuses(daemon, mover, move):
    mover.answer = errors.MoveRefused('the guest has a device')
    assert move(ONE, REVERTED).why == 'the guest has a device'
    assert held(daemon) == [('a', 'confirmed', None)]


def test_a_server_that_the_conductor_does_not_know(daemon, mover, move):
    mover.specs.clear()
    assert 'is not known' in move(ONE, REFUSED).why
    assert mover.started == []


def test_an_answer_that_makes_no_sense(daemon, mover, rebalances, move):
    """It says nothing of the move."""
    mover.answer = 'gone', 7
    entry = move(ONE, HANDED_OVER)
    eventually(lambda: mover.started)
    assert rebalances.find(entry.uuid).state == HANDED_OVER


@pytest.mark.parametrize(
    'words, error',
    [
        pytest.param({'move': uuid_of('none'), 'outcome': DONE}, errors.MoveNotFound, id='move'),
        pytest.param({'move': 7, 'outcome': DONE}, errors.InvalidRequest, id='no UUID'),
        pytest.param({'move': ONE, 'outcome': 'odd'}, errors.InvalidRequest, id='outcome'),
        pytest.param({'move': ONE, 'outcome': []}, errors.InvalidRequest, id='no text'),
        pytest.param(
            {'move': ONE, 'outcome': FAILED, 'why': 7}, errors.InvalidRequest, id='reason'
        ),
    ],
)
def test_messages_that_make_no_sense(daemon, words, error):
    with pytest.raises(error):
        moves.RebalanceClient(daemon.bus).finished(**words)


def test_a_simulated_conductor_whose_check_of_the_claim_gets_no_answer(daemon, monkeypatch):
    """Nothing has begun: the next call may begin it."""
    migrations = SimulatedMigrations(types.SimpleNamespace(nodes={}))
    migrations.specs[ONE] = spec()
    mover = SimulatedMover(daemon.bus, 'simulated', migrations, None)

    def away(_server):
        raise errors.NoAnswer('show', 'no scheduler runs')

    asked = uuid_of('move'), ONE, uuid_of('claim'), 'a', 'b', 'b'
    with monkeypatch.context() as broken:
        broken.setattr(mover._claims, 'show', away)
        with pytest.raises(errors.NoAnswer):
            mover.start(*asked)
    assert migrations.outcomes == {}
    with pytest.raises(errors.MoveRefused, match='has ended'):
        mover.start(*asked)
    assert migrations.outcomes == {}

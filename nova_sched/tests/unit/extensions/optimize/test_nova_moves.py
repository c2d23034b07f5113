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
"""Moves that Nova carries out: what is asked of it, and how each outcome is read."""

import pytest

from nova_sched import errors
from nova_sched.db import rebalances as states
from nova_sched.extensions.optimize.nova_moves import NovaMoves
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.fake_nova import client_of, served
from nova_sched.tests.unit.engine import conftest
from nova_sched.tests.unit.engine.rebalance.moving_world import (
    ARRIVED,
    SERVERS,
    STAYS,
    MovingWorld,
    move,
    node,
)

ONE, TWO, *_ = SERVERS
ASKED = [(ONE, 'host-1')]
upgraded, database = conftest.upgraded, conftest.database


class NovaWorld(MovingWorld):
    """The same hosts in a Nova cloud. ``changed`` are the hosts that the mirror is to read."""

    reads_nova = True

    def __init__(self, database, fake, **settings):
        super().__init__(database, **settings)
        self.fake, self.changed = fake, []
        self.conductors = self.moves()
        self.runner = self.another()
        self.boot('host-0', ONE, TWO)
        for host in ('host-1', 'host-2'):
            self.boot(host)
        fake.servers = {server: ['host-0', None] for server in (ONE, TWO)}

    def moves(self):
        return NovaMoves(
            client_of(self.fake),
            self.rebalances,
            self.stored,
            lambda host: self.changed.append(host),
        )

    def stored(self, server):
        return request(instance_uuid=server, vcpus=1, memory_mb=512)

    def run(self, *moves):
        """A rebalance whose moves have started."""
        self.made = self.rebalances.create(moves or [move(ONE)])
        self.runner.turn()
        return self.row()

    def poll(self, runner=None):
        """The row of the first server, after the moves were polled once more."""
        self.wait()
        (runner or self.runner).turn()
        return self.row()

    def row(self, server=ONE):
        return self.entries(self.made)[server]

    def schedule(self, host='host-1'):
        """Nova's conductor asks for the destination, and then Placement has both allocations."""
        self.world.call(
            self.world.claim_service.claim, self.stored(ONE), host, host, 'a call of a conductor'
        )
        self.running[host].add(ONE)
        self.report(host)


@pytest.fixture
def fake():
    with served() as made:
        yield made


@pytest.fixture
def nova(database, fake):
    return NovaWorld(database, fake)


def told(row):
    return row.state, row.why


def test_a_move_that_is_done(nova, fake):
    assert nova.run().state == states.HANDED_OVER
    assert (fake.asked, nova.hosts(ONE)) == (ASKED, [STAYS])
    nova.schedule()
    assert nova.hosts(ONE) == [STAYS, ARRIVED]
    for status in ('queued', 'preparing', 'running', 'post-migrating', 'a new one'):
        fake.migrations[-1] |= {'status': status, 'dest_compute': 'host-1'}
        # The claim is confirmed by its allocation, long before the server arrives.
        assert nova.poll().state == states.HANDED_OVER
    fake.end(ONE, host='host-1')
    assert told(nova.poll()) == (states.CONFIRMED, None)
    assert nova.changed == ['host-0', 'host-1']
    nova.running['host-0'].discard(ONE)
    nova.report('host-0')
    assert nova.hosts(ONE) == [ARRIVED]
    assert fake.asked == ASKED


@pytest.mark.parametrize('status', ['error', 'failed', 'cancelled'])
def test_a_move_that_fails(nova, fake, status):
    nova.run()
    nova.schedule()
    fake.end(ONE, status, details='No valid host was found. Too hot.')
    row = nova.poll()
    assert row.state == states.REVERTED
    migration = fake.migrations[-1]['uuid']
    assert row.why == f'No valid host was found. Too hot. (migration {migration} is {status})'
    assert nova.changed == ['host-0', 'host-1']
    nova.running['host-1'].discard(ONE)
    nova.report('host-1')
    assert nova.hosts(ONE) == [STAYS]


def test_a_failure_without_a_reason(nova, fake):
    nova.run()
    fake.end(ONE, 'error')
    assert nova.poll().why.startswith('Nova gives no reason (migration')


def test_a_migration_in_error_whose_server_has_arrived(nova, fake, caplog):
    """It failed after the guest was moved."""
    nova.run()
    fake.end(ONE, 'error', host='host-1')
    assert nova.poll().state == states.CONFIRMED
    assert 'is error in Nova, but the server is on host host-1' in caplog.text


@pytest.mark.parametrize(
    'host, state',
    [('host-1', states.CONFIRMED), (None, states.REVERTED)],
    ids=['there', 'deleted'],
)
def test_a_migration_that_ends_in_error_while_it_is_looked_at(
    nova, fake, monkeypatch, host, state
):
    """The server was read before, while it was on the source."""
    nova.run()
    api = nova.conductors._api
    real = api.live_migrations

    def live_migrations(server):
        fake.end(ONE, 'error', host='host-1')
        if host is None:
            del fake.servers[ONE]
        return real(server)

    monkeypatch.setattr(api, 'live_migrations', live_migrations)
    assert nova.poll().state == state


def test_old_migrations_are_not_those_of_the_move(nova, fake):
    """Even between the same hosts, and whatever their times say."""
    fake.migration(ONE, 'host-0', 'host-1', 'error')
    fake.migration(ONE, 'host-0', 'host-1', 'completed')
    assert nova.run().state == states.HANDED_OVER
    assert nova.row().claim_uuid == uuid_of('migration 2')
    assert fake.asked == ASKED
    fake.end(ONE, host='host-1')
    assert nova.poll().state == states.CONFIRMED


@pytest.mark.parametrize('status', ['running', 'completed', 'error'])
def test_a_migration_by_a_user_to_another_host(nova, fake, status):
    """It is not that of the move, whatever becomes of it; the server decides."""
    fake.broken['POST'] = 503, 'away'
    nova.run()
    del fake.broken['POST']
    fake.servers[ONE][1] = 'migrating'
    fake.migration(ONE, 'host-0', 'host-2', 'running')
    assert nova.poll().state == states.HANDED_OVER
    if status == 'completed':
        fake.end(ONE, host='host-2')
        assert told(nova.poll()) == (
            states.REVERTED,
            'the server is on host host-2, and not on the source of the move',
        )
    elif status == 'error':
        fake.end(ONE, 'error')
        assert nova.poll().state == states.HANDED_OVER
    assert fake.asked == (ASKED if status == 'error' else [])


def test_an_answer_that_is_lost(nova, fake):
    """Nova has done it, or not: its migrations tell, and it is not asked twice."""
    fake.loses_answers = True
    assert nova.run().state == states.HANDED_OVER
    fake.loses_answers = False
    fake.migrations.clear()  # the conductor has not got to it yet
    assert nova.poll().state == states.HANDED_OVER
    fake.migration(ONE, 'host-0')
    assert nova.poll().state == states.HANDED_OVER
    assert fake.asked == ASKED
    fake.end(ONE, host='host-1')
    assert nova.poll().state == states.CONFIRMED
    assert fake.asked == ASKED


def test_a_request_that_never_arrived_is_repeated(nova, fake):
    fake.broken['POST'] = 503, 'away'
    assert nova.run().state == states.HANDED_OVER
    assert nova.row().claim_uuid == nova.row().uuid  # there were no migrations
    del fake.broken['POST']
    assert nova.poll().state == states.HANDED_OVER
    assert fake.asked == ASKED


def test_a_request_that_arrives_twice(nova, fake):
    """Nova refuses the second one, because it moves the server: the move goes on."""

    def late():
        fake.before_post = lambda: None
        fake._act(ONE, {'host': 'host-1', 'block_migration': 'auto'})

    fake.before_post = late
    assert nova.run().state == states.HANDED_OVER
    assert fake.asked == ASKED


def test_a_scheduler_that_is_killed(nova, fake):
    """The next one finds the migration by the row."""
    nova.run()
    fake.end(ONE, host='host-1')
    nova.conductors = nova.moves()
    assert nova.poll(nova.another()).state == states.CONFIRMED
    assert fake.asked == ASKED


def test_a_scheduler_that_stood_still_before_it_asked(nova, fake):
    """Another one has asked meanwhile: the row has changed, so this one does not."""
    (made,) = [nova.rebalances.create([move(ONE)])]
    nova.made = made
    real = nova.rebalances.hand_over

    def hand_over(entry, mark):
        if entry.state == states.HANDED_OVER:
            nova.rebalances.hand_over = real
            nova.poll(nova.another())
            assert fake.asked == ASKED
            fake.end(ONE, 'error')  # so that Nova would take the second request
        return real(entry, mark)

    nova.rebalances.hand_over = hand_over
    nova.runner.turn()
    assert fake.asked == ASKED
    assert nova.poll().state == states.REVERTED


def test_the_server_is_deleted_meanwhile(nova, fake):
    nova.run()
    del fake.servers[ONE]
    assert told(nova.poll()) == (states.REVERTED, f'Server {ONE} is not known: it was deleted')


@pytest.mark.parametrize(
    'host, outcome',
    [
        ('host-1', (states.CONFIRMED, None)),
        (None, (states.REVERTED, 'the server is on no host, and not on the source of the move')),
    ],
    ids=['there already', 'shelved'],
)
def test_a_server_that_is_elsewhere_before_nova_is_asked(nova, fake, host, outcome):
    fake.servers[ONE][0] = host
    assert told(nova.run()) == outcome
    assert fake.asked == []


def test_a_server_that_is_busy(nova, fake):
    fake.servers[ONE][1] = 'powering-off'
    row = nova.run()
    assert row.state == states.REVERTED
    assert 'while it is in task_state powering-off' in row.why


def test_a_server_that_a_user_migrates_just_now(nova, fake):
    """The move waits for the end, and is asked for then if the server is still there."""
    fake.servers[ONE][1] = 'migrating'
    fake.migration(ONE, 'host-0')
    assert nova.run().state == states.HANDED_OVER
    assert fake.asked == []
    fake.end(ONE, 'error')
    assert nova.poll().state == states.HANDED_OVER
    assert fake.asked == ASKED


def test_an_unknown_server(nova, fake):
    del fake.servers[ONE]
    assert told(nova.run()) == (states.REFUSED, f'Server {ONE} is not known')


@pytest.mark.parametrize(
    'method, path', [('GET', '/os-migrations'), ('GET', f'/servers/{ONE}')], ids=['list', 'show']
)
def test_a_role_that_is_missing(nova, fake, method, path):
    """Without these rights the end of a move would not be seen, so it does not start."""
    fake.broken[method, path] = 403, {'forbidden': {'message': "Policy doesn't allow it"}}
    row = nova.run()
    assert row.state == states.REFUSED
    assert 'the account of [nova_api], which needs the role admin' in row.why
    assert "Policy doesn't allow it" in row.why
    assert fake.asked == []


def test_a_role_that_may_not_name_the_host(nova, fake):
    fake.broken['POST'] = 403, {'forbidden': {'message': "Policy doesn't allow migrate_live:host"}}
    row = nova.run()
    assert row.state == states.REVERTED
    assert 'needs the role admin' in row.why


def test_rights_that_are_lost_meanwhile(nova, fake):
    """Nothing is known of the move then, and it goes on in Nova."""
    nova.run()
    fake.broken['GET'] = 403, 'not any more'
    assert nova.poll().state == states.HANDED_OVER
    fake.broken.clear()
    fake.end(ONE, host='host-1')
    assert nova.poll().state == states.CONFIRMED


def test_nova_is_away(nova, fake):
    fake.broken['GET'] = 503, 'away'
    assert nova.run().state == states.HELD
    fake.broken.clear()
    assert nova.poll().state == states.HANDED_OVER
    fake.broken['GET'] = 503, 'away'
    assert nova.poll().state == states.HANDED_OVER
    fake.broken.clear()
    fake.end(ONE, 'error')
    fake.broken['GET', f'/servers/{ONE}/os-instance-actions'] = 503, 'away'
    assert nova.poll().state == states.HANDED_OVER
    fake.broken.clear()
    assert nova.poll().state == states.REVERTED


def test_what_nova_does_not_take(nova, fake):
    fake.broken['POST'] = 400, {'badRequest': {'message': 'Compute host host-1 not found.'}}
    row = nova.run()
    assert row.state == states.REVERTED
    assert 'Compute host host-1 not found.' in row.why


def test_checks_before_nova_is_asked(nova, fake):
    """They are those of every cloud."""
    nova.world.call(nova.world.state_sync.set_service, 'host-1', True, 'broken', None, 0.0)
    assert nova.run().state == states.REFUSED
    assert fake.asked == []


def test_a_server_that_another_request_moves(nova, fake):
    nova.schedule('host-2')
    row = nova.run()
    assert row.state == states.REFUSED
    assert 'by another request' in row.why
    assert fake.asked == []


def test_a_stored_request_that_cannot_be_read(nova):
    def stored(server):
        raise errors.MalformedObject('RequestSpec', 'it is no JSON')

    nova.conductors._request = stored
    row = nova.run()
    assert row.state == states.REFUSED
    assert 'no JSON' in row.why


def test_a_node_that_is_gone(nova):
    assert nova.run(move(ONE, destination='host-9')).state == states.REFUSED
    assert nova.row().why == f'the destination {node("host-9")} is not a known compute node'

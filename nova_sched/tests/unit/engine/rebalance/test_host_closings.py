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
"""Hosts that are closed for new servers, and opened again."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claims import ServiceFacts
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db.tables import CLOSED_HOSTS, MOVES, REBALANCES
from nova_sched.extensions.optimize.moves.host_closings import REASON, HostClosings
from nova_sched.extensions.optimize.nova_moves import ServiceSwitch
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_nova import client_of, served
from nova_sched.tests.unit.engine.rebalance.moving_world import SERVERS, MovingWorld, move


@pytest.fixture
def moving(database):
    made = MovingWorld(database)
    made.boot('host-0', SERVERS[0])
    made.boot('host-1')
    return made


def service(moving, host='host-0'):
    found = moving.cluster.service(host)
    return found.disabled, found.disabled_reason


def operator(moving, disabled, reason):
    set_service = moving.world.state_sync.set_service
    moving.world.call(set_service, 'host-0', disabled, reason, None, 0.0)


def let_time_pass(moving):
    with moving.rebalances._sessions.transaction() as connection:
        connection.execute(sa.update(CLOSED_HOSTS).values(until_s=1.0))


def test_closed_until_its_time_is_over(moving, monkeypatch):
    made = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    for _ in range(2):
        moving.runner.turn()
        disabled, reason = service(moving)
        assert disabled
        assert reason.startswith(f'closed by rebalance {made} until 20')
    assert not service(moving, 'host-1')[0]
    moving.rebalances.stop(made)
    moving.runner.turn()
    assert service(moving) == (False, None)
    assert moving.rebalances.closed_hosts() == []


def test_an_operator_who_has_disabled_it_before(moving):
    operator(moving, True, 'broken')
    made = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    moving.runner.turn()
    moving.rebalances.stop(made)
    moving.runner.turn()
    assert service(moving) == (True, 'broken')


@pytest.mark.parametrize('found', [(True, 'broken'), (False, None)])
def test_an_operator_who_changes_it_meanwhile(moving, found):
    moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    moving.runner.turn()
    operator(moving, *found)
    moving.runner.turn()
    assert service(moving) == found
    let_time_pass(moving)
    moving.runner.turn()
    assert service(moving) == found
    assert moving.rebalances.closed_hosts() == []


def test_a_longer_rebalance_keeps_it_closed(moving):
    first = moving.rebalances.create([move(SERVERS[0])], close_s=60.0)
    moving.runner.turn()
    moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    moving.rebalances.stop(first)
    moving.runner.turn()
    assert service(moving)[0]


class Services:
    """Those of Nova. The cell of the host ``down`` does not answer."""

    def __init__(self):
        self.closed, self.down = set(), None

    def close(self, name, reason):
        if name != self.down:
            self.closed.add(name)
        return name != self.down

    def open(self, name, reason):
        if name != self.down:
            self.closed.discard(name)
        return name != self.down


@pytest.mark.parametrize('down, other', [('host-0', 'host-1'), ('host-1', 'host-0')])
def test_a_host_whose_cell_is_down(moving, down, other):
    """It is closed and opened when the cell is back, and the other host at once."""
    moving.boot('host-1', SERVERS[1])
    services = Services()
    turn = HostClosings(moving.rebalances, moving.cluster, moving.world.call, services).turn
    made = moving.rebalances.create(
        [move(SERVERS[0]), move(SERVERS[1], source='host-1')], close_s=3600.0
    )
    services.down = down
    turn()
    assert services.closed == {other}
    services.down = None
    turn()
    assert services.closed == {down, other}
    moving.rebalances.stop(made)
    services.down = down
    turn()
    assert services.closed == {down}
    services.down = None
    turn()
    assert services.closed == set()
    assert moving.rebalances.closed_hosts() == []


# Schedulers that stand still or die between two steps.


def closings(moving):
    return moving.another()._closings


def interrupt(monkeypatch, owner, name, meanwhile, after=False):
    """Call ``meanwhile`` once, before or after a method of an object is called."""
    method = getattr(owner, name)

    def called(*words, **named):
        monkeypatch.setattr(owner, name, method)
        if not after:
            meanwhile()
        found = method(*words, **named)
        if after:
            meanwhile()
        return found

    monkeypatch.setattr(owner, name, called)


def test_one_that_dies_between_the_service_and_the_row(moving, monkeypatch):
    def die():
        raise KeyboardInterrupt

    made = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    interrupt(monkeypatch, moving.rebalances, 'set_closed', die)
    with pytest.raises(KeyboardInterrupt):
        closings(moving).turn()
    assert service(moving)[0]
    closings(moving).turn()
    ((host, _),) = moving.rebalances.closed_hosts()
    assert host.closed
    moving.rebalances.stop(made)
    interrupt(monkeypatch, moving.rebalances, 'drop_closed', die)
    with pytest.raises(KeyboardInterrupt):
        closings(moving).turn()
    closings(moving).turn()
    assert service(moving) == (False, None)
    assert moving.rebalances.closed_hosts() == []


@pytest.mark.parametrize('step', ['closed_hosts', 'set_closed'])
def test_one_that_stands_still_while_the_rebalance_is_stopped(moving, monkeypatch, step):
    """It closes a host after another scheduler has opened it."""
    made = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    one, other = closings(moving), closings(moving)

    def meanwhile():
        moving.rebalances.stop(made)
        other.turn()
        assert moving.rebalances.closed_hosts() == []

    interrupt(monkeypatch, moving.rebalances, step, meanwhile, after=step == 'closed_hosts')
    one.turn()
    assert service(moving)[0] == (step == 'closed_hosts')
    other.turn()
    assert service(moving) == (False, None)


def test_one_that_stands_still_while_the_host_is_closed_for_longer(moving, monkeypatch):
    """It opens a host that another rebalance has closed since."""
    made = moving.rebalances.create([move(SERVERS[0])], close_s=60.0)
    one, other = closings(moving), closings(moving)
    one.turn()
    moving.rebalances.stop(made)

    def meanwhile():
        moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
        other.turn()

    interrupt(monkeypatch, moving.rebalances, 'set_closed', meanwhile, after=True)
    one.turn()
    other.turn()
    ((host, is_over),) = moving.rebalances.closed_hosts()
    assert (host.closed, is_over) == (True, False)
    assert service(moving)[0]


def test_one_that_stands_still_while_the_host_is_opened_and_closed_again(moving, monkeypatch):
    first = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    one, other = closings(moving), closings(moving)

    def meanwhile():
        other.turn()
        moving.rebalances.stop(first)
        other.turn()
        moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)

    interrupt(monkeypatch, moving.rebalances, 'set_closed', meanwhile)
    one.turn()
    ((host, _),) = moving.rebalances.closed_hosts()
    assert not host.closed
    other.turn()
    ((host, _),) = moving.rebalances.closed_hosts()
    assert host.closed
    assert service(moving)[0]


@pytest.mark.parametrize('reason', ['closed by rebalance x until 2030-01-01T00:00:00Z', 'broken'])
def test_a_closed_host_without_a_row(moving, reason):
    """Only a service that a rebalance has disabled is enabled."""
    operator(moving, True, reason)
    moving.runner.turn()
    assert service(moving) == ((True, 'broken') if reason == 'broken' else (False, None))


def test_a_host_that_is_closed_just_then(moving, monkeypatch):
    """A service that no row explains is looked at again before it is enabled."""
    first, second = (f'closed by rebalance {one} until 2030-01-01T00:00:00Z' for one in 'xy')
    operator(moving, True, first)
    interrupt(
        monkeypatch, moving.rebalances, 'closed_hosts', lambda: operator(moving, True, second)
    )
    moving.runner.turn()
    assert service(moving)[0]


@pytest.mark.parametrize('step', ['close', 'open'])
def test_an_operator_who_disables_it_just_then(moving, database, monkeypatch, step):
    """Through another scheduler, between the decision and the change."""
    made = moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    if step == 'open':
        moving.runner.turn()
        moving.rebalances.stop(made)
    broken = ServiceFacts('host-0', True, 'broken', None)
    other = SqlClaimStore(database)
    interrupt(
        monkeypatch, moving.world.state_sync, 'set_service', lambda: other.set_service(broken)
    )
    moving.runner.turn()
    assert service(moving) == (True, 'broken')
    moving.rebalances.stop(made)
    moving.runner.turn()
    assert service(moving) == (True, 'broken')


def test_a_rebalance_whose_row_is_gone(moving):
    """Its hosts are opened when their time is over."""
    moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    moving.runner.turn()
    with moving.rebalances._sessions.transaction() as connection:
        connection.execute(sa.delete(MOVES))
        connection.execute(sa.delete(REBALANCES))
    moving.runner.turn()
    assert service(moving)[0]
    let_time_pass(moving)
    moving.runner.turn()
    assert service(moving) == (False, None)


def test_a_host_that_is_not_known(moving):
    """It is closed when it reports, and nothing is stored for it before."""
    moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
    with moving.rebalances._sessions.transaction() as connection:
        connection.execute(sa.update(CLOSED_HOSTS).values(host='host-9'))
    moving.runner.turn()
    ((host, _),) = moving.rebalances.closed_hosts()
    assert not host.closed
    moving.report('host-9')
    moving.runner.turn()
    ((host, _),) = moving.rebalances.closed_hosts()
    assert host.closed
    assert service(moving, 'host-9')[0]


# In Nova, a service is read in one request and changed in another one.


class NovaHost:
    """A host of a Nova cloud that is about to be opened, and two schedulers. ``api`` is that of
    the ``one`` which stands still just before its request, while another rebalance begins."""

    def __init__(self, moving, fake, has_row):
        self.moving, self.fake, self.api = moving, fake, client_of(fake)
        self.one, self.other = self._closings(self.api), self._closings(client_of(fake))
        reason = f'{REASON} x until 2030-01-01T00:00:00Z'
        if has_row:
            moving.rebalances.create([move(SERVERS[0])], close_s=60.0, new_uuid=uuid_of('first'))
            self.other.turn()
            moving.rebalances.stop(uuid_of('first'))
        else:
            operator(moving, True, reason)
            fake.services['host-0'] = ['disabled', reason]
        assert not self.is_open

    def _closings(self, api):
        services = ServiceSwitch(api)
        return HostClosings(
            self.moving.rebalances, self.moving.cluster, self.moving.world.call, services
        )

    def close(self):
        """Another rebalance, whose row is returned, closes the host."""
        self.moving.rebalances.create([move(SERVERS[0])], close_s=3600.0)
        self.other.turn()
        ((row, _),) = self.moving.rebalances.closed_hosts()
        assert row.closed
        return row

    @property
    def is_open(self):
        return self.fake.services['host-0'] == ['enabled', None]


@pytest.fixture(params=[True, False], ids=['with a row', 'without a row'])
def nova_host(moving, request):
    with served() as fake:
        fake.services = {'host-0': ['enabled', None]}
        yield NovaHost(moving, fake, request.param)


def test_a_host_of_nova_is_opened(nova_host):
    nova_host.one.turn()
    assert nova_host.is_open
    assert nova_host.moving.rebalances.closed_hosts() == []


def test_one_that_opens_a_host_of_nova_after_it_was_closed_again(nova_host, monkeypatch):
    interrupt(monkeypatch, nova_host.api, 'set_service', nova_host.close)
    nova_host.one.turn()
    assert not nova_host.is_open
    ((row, is_over),) = nova_host.moving.rebalances.closed_hosts()
    assert (row.closed, is_over) == (True, False)


def test_one_that_opens_it_just_before_the_row_says_closed(nova_host, monkeypatch):
    """The other one has closed it, and stands still as well."""
    rebalances, rows = nova_host.moving.rebalances, []

    def meanwhile():
        rows.append(nova_host.close())
        rebalances.set_closed(*rows, closed=False)

    interrupt(monkeypatch, nova_host.api, 'set_service', meanwhile)
    nova_host.one.turn()
    rebalances.set_closed(*rows)
    assert not nova_host.is_open


def test_one_whose_late_request_nova_does_without_an_answer(nova_host, monkeypatch):
    """The host is closed again when Nova answers again."""
    real = nova_host.api.set_service

    def set_service(*words):
        nova_host.close()
        real(*words)
        nova_host.fake.broken['GET'] = 503, 'away'
        raise errors.NovaUnavailable('no answer')

    monkeypatch.setattr(nova_host.api, 'set_service', set_service)
    nova_host.one.turn()
    assert nova_host.is_open
    nova_host.fake.broken.clear()
    nova_host.other.turn()
    assert not nova_host.is_open

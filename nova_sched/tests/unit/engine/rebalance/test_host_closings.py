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

from nova_sched.db.tables import CLOSED_HOSTS
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

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
"""The claim on the destination while its move runs: renewed, lost, and made again."""

import dataclasses
import logging

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, LIVE_MIGRATION, PENDING, RESIZE
from nova_sched.db import rebalances
from nova_sched.db.rebalances import HANDED_OVER, REVERTED
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.engine.rebalance.moving_world import (
    ARRIVED,
    SERVERS,
    STAYS,
    MovingWorld,
    move,
)

ONE, TWO, THREE, FOUR = SERVERS
COMING = ('host-1', PENDING, LIVE_MIGRATION)
TTL_S = 3600.0  # of a pending claim
OTHERS = [uuid_of(f'other {number}') for number in range(4)]  # as many as a host takes


@pytest.fixture
def moving(database):
    """A server moves from host-0 to host-1."""
    made = MovingWorld(database)
    made.boot('host-0', ONE)
    made.boot('host-1')
    made.boot('host-2')
    made.rebalance = made.rebalances.create([move(ONE)])
    made.runner.turn()
    assert made.hosts(ONE) == [STAYS, COMING]
    return made


def entry(moving):
    (found,) = moving.rebalances.moves(moving.rebalance)
    return found


def coming(moving):
    """The claim on the destination."""
    return moving.store.claims(ONE)[1]


def lose(moving):
    """No scheduler has renewed the claim in time, and one has ended it."""
    moving.age(TTL_S)
    assert [one.key for one in moving.store.expire()] == [(ONE, coming_node(moving))]


def coming_node(moving):
    return entry(moving).destination


def fill(moving, host='host-1'):
    """Other servers take all that is left of a host."""
    moving.boot(host, *OTHERS)


def left_s(moving):
    return coming(moving).expires_s - moving.store.now_s()


class TestRenewal:
    def test_as_long_as_the_conductor_says_that_it_runs(self, moving):
        made = coming(moving)
        for _ in range(3):  # a move of three hours
            moving.age(TTL_S - 20)
            assert left_s(moving) <= 20
            moving.turn_later()
            assert left_s(moving) == pytest.approx(TTL_S, abs=10)
        assert coming(moving).uuid == made.uuid
        assert entry(moving).state == HANDED_OVER

    @pytest.mark.parametrize('answer', [errors.NoAnswer('start', 'no conductor runs')])
    def test_not_without_an_answer(self, moving, answer):
        """A conductor that is gone for good keeps no capacity."""
        moving.conductors.answers[ONE] = answer
        moving.age(TTL_S - 20)
        moving.turn_later()
        assert left_s(moving) <= 20

    def test_a_claim_that_a_report_has_confirmed_stays(self, moving):
        moving.running['host-1'].add(ONE)
        moving.report('host-1')
        there = coming(moving)
        moving.turn_later()
        assert coming(moving) == there
        assert there.state == CONFIRMED

    @pytest.mark.parametrize(
        'ttl_s, again_s', [(3600.0, 10.0), (40.0, 10.0), (8.0, 2.0), (1.0, 0.25), (None, 10.0)]
    )
    def test_it_is_asked_for_often_enough(self, moving, monkeypatch, ttl_s, again_s):
        settings = dataclasses.replace(moving.world.settings, pending_ttl_s=ttl_s)
        moving.world.settings = settings
        monkeypatch.setattr(moving.runner._context, 'settings', lambda: settings)
        asked = []
        monkeypatch.setattr(moving.rebalances, 'take_due', asked.append)
        moving.runner.turn()
        assert asked == [again_s]


class TestLost:
    """It has ended while no scheduler ran, and the move goes on."""

    def test_it_is_claimed_again(self, moving, caplog):
        before = entry(moving)
        lose(moving)
        assert moving.hosts(ONE) == [STAYS]
        moving.turn_later()
        now = entry(moving)
        assert moving.hosts(ONE) == [STAYS, COMING]
        assert (now.state, now.claim_uuid, now.why) == (HANDED_OVER, coming(moving).uuid, None)
        assert now.claim_uuid != before.claim_uuid
        assert 'has it again' in caplog.text
        moving.migrate(ONE)
        moving.runner.tell(now.uuid, DONE)
        assert entry(moving).state == rebalances.CONFIRMED
        assert moving.hosts(ONE) == [ARRIVED]

    def test_one_whose_time_is_up_is_renewed_before_it_ends(self, moving):
        before = coming(moving)
        moving.age(TTL_S)
        moving.turn_later()
        assert moving.hosts(ONE) == [STAYS, COMING]
        assert coming(moving).uuid == before.uuid == entry(moving).claim_uuid
        assert moving.store.expire() == []

    def test_a_scheduler_that_dies_with_the_new_claim(self, moving, monkeypatch):
        lose(moving)

        def die(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as broken:
            broken.setattr(moving.rebalances, 'hand_over', die)
            with pytest.raises(KeyboardInterrupt):
                moving.turn_later()
        claimed = coming(moving)
        assert entry(moving).claim_uuid != claimed.uuid
        moving.turn_later()
        assert coming(moving).uuid == claimed.uuid
        moving.runner.tell(entry(moving).uuid, FAILED, 'too busy')
        assert entry(moving).state == REVERTED
        assert moving.hosts(ONE) == [STAYS]

    def test_its_capacity_is_gone(self, moving, caplog):
        """The operator is told once; it is tried again as long as the move runs."""
        lose(moving)
        fill(moving)
        for _ in range(3):
            moving.turn_later()
            assert entry(moving).state == HANDED_OVER
            assert 'no claim on the destination' in entry(moving).why
            assert 'VCPU' in entry(moving).why
        assert caplog.text.count('runs without a claim') == 1
        for server in OTHERS:
            moving.delete(server, 'host-1')
        moving.turn_later()
        assert entry(moving).why is None
        assert moving.hosts(ONE) == [STAYS, COMING]

    def test_another_request_has_claimed_for_the_server(self, moving):
        """Its claim is not replaced, whichever host it is on."""
        moving.claim_by_hand(ONE, 'host-2', RESIZE)
        moving.turn_later()
        assert ('host-2', PENDING, RESIZE) in moving.hosts(ONE)
        assert len(moving.hosts(ONE)) == 2
        assert 'by another request' in entry(moving).why

    def test_another_request_claims_just_then(self, moving, monkeypatch):
        """After the claims were looked at, and before the move has claimed."""
        lose(moving)
        check = moving.runner._claims._check_claims

        def late(*words):
            check(*words)
            monkeypatch.undo()
            moving.claim_by_hand(ONE, 'host-2', RESIZE)

        monkeypatch.setattr(moving.runner._claims, '_check_claims', late)
        moving.turn_later()
        assert ('host-2', PENDING, RESIZE) in moving.hosts(ONE)
        moving.turn_later()
        assert ('host-2', PENDING, RESIZE) in moving.hosts(ONE)

    def test_the_server_is_deleted(self, moving):
        lose(moving)
        moving.delete(ONE, 'host-0')
        moving.turn_later()
        assert moving.hosts(ONE) == []
        moving.conductors.answers[ONE] = errors.NotFound(f'Server {ONE}')
        moving.turn_later()
        assert entry(moving).state == REVERTED
        assert 'not known' in entry(moving).why

    def test_a_move_that_fails(self, moving):
        lose(moving)
        moving.conductors.answers[ONE] = FAILED, 'too busy'
        moving.turn_later()
        assert (entry(moving).state, entry(moving).why) == (REVERTED, 'too busy')
        assert moving.hosts(ONE) == [STAYS]


class TestArrivedWithoutAClaim:
    """The move is done, and the claim on the destination had ended before."""

    @pytest.fixture(params=['tell', 'ask'])
    def arrives(self, moving, request):
        """The conductor tells, or is asked."""

        def arrive():
            moving.conductors.answers[ONE] = DONE, None
            if request.param == 'tell':
                moving.runner.tell(entry(moving).uuid, DONE)
                assert entry(moving).state == HANDED_OVER
            moving.turn_later()

        return arrive

    def test_it_is_claimed_where_it_is(self, moving, arrives):
        lose(moving)
        moving.migrate(ONE)
        arrives()
        assert (entry(moving).state, entry(moving).why) == (rebalances.CONFIRMED, None)
        assert moving.hosts(ONE) == [ARRIVED]
        moving.report('host-1')
        moving.report('host-0')
        assert moving.hosts(ONE) == [ARRIVED]

    @pytest.mark.parametrize('hosts', [['host-0'], ['host-1'], ['host-0', 'host-1']])
    def test_reports_have_come_first(self, moving, arrives, hosts):
        """The source's ends the last claim of the server."""
        lose(moving)
        moving.migrate(ONE)
        for host in hosts:
            moving.report(host)
        assert moving.hosts(ONE) == ([] if 'host-0' in hosts else [STAYS])
        arrives()
        assert moving.hosts(ONE) == [ARRIVED]
        assert (entry(moving).state, entry(moving).why) == (rebalances.CONFIRMED, None)
        for host in ('host-0', 'host-1', 'host-1'):
            moving.report(host)
        assert moving.hosts(ONE) == [ARRIVED]

    def test_its_capacity_is_gone(self, moving, arrives, caplog):
        """An operator claims for it when there is room again: until then its use is unclaimed."""
        lose(moving)
        fill(moving)
        moving.migrate(ONE)
        arrives()
        assert entry(moving).state == rebalances.CONFIRMED
        assert 'without a claim there' in entry(moving).why
        assert 'VCPU' in entry(moving).why
        assert 'has no claim there' in caplog.text
        for host in ('host-0', 'host-1'):
            moving.report(host)
        assert moving.hosts(ONE) == []
        for server in OTHERS[:2]:
            moving.delete(server, 'host-1')
        moving.claim_by_hand(ONE, 'host-1', new=True)
        moving.report('host-1')
        assert moving.hosts(ONE) == [ARRIVED]

    def test_the_server_was_deleted_since(self, moving, arrives):
        lose(moving)
        moving.migrate(ONE)
        moving.delete(ONE, 'host-1')
        moving.report('host-0')
        arrives()
        assert entry(moving).state == rebalances.CONFIRMED
        assert 'not known' in entry(moving).why
        assert moving.hosts(ONE) == []

    def test_the_server_has_moved_on_since(self, moving):
        lose(moving)
        moving.migrate(ONE)
        moving.migrate(ONE, 'host-1', 'host-2')
        moving.claim_by_hand(ONE, 'host-2', LIVE_MIGRATION)
        for host in ('host-2', 'host-0'):
            moving.report(host)
        before = moving.hosts(ONE)
        assert [one for one, _, _ in before] == ['host-2']
        moving.runner.tell(entry(moving).uuid, DONE)
        assert (entry(moving).state, entry(moving).why) == (rebalances.CONFIRMED, None)
        assert moving.hosts(ONE) == before

    def test_the_server_has_moved_back_since(self, moving):
        """Its claim on the source is younger than the move."""
        lose(moving)
        moving.migrate(ONE)
        moving.report('host-0')
        assert moving.hosts(ONE) == []
        moving.migrate(ONE, 'host-1', 'host-0')
        moving.claim_by_hand(ONE, 'host-0')
        moving.report('host-0')
        moving.conductors.answers[ONE] = DONE, None
        moving.turn_later()
        assert entry(moving).state == rebalances.CONFIRMED
        assert moving.hosts(ONE) == [STAYS]

    def test_no_conductor_knows_its_request_just_then(self, moving, arrives, monkeypatch):
        lose(moving)
        moving.migrate(ONE)

        def away(_server):
            raise errors.NoAnswer('request_spec', 'no conductor runs')

        with monkeypatch.context() as broken:
            broken.setattr(moving.conductors, 'request', away)
            arrives()
            assert entry(moving).state == HANDED_OVER
        moving.turn_later()
        assert moving.hosts(ONE) == [ARRIVED]


def test_a_move_that_another_scheduler_has_taken_over(moving, monkeypatch):
    """It may have ended before this one claims again: then nothing is left."""
    lose(moving)
    hold = moving.runner._claims.hold

    def late(*words):
        made = hold(*words)
        monkeypatch.undo()
        moving.conductors.answers[ONE] = FAILED, 'too busy'
        moving.wait()
        moving.another().turn()
        assert entry(moving).state == REVERTED
        return made

    monkeypatch.setattr(moving.runner._claims, 'hold', late)
    moving.turn_later()
    assert entry(moving).state == REVERTED
    assert moving.hosts(ONE) == [STAYS]


def test_a_move_that_another_scheduler_hands_over_again(moving, monkeypatch):
    """Its conductor had said that it runs, and its claim was gone by then: the new one ends with
    the move."""
    revert = moving.runner._claims.revert

    def early(*words):
        done = revert(*words)
        monkeypatch.undo()
        moving.wait()
        moving.another().turn()
        assert len(moving.hosts(ONE)) == 2
        return done

    monkeypatch.setattr(moving.runner._claims, 'revert', early)
    moving.runner.tell(entry(moving).uuid, FAILED, 'too busy')
    assert entry(moving).state == REVERTED
    assert moving.hosts(ONE) == [STAYS]


def test_a_renewal_changes_nothing_that_a_message_goes_by(moving, caplog):
    caplog.set_level(logging.INFO)
    made = coming(moving)
    moving.conductors.answers[ONE] = RUNNING, None
    moving.turn_later()
    times = {'changed_s': made.changed_s, 'expires_s': made.expires_s}
    assert dataclasses.replace(coming(moving), **times) == made
    assert 'expired' not in caplog.text

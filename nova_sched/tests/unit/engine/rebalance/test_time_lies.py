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
"""Schedulers that stand still while others go on, messages that come late or contradict each
other, users who do something with a server that moves, and clocks that are wrong."""

import time

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, LIVE_MIGRATION, PENDING, RESIZE
from nova_sched.db import rebalances
from nova_sched.db.rebalances import HANDED_OVER, HELD, REFUSED, REVERTED, STOPPED, WAITING
from nova_sched.db.tables import MOVES, REBALANCES
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.tests.builders import request
from nova_sched.tests.unit.engine.rebalance.moving_world import (
    ARRIVED,
    SERVERS,
    STAYS,
    MovingWorld,
    move,
)
from nova_sched.tests.unit.engine.world import end_claims

ONE, TWO, THREE, FOUR = SERVERS
COMING = ('host-1', PENDING, LIVE_MIGRATION)
HOUR_S = 3600.0


@pytest.fixture
def moving(database):
    made = MovingWorld(database)
    made.boot('host-0', ONE, TWO)
    made.boot('host-1')
    made.boot('host-2')
    return made


def entry(moving, rebalance):
    (found,) = moving.rebalances.moves(rebalance)
    return found


def end(moving, rebalance, outcome):
    """A conductor has ended a move, and tells."""
    if outcome == DONE:
        moving.migrate(ONE)
    moving.conductors.answers[ONE] = outcome, None if outcome == DONE else 'too busy'
    moving.runner.tell(entry(moving, rebalance).uuid, outcome, 'too busy')


def back_home(moving):
    """The server moves back to host-0, by its user."""
    moving.migrate(ONE, 'host-1', 'host-0')
    moving.claim_by_hand(ONE, 'host-0', LIVE_MIGRATION)
    for host in ('host-0', 'host-1', 'host-1'):  # the first one may be from before it arrived
        moving.report(host)
    assert [one for one, _, _ in moving.hosts(ONE)] == ['host-0']


ENDS = {DONE: (rebalances.CONFIRMED, [ARRIVED]), FAILED: (REVERTED, [STAYS])}


class TestTwoSchedulersThatCountAsTheFirst:
    def test_each_move_is_started_once(self, moving):
        made = moving.rebalances.create([move(ONE), move(TWO)])
        one, other = moving.another(), moving.another()
        for runner in (one, other, one, other):
            runner.turn()
        assert sorted(one.server for one in moving.conductors.started) == sorted([ONE, TWO])
        assert moving.states(made) == [HANDED_OVER, HANDED_OVER]

    @pytest.mark.parametrize('step', ['check', 'drop'])
    def test_both_hold_a_move(self, moving, step):
        """The second one has taken it over from the first one, which only stood still."""
        made = moving.rebalances.create([move(ONE)])
        if step == 'drop':
            moving.conductors.unknown = {ONE}

        def late(work):
            if getattr(work, '__name__', '') == step:
                moving.scheduler.before = lambda work: None
                moving.conductors.unknown = set()
                moving.wait()
                moving.another().turn()

        moving.scheduler.before = late
        moving.runner.turn()
        if step == 'drop':  # it was refused before
            assert (moving.states(made), moving.hosts(ONE)) == ([REFUSED], [STAYS])
            return
        assert moving.states(made) == [HANDED_OVER]
        assert moving.hosts(ONE) == [STAYS, COMING]
        assert len(moving.conductors.started) == 1

    def test_one_refuses_what_the_other_has_handed_over(self, moving, monkeypatch):
        """The rules have changed in between: the one that has the move decides."""
        made = moving.rebalances.create([move(ONE)])

        def late(*words, **named):
            monkeypatch.undo()
            moving.wait()
            moving.another().turn()
            assert moving.states(made) == [HANDED_OVER]
            raise errors.NoValidHost('no host is left')

        monkeypatch.setattr(moving.scheduler, 'place', late)
        moving.runner.turn()
        assert moving.states(made) == [HANDED_OVER]
        assert moving.hosts(ONE) == [STAYS, COMING]


class TestAStandstillBeforeTheConductor:
    """A scheduler has handed a move over, and its call reaches the conductor much later."""

    @pytest.fixture
    def late(self, moving, monkeypatch):
        """Start a move; ``meanwhile`` is done before the conductor gets the call."""

        def run(meanwhile):
            made = moving.rebalances.create([move(ONE)])
            start = moving.conductors.start

            def slow(*words):
                moving.conductors.start = start
                moving.wait()
                moving.another().turn()
                meanwhile(made)
                return start(*words)

            moving.conductors.start = slow
            moving.runner.turn()
            return made

        return run

    @pytest.mark.parametrize('outcome', [DONE, FAILED])
    def test_the_move_has_ended(self, moving, late, outcome):
        made = late(lambda made: end(moving, made, outcome))
        state, hosts = ENDS[outcome]
        assert (moving.states(made), moving.hosts(ONE)) == ([state], hosts)

    @pytest.mark.parametrize('outcome', [DONE, FAILED])
    def test_its_server_has_moved_on(self, moving, late, outcome):
        """The answer is about the past."""

        def meanwhile(made):
            end(moving, made, DONE)
            back_home(moving)
            moving.conductors.answers[ONE] = outcome, None

        made = late(meanwhile)
        assert moving.states(made) == [rebalances.CONFIRMED]
        assert [one for one, _, _ in moving.hosts(ONE)] == ['host-0']

    def test_its_server_is_being_resized(self, moving, late):
        """The resize is not settled by the answer."""

        def meanwhile(made):
            end(moving, made, DONE)
            moving.claim_by_hand(ONE, 'host-1', vcpus=2)

        late(meanwhile)
        (claim,) = moving.store.claims(ONE)
        assert claim.resizing is not None


class TestContradictions:
    @pytest.mark.parametrize('second', [DONE, FAILED, RUNNING])
    @pytest.mark.parametrize('first', [DONE, FAILED])
    def test_the_first_outcome_counts(self, moving, first, second):
        """Whether a scheduler reads the move before or after it has ended."""
        made = moving.rebalances.create([move(ONE)])
        moving.runner.turn()
        before = entry(moving, made)
        end(moving, made, first)
        state, hosts = ENDS[first]
        moving.runner.tell(before.uuid, second, 'late')
        moving.runner.settle(before, second, 'late')
        assert (moving.states(made), moving.hosts(ONE)) == ([state], hosts)
        assert entry(moving, made).why == (None if first == DONE else 'too busy')

    @pytest.mark.parametrize(
        'error',
        [
            errors.StoreUnavailable('the database of conductors is away'),
            errors.StoreFull('it is full'),
            errors.DeadlinePassed('start', 10),
            errors.BuildFailed('host-0', 'it broke'),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_an_error_that_does_not_say_that_the_server_stays(self, moving, error):
        """The migration may run: the claim stays."""
        moving.conductors.answers[ONE] = error
        made = moving.rebalances.create([move(ONE)])
        for _ in range(2):
            moving.wait()
            moving.runner.turn()
            assert moving.states(made) == [HANDED_OVER]
            assert moving.hosts(ONE) == [STAYS, COMING]
        end(moving, made, DONE)
        assert moving.hosts(ONE) == [ARRIVED]

    def test_it_runs_says_a_conductor_that_has_started_it_twice(self, moving):
        """The second one runs on: nothing is claimed for it."""
        made = moving.rebalances.create([move(ONE)])
        moving.runner.turn()
        before = entry(moving, made)
        end(moving, made, FAILED)
        moving.conductors.answers[ONE] = RUNNING, None
        moving.runner._ask(before, ('host-0', 'host-0'), ('host-1', 'host-1'))
        assert moving.states(made) == [REVERTED]
        assert moving.hosts(ONE) == [STAYS]

    def test_the_second_start_moves_the_server_after_all(self, moving):
        """Reports of the nodes settle that."""
        made = moving.rebalances.create([move(ONE)])
        moving.runner.turn()
        end(moving, made, FAILED)
        moving.migrate(ONE)
        for host in ('host-1', 'host-0', 'host-1', 'host-0'):
            moving.report(host)
        assert moving.hosts(ONE) == []  # unclaimed use of its host, until an operator claims
        moving.claim_by_hand(ONE, 'host-1', new=True)
        moving.report('host-1')
        assert moving.hosts(ONE) == [ARRIVED]


def reach(moving, state, meanwhile):
    """A rebalance whose move is in this state when ``meanwhile`` is done; then it goes on."""
    made = moving.rebalances.create([move(ONE)])
    if state == WAITING:
        meanwhile()
    elif state == HELD:
        request = moving.conductors.request

        def late(server):
            moving.conductors.request = request
            found = request(server)
            meanwhile()
            return found

        moving.conductors.request = late
    moving.runner.turn()
    if state == HANDED_OVER:
        meanwhile()
    return made


class TestUsers:
    """A user does something with a server that is about to move, or moves."""

    @pytest.mark.parametrize('state', [WAITING, HELD])
    def test_deletes_it_before_it_moves(self, moving, state):
        made = reach(moving, state, lambda: moving.delete(ONE, 'host-0'))
        assert moving.states(made) == [REFUSED]
        assert moving.hosts(ONE) == []
        assert moving.conductors.started == []

    @pytest.mark.parametrize('answer', [errors.NotFound(f'Server {ONE}'), (FAILED, 'deleted')])
    def test_deletes_it_while_it_moves(self, moving, answer):
        made = reach(moving, HANDED_OVER, lambda: moving.delete(ONE, 'host-0'))
        assert moving.hosts(ONE) == [COMING]
        moving.turn_later()
        assert moving.states(made) == [HANDED_OVER]
        moving.conductors.answers[ONE] = answer
        moving.turn_later()
        assert moving.states(made) == [REVERTED]
        assert moving.hosts(ONE) == []

    def test_aborts_all_of_its_claims_while_it_moves(self, moving):
        world = moving.world
        made = reach(moving, HANDED_OVER, lambda: world.call(end_claims, world.claim_service, ONE))
        moving.turn_later()
        assert moving.hosts(ONE) == []
        moving.conductors.answers[ONE] = FAILED, 'deleted'
        moving.turn_later()
        assert moving.states(made) == [REVERTED]
        assert moving.hosts(ONE) == []

    @pytest.mark.parametrize('state', [WAITING, HELD])
    @pytest.mark.parametrize('kind', [RESIZE, LIVE_MIGRATION])
    @pytest.mark.parametrize('host', ['host-1', 'host-2'])
    def test_moves_it_before_it_moves(self, moving, state, kind, host):
        """The rebalance keeps off, although it wanted the same host."""
        made = reach(moving, state, lambda: moving.claim_by_hand(ONE, host, kind))
        assert moving.states(made) == [REFUSED]
        assert 'by another request' in entry(moving, made).why
        assert moving.hosts(ONE) == [STAYS, (host, PENDING, kind)]
        assert moving.conductors.started == []

    @pytest.mark.parametrize('state', [WAITING, HELD])
    def test_has_moved_it_before_it_moves(self, moving, state):
        def meanwhile():
            moving.claim_by_hand(ONE, 'host-2', LIVE_MIGRATION)
            moving.migrate(ONE, 'host-0', 'host-2')
            moving.report('host-2')
            moving.report('host-0')

        made = reach(moving, state, meanwhile)
        assert moving.states(made) == [REFUSED]
        assert 'host-2' in entry(moving, made).why or 'moved' in entry(moving, made).why
        assert [one for one, _, _ in moving.hosts(ONE)] == ['host-2']

    @pytest.mark.parametrize('state', [WAITING, HELD])
    def test_resizes_it_in_place_before_it_moves(self, moving, state):
        made = reach(moving, state, lambda: moving.claim_by_hand(ONE, 'host-0', vcpus=2))
        assert moving.states(made) == [REFUSED]
        assert 'resized' in entry(moving, made).why
        (claim,) = moving.store.claims(ONE)
        assert claim.resizing is not None

    @pytest.mark.parametrize('host', ['host-1', 'host-2'])
    @pytest.mark.parametrize('answer', [(FAILED, 'aborted'), errors.MoveRefused('no claim')])
    def test_moves_it_while_it_moves(self, moving, host, answer):
        """The later request has the claim: the end of the first move leaves it alone."""
        made = reach(moving, HANDED_OVER, lambda: moving.claim_by_hand(ONE, host, LIVE_MIGRATION))
        theirs = moving.hosts(ONE)
        assert theirs == [STAYS, (host, PENDING, LIVE_MIGRATION)]
        moving.turn_later()
        assert moving.hosts(ONE) == theirs
        assert 'by another request' in entry(moving, made).why
        moving.conductors.answers[ONE] = answer
        moving.turn_later()
        assert moving.states(made) == [REVERTED]
        assert moving.hosts(ONE) == theirs

    def test_moves_it_while_it_moves_and_it_arrives(self, moving):
        """The server runs where the other request does not want it: its reports count."""
        made = reach(moving, HANDED_OVER, lambda: moving.claim_by_hand(ONE, 'host-2', RESIZE))
        moving.migrate(ONE)
        moving.conductors.answers[ONE] = DONE, None
        moving.turn_later()
        assert moving.states(made) == [rebalances.CONFIRMED]
        assert 'by another request' in entry(moving, made).why
        assert ('host-2', PENDING, RESIZE) in moving.hosts(ONE)

    def test_resizes_it_in_place_as_it_arrives(self, moving, monkeypatch):
        """The scheduler stands still just before it settles the move: the resize stays open."""
        made = reach(moving, HANDED_OVER, lambda: None)
        moving.migrate(ONE)
        moving.report('host-1')
        confirm = moving.world.claim_service.confirm_claim

        def late(*args):
            monkeypatch.undo()
            time.sleep(0.01)  # the database's clock has only milliseconds
            asked = request(instance_uuid=ONE, vcpus=2, memory_mb=512)
            moving.world.claim_service.claim(asked, 'host-1', 'host-1', 'req')
            return confirm(*args)

        monkeypatch.setattr(moving.world.claim_service, 'confirm_claim', late)
        end(moving, made, DONE)
        *_, there = moving.store.claims(ONE)
        assert (there.is_confirmed, there.resizing is not None) == (True, True)
        assert moving.states(made) == [rebalances.CONFIRMED]


class TestStop:
    @pytest.mark.parametrize('state', [WAITING, HELD])
    def test_before_a_conductor_has_it(self, moving, state):
        stopped = []

        def stop():
            (made,) = moving.rebalances.list()
            stopped.append(moving.rebalances.stop(made.uuid))

        made = reach(moving, state, stop)
        assert stopped == [1]
        assert (moving.states(made), entry(moving, made).why) == ([REFUSED], STOPPED)
        assert moving.hosts(ONE) == [STAYS]
        assert moving.conductors.started == []
        assert moving.rebalances.list(made)[0].state == 'stopped'

    def test_with_its_claim(self, moving, monkeypatch):
        """A scheduler has just claimed: its claim ends."""
        hand_over = moving.rebalances.hand_over

        def late(held, claim_uuid):
            assert moving.hosts(ONE) == [STAYS, COMING]
            assert moving.rebalances.stop(held.rebalance_uuid) == 1
            return hand_over(held, claim_uuid)

        monkeypatch.setattr(moving.rebalances, 'hand_over', late)
        made = reach(moving, HELD, lambda: None)
        assert (moving.states(made), moving.hosts(ONE)) == ([REFUSED], [STAYS])
        assert moving.conductors.started == []

    @pytest.mark.parametrize('outcome', [DONE, FAILED])
    def test_after_that(self, moving, outcome):
        made = reach(moving, HANDED_OVER, lambda: None)
        assert moving.rebalances.stop(made) == 0
        moving.turn_later()
        assert moving.states(made) == [HANDED_OVER]
        end(moving, made, outcome)
        state, hosts = ENDS[outcome]
        assert (moving.states(made), moving.hosts(ONE)) == ([state], hosts)
        assert moving.rebalances.stop(made) == 0
        assert moving.states(made) == [state]

    def test_with_a_conductor_that_is_away(self, moving):
        """A move that waits for one is not started when it is back."""
        moving.conductors.is_away = True
        made = reach(moving, HELD, lambda: None)
        moving.rebalances.stop(made)
        moving.conductors.is_away = False
        moving.turn_later()
        assert moving.states(made) == [REFUSED]
        assert moving.conductors.started == []


class TestClocks:
    """The database's clock is set back or forward by an hour: all that it had written looks as if
    it were from then."""

    def shift(self, moving, seconds):
        with moving.rebalances._sessions.transaction() as connection:
            for table in (MOVES, REBALANCES):
                times = [one for one in table.c if isinstance(one.type, sa.Double)]
                connection.execute(sa.update(table).values({one: one + seconds for one in times}))
            connection.execute(
                sa.text(f'UPDATE claims SET created_s = created_s + {seconds}, '
                        f'changed_s = changed_s + {seconds}, expires_s = expires_s + {seconds}')
            )  # fmt: skip
        moving.world.call(moving.world.state_sync.refresh)

    @pytest.mark.parametrize('seconds', [HOUR_S, -HOUR_S])
    @pytest.mark.parametrize('outcome', [DONE, FAILED])
    def test_a_move_in_flight_goes_on(self, moving, seconds, outcome):
        made = reach(moving, HANDED_OVER, lambda: None)
        self.shift(moving, seconds)
        moving.conductors.answers[ONE] = RUNNING, None
        moving.runner.turn()
        assert len(moving.conductors.started) == 2, 'it is asked for at once'
        moving.store.expire()
        assert moving.hosts(ONE) == [STAYS, COMING]
        left_s = moving.store.claims(ONE)[1].expires_s - moving.store.now_s()
        assert left_s == pytest.approx(HOUR_S, abs=30)
        moving.runner.turn()
        assert len(moving.conductors.started) == 2
        end(moving, made, outcome)
        state, hosts = ENDS[outcome]
        assert (moving.states(made), moving.hosts(ONE)) == ([state], hosts)

    @pytest.mark.parametrize('seconds', [HOUR_S, -HOUR_S])
    def test_a_move_starts(self, moving, seconds):
        made = moving.rebalances.create([move(ONE)])
        self.shift(moving, seconds)
        moving.runner.turn()
        assert moving.states(made) == [HANDED_OVER]
        assert set(moving.hosts(ONE)) == {STAYS, COMING}
        end(moving, made, FAILED)
        assert (moving.states(made), moving.hosts(ONE)) == ([REVERTED], [STAYS])

    @pytest.mark.parametrize('seconds', [HOUR_S, -HOUR_S])
    def test_a_move_is_held(self, moving, seconds):
        moving.conductors.is_away = True
        made = reach(moving, HELD, lambda: None)
        assert (moving.states(made), moving.hosts(ONE)) == ([HELD], [STAYS])
        self.shift(moving, seconds)
        moving.conductors.is_away = False
        moving.runner.turn()
        assert moving.states(made) == [HANDED_OVER]

    def test_a_failure_does_not_end_a_claim_from_before_the_move(self, moving):
        """The clock is set back between the start of the move and the report that confirms its
        claim."""
        made = reach(moving, HANDED_OVER, lambda: None)
        moving.running['host-1'].add(ONE)
        moving.report('host-1')
        with moving.rebalances._sessions.transaction() as connection:
            connection.execute(sa.update(MOVES).values(started_s=MOVES.c.started_s + HOUR_S))
        moving.runner.tell(entry(moving, made).uuid, FAILED, 'late')
        assert ('host-1', CONFIRMED, LIVE_MIGRATION) in moving.hosts(ONE)
        assert moving.states(made) == [HANDED_OVER]

    def test_a_server_arrives_whose_source_has_a_claim_from_the_future(self, moving):
        """It has its claim where it is; the other one ends when its time has come."""
        made = moving.rebalances.create([move(ONE)])
        self.shift(moving, HOUR_S)
        moving.runner.turn()
        end(moving, made, DONE)
        assert moving.states(made) == [rebalances.CONFIRMED]
        assert ARRIVED in moving.hosts(ONE)
        self.shift(moving, -HOUR_S)
        moving.report('host-0')
        moving.report('host-0')
        assert moving.hosts(ONE) == [ARRIVED]

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
"""The way of a move, state by state."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, LIVE_MIGRATION, PENDING
from nova_sched.db.rebalances import HANDED_OVER, HELD, REFUSED, REVERTED, WAITING
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING, QuietHours
from nova_sched.extensions.optimize.planning.move_planner import MovePlanner
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.tests.builders import aggregate, uuid_of
from nova_sched.tests.unit.engine.rebalance.moving_world import (
    ARRIVED,
    SERVERS,
    STAYS,
    MovingWorld,
    move,
    node,
)

ONE, TWO, THREE, FOUR = SERVERS
COMING = ('host-1', PENDING, LIVE_MIGRATION)


@pytest.fixture
def moving(database):
    made = MovingWorld(database)
    made.boot('host-0', ONE, TWO)
    made.boot('host-1')
    made.boot('host-2')
    return made


def begin(moving, *moves):
    """A rebalance whose moves have started."""
    made = moving.rebalances.create(moves or [move(ONE)])
    moving.runner.turn()
    return made


def why(moving, rebalance, server=ONE):
    return moving.entries(rebalance)[server].why


def test_a_move_that_is_done(moving):
    made = begin(moving)
    assert moving.states(made) == [HANDED_OVER]
    assert moving.hosts(ONE) == [STAYS, COMING]
    (entry,) = moving.conductors.started
    moving.migrate(ONE)
    for _ in range(2):
        moving.runner.tell(entry.uuid, DONE)
        assert moving.states(made) == [CONFIRMED]
        assert moving.hosts(ONE) == [ARRIVED]
    moving.report('host-1')
    moving.report('host-0')
    assert moving.hosts(ONE) == [ARRIVED]


def test_a_move_that_fails_leaves_everything_as_it_was(moving):
    (before,) = moving.store.claims(ONE)
    made = begin(moving)
    (entry,) = moving.conductors.started
    moving.runner.tell(entry.uuid, FAILED, 'the guest is too busy')
    assert moving.states(made) == [REVERTED]
    assert why(moving, made) == 'the guest is too busy'
    (after,) = moving.store.claims(ONE)
    assert dataclasses.replace(after, changed_s=before.changed_s) == before
    moving.runner.tell(entry.uuid, DONE)  # too late
    assert moving.states(made) == [REVERTED]
    assert moving.hosts(ONE) == [STAYS]


def test_an_outcome_that_start_returns_at_once(moving):
    moving.conductors.answers = {
        ONE: (DONE, None),
        TWO: errors.MoveRefused('the guest has a device'),
    }
    made = begin(moving, move(ONE), move(TWO))
    assert moving.entries(made)[ONE].state == CONFIRMED
    assert moving.entries(made)[TWO].state == REVERTED
    assert why(moving, made, TWO) == 'the guest has a device'
    assert moving.hosts(TWO) == [STAYS]


def test_the_oldest_server_moves_first_and_no_more_than_allowed(moving):
    moving.settings = dataclasses.replace(moving.settings, in_flight=1)
    made = begin(moving, move(TWO), move(ONE))
    assert [one.server for one in moving.conductors.started] == [ONE]
    moving.runner.turn()
    assert moving.states(made) == [HANDED_OVER, WAITING]
    moving.runner.tell(moving.conductors.started[0].uuid, DONE)
    moving.runner.turn()
    assert [one.server for one in moving.conductors.started] == [ONE, TWO]


def test_both_ends_count_meanwhile(moving):
    moving.boot('host-1', *(uuid_of(f'other {number}') for number in range(3)))
    made = begin(moving, move(ONE), move(TWO))
    assert moving.states(made) == [HANDED_OVER, REFUSED]
    assert 'VCPU' in why(moving, made, TWO) or 'ResourceCapacity' in why(moving, made, TWO)
    assert moving.hosts(TWO) == [STAYS]


@pytest.mark.parametrize(
    'asked, told',
    [
        pytest.param(move(ONE, 'host-2', 'host-1'), 'is on host host-0', id='not on its source'),
        pytest.param(move(THREE), 'has no claim', id='gone'),
        pytest.param(move(ONE, destination='host-9'), 'not a known compute node', id='no node'),
    ],
)
def test_a_plan_that_is_out_of_date(moving, asked, told):
    made = begin(moving, asked)
    assert moving.states(made) == [REFUSED]
    assert told in why(moving, made, asked.server)
    assert moving.conductors.started == []


def test_a_server_that_its_conductor_does_not_know(moving):
    moving.conductors.unknown = {ONE}
    made = begin(moving)
    assert moving.states(made) == [REFUSED]
    assert 'is not known' in why(moving, made)


def test_moves_on_which_the_scheduler_fails_keep_no_slot(moving, monkeypatch):
    """A rule, or an odd request, that raises what no rule should."""
    moving.settings = dataclasses.replace(moving.settings, in_flight=1)
    request = moving.conductors.request

    def fails(server):
        if server == ONE:
            raise KeyError('hw:odd')
        return request(server)

    monkeypatch.setattr(moving.conductors, 'request', fails)
    made = begin(moving, move(ONE), move(TWO))
    assert moving.states(made) == [REFUSED, HANDED_OVER]
    assert why(moving, made) == "the scheduler fails on it: KeyError: 'hw:odd'"


def test_a_move_in_flight_on_which_the_scheduler_fails(moving, monkeypatch):
    """It is asked for again, and so are the others, at each pass."""
    made = begin(moving, move(ONE), move(TWO))
    asked, start = [], moving.conductors.start

    def fails(entry, *ends):
        asked.append(entry.server)
        if entry.server == ONE:
            raise KeyError('of a later release')
        return start(entry, *ends)

    monkeypatch.setattr(moving.conductors, 'start', fails)
    moving.turn_later()
    assert sorted(asked) == sorted([ONE, TWO])
    assert moving.states(made) == [HANDED_OVER] * 2


def test_a_destination_that_a_filter_refuses(moving):
    moving.world.call(moving.world.state_sync.set_service, 'host-1', True, 'broken', None, 0.0)
    made = begin(moving)
    assert moving.states(made) == [REFUSED]
    assert moving.hosts(ONE) == [STAYS]


@pytest.mark.parametrize(
    'option, told',
    [
        pytest.param({'immovable_servers': frozenset([ONE])}, 'immovable_servers', id='server'),
        pytest.param({'protected_projects': frozenset(['p'])}, 'project p', id='project'),
        pytest.param(
            {'protected_aggregates': frozenset(['aggregate 1'])}, 'aggregate 1', id='aggregate'
        ),
    ],
)
def test_what_is_protected(moving, option, told):
    moving.world.call(moving.world.state_sync.set_aggregate, 1, aggregate(1, ['host-1']))
    if 'protected_projects' in option:
        option = {'protected_projects': frozenset([moving.store.claims(ONE)[0].project_id])}
        told = 'protected_projects'
    moving.settings = dataclasses.replace(moving.settings, **option)
    made = begin(moving)
    assert moving.states(made) == [REFUSED]
    assert told in why(moving, made)


@pytest.mark.parametrize(
    'answer, state',
    [((RUNNING, None), HANDED_OVER), ((DONE, None), CONFIRMED), ((FAILED, 'gone'), REVERTED)],
)
@pytest.mark.parametrize('host', ['host-0', 'host-1'], ids=['source', 'destination'])
def test_a_node_that_is_removed_during_the_move(moving, host, answer, state):
    """The conductor still decides: it knows the move."""
    made = begin(moving)
    seen = moving.cluster.find(host, host).generation
    moving.world.call(moving.world.state_sync.remove_node, host, host, seen)
    moving.conductors.answers[ONE] = answer
    moving.wait()
    moving.runner.turn()
    assert moving.states(made) == [state]
    if host == 'host-0':
        assert (
            moving.hosts(ONE)
            == {
                HANDED_OVER: [COMING],
                CONFIRMED: [ARRIVED],
                REVERTED: [],
            }[state]
        )


def test_reports_tell_the_end_too(moving):
    made = begin(moving)
    moving.conductors.is_away = True
    moving.migrate(ONE)
    moving.report('host-1')
    moving.report('host-0')
    moving.wait()
    moving.runner.turn()
    assert moving.states(made) == [CONFIRMED]
    assert moving.hosts(ONE) == [ARRIVED]


def test_a_failure_after_the_destination_has_reported_the_server(moving):
    """Its reports count: the claim stays until they say otherwise."""
    made = begin(moving)
    (entry,) = moving.conductors.started
    moving.running['host-1'].add(ONE)
    moving.report('host-1')
    moving.runner.tell(entry.uuid, FAILED, 'broken off')
    assert moving.states(made) == [HANDED_OVER]
    assert len(moving.hosts(ONE)) == 2
    moving.running['host-1'].discard(ONE)
    moving.report('host-1')
    moving.conductors.answers[ONE] = (FAILED, 'broken off')
    moving.wait()
    moving.runner.turn()
    assert moving.states(made) == [REVERTED]
    assert moving.hosts(ONE) == [STAYS]


def test_a_scheduler_that_dies_with_a_claim(moving):
    """The next one finds the claim by the move."""

    def die(work):
        if getattr(work, '__name__', '') == 'hold':
            moving.scheduler.before = lambda work: None
            entry = moving.rebalances.moves(made)[0]
            moving.world.call(moving.runner._claims.hold, entry, moving.conductors.request(ONE))
            raise KeyboardInterrupt

    made = moving.rebalances.create([move(ONE)])
    moving.scheduler.before = die
    with pytest.raises(KeyboardInterrupt):
        moving.runner.turn()
    assert moving.states(made) == [HELD]
    (_, claim) = moving.store.claims(ONE)
    moving.wait()
    moving.another().turn()
    (entry,) = moving.conductors.started
    assert entry.claim_uuid == claim.uuid
    assert moving.hosts(ONE) == [STAYS, COMING]


@pytest.mark.parametrize('outcome', [DONE, FAILED, None])
def test_a_scheduler_that_stood_still_before_it_claimed(moving, outcome):
    """Another one has handed the move over meanwhile, and it may have ended."""
    made = moving.rebalances.create([move(ONE)])

    def late(work):
        if getattr(work, '__name__', '') != 'hold':
            return
        moving.scheduler.before = lambda work: None
        (entry,) = moving.rebalances.moves(made)
        moving.wait()
        moving.another().turn()
        if outcome == DONE:
            moving.migrate(ONE)
        if outcome:
            moving.runner.tell(entry.uuid, outcome, 'told')

    moving.scheduler.before = late
    moving.runner.turn()
    ends = {DONE: (CONFIRMED, [ARRIVED]), FAILED: (REVERTED, [STAYS])}
    state, hosts = ends.get(outcome, (HANDED_OVER, [STAYS, COMING]))
    assert moving.states(made) == [state]
    assert moving.hosts(ONE) == hosts
    assert len(moving.conductors.started) == 1


def test_stopped(moving):
    moving.settings = dataclasses.replace(moving.settings, in_flight=1)
    made = begin(moving, move(ONE), move(TWO))
    assert moving.rebalances.stop(made) == 1
    assert moving.rebalances.list(made)[0].state == 'stopping'
    moving.runner.turn()
    assert moving.states(made) == [HANDED_OVER, REFUSED]
    moving.runner.tell(moving.conductors.started[0].uuid, DONE)
    assert moving.rebalances.list(made)[0].state == 'stopped'
    assert moving.hosts(ONE) == [ARRIVED]
    assert moving.hosts(TWO) == [STAYS]


def test_an_outcome_of_an_unknown_move(moving):
    with pytest.raises(errors.MoveNotFound):
        moving.runner.tell(uuid_of('no move'), DONE)


class TestPeriodic:
    @pytest.fixture
    def periodic(self, database):
        plans = []

        def planner(settings, most):
            plans.append((settings.goal, most))
            return [move(ONE), move(TWO)][:most]

        made = MovingWorld(database, planner=planner, goal='empty', moves_per_hour=1)
        made.boot('host-0', ONE, TWO)
        made.boot('host-1')
        made.plans = plans
        return made

    def test_a_plan_with_a_budget(self, periodic):
        periodic.runner.turn()
        periodic.runner.turn()
        assert periodic.plans == [('empty', 1)]
        (made,) = periodic.rebalances.list()
        assert (made.goal, made.periodic, made.state) == ('empty', True, 'running')
        assert [one.server for one in periodic.conductors.started] == [ONE]

    def test_two_schedulers_make_one_plan(self, periodic):
        periodic.runner.turn()
        periodic.runner.tell(periodic.conductors.started[0].uuid, DONE)
        other = periodic.another(lambda settings, most: [Move(TWO, node('host-0'), node('x'))])
        other.turn()
        assert len(periodic.rebalances.list()) == 1

    def test_the_real_planner(self, database):
        """One host can be emptied onto the other; what is immovable stays."""
        made = MovingWorld(database, goal='empty', moves_per_hour=9)
        made.boot('host-0', ONE)
        made.boot('host-1', TWO, THREE)
        world = made.world
        planner = MovePlanner(world.context, world.scheduler.placer, made.scheduler.call)
        plan = planner.moves
        assert plan(made.settings, 9) == [move(ONE)]
        still = dataclasses.replace(made.settings, immovable_servers=frozenset([ONE]))
        assert all(one.server != ONE for one in plan(still, 9))

    def test_a_plan_that_cannot_be_made(self, database):
        def planner(settings, most):
            raise errors.InvalidRequest('goal', 'there is no such flavor')

        made = MovingWorld(database, planner=planner, goal='fit:tiny')
        assert not made.runner.turn()
        assert made.rebalances.list() == []

    @pytest.mark.parametrize(
        'error, plans',
        [(errors.StoreBusy('a lock'), 2), (errors.StoreFull('no space'), 1)],
        ids=['a repeat helps', 'it does not'],
    )
    def test_a_plan_that_cannot_be_stored(self, periodic, monkeypatch, error, plans):
        """If a repeat may help, it is made again with the next pass; else after the interval."""

        def create(*_):
            raise error

        with monkeypatch.context() as broken:
            broken.setattr(periodic.rebalances, 'create', create)
            with pytest.raises(type(error)):
                periodic.runner.turn()
        periodic.runner.turn()
        assert len(periodic.plans) == plans
        assert len(periodic.rebalances.list()) == plans - 1

    def test_quiet_hours(self, periodic):
        quiet = (QuietHours(0, 720), QuietHours(720, 1440))
        periodic.settings = dataclasses.replace(periodic.settings, quiet_hours=quiet)
        periodic.runner.turn()
        assert periodic.plans == []

    def test_an_hour_has_its_budget(self, periodic):
        """More moves than that wait, of whichever plan."""
        periodic.runner.turn()
        moves = [move(TWO)]
        assert periodic.rebalances.create(moves, 'empty', interval_s=-60.0) is None  # one is open
        periodic.runner.tell(periodic.conductors.started[0].uuid, DONE)
        made = periodic.rebalances.create(moves, 'empty', interval_s=-60.0)
        periodic.runner.turn()
        assert periodic.states(made) == [WAITING]
        by_hand = periodic.rebalances.create(moves)
        periodic.runner.turn()
        assert periodic.states(by_hand) == [HANDED_OVER]

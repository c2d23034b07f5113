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
"""The tables of rebalances, on SQLite.

``integration/test_stores.py`` runs the class on database servers: ``database`` is an engine on the
newest schema, with empty tables.
"""

import concurrent.futures
import contextlib

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.rebalances import (
    CONFIRMED,
    COUNT_FLYING,
    COUNT_STARTED,
    DUE,
    HANDED_OVER,
    HELD,
    HOLD,
    NEXT,
    NEXT_BY_HAND,
    REFUSED,
    STOPPED,
    WAITING,
    SqlRebalances,
)
from nova_sched.db.tables import CLAIMS, CLOSED_HOSTS, MOVES, NODES, REBALANCES
from nova_sched.db.transactions import transaction
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.tests.builders import uuid_of

A, B, C = (uuid_of(f'node {letter}') for letter in 'ABC')
OLD, YOUNG = uuid_of('old'), uuid_of('young')
FACTS = {'generation': 1, 'seen_s': 0.0, 'inventories': '{}', 'used': '{}',
         'unclaimed': '{}', 'foreign_instances': 0}  # fmt: skip
MOVES_OF_TWO = [Move(YOUNG, A, B), Move(OLD, A, C)]


def insert(database, table, **values):
    with transaction(database) as connection:
        connection.execute(sa.insert(table), values)


def change(database, table, **values):
    with transaction(database) as connection:
        connection.execute(sa.update(table).values(**values))


class TestRebalances:
    @pytest.fixture
    def rebalances(self, database):
        for age_s, server in enumerate((YOUNG, OLD)):
            row = {'uuid': uuid_of(f'claim {server}'), 'consumer_uuid': server, 'node_uuid': A}
            row |= {'state': 'confirmed', 'resources': '{}', 'created_s': 100.0 - age_s}
            insert(database, CLAIMS, **row)
        return SqlRebalances(database)

    def test_a_repeated_call_keeps_one_rebalance(self, rebalances):
        named = uuid_of('named')
        assert rebalances.create(MOVES_OF_TWO, new_uuid=named) == named
        before = rebalances.moves(named)
        assert rebalances.create(MOVES_OF_TWO, new_uuid=named) == named
        assert rebalances.moves(named) == before
        assert len(rebalances.list()) == 1

    def test_the_oldest_server_first(self, rebalances):
        made = rebalances.create(MOVES_OF_TWO, goal='empty')
        first, second = rebalances.moves(made)
        assert (first.server, first.since_s, second.server) == (OLD, 99.0, YOUNG)
        taken = rebalances.take(2)
        assert (taken.uuid, taken.state, taken.serial) == (first.uuid, HELD, 1)
        assert taken.started_s >= first.changed_s
        assert rebalances.take(2).uuid == second.uuid
        assert rebalances.take(2) is None

    def test_no_more_than_allowed(self, rebalances):
        rebalances.create(MOVES_OF_TWO)
        rebalances.take(1)
        assert rebalances.take(1) is None

    def test_a_server_has_one_move_in_flight(self, rebalances):
        rebalances.create(MOVES_OF_TWO[:1])
        rebalances.create(MOVES_OF_TWO[:1])
        first = rebalances.take(9)
        assert rebalances.take(9) is None
        assert rebalances.end(first, REFUSED, 'why not')
        assert rebalances.take(9).server == YOUNG

    def test_several_schedulers_together(self, rebalances):
        servers = [uuid_of(f'server {number}') for number in range(20)]
        rebalances.create([Move(one, A, B) for one in servers])

        def take(_):
            for _ in range(50):
                with contextlib.suppress(errors.StoreBusy):
                    return rebalances.take(5)
            return None

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            taken = [one for one in pool.map(take, range(16)) if one]
        assert len(taken) == len({one.uuid for one in taken}) == 5

    def test_the_way_of_a_move(self, rebalances):
        made = rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        handed = rebalances.hand_over(held, uuid_of('claim'))
        assert (handed.state, handed.claim_uuid) == (HANDED_OVER, uuid_of('claim'))
        assert rebalances.hand_over(held, uuid_of('other')) is None
        assert not rebalances.end(held, REFUSED)
        assert rebalances.end(handed, CONFIRMED)
        assert not rebalances.end(handed, REFUSED, 'late')
        assert rebalances.find(held.uuid).state == CONFIRMED
        assert rebalances.list(made)[0].state == 'done'
        assert not rebalances.has_open()

    def test_another_scheduler_takes_over(self, rebalances, database):
        rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        assert rebalances.take_due() is None
        change(database, MOVES, due_s=0.0)
        again = rebalances.take_due()
        assert (again.uuid, again.state, again.serial) == (held.uuid, HELD, 2)
        assert rebalances.take_due() is None
        assert rebalances.hand_over(held, uuid_of('claim')) is None
        assert not rebalances.end(held, REFUSED)
        assert rebalances.hand_over(again, uuid_of('claim'))

    def test_a_move_that_was_handed_over_is_looked_at_more_often(self, rebalances, database):
        rebalances.create(MOVES_OF_TWO)
        held = rebalances.take(2)
        handed = rebalances.hand_over(rebalances.take(2), uuid_of('claim'))
        change(database, MOVES, due_s=MOVES.c.due_s - 5)
        assert rebalances.take_due(6.0) is None
        again = rebalances.take_due(4.0)
        assert (again.uuid, again.state, again.serial) == (handed.uuid, HANDED_OVER, 3)
        assert rebalances.take_due(4.0) is None
        assert rebalances.hand_over(held, uuid_of('claim'))

    def test_a_clock_that_was_set_back(self, rebalances, database):
        """What is due in an hour was due in ten seconds when it was written."""
        rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        change(database, MOVES, due_s=MOVES.c.due_s + 3600)
        again = rebalances.take_due()
        assert (again.uuid, again.serial) == (held.uuid, 2)
        assert again.due_s < held.due_s + 60
        assert rebalances.take_due() is None

    def test_a_clock_that_was_set_forward(self, rebalances, database):
        rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        change(database, MOVES, due_s=MOVES.c.due_s - 3600)
        assert rebalances.take_due().uuid == held.uuid
        assert rebalances.take_due() is None

    def test_a_reason_why_there_is_no_claim(self, rebalances):
        rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        assert not rebalances.note(held, 'full')
        handed = rebalances.hand_over(held, uuid_of('claim'))
        assert rebalances.note(handed, 'full')
        noted = rebalances.find(held.uuid)
        assert (noted.why, noted.serial, noted.state) == ('full', handed.serial, HANDED_OVER)
        assert not rebalances.note(noted, 'full')
        assert rebalances.note(noted, 'fuller')
        again = rebalances.hand_over(noted, uuid_of('other'))
        assert (again.why, again.claim_uuid) == (None, uuid_of('other'))
        assert not rebalances.note(noted, 'late')
        rebalances.end(again, CONFIRMED)
        assert not rebalances.note(again, 'late')
        assert rebalances.find(held.uuid).why is None

    def test_stop(self, rebalances):
        made = rebalances.create(MOVES_OF_TWO)
        other = rebalances.create([Move(uuid_of('third'), A, B)])
        handed = rebalances.hand_over(rebalances.take(1), uuid_of('claim'))
        assert rebalances.stop(made) == 1
        assert rebalances.stop(made) == 0
        assert rebalances.stop(uuid_of('none')) is None
        first, refused = rebalances.moves(made)
        assert (first, refused.state, refused.why) == (handed, REFUSED, STOPPED)
        (stopping,) = rebalances.list(made)
        assert (stopping.state, stopping.counts) == ('stopping', {HANDED_OVER: 1, REFUSED: 1})
        assert [one.state for one in rebalances.moves(other)] == [WAITING]

    def test_stop_of_a_move_that_a_scheduler_holds(self, rebalances):
        """No conductor gets it any more."""
        made = rebalances.create(MOVES_OF_TWO[:1])
        held = rebalances.take(1)
        assert rebalances.stop(made) == 1
        assert rebalances.hand_over(held, uuid_of('claim')) is None
        assert not rebalances.end(held, REFUSED, 'late')
        (refused,) = rebalances.moves(made)
        assert (refused.state, refused.why, refused.due_s) == (REFUSED, STOPPED, None)

    def test_periodic(self, rebalances, database):
        made = rebalances.create(MOVES_OF_TWO, interval_s=3600.0)
        assert rebalances.take(9) is None
        assert rebalances.take(9, 0) is None
        held = rebalances.take(9, 1)
        assert held.rebalance_uuid == made
        assert rebalances.take(9, 1) is None
        change(database, MOVES, started_s=sa.case((MOVES.c.started_s > 0, 1.0)))
        assert rebalances.take(9, 1).rebalance_uuid == made
        assert rebalances.create(MOVES_OF_TWO, interval_s=0.0) is None  # moves are open
        change(database, MOVES, state=CONFIRMED)
        assert rebalances.create(MOVES_OF_TWO, interval_s=3600.0) is None  # it is too early
        change(database, REBALANCES, created_s=REBALANCES.c.created_s - 3600)
        assert rebalances.create(MOVES_OF_TWO, interval_s=3600.0)

    def test_closed_hosts(self, rebalances, database):
        insert(database, NODES, uuid=A, host='a', nodename='a', **FACTS)
        made = rebalances.create(MOVES_OF_TWO, close_s=60.0)
        ((host, is_over),) = rebalances.closed_hosts()
        assert (host.host, host.rebalance_uuid, host.closed, is_over) == ('a', made, False, False)
        rebalances.set_closed(host)
        longer = rebalances.create(MOVES_OF_TWO, close_s=3600.0)
        rebalances.create(MOVES_OF_TWO, close_s=5.0)
        rebalances.drop_closed(host)
        ((now, _),) = rebalances.closed_hosts()
        assert (now.rebalance_uuid, now.closed) == (longer, True)
        rebalances.stop(longer)
        ((now, is_over),) = rebalances.closed_hosts()
        assert is_over
        rebalances.drop_closed(now)
        assert rebalances.closed_hosts() == []

    def test_a_rebalance_closes_a_host_that_is_being_opened(self, rebalances, database):
        insert(database, NODES, uuid=A, host='a', nodename='a', **FACTS)
        rebalances.create(MOVES_OF_TWO, close_s=60.0)
        ((host, _),) = rebalances.closed_hosts()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with transaction(database) as connection:
                connection.execute(HOLD)  # as ``create`` does
                opened = pool.submit(rebalances.drop_closed, host)
                assert concurrent.futures.wait([opened], timeout=0.3).not_done
                connection.execute(sa.update(CLOSED_HOSTS).values(until_s=host.until_s + 1))
            opened.result()
        ((now, _),) = rebalances.closed_hosts()
        assert now.until_s == host.until_s + 1

    def test_a_closed_host_that_another_rebalance_has_changed(self, rebalances, database):
        """A scheduler that stood still changes nothing of it."""
        insert(database, NODES, uuid=A, host='a', nodename='a', **FACTS)
        rebalances.create(MOVES_OF_TWO, close_s=60.0)
        ((before, _),) = rebalances.closed_hosts()
        rebalances.create(MOVES_OF_TWO, close_s=3600.0)
        assert not rebalances.set_closed(before)
        ((now, _),) = rebalances.closed_hosts()
        assert not now.closed
        assert rebalances.set_closed(now)
        assert not rebalances.set_closed(before, closed=False)
        rebalances.drop_closed(before)
        ((now, _),) = rebalances.closed_hosts()
        assert now.closed
        assert rebalances.set_closed(now, closed=False)
        ((now, _),) = rebalances.closed_hosts()
        assert not now.closed

    def test_old_rebalances_are_forgotten(self, rebalances, database):
        made = rebalances.create(MOVES_OF_TWO)
        rebalances.create([])
        change(database, REBALANCES, created_s=1.0)
        rebalances.forget(60.0)
        assert [one.uuid for one in rebalances.list()] == [made]
        change(database, MOVES, state=CONFIRMED)
        rebalances.forget(60.0)
        assert rebalances.list() == rebalances.moves(made) == []

    def test_a_rebalance_that_keeps_hosts_closed_is_not_forgotten(self, rebalances, database):
        """It can still be stopped, which opens them."""
        insert(database, NODES, uuid=A, host='a', nodename='a', **FACTS)
        made = rebalances.create(MOVES_OF_TWO, close_s=86400.0 * 30)
        change(database, MOVES, state=CONFIRMED)
        change(database, REBALANCES, created_s=1.0)
        rebalances.forget(60.0)
        assert rebalances.stop(made) == 0
        ((host, is_over),) = rebalances.closed_hosts()
        assert is_over
        rebalances.drop_closed(host)
        rebalances.forget(60.0)
        assert rebalances.list() == []


def steps(database, statement):
    """How SQLite carries out a query: those steps that read the table of moves, and all."""
    text = statement.compile(database, compile_kwargs={'literal_binds': True})
    with transaction(database) as connection:
        found = connection.execute(sa.text(f'EXPLAIN QUERY PLAN {text}'))
        every = [row.detail for row in found]
    return [one for one in every if 'moves' in one], every


@pytest.mark.parametrize('statement', [NEXT, NEXT_BY_HAND, DUE.params(again_s=1.0), COUNT_FLYING])
def test_no_pass_looks_at_all_moves(database, statement):
    """A plan may have 100,000 of them."""
    of_moves, _ = steps(database, statement)
    assert of_moves
    assert all('ix_moves_state (state=?' in one for one in of_moves), of_moves


@pytest.mark.parametrize('statement', [NEXT, NEXT_BY_HAND])
def test_the_moves_that_wait_are_not_sorted(database, statement):
    _, every = steps(database, statement)
    assert not any('ORDER BY' in one for one in every), every


def test_the_hour_of_periodic_moves_leaves_out_other_plans(database):
    of_moves, _ = steps(database, COUNT_STARTED.params(periodic=['a', 'b']))
    assert of_moves
    assert all('ix_moves_rebalance_uuid' in one for one in of_moves), of_moves

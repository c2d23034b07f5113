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
"""The tables of rebalances, in SQLite."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.rebalances import (
    COUNT_FLYING,
    COUNT_STARTED,
    DUE,
    NEXT,
    NEXT_BY_HAND,
    SqlRebalances,
)
from nova_sched.db.transactions import transaction
from nova_sched.tests.unit.db import rebalances


class TestRebalances(rebalances.Rebalances):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda store: store.create([]), id='create'),
        pytest.param(lambda store: store.take(1), id='take'),
        pytest.param(lambda store: store.list(), id='list'),
    ],
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlRebalances(gone))


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

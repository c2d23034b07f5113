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
"""Many rows in one statement, on database servers: the same rows, in few round trips, without
waiting for other transactions."""

import pytest
import sqlalchemy as sa

from nova_sched.db import engine
from nova_sched.db.transactions import MAX_ROWS, UpdateRows
from nova_sched.tests.unit.db.test_bulk import (
    DELETE,
    INSERT,
    MARK,
    TABLE,
    TestBulk,
    key,
    row,
    sent,
)

__all__ = ['TestBulk']


@pytest.fixture(scope='module', params=['postgresql', 'mariadb'])
def server(request):
    made = engine.create(request.getfixturevalue(request.param).fresh())
    yield made
    made.dispose()


@pytest.fixture
def database(server):
    return server


UPDATE = UpdateRows(TABLE, 'number', 'words', also='flag = NULL')
KINDS = [
    pytest.param(INSERT, lambda number: row(number + 1000), id='insert'),
    pytest.param(UPDATE, lambda number: row(number, number=0, words='w'), id='update'),
    pytest.param(DELETE, key, id='delete'),
    pytest.param(MARK, key, id='mark'),
]


@pytest.fixture
def filled(database):
    TABLE.metadata.create_all(database)
    with database.begin() as connection:
        INSERT.run(connection, [row(number) for number in range(MAX_ROWS + 1)])
    yield database
    TABLE.metadata.drop_all(database)


@pytest.mark.parametrize('statement, one', KINDS)
@pytest.mark.parametrize('count, messages', [(0, 0), (1, 1), (MAX_ROWS, 1), (MAX_ROWS + 1, 2)])
def test_round_trips(filled, statement, one, count, messages):
    with sent(filled) as found, filled.begin() as connection:
        statement.run(connection, [one(number) for number in range(count)])
    assert len(found) == messages


@pytest.mark.parametrize('statement, one', KINDS)
@pytest.mark.parametrize(
    'numbers',
    [
        pytest.param(range(1), id='the first'),
        pytest.param(range(1, MAX_ROWS, 2), id='every other one'),
        pytest.param(range(MAX_ROWS), id='all but the last'),
    ],
)
def test_rows_that_others_hold_are_nobodys_business(filled, statement, one, numbers):
    """A database that would rather read the whole table, and wait for locks on its way, must
    not."""
    hasty_statements = {
        'postgresql': "SET lock_timeout = '1s'",
        'mysql': 'SET innodb_lock_wait_timeout = 1',
    }
    with filled.begin() as other, filled.begin() as connection:
        other.execute(sa.delete(TABLE).where(TABLE.c.uuid == key(MAX_ROWS)))
        connection.execute(sa.text(hasty_statements[filled.dialect.name]))
        statement.run(connection, [one(number) for number in numbers])
        assert other.in_transaction()
        connection.rollback()
        other.rollback()

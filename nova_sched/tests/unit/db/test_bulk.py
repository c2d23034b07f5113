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
"""Many rows in one statement, on SQLite.

``integration/test_bulk.py`` runs the class on database servers: ``database`` is an engine on an
empty database.
"""

import contextlib
import time

import pytest
import sqlalchemy as sa

from nova_sched.db import clock, engine
from nova_sched.db.tables import JSON_TEXT, MYSQL, NAME, SECONDS, UUID
from nova_sched.db.transactions import (
    MAX_CHARS,
    MAX_ROWS,
    DeleteRows,
    InsertRows,
    MarkRows,
    SelectRows,
    UpdateRows,
    _chunks,
)
from nova_sched.tests.rows import each_afresh, table

# Of each type that our tables have, and a name that only quotes could spoil.
TABLE = sa.Table(
    'rows_in_bulk',
    sa.MetaData(),
    sa.Column('uuid', UUID, primary_key=True),
    sa.Column('name', NAME, unique=True),
    sa.Column('number', sa.BigInteger),
    sa.Column('seconds', SECONDS),
    sa.Column('words', JSON_TEXT),
    sa.Column('flag', sa.Boolean(create_constraint=False)),
    **MYSQL,
)
INSERT, DELETE = InsertRows(TABLE), DeleteRows(TABLE)
MARK = MarkRows(TABLE, 'name', 'uuid', 'PRIMARY', 'flag IS NOT NULL')
MANY = 2 * MAX_ROWS + 1


def row(number, /, **facts):
    return {
        'uuid': f'key {number:05}',
        'name': f'%s "ü\' \\ {number}',
        'number': 2**40 + number,
        'seconds': number + 0.25,
        'words': '{"a": [%(b)s, ?]}',
        'flag': bool(number % 2),
        **facts,
    }


def key(number):
    return row(number)['uuid']


@contextlib.contextmanager
def sent(database):
    """The statements that are sent inside the block, each as often as the driver sends it."""
    found = []

    def listen(_connection, _cursor, statement, parameters, _context, executemany):
        found.extend([statement] * (len(parameters) if executemany else 1))

    sa.event.listen(database, 'before_cursor_execute', listen)
    yield found
    sa.event.remove(database, 'before_cursor_execute', listen)


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/db.sqlite')
    yield made
    made.dispose()


class TestBulk:
    @pytest.fixture(autouse=True)
    def table(self, database):
        TABLE.metadata.create_all(database)
        yield
        TABLE.metadata.drop_all(database)

    @pytest.fixture
    def write(self, database):
        def write(statement, rows):
            with database.begin() as connection:
                statement.run(connection, rows)

        return write

    @pytest.fixture
    def read(self, database):
        def read():
            with database.begin() as connection:
                return [dict(one) for one in connection.execute(sa.select(TABLE)).mappings()]

        return lambda: sorted(read(), key=lambda one: one['uuid'])

    @pytest.mark.parametrize('count', [0, 1, 2, MANY])
    def test_new_rows(self, write, read, count):
        rows = [row(number) for number in range(count)]
        write(INSERT, rows)
        assert read() == rows

    def test_a_row_without_values(self, write, read):
        empty = {name: None for name in row(0) if name != 'uuid'}
        write(INSERT, [row(0, **empty), row(1)])
        assert read() == [row(0, **empty), row(1)]

    @pytest.mark.parametrize('count', [0, 1, 2, MANY])
    def test_values_by_key(self, write, read, count):
        """Those of other rows, and of other columns, stay."""
        write(INSERT, [row(number) for number in range(count + 1)])
        now = {number: {'number': -number, 'words': f'now %s {number}'} for number in range(count)}
        update = UpdateRows(TABLE, 'number', 'words')
        write(
            update, [{'uuid': key(number), **values} for number, values in reversed(now.items())]
        )
        assert read() == [row(number, **now.get(number, {})) for number in range(count + 1)]

    @each_afresh(
        'values',
        {
            'none for all': {name: None for name in row(0) if name != 'uuid'},
            'numbers': {'seconds': 3, 'number': 0, 'flag': False},
            'long and short words': {'words': 'x' * 100_000, 'name': ''},
        },
    )
    def test_values_of_each_type(self, write, read, values):
        write(INSERT, [row(0), row(1)])
        write(UpdateRows(TABLE, *values), [{'uuid': key(0), **values}])
        assert read() == [row(0, **values), row(1)]

    @pytest.mark.parametrize('count', [0, 1, MANY])
    def test_what_all_get(self, write, read, count):
        write(INSERT, [row(number) for number in range(count + 1)])
        update = UpdateRows(TABLE, 'words', also='number = number + 1, flag = NULL')
        write(update, [{'uuid': key(number), 'words': 'w'} for number in range(count)])
        now = [row(n, words='w', number=row(n)['number'] + 1, flag=None) for n in range(count)]
        assert read() == [*now, row(count)]

    def test_only_what_all_get(self, write, read):
        write(INSERT, [row(0), row(1), row(2)])
        write(UpdateRows(TABLE, also='name = NULL'), [{'uuid': key(0)}, {'uuid': key(2)}])
        assert read() == [row(0, name=None), row(1), row(2, name=None)]

    @pytest.mark.parametrize('count', [0, 1, 2, MANY])
    def test_rows_that_end(self, write, read, count):
        write(INSERT, [row(number) for number in range(count + 1)])
        write(DELETE, [key(number) for number in range(count)])
        assert read() == [row(count)]

    @each_afresh('lock', {'read': False, 'locked': True})
    @pytest.mark.parametrize('count', [0, 1, 2, MANY])
    def test_rows_by_key(self, database, write, count, lock):
        write(INSERT, [row(number) for number in range(count + 1)])
        with database.begin() as connection:
            found = SelectRows(TABLE, 'words', 'number', lock=lock).run(
                connection, {key(number) for number in (*range(count), count + 1)}
            )
        assert sorted(map(tuple, found)) == [
            (row(n)['words'], row(n)['number']) for n in range(count)
        ]

    def test_rows_by_another_column(self, database, write):
        write(INSERT, [row(number, number=number % 2) for number in range(4)])
        with database.begin() as connection:
            found = SelectRows(TABLE, 'uuid', key='number').run(connection, [1])
        assert sorted(map(tuple, found)) == [(key(1),), (key(3),)]

    @pytest.mark.parametrize('count', [0, 1, 2, MANY])
    def test_a_column_becomes_the_same_as_another(self, write, read, count):
        """In the rows of these keys that are so."""
        rows = [row(number, flag=None if number % 2 else True) for number in range(count + 1)]
        write(INSERT, rows)
        write(MARK, [key(number) for number in range(count)])
        assert read() == [
            {**one, 'name': one['uuid']} if one['flag'] and one is not rows[-1] else one
            for one in rows
        ]

    def test_a_column_that_cannot_become_the_same(self, write, read):
        rows = [row(0), row(1, name=key(2)), row(2)]
        write(INSERT, rows)
        with pytest.raises(Exception, match=r'(?i)unique|duplicate'):
            write(MARK, [key(0), key(2), key(3)])
        assert read() == rows

    @each_afresh('lock', {'read': False, 'locked': True})
    def test_the_clock_of_the_database(self, database, write, lock):
        """It goes on within a transaction."""
        write(INSERT, [row(number) for number in range(MANY)])
        began_s = time.time()
        with database.begin() as connection:
            first_s = clock.read(connection)
            time.sleep(0.05)
            select = SelectRows(TABLE, 'number', lock=lock, clock=True)
            found = select.run(connection, {key(number) for number in range(MANY)})
            time.sleep(0.05)
            last_s = connection.scalar(sa.select(clock.NOW))
        assert sorted(number for number, _ in found) == [row(n)['number'] for n in range(MANY)]
        assert all(first_s < read_s < last_s for _, read_s in found)
        assert began_s - 1 < first_s < last_s < time.time() + 1
        assert type(first_s) is type(found[0][1]) is float

    def test_keys_that_are_not_there(self, write, read):
        write(INSERT, [row(0)])
        write(
            UpdateRows(TABLE, 'words'),
            [{'uuid': key(number), 'words': 'w'} for number in range(3)],
        )
        assert read() == [row(0, words='w')]
        write(DELETE, [key(2), key(1), key(0)])
        assert read() == []

    def test_one_row_that_cannot_be_leaves_none(self, write, read):
        with pytest.raises(Exception, match=r'(?i)unique|duplicate'):
            write(INSERT, [row(0), row(1), row(2, name=row(0)['name'])])
        assert read() == []


@table(
    'letters, lengths',
    {
        'nothing': ([], []),
        'as many rows as one takes': ([1] * MAX_ROWS, [MAX_ROWS]),
        'one more': ([1] * (MAX_ROWS + 1), [MAX_ROWS, 1]),
        'as many letters as one takes, and more': ([MAX_CHARS // 2] * 3, [2, 1]),
        'a row that is too long for any is alone': ([1, MAX_CHARS + 1, 1], [1, 1, 1]),
    },
)
def test_rows_are_divided(letters, lengths):
    rows = [(number, 'x' * count, None) for number, count in enumerate(letters)]
    chunks = list(_chunks(rows))
    assert [len(chunk) for chunk in chunks] == lengths
    assert [row for chunk in chunks for row in chunk] == rows

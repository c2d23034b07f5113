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
"""Many rows of one table written in one statement: on a server, each statement costs a round trip.

Except for INSERT, drivers run a statement for many rows as one statement for each row. Here rows
go into one statement, up to the number that a server handles well. SQLite has no round trips, and
is fastest with a plain statement for each row. Rows are mappings by column. They are found by the
table's primary key, of one column.
"""

import operator

from nova_sched.db import clock

# A server searches for a row's case from the first on, so more of them cost more than another
# round trip.
ROWS = 128
# A server refuses a message that is too long: longer than 4 MiB by default.
LETTERS = 1_000_000


class Insert:
    """New rows, with a value for each column."""

    def __init__(self, table):
        self._columns = table.columns.keys()
        self._head = f'INSERT INTO {table.name} ({", ".join(self._columns)}) VALUES '

    def run(self, connection, rows):
        values = _values(rows, *self._columns)
        if connection.dialect.name == 'sqlite':
            _each(connection, self._head + _marks('?', self._columns), values)
            return
        for chunk in _chunks(values):
            text = self._head + ', '.join([_marks('%s', self._columns)] * len(chunk))
            connection.exec_driver_sql(text, tuple(value for row in chunk for value in row))


class Update:
    """Rows with a key and a value for each of ``columns``; ``also`` are SQL assignments for all
    rows."""

    def __init__(self, table, *columns, also=''):
        self._table, self._key, self._columns = table.name, _key_of(table), columns
        self._also = [also] if also else []

    def run(self, connection, rows):
        if connection.dialect.name == 'sqlite':
            sets = ', '.join([f'{name} = ?' for name in self._columns] + self._also)
            text = f'UPDATE {self._table} SET {sets} WHERE {self._key} = ?'
            _each(connection, text, _values(rows, *self._columns, self._key))
            return
        for chunk in _chunks(_values(rows, self._key, *self._columns)):
            self._run_at_once(connection, chunk)

    def _run_at_once(self, connection, rows):
        keys, *columns = zip(*rows, strict=True)
        # No row reaches the ELSE: it gives the type to values that have none.
        cases = f'CASE {self._key} {"WHEN %s THEN %s " * len(keys)}ELSE '
        sets = ', '.join([f'{name} = {cases}{name} END' for name in self._columns] + self._also)
        # Otherwise MySQL may read all of a table of a few hundred rows.
        by = ' FORCE INDEX (PRIMARY)' if _is_mysql(connection) else ''
        text = f'UPDATE {self._table}{by} SET {sets} WHERE {self._key} IN {_marks("%s", keys)}'
        pairs = [
            value
            for column in columns
            for pair in zip(keys, column, strict=True)
            for value in pair
        ]
        connection.exec_driver_sql(text, (*pairs, *keys))


class Mark:
    """Copies ``source``, the first column of ``index``, into ``column``.

    It does so in rows where ``source`` is one of some keys and that satisfy ``condition``, in SQL.
    """

    def __init__(self, table, column, source, index, condition):
        self._table, self._index = table.name, index
        self._rest = f'SET {column} = {source} WHERE {condition} AND {source}'

    def run(self, connection, keys):
        one = [(key,) for key in keys]
        if connection.dialect.name == 'sqlite':
            _each(connection, f'UPDATE {self._table} {self._rest} = ?', one)
            return
        by = f' FORCE INDEX ({self._index})' if _is_mysql(connection) else ''
        for chunk in _chunks(one):
            text = f'UPDATE {self._table}{by} {self._rest} IN {_marks("%s", chunk)}'
            connection.exec_driver_sql(text, tuple(key for (key,) in chunk))


class Delete:
    """Rows by their keys."""

    def __init__(self, table):
        self._table, self._key = table.name, _key_of(table)

    def run(self, connection, keys):
        one = [(key,) for key in keys]
        if connection.dialect.name == 'sqlite':
            _each(connection, f'DELETE FROM {self._table} WHERE {self._key} = ?', one)
            return
        for chunk in _chunks(one):
            text = self._from_keys(chunk) if _is_mysql(connection) else self._among(chunk)
            connection.exec_driver_sql(text, tuple(key for (key,) in chunk))

    def _among(self, keys):
        return f'DELETE FROM {self._table} WHERE {self._key} IN {_marks("%s", keys)}'

    def _from_keys(self, keys):
        """For MySQL: a join from the keys to the rows, in this order.

        MySQL accepts no hint for the plain form, and where it reads all of a table, it waits for
        each lock.
        """
        given = 'SELECT %s AS given' + ' UNION ALL SELECT %s' * (len(keys) - 1)
        rows = f'{self._table} FORCE INDEX (PRIMARY)'
        on = f'{self._table}.{self._key} = one.given'
        return f'DELETE {self._table} FROM ({given}) AS one STRAIGHT_JOIN {rows} ON {on}'


class Select:
    """Values of ``columns`` for keys. ``lock``: locks them in the order of keys, until the
    transaction ends.

    ``clock``: the last value of each row is the database's clock when the row was read.
    """

    def __init__(self, table, *columns, key=None, lock=False, clock=False):
        self._table = table.name
        self._key = key or _key_of(table)
        self._columns = ', '.join(columns)
        self._by_primary, self._lock, self._clock = key is None, lock, clock

    def run(self, connection, keys):
        found = []
        for chunk in _chunks([(key,) for key in sorted(keys)]):
            given = tuple(key for (key,) in chunk)
            found += connection.exec_driver_sql(self._text(connection, given), given).fetchall()
        return found

    def _text(self, connection, keys):
        on_sqlite = connection.dialect.name == 'sqlite'
        columns = (
            f'{self._columns}, {clock.TEXTS[connection.dialect.name]}'
            if self._clock
            else self._columns
        )
        # MySQL locks all that it reads.
        by = ' FORCE INDEX (PRIMARY)' if self._by_primary and _is_mysql(connection) else ''
        among = f'{self._key} IN {_marks("?" if on_sqlite else "%s", keys)}'
        # SQLite has one lock, which each transaction takes at its beginning.
        last = f' ORDER BY {self._key} FOR UPDATE' if self._lock and not on_sqlite else ''
        return f'SELECT {columns} FROM {self._table}{by} WHERE {among}{last}'


def _key_of(table):
    (column,) = table.primary_key.columns
    return column.name


def _is_mysql(connection):
    return connection.dialect.name in ('mysql', 'mariadb')


def _values(rows, *names):
    if len(names) == 1:
        return [(row[names[0]],) for row in rows]
    return list(map(operator.itemgetter(*names), rows))  # at the speed of C: batches are large


def _marks(mark, values):
    return f'({", ".join([mark] * len(values))})'


def _each(connection, text, rows):
    if rows:
        connection.exec_driver_sql(text, rows)


def _chunks(rows):
    """Returns lists of rows, each of them small enough for one statement."""
    chunk, letters = [], 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str))
        if chunk and (len(chunk) == ROWS or letters + size > LETTERS):
            yield chunk
            chunk, letters = [], 0
        chunk.append(row)
        letters += size
    if chunk:
        yield chunk

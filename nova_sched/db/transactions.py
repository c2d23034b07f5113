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
"""Transactions: the meaning of a database's own errors, connections that threads keep,
transactions in few messages, and statements for many rows."""

import contextlib
import operator
import re
import threading

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import clock
from nova_sched.measures.catalogue import STORE_ERRORS

# Errors: a database's own codes become the errors of a transaction that it stopped.

KINDS = {errors.StoreBusy: 'busy', errors.StoreFull: 'full', errors.StoreUnavailable: 'away'}

# Codes are SQLite's names, PostgreSQL's SQLSTATEs and the numbers of MySQL and MariaDB. Another
# transaction conflicted: a lock that took too long, a deadlock, a certification that failed on
# Galera (reported as a deadlock), a row that changed since it was read. The whole transaction is
# rolled back.
BUSY = frozenset(
    {'SQLITE_BUSY', 'SQLITE_LOCKED', '40001', '40P01', '55P03', 1020, 1205, 1213, 3572}
)

# No free space; the whole transaction is rolled back. The second group are write errors whose text
# has the system's own error number for a full disk.
FULL = frozenset({'SQLITE_FULL', '53100', 1021, 1114, 3675})
NOT_WRITTEN = frozenset({3, 1026, 1030})
NO_SPACE = re.compile(r'No space left|err\w*:? 28\b', re.IGNORECASE)

# The server is read-only; after a failover, another one is writable. A file may be remounted.
READ_ONLY = frozenset({'SQLITE_READONLY', '25006', 1290, 1792, 1836})

# The server's time limits: for a statement, an idle transaction, a whole transaction, a session.
# Repeating the same call settles what was done.
OUT_OF_TIME = frozenset({'57014', '25P03', '25P04', '57P05', 1969, 3024, 4031})

# Errors without a specific code. An OperationalError that oslo.db does not name more precisely is
# a server that starts, stops, refuses connections or lacks a resource.
AWAY = (
    db_error.DBConnectionError,
    db_error.DBNonExistentDatabase,  # it was there when the engine was made
    sa.exc.DisconnectionError,
    sa.exc.OperationalError,
    sa.exc.TimeoutError,
)

# A row with the same key is there: the errors of oslo.db and of the driver.
THERE = db_error.DBDuplicateEntry, sa.exc.IntegrityError


def meaning(error, dialect=None):
    """Return StoreBusy, StoreFull or StoreUnavailable, for an error of oslo.db, SQLAlchemy or the
    dialect's driver.

    Returns None if it is none of these, or no database error.
    """
    base, operational = (
        (dialect.dbapi.Error, dialect.dbapi.OperationalError) if dialect else ((), ())
    )
    if not isinstance(error, (sa.exc.SQLAlchemyError, db_error.DBError, base)):
        return None
    driver = _of_driver(error)
    code = _code(driver)
    if code in FULL or (code in NOT_WRITTEN and NO_SPACE.search(str(driver))):
        return errors.StoreFull
    if code in BUSY or isinstance(error, db_error.DBDeadlock):
        return errors.StoreBusy
    if (
        code in READ_ONLY | OUT_OF_TIME
        or isinstance(error, (*AWAY, operational))
        # The driver reports, in its own way, that the connection is lost.
        or (dialect is not None and dialect.is_disconnect(driver, None, None))
    ):
        return errors.StoreUnavailable
    return None


@contextlib.contextmanager
def told_apart(dialect=None):
    """Convert database errors inside the block to errors of nova_sched; other errors stay."""
    try:
        yield
    except Exception as error:
        if (kind := meaning(error, dialect)) is None:
            raise
        STORE_ERRORS.add(KINDS[kind])
        raise kind(first_line(error)) from error


def first_line(error):
    return next(iter(str(error).splitlines()), type(error).__name__)


def _of_driver(error):
    """The driver's error inside those of oslo.db and SQLAlchemy."""
    while (
        inner := getattr(error, 'inner_exception', None) or getattr(error, 'orig', None)
    ) is not None:
        error = inner
    return error


def _code(driver):
    """The database's own code: SQLite's primary name, an SQLSTATE, or a number; None if there is
    none."""
    if name := getattr(driver, 'sqlite_errorname', None):
        return '_'.join(name.split('_')[:2])
    if state := getattr(driver, 'pgcode', None):
        return state
    number = driver.args[0] if driver.args else None
    return number if isinstance(number, int) else None


# Transactions, and the connections that they are on.


@contextlib.contextmanager
def transaction(engine):
    """A new connection in a transaction.

    Raises StoreUnavailable, StoreBusy or StoreFull; then the transaction is rolled back. Only
    after StoreUnavailable, it may have been committed.
    """
    with told_apart(engine.dialect), engine.begin() as connection:
        yield connection


CHUNK = 500  # rows deleted in one transaction, so that other transactions wait only briefly


def delete_in_chunks(engine, table, query, **given):
    """Delete the rows of a table whose UUIDs the query finds, which is limited to CHUNK."""
    count = CHUNK
    while count == CHUNK:
        with transaction(engine) as connection:
            uuids = connection.scalars(query, given).all()
            count = len(uuids)
            if uuids:
                connection.execute(sa.delete(table).where(table.c.uuid.in_(uuids)))


# Calls a method again while other transactions stop it: nothing is done by then. The 20th
# StoreBusy is raised.
repeated = oslo_db_api.wrap_db_retry(
    max_retries=19,
    retry_interval=0.002,
    max_retry_interval=0.05,
    jitter=True,
    exception_checker=lambda error: isinstance(error, errors.StoreBusy),
)


class Sessions:
    """One connection for each thread, kept open from one transaction to the next.

    Taking a connection from a pool and returning it costs as much as a small transaction. On
    SQLite, where oslo.db keeps no pool, closing the last one costs a checkpoint of the log.
    """

    def __init__(self, engine):
        self._engine = engine
        self._of_thread = threading.local()

    @contextlib.contextmanager
    def transaction(self, reads=False):
        """The thread's connection in a transaction; raises the errors of ``transaction`` of this
        module.

        A transaction that only reads waits for no writer, and no writer waits for it.
        """
        with self._kept() as connection:
            if connection.dialect.name == 'sqlite':
                # Begin directly, and notify oslo.db: its own BEGIN takes as long as a statement.
                driver = connection.connection.driver_connection
                driver.execute('BEGIN' if reads else 'BEGIN IMMEDIATE')
                connection.info['in_transaction'] = True
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def brief(self, reads=False):
        """A transaction only for the statements below, in the shortest time; raises the same
        errors."""
        with self._kept() as connection:
            kind = _InFewMessages if connection.dialect.driver == 'psycopg2' else _Brief
            brief = kind(connection, reads)
            try:
                yield brief
                brief.commit()
            except BaseException:
                try:
                    brief.rollback()
                except connection.dialect.dbapi.Error:
                    # The error that is being raised describes the fault better than this one.
                    connection.invalidate()
                raise

    @contextlib.contextmanager
    def _kept(self):
        with told_apart(self._engine.dialect):
            connection = getattr(self._of_thread, 'connection', None)
            if connection is None:
                connection = self._of_thread.connection = self._engine.connect()
            try:
                yield connection
            except BaseException as error:
                # After a deadlock, a duplicate or an error of the caller, the connection is as
                # good as before. After any other error, the next transaction starts on a new one.
                lost = meaning(error, connection.dialect) is errors.StoreUnavailable
                if lost or not isinstance(error, Exception):
                    self._of_thread.connection = None
                    connection.invalidate()
                    connection.close()
                raise


class SharedSession(Sessions):
    """The only connection to a database in memory: threads use it in turn.

    An engine has one. The end of another one's connection would roll back what this one does.
    """

    def __init__(self, engine):
        super().__init__(engine)
        self._connection, self._turn = engine.connect(), threading.Lock()

    @contextlib.contextmanager
    def _kept(self):
        with told_apart(self._engine.dialect), self._turn:
            yield self._connection


def sessions(engine):
    """The Sessions that fit the engine."""
    if not isinstance(engine.pool, sa.StaticPool):
        return Sessions(engine)
    if not hasattr(engine, 'shared_session'):
        engine.shared_session = SharedSession(engine)
    return engine.shared_session


# For the claims that a caller waits for, transactions in few messages and without SQLAlchemy. To a
# database on another machine, each message takes longer than most statements. SQLAlchemy's own
# processing of a statement takes as long as SQLite takes to run it (the benchmarks `shared` and
# `claims` show it).


class _Brief:
    """A transaction on the driver's connection below an SQLAlchemy connection that has none;
    ``reads``: it only reads.

    Runs statements as far as those below need it, like SQLAlchemy's connection and with its
    errors.
    """

    def __init__(self, connection, reads):
        self.dialect = connection.dialect
        self._driver = connection.connection.driver_connection
        self._cursor = self._driver.cursor()
        if self.dialect.name == 'sqlite':  # other drivers begin it
            self.exec_driver_sql('BEGIN' if reads else 'BEGIN IMMEDIATE')

    def exec_driver_sql(self, text, given=()):
        """Run a statement, for each of a list of rows."""
        many = isinstance(given, list)
        self._call(self._cursor.executemany if many else self._cursor.execute, text, given)
        return self

    def fetchall(self):
        """The rows of the last statement."""
        return self._cursor.fetchall()

    def commit(self):
        self._call(self._driver.commit)

    def rollback(self):
        self._driver.rollback()

    def _call(self, function, *given):
        base = self.dialect.dbapi.Error
        try:
            function(*given)
        except base as error:
            raise sa.exc.DBAPIError.instance(given and given[0], None, error, base) from error


class _InFewMessages(_Brief):
    """Delays statements without rows to fetch until one has rows, or until the end.

    The driver would send BEGIN and COMMIT each in a separate message, so its own transaction
    handling is switched off.
    """

    def __init__(self, connection, reads):
        super().__init__(connection, reads)
        self._driver.autocommit = True
        self._texts, self._given = ['BEGIN'], []

    def exec_driver_sql(self, text, given=()):
        self._texts.append(text)
        self._given += given
        return self

    def fetchall(self):
        self._send()
        return self._cursor.fetchall()

    def commit(self):
        self._texts.append('COMMIT')
        self._send()
        self._driver.autocommit = False

    def rollback(self):
        self._cursor.execute('ROLLBACK')
        self._driver.autocommit = False

    def _send(self):
        text, given = '; '.join(self._texts), self._given
        self._texts, self._given = [], []
        self._call(self._cursor.execute, text, given)


# Statements for many rows of one table: on a server, each statement costs a round trip.
#
# Except for INSERT, drivers run a statement for many rows as one statement for each row. Here rows
# go into one statement, up to the number that a server handles well. SQLite has no round trips,
# and is fastest with a plain statement for each row. Rows are mappings by column. They are found
# by the table's primary key, of one column.

# A server searches for a row's case from the first on, so more of them cost more than another
# round trip.
MAX_ROWS = 128
# A server refuses a message that is too long: longer than 4 MiB by default.
MAX_CHARS = 1_000_000
# Its names: it gets hints where it would read, and lock, more rows than it needs.
MYSQL = 'mysql', 'mariadb'


class InsertRows:
    """New rows, with a value for each column."""

    def __init__(self, table):
        self._columns = table.columns.keys()
        self._head = f'INSERT INTO {table.name} ({", ".join(self._columns)}) VALUES '

    def run(self, connection, rows):
        values = _values(rows, *self._columns)
        if connection.dialect.name == 'sqlite':
            if values:
                connection.exec_driver_sql(self._head + _marks('?', self._columns), values)
            return
        for chunk in _chunks(values):
            text = self._head + ', '.join([_marks('%s', self._columns)] * len(chunk))
            connection.exec_driver_sql(text, tuple(value for row in chunk for value in row))


class UpdateRows:
    """Rows with a key and a value for each of ``columns``; ``also`` are SQL assignments for all
    rows."""

    def __init__(self, table, *columns, also=''):
        self._table, self._key, self._columns = table.name, _key_of(table), columns
        self._also = [also] if also else []

    def run(self, connection, rows):
        if connection.dialect.name == 'sqlite':
            if rows:
                sets = ', '.join([f'{name} = ?' for name in self._columns] + self._also)
                text = f'UPDATE {self._table} SET {sets} WHERE {self._key} = ?'
                connection.exec_driver_sql(text, _values(rows, *self._columns, self._key))
            return
        for chunk in _chunks(_values(rows, self._key, *self._columns)):
            self._run_at_once(connection, chunk)

    def _run_at_once(self, connection, rows):
        keys, *columns = zip(*rows, strict=True)
        # No row reaches the ELSE: it gives the type to values that have none.
        cases = f'CASE {self._key} {"WHEN %s THEN %s " * len(keys)}ELSE '
        sets = ', '.join([f'{name} = {cases}{name} END' for name in self._columns] + self._also)
        # Otherwise MySQL may read all of a table of a few hundred rows.
        by = ' FORCE INDEX (PRIMARY)' if connection.dialect.name in MYSQL else ''
        text = f'UPDATE {self._table}{by} SET {sets} WHERE {self._key} IN {_marks("%s", keys)}'
        pairs = [
            value
            for column in columns
            for pair in zip(keys, column, strict=True)
            for value in pair
        ]
        connection.exec_driver_sql(text, (*pairs, *keys))


class MarkRows:
    """Copies ``source``, the first column of ``index``, into ``column``.

    It does so in rows where ``source`` is one of some keys and that satisfy ``condition``, in SQL.
    """

    def __init__(self, table, column, source, index, condition):
        self._table, self._index = table.name, index
        self._rest = f'SET {column} = {source} WHERE {condition} AND {source}'

    def run(self, connection, keys):
        rows = [(key,) for key in keys]
        if connection.dialect.name == 'sqlite':
            if rows:
                connection.exec_driver_sql(f'UPDATE {self._table} {self._rest} = ?', rows)
            return
        by = f' FORCE INDEX ({self._index})' if connection.dialect.name in MYSQL else ''
        for chunk in _chunks(rows):
            text = f'UPDATE {self._table}{by} {self._rest} IN {_marks("%s", chunk)}'
            connection.exec_driver_sql(text, tuple(key for (key,) in chunk))


class DeleteRows:
    """Rows by their keys."""

    def __init__(self, table):
        self._table, self._key = table.name, _key_of(table)

    def run(self, connection, keys):
        rows = [(key,) for key in keys]
        plain = f'DELETE FROM {self._table} WHERE {self._key}'
        if connection.dialect.name == 'sqlite':
            if rows:
                connection.exec_driver_sql(f'{plain} = ?', rows)
            return
        for chunk in _chunks(rows):
            text = f'{plain} IN {_marks("%s", chunk)}'
            if connection.dialect.name in MYSQL:
                text = self._from_keys(chunk)
            connection.exec_driver_sql(text, tuple(key for (key,) in chunk))

    def _from_keys(self, keys):
        """For MySQL: a join from the keys to the rows, in this order.

        MySQL accepts no hint for the plain form, and where it reads all of a table, it waits for
        each lock.
        """
        given = 'SELECT %s AS given' + ' UNION ALL SELECT %s' * (len(keys) - 1)
        rows = f'{self._table} FORCE INDEX (PRIMARY)'
        on = f'{self._table}.{self._key} = one.given'
        return f'DELETE {self._table} FROM ({given}) AS one STRAIGHT_JOIN {rows} ON {on}'


class SelectRows:
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
        dialect, columns = connection.dialect.name, self._columns
        if self._clock:
            columns = f'{columns}, {clock.TEXTS[dialect]}'
        # MySQL locks all that it reads.
        by = ' FORCE INDEX (PRIMARY)' if self._by_primary and dialect in MYSQL else ''
        head = f'SELECT {columns} FROM {self._table}{by} WHERE {self._key} IN '
        # SQLite has one lock, which each transaction takes at its beginning.
        last = f' ORDER BY {self._key} FOR UPDATE' if self._lock and dialect != 'sqlite' else ''
        mark, rows = '?' if dialect == 'sqlite' else '%s', []
        for chunk in _chunks([(key,) for key in sorted(keys)]):
            text = f'{head}{_marks(mark, chunk)}{last}'
            given = tuple(key for (key,) in chunk)
            rows += connection.exec_driver_sql(text, given).fetchall()
        return rows


def _key_of(table):
    (column,) = table.primary_key.columns
    return column.name


def _values(rows, *names):
    if len(names) == 1:
        return [(row[names[0]],) for row in rows]
    return list(map(operator.itemgetter(*names), rows))  # at the speed of C: batches are large


def _marks(mark, values):
    return f'({", ".join([mark] * len(values))})'


def _chunks(rows):
    """Return lists of rows, each of them small enough for one statement."""
    chunk, chars = [], 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str))
        if chunk and (len(chunk) == MAX_ROWS or chars + size > MAX_CHARS):
            yield chunk
            chunk, chars = [], 0
        chunk.append(row)
        chars += size
    if chunk:
        yield chunk

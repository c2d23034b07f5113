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
"""Tests of transactions: what databases' errors mean, what they do to connections that threads
keep, and how rows are divided among statements."""

import concurrent.futures
import gc
import sqlite3
import threading

import psycopg2
import psycopg2.errors
import pymysql
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import engine, transactions
from nova_sched.tests.rows import table

Away, Busy, Full = errors.StoreUnavailable, errors.StoreBusy, errors.StoreFull
Operational, Internal = pymysql.err.OperationalError, pymysql.err.InternalError

DIALECTS = [
    sa.create_engine(f'{name}://').dialect
    for name in ('sqlite', 'postgresql+psycopg2', 'mysql+pymysql')
]


def of_sqlite(name, kind=sqlite3.OperationalError):
    error = kind(f'in words: {name}')
    error.sqlite_errorname = name
    return error


def of_postgresql(code, words='in words'):
    error = psycopg2.errors.lookup(code)(words)
    error.__setstate__({'pgcode': code})
    return error


TABLE = {
    'SQLite: another one writes': (of_sqlite('SQLITE_BUSY'), Busy),
    'SQLite: read first, wrote later': (of_sqlite('SQLITE_BUSY_SNAPSHOT'), Busy),
    'SQLite: a table is locked': (of_sqlite('SQLITE_LOCKED'), Busy),
    'SQLite: full': (of_sqlite('SQLITE_FULL'), Full),
    'SQLite: the file was moved': (of_sqlite('SQLITE_READONLY_DBMOVED'), Away),
    'SQLite: the disk fails': (of_sqlite('SQLITE_IOERR_FSYNC'), Away),
    'SQLite: broken file': (of_sqlite('SQLITE_CORRUPT', sqlite3.DatabaseError), None),
    'SQLite: twice': (of_sqlite('SQLITE_CONSTRAINT_UNIQUE', sqlite3.IntegrityError), None),
    'PostgreSQL: deadlock': (of_postgresql('40P01'), Busy),
    'PostgreSQL: not serializable': (of_postgresql('40001'), Busy),
    'PostgreSQL: the lock took too long': (of_postgresql('55P03'), Busy),
    'PostgreSQL: disk full': (of_postgresql('53100'), Full),
    'PostgreSQL: read-only': (of_postgresql('25006'), Away),
    'PostgreSQL: done or not': (of_postgresql('40003'), Away),
    'PostgreSQL: it ends': (of_postgresql('57P01', 'terminating connection due to …'), Away),
    'PostgreSQL: it starts': (of_postgresql('57P03'), Away),
    'PostgreSQL: too many connections': (of_postgresql('53300'), Away),
    'PostgreSQL: idle': (of_postgresql('25P03', 'terminating connection due to …'), Away),
    'PostgreSQL: the statement took too long': (of_postgresql('57014'), Away),
    'PostgreSQL: the transaction stood idle': (of_postgresql('25P03'), Away),
    'PostgreSQL: the transaction took too long': (of_postgresql('25P04'), Away),
    'PostgreSQL: the session stood idle': (of_postgresql('57P05'), Away),
    'psycopg2: closed': (psycopg2.InterfaceError('connection already closed'), Away),
    'PostgreSQL: twice': (of_postgresql('23505'), None),
    'PostgreSQL: no such column': (of_postgresql('42703'), None),
    'MySQL: deadlock': (Operational(1213, 'Deadlock found'), Busy),
    'Galera: not certified': (Internal(1213, 'WSREP detected deadlock/conflict'), Busy),
    'MySQL: lock wait timeout': (Operational(1205, 'Lock wait timeout exceeded'), Busy),
    'MariaDB: the row has changed': (Operational(1020, 'Record has changed since'), Busy),
    'MySQL: lock, no wait': (Operational(3572, 'could not be acquired immediately'), Busy),
    'MySQL: disk full': (Operational(1021, 'Disk full (file x)'), Full),
    'MySQL: table full': (Operational(1114, "The table 'claims' is full"), Full),
    'MySQL: no new file, disk full': (Operational(3675, 'as disk is full'), Full),
    'MySQL: not written': (Internal(3, 'Error writing file /a (Errcode: 28 "No…")'), Full),
    'MySQL: log not written': (Operational(1026, 'Error writing (errno: 28)'), Full),
    'MySQL: engine, full': (Operational(1030, 'Got error 28 from storage engine'), Full),
    'MySQL: engine, other': (Operational(1030, 'Got error 168 from storage engine'), Away),
    'MySQL: read-only': (Operational(1290, 'running with the --read-only option'), Away),
    'MySQL: reads only': (Operational(1792, 'in a READ ONLY transaction'), Away),
    'MySQL: read-only mode': (Operational(1836, 'Running in read-only mode'), Away),
    'Galera: node not ready': (Operational(1047, 'WSREP has not yet prepared node'), Away),
    'MySQL: lost': (Operational(2013, 'Lost connection'), Away),
    'MySQL: killed': (Operational(1927, 'Connection was killed'), Away),
    'MariaDB: statement too long': (Operational(1969, 'max_statement_time exceeded'), Away),
    'MySQL: SELECT too long': (Operational(3024, 'maximum execution time exceeded'), Away),
    'MySQL: session idle': (Operational(4031, 'disconnected because of inactivity'), Away),
    'PyMySQL: closed': (pymysql.err.InterfaceError(0, ''), Away),
    'MySQL: twice': (pymysql.err.IntegrityError(1062, "Duplicate entry 'No space left'"), None),
    'MySQL: no table': (pymysql.err.ProgrammingError(1146, 'no table'), None),
}  # fmt: skip


def dialect_of(error):
    return next(dialect for dialect in DIALECTS if isinstance(error, dialect.dbapi.Error))


def in_sqlalchemy(error):
    return sa.exc.DBAPIError.instance('SELECT 1', None, error, dialect_of(error).dbapi.Error)


@table('error, kind', TABLE)
@table('wrapped', {'bare': lambda error: error, 'in SQLAlchemy': in_sqlalchemy})
def test_what_an_error_means(error, kind, wrapped):
    assert transactions.meaning(wrapped(error), dialect_of(error)) is kind


@table(
    'error, kind',
    {
        'deadlock': (db_error.DBDeadlock(in_sqlalchemy(Operational(1213, 'x'))), Busy),
        'deadlock without a code': (db_error.DBDeadlock(Exception('deadlock')), Busy),
        'connection': (db_error.DBConnectionError(Exception('gone')), Away),
        'the database is gone': (db_error.DBNonExistentDatabase('x'), Away),
        'read-only': (db_error.DBError(in_sqlalchemy(of_postgresql('25006'))), Away),
        'no file is written': (
            db_error.DBError(in_sqlalchemy(Internal(3, 'write: errno: 28'))),
            Full,
        ),
        'no table': (
            db_error.DBNonExistentTable('t', in_sqlalchemy(of_sqlite('SQLITE_ERROR'))),
            None,
        ),
        'twice': (db_error.DBDuplicateEntry(['a']), None),
        'no connection is left': (sa.exc.TimeoutError('QueuePool limit'), Away),
        'a fault of ours': (sa.exc.InvalidRequestError('a fault of ours'), None),
        'no error of a database': (KeyError(1213), None),
    },
)
def test_errors_above_the_driver(error, kind):
    assert transactions.meaning(error) is kind


@table(
    'error, kind, words',
    {
        'busy': (in_sqlalchemy(Operational(1213, 'Deadlock found')), Busy, 'busy.*Deadlock'),
        'full': (in_sqlalchemy(of_sqlite('SQLITE_FULL')), Full, 'full.*SQLITE_FULL'),
        'away': (db_error.DBConnectionError(Exception('gone\nfar')), Away, 'answer: gone$'),
        'one of ours': (errors.NodeNotFound('n'), errors.NodeNotFound, 'no node n'),
        'one of Python': (KeyError(1213), KeyError, '1213'),
    },
)
def test_errors_are_converted(error, kind, words):
    with pytest.raises(kind, match=words) as raised, transactions.told_apart():
        raise error
    assert type(raised.value) is kind


# Transactions, and connections that threads keep.


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'some.sqlite'


@pytest.fixture(
    params=[
        pytest.param(engine.create, id='of a daemon'),
        pytest.param(engine.for_command, id='of a command'),
    ]
)
def database(request, path):
    made = request.param(f'sqlite:///{path}')
    with transactions.transaction(made) as connection:
        connection.execute(sa.text('CREATE TABLE t (n INTEGER PRIMARY KEY)'))
    yield made
    made.dispose()


@pytest.fixture
def rival(path, database):
    """Another connection to the same file, which does not wait for locks."""
    made = sqlite3.connect(path, isolation_level=None, timeout=0)
    yield made
    made.close()


def count(connection):
    return connection.execute(sa.text('SELECT count(*) FROM t')).scalar()


def test_a_transaction_that_has_only_read_has_the_lock_already(database, rival):
    for _ in range(2):  # on the same connection too
        with transactions.transaction(database) as connection:
            assert count(connection) == 0
            with pytest.raises(sqlite3.OperationalError, match='locked'):
                rival.execute('INSERT INTO t VALUES (1)')
    rival.execute('INSERT INTO t VALUES (1)')


def test_a_transaction_is_done_or_undone(database):
    with transactions.transaction(database) as connection:
        connection.execute(sa.text('INSERT INTO t VALUES (1)'))
    with (
        pytest.raises(db_error.DBDuplicateEntry),
        transactions.transaction(database) as connection,
    ):
        a_duplicate(connection)
    with transactions.transaction(database) as connection:
        assert count(connection) == 1


def insert(connection):
    connection.execute(sa.text('INSERT INTO t VALUES (7)'))


def a_lost_connection(connection):
    insert(connection)
    raise db_error.DBConnectionError(Exception('gone'))


def no_connection_left(connection):
    insert(connection)
    raise sa.exc.TimeoutError('QueuePool limit')


def a_deadlock(connection):
    insert(connection)
    raise db_error.DBDeadlock(Exception('deadlock'))


def a_full_file(connection):
    insert(connection)
    connection.execute(
        sa.text('PRAGMA max_page_count = 1')
    )  # that is: no page more than there are
    connection.execute(sa.text('CREATE TABLE big (words TEXT)'))


def a_file_that_may_only_be_read(connection):
    insert(connection)
    connection.execute(sa.text('PRAGMA query_only = ON'))
    insert(connection)


def a_duplicate(connection):
    insert(connection)
    insert(connection)


def a_fault_of_ours(connection):
    insert(connection)
    connection.execute(sa.text('INSERT INTO no_such_table VALUES (1)'))


def an_error_of_the_caller(connection):
    insert(connection)
    raise KeyError(1213)


def an_order_to_end(connection):
    insert(connection)
    raise KeyboardInterrupt


# With each: what comes out, and whether a thread goes on with the connection.
KINDS = [
    (a_lost_connection, errors.StoreUnavailable, False),
    (no_connection_left, errors.StoreUnavailable, False),
    (a_file_that_may_only_be_read, errors.StoreUnavailable, False),
    (a_deadlock, errors.StoreBusy, True),
    (a_full_file, errors.StoreFull, True),
    (a_duplicate, db_error.DBDuplicateEntry, True),
    (a_fault_of_ours, db_error.DBNonExistentTable, True),
    (an_error_of_the_caller, KeyError, True),
    (an_order_to_end, KeyboardInterrupt, False),
]
NAMES = [fail.__name__ for fail, *_ in KINDS]


@pytest.mark.parametrize('fail, error, _kept', KINDS, ids=NAMES)
@pytest.mark.parametrize('opened', ['transaction', 'session'])
def test_errors_are_told_apart(database, opened, fail, error, _kept):
    """Each undoes the transaction; the next one works."""
    sessions = transactions.Sessions(database)

    def begin():
        if opened == 'transaction':
            return transactions.transaction(database)
        return sessions.transaction()

    with pytest.raises(error) as raised, begin() as connection:
        fail(connection)
    assert type(raised.value) is error
    with begin() as connection:
        assert count(connection) == 0


@pytest.mark.parametrize('fail, _error, kept', KINDS, ids=NAMES)
def test_a_thread_goes_on_with_a_connection_that_is_sound(database, fail, _error, kept):
    sessions = transactions.Sessions(database)
    with pytest.raises(_error), sessions.transaction() as before:
        fail(before)
    with sessions.transaction() as after:
        assert (after is before) == kept
        assert before.closed == (not kept)


@pytest.fixture
def brief(database):
    """Threads' connections to the same file; who finds it locked gives up at once."""
    sessions = transactions.Sessions(database)
    with sessions.transaction() as connection:
        connection.connection.driver_connection.execute('PRAGMA busy_timeout = 1')
    return sessions


def test_a_file_that_another_one_writes(brief, rival):
    """To begin is refused; then the same connection goes on."""
    rival.execute('BEGIN IMMEDIATE')
    with brief.transaction(reads=True) as before:
        assert count(before) == 0
    with pytest.raises(errors.StoreBusy, match='locked'), brief.transaction():
        raise AssertionError('this transaction must not begin')
    rival.execute('COMMIT')
    with brief.transaction() as after:
        insert(after)
    assert after is before
    assert rival.execute('SELECT count(*) FROM t').fetchone() == (1,)


def test_a_file_on_a_disk_that_may_only_be_read(path, database):
    made = engine.create(f'sqlite:///file:{path}?mode=ro&uri=true')
    sessions = transactions.Sessions(made)
    with sessions.transaction(reads=True) as connection:
        assert count(connection) == 0
    with (
        pytest.raises(errors.StoreUnavailable, match='readonly') as raised,
        sessions.transaction() as connection,
    ):
        insert(connection)
    assert type(raised.value) is errors.StoreUnavailable
    made.dispose()


def test_a_thread_keeps_its_own_connection(database):
    sessions, seen = transactions.Sessions(database), []

    def look():
        for _ in range(2):
            with sessions.transaction() as connection:
                seen.append(connection)

    look()
    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert [seen[0] is one for one in seen] == [True, True, False, False]
    assert seen[2] is seen[3]


@pytest.fixture
def shared():
    sessions = transactions.sessions(engine.in_memory())
    with sessions.transaction() as connection:
        connection.execute(sa.text('CREATE TABLE t (n INTEGER PRIMARY KEY)'))
    return sessions


@pytest.mark.parametrize('fail, error, _kept', KINDS, ids=NAMES)
def test_a_database_in_memory_outlives_errors(shared, fail, error, _kept):
    with pytest.raises(error), shared.transaction() as connection:
        fail(connection)
    with shared.transaction(reads=True) as connection:
        assert count(connection) == 0


def test_threads_use_a_database_in_memory_in_turn(shared):
    def work(numbers):
        for number in numbers:
            with shared.transaction() as connection:
                before = count(connection)
                connection.execute(sa.text(f'INSERT INTO t VALUES ({number})'))
                assert count(connection) == before + 1
            with shared.brief(reads=True) as connection:
                ((_,),) = connection.exec_driver_sql(
                    'SELECT n FROM t WHERE n = ?', (number,)
                ).fetchall()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [range(start, start + 50) for start in range(0, 200, 50)]))
    with shared.transaction(reads=True) as connection:
        assert count(connection) == 200


def test_stores_on_one_database_in_memory_share_its_connection():
    """The collector may end an unused one at any moment; that rolled back what another one did."""
    made = engine.in_memory()
    sessions = transactions.sessions(made)
    with sessions.transaction() as connection:
        connection.execute(sa.text('CREATE TABLE t (n INTEGER PRIMARY KEY)'))
    with sessions.transaction() as connection:
        connection.execute(sa.text('INSERT INTO t VALUES (1)'))
        transactions.sessions(made)
        gc.collect()
        assert count(connection) == 1
    with sessions.transaction(reads=True) as connection:
        assert count(connection) == 1

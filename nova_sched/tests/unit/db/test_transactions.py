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
from nova_sched.tests.rows import each

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


TABLE = [
    pytest.param(of_sqlite('SQLITE_BUSY'), Busy, id='SQLite: another one writes'),
    pytest.param(of_sqlite('SQLITE_BUSY_SNAPSHOT'), Busy, id='SQLite: read first, wrote later'),
    pytest.param(of_sqlite('SQLITE_LOCKED'), Busy, id='SQLite: a table is locked'),
    pytest.param(of_sqlite('SQLITE_FULL'), Full, id='SQLite: full'),
    pytest.param(of_sqlite('SQLITE_READONLY_DBMOVED'), Away, id='SQLite: the file was moved'),
    pytest.param(of_sqlite('SQLITE_IOERR_FSYNC'), Away, id='SQLite: the disk fails'),
    pytest.param(
        of_sqlite('SQLITE_CORRUPT', sqlite3.DatabaseError), None,
        id='SQLite: broken file',
    ),
    pytest.param(
        of_sqlite('SQLITE_CONSTRAINT_UNIQUE', sqlite3.IntegrityError), None,
        id='SQLite: twice',
    ),
    pytest.param(of_postgresql('40P01'), Busy, id='PostgreSQL: deadlock'),
    pytest.param(of_postgresql('40001'), Busy, id='PostgreSQL: not serializable'),
    pytest.param(of_postgresql('55P03'), Busy, id='PostgreSQL: the lock took too long'),
    pytest.param(of_postgresql('53100'), Full, id='PostgreSQL: disk full'),
    pytest.param(of_postgresql('25006'), Away, id='PostgreSQL: read-only'),
    pytest.param(of_postgresql('40003'), Away, id='PostgreSQL: done or not'),
    pytest.param(
        of_postgresql('57P01', 'terminating connection due to …'), Away,
        id='PostgreSQL: it ends',
    ),
    pytest.param(of_postgresql('57P03'), Away, id='PostgreSQL: it starts'),
    pytest.param(of_postgresql('53300'), Away, id='PostgreSQL: too many connections'),
    pytest.param(
        of_postgresql('25P03', 'terminating connection due to …'), Away,
        id='PostgreSQL: idle',
    ),
    pytest.param(of_postgresql('57014'), Away, id='PostgreSQL: the statement took too long'),
    pytest.param(of_postgresql('25P03'), Away, id='PostgreSQL: the transaction stood idle'),
    pytest.param(of_postgresql('25P04'), Away, id='PostgreSQL: the transaction took too long'),
    pytest.param(of_postgresql('57P05'), Away, id='PostgreSQL: the session stood idle'),
    pytest.param(
        psycopg2.InterfaceError('connection already closed'), Away,
        id='psycopg2: closed',
    ),
    pytest.param(of_postgresql('23505'), None, id='PostgreSQL: twice'),
    pytest.param(of_postgresql('42703'), None, id='PostgreSQL: no such column'),
    pytest.param(Operational(1213, 'Deadlock found'), Busy, id='MySQL: deadlock'),
    pytest.param(
        Internal(1213, 'WSREP detected deadlock/conflict'), Busy,
        id='Galera: not certified',
    ),
    pytest.param(
        Operational(1205, 'Lock wait timeout exceeded'), Busy,
        id='MySQL: lock wait timeout',
    ),
    pytest.param(
        Operational(1020, 'Record has changed since'), Busy,
        id='MariaDB: the row has changed',
    ),
    pytest.param(
        Operational(3572, 'could not be acquired immediately'), Busy,
        id='MySQL: lock, no wait',
    ),
    pytest.param(Operational(1021, 'Disk full (file x)'), Full, id='MySQL: disk full'),
    pytest.param(Operational(1114, "The table 'claims' is full"), Full, id='MySQL: table full'),
    pytest.param(Operational(3675, 'as disk is full'), Full, id='MySQL: no new file, disk full'),
    pytest.param(
        Internal(3, 'Error writing file /a (Errcode: 28 "No…")'), Full,
        id='MySQL: not written',
    ),
    pytest.param(
        Operational(1026, 'Error writing (errno: 28)'), Full,
        id='MySQL: log not written',
    ),
    pytest.param(
        Operational(1030, 'Got error 28 from storage engine'), Full,
        id='MySQL: engine, full',
    ),
    pytest.param(
        Operational(1030, 'Got error 168 from storage engine'), Away,
        id='MySQL: engine, other',
    ),
    pytest.param(
        Operational(1290, 'running with the --read-only option'), Away,
        id='MySQL: read-only',
    ),
    pytest.param(Operational(1792, 'in a READ ONLY transaction'), Away, id='MySQL: reads only'),
    pytest.param(Operational(1836, 'Running in read-only mode'), Away, id='MySQL: read-only mode'),
    pytest.param(
        Operational(1047, 'WSREP has not yet prepared node'), Away,
        id='Galera: node not ready',
    ),
    pytest.param(Operational(2013, 'Lost connection'), Away, id='MySQL: lost'),
    pytest.param(Operational(1927, 'Connection was killed'), Away, id='MySQL: killed'),
    pytest.param(
        Operational(1969, 'max_statement_time exceeded'), Away,
        id='MariaDB: statement too long',
    ),
    pytest.param(
        Operational(3024, 'maximum execution time exceeded'), Away,
        id='MySQL: SELECT too long',
    ),
    pytest.param(
        Operational(4031, 'disconnected because of inactivity'), Away,
        id='MySQL: session idle',
    ),
    pytest.param(pymysql.err.InterfaceError(0, ''), Away, id='PyMySQL: closed'),
    pytest.param(
        pymysql.err.IntegrityError(1062, "Duplicate entry 'No space left'"), None,
        id='MySQL: twice',
    ),
    pytest.param(pymysql.err.ProgrammingError(1146, 'no table'), None, id='MySQL: no table'),
]  # fmt: skip


def dialect_of(error):
    return next(dialect for dialect in DIALECTS if isinstance(error, dialect.dbapi.Error))


def in_sqlalchemy(error):
    return sa.exc.DBAPIError.instance('SELECT 1', None, error, dialect_of(error).dbapi.Error)


@each('error, kind', TABLE)
@each('wrapped', [lambda error: error, in_sqlalchemy], ids=['bare', 'in SQLAlchemy'])
def test_what_an_error_means(error, kind, wrapped):
    assert transactions.meaning(wrapped(error), dialect_of(error)) is kind


@pytest.mark.parametrize(
    'error, kind',
    [
        pytest.param(
            db_error.DBDeadlock(in_sqlalchemy(Operational(1213, 'x'))), Busy, id='deadlock'
        ),
        pytest.param(
            db_error.DBDeadlock(Exception('deadlock')), Busy, id='deadlock without a code'
        ),
        pytest.param(db_error.DBConnectionError(Exception('gone')), Away, id='connection'),
        pytest.param(db_error.DBNonExistentDatabase('x'), Away, id='the database is gone'),
        pytest.param(
            db_error.DBError(in_sqlalchemy(of_postgresql('25006'))), Away, id='read-only'
        ),
        pytest.param(
            db_error.DBError(in_sqlalchemy(Internal(3, 'write: errno: 28'))),
            Full,
            id='no file is written',
        ),
        pytest.param(
            db_error.DBNonExistentTable('t', in_sqlalchemy(of_sqlite('SQLITE_ERROR'))),
            None,
            id='no table',
        ),
        pytest.param(db_error.DBDuplicateEntry(['a']), None, id='twice'),
        pytest.param(sa.exc.TimeoutError('QueuePool limit'), Away, id='no connection is left'),
        pytest.param(sa.exc.InvalidRequestError('a fault of ours'), None, id='a fault of ours'),
        pytest.param(KeyError(1213), None, id='no error of a database'),
    ],
)
def test_errors_above_the_driver(error, kind):
    assert transactions.meaning(error) is kind


@pytest.mark.parametrize(
    'error, kind, words',
    [
        pytest.param(
            in_sqlalchemy(Operational(1213, 'Deadlock found')), Busy, 'busy.*Deadlock', id='busy'
        ),
        pytest.param(
            in_sqlalchemy(of_sqlite('SQLITE_FULL')), Full, 'full.*SQLITE_FULL', id='full'
        ),
        pytest.param(
            db_error.DBConnectionError(Exception('gone\nfar')), Away, 'answer: gone$', id='away'
        ),
        pytest.param(errors.NodeNotFound('n'), errors.NodeNotFound, 'no node n', id='one of ours'),
        pytest.param(KeyError(1213), KeyError, '1213', id='one of Python'),
    ],
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

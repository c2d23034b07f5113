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
"""Tests of the database engine: how SQLite is set up, and what errors do to connections that
threads keep."""

import concurrent.futures
import gc
import sqlite3
import sys
import threading
import time

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import engine, transactions


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


@pytest.mark.parametrize(
    'pragma, value',
    [
        pytest.param('journal_mode', 'wal', id='a log that readers read beside the writer'),
        pytest.param('synchronous', 2, id='on the disk at each commit'),
        pytest.param('foreign_keys', 1, id='foreign keys are checked'),
        pytest.param('busy_timeout', 30000, id='waits for a lock, in ms'),
    ],
)
def test_sqlite_is_set_up(database, pragma, value):
    with transactions.transaction(database) as connection:
        assert connection.execute(sa.text(f'PRAGMA {pragma}')).scalar() == value


def test_a_connection_that_is_forgotten_gives_no_other_thread_a_turn(database, monkeypatch):
    """Python may find it in the midst of a transaction; others would wait for that, and it for
    them."""
    turns = []
    monkeypatch.setattr(time, 'sleep', turns.append)
    forgotten = database.connect()
    with transactions.transaction(database):
        del forgotten
        gc.collect()
    assert turns == []


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


def test_a_link_that_is_cut_while_the_first_connection_is_made(path, monkeypatch):
    """What SQLAlchemy asks first of a server finds the connection closed."""

    def ask(_dialect, connection):
        connection.invalidate()
        connection.close()
        connection.exec_driver_sql('SELECT 1')

    monkeypatch.setattr('sqlalchemy.dialects.sqlite.base.SQLiteDialect.initialize', ask)
    with pytest.raises(errors.StoreUnavailable, match='Connection is closed'):
        engine.create(f'sqlite:///{path}')


@pytest.mark.parametrize(
    'url, error, words',
    [
        pytest.param('no url at all', errors.BadConfig, 'URL', id='no URL'),
        pytest.param('nothing://host/name', errors.BadConfig, 'nothing', id='unknown dialect'),
        pytest.param('sqlite+nothing:///x', errors.BadConfig, 'nothing', id='unknown driver'),
        pytest.param(
            'sqlite:////no/such/folder/x.sqlite',
            errors.BadConfig,
            'no directory',
            id='no such folder',
        ),
        pytest.param(
            'postgresql+psycopg2://a@127.0.0.1:1/b',
            errors.StoreUnavailable,
            'refused',
            id='PostgreSQL away',
        ),
        pytest.param(
            'mysql+pymysql://a@127.0.0.1:1/b', errors.StoreUnavailable, 'connect', id='MySQL away'
        ),
    ],
)
def test_a_database_that_cannot_be_used(tmp_path, monkeypatch, url, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        engine.create(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    'url, driver, extra',
    [
        pytest.param('postgresql+psycopg2://host/name', 'psycopg2', 'postgresql', id='PostgreSQL'),
        pytest.param('mysql+pymysql://host/name', 'pymysql', 'mysql', id='MariaDB'),
    ],
)
def test_a_missing_driver_names_the_extra_that_installs_it(monkeypatch, url, driver, extra):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(errors.BadConfig, match=rf'pip install nova-sched\[{extra}\]'):
        engine.create(url)


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

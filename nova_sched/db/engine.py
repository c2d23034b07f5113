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
"""The database engine, set up for claims, and connections that threads keep."""

import contextlib
import re
import threading

import sqlalchemy as sa
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_error
from oslo_db.sqlalchemy import exc_filters

from nova_sched import errors
from nova_sched.db import address, faults
from nova_sched.db import limits as db_limits

# Callers that wait for a database do it in their own loop, which can be stopped. oslo.db makes no
# connection (no retries) before the engine has the limits that it needs. Green threads do not
# yield when a connection is returned: Python may return forgotten ones at any time, also during
# another thread's transaction. A thread that then waits for SQLite's lock blocks the whole
# process.
OPTIONS = {'sqlite_fk': True, 'max_retries': 0, 'thread_checkin': False}

# Errors that only another URL, another driver or another database will cure.
UNUSABLE = (
    sa.exc.ArgumentError,
    sa.exc.NoSuchModuleError,
    ImportError,
    ValueError,
    db_error.DBNonExistentDatabase,
)

# Statements by dialect after which a session refuses to write.
ON_MYSQL = 'SET SESSION TRANSACTION READ ONLY'
ONLY_READ = {
    'postgresql': 'SET default_transaction_read_only = on',
    'mysql': ON_MYSQL,
    'mariadb': ON_MYSQL,
    'sqlite': 'PRAGMA query_only = ON',
}

# Module that is missing: the extra that installs a driver, and how the URL then begins.
EXTRAS = {
    'psycopg': ('postgresql', 'postgresql+psycopg2'),
    'psycopg2': ('postgresql', 'postgresql+psycopg2'),
    'pymysql': ('mysql', 'mysql+pymysql'),
    'MySQLdb': ('mysql', 'mysql+pymysql'),
}
# Connections have no SQLSTATE yet: the server's words for a wrong user or password.
REFUSED = re.compile(
    r'password authentication failed|role ".*" does not exist|no pg_hba.conf entry'
    r'|\((1044|1045|1698),'
)


def create(connection, limits=db_limits.DEFAULT, **options):
    """An engine for a database URL; ``options`` are those of oslo.db's [database] group.

    ``limits`` are for servers. Raises StoreUnavailable if the database does not answer, BadConfig
    for a bad URL.
    """
    with _usable():
        address.check_file(connection)
        address.make_file(connection)
        engine = _configured(connection, options)
        _tune(engine, limits, options.get('mysql_wsrep_sync_wait') is None)
        engine.connect().close()
    return engine


def for_command(connection, limits=db_limits.DEFAULT):
    """The same for a command of few statements: with the errors of oslo.db, and not its pool."""
    with _usable():
        address.check_folder(connection)
        address.make_file(connection)
        engine = sa.create_engine(connection, poolclass=sa.NullPool)
        if engine.dialect.name == 'sqlite':
            _begin_as_oslo_db(engine)
        exc_filters.register_engine(engine)
        _tune(engine, limits)
        engine.connect().close()
    return engine


def in_memory():
    """An engine for a new database in the memory of this process: all threads have its only
    connection, see SharedSession. It ends with the engine."""
    import sqlite3  # late: processes with a database server do without it

    class Connection(sqlite3.Connection):
        def __del__(self):
            self.close()

    shared = {'check_same_thread': False, 'factory': Connection}
    engine = sa.create_engine('sqlite://', poolclass=sa.StaticPool, connect_args=shared)
    _begin_as_oslo_db(engine)
    exc_filters.register_engine(engine)
    return engine


def reader(connection, limits=db_limits.DEFAULT, **options):
    """An engine for a database that belongs to another service, as ``create`` makes it: it only
    reads, and connects when it is first used. Raises BadConfig for a bad URL."""
    with _usable():
        engine = _configured(connection, options)
        if engine.dialect.name != 'sqlite':
            _tune_server(engine, limits, options.get('mysql_wsrep_sync_wait') is None)

    @sa.event.listens_for(engine, 'connect')
    def _only_read(connection, _record):
        cursor = connection.cursor()
        cursor.execute(ONLY_READ[engine.dialect.name])
        connection.commit()

    return engine


def _configured(connection, options):
    from oslo_db.sqlalchemy import enginefacade  # late: it imports SQLAlchemy's ORM

    address.check_folder(connection)
    facade = enginefacade.transaction_context()
    facade.configure(connection=connection, **options, **OPTIONS)
    return facade.writer.get_engine()


def _tune(engine, limits, waits=True):
    if engine.dialect.name == 'sqlite':
        _tune_sqlite(engine)
    else:
        _tune_server(engine, limits, waits)


@contextlib.contextmanager
def _usable():
    """Raises BadConfig for a database that can never be used, StoreUnavailable for one that does
    not answer."""
    with faults.told_apart():
        try:
            yield
        except (
            sa.exc.ResourceClosedError
        ) as error:  # the link was cut while the first connection was made
            raise errors.StoreUnavailable(faults.first_line(error)) from error
        except (sa.exc.DBAPIError, db_error.DBError) as error:
            why = faults.first_line(error)
            if not (isinstance(error, UNUSABLE) or REFUSED.search(str(error))):
                raise
            raise errors.BadConfig('[database] connection', why) from error
        except UNUSABLE as error:
            why = faults.first_line(error) + _driver_advice(error)
            raise errors.BadConfig('[database] connection', why) from error


def _driver_advice(error):
    """Which extra of this package installs a missing driver, if one does."""
    if not isinstance(error, ImportError) or error.name not in EXTRAS:
        return ''
    extra, scheme = EXTRAS[error.name]
    return (
        f"; the extra '{extra}' installs a driver: pip install nova-sched[{extra}], and the URL "
        f'begins with {scheme}://'
    )


def _tune_sqlite(engine):
    """Durable and fast: a write-ahead log, synced at each commit; one writer at a time, from the
    beginning of its transaction."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        connection.execute('PRAGMA journal_mode=WAL')
        connection.execute('PRAGMA synchronous=FULL')
        connection.execute('PRAGMA busy_timeout=30000')

    @sa.event.listens_for(engine, 'before_cursor_execute', retval=True)
    def _begin(_connection, _cursor, statement, parameters, *_):
        # oslo.db issues BEGIN; but a transaction that reads first and writes later could not be
        # granted the lock in between.
        return ('BEGIN IMMEDIATE' if statement == 'BEGIN' else statement), parameters


def _begin_as_oslo_db(engine):
    """On SQLite, begin transactions as an engine of oslo.db does."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        connection.isolation_level = None  # the driver begins none
        connection.execute('PRAGMA foreign_keys=ON')

    @sa.event.listens_for(engine, 'begin')
    def _begin(connection):
        if not connection.connection.driver_connection.in_transaction:
            connection.exec_driver_sql('BEGIN')


# On Galera a transaction starts when its server has all that was committed on any server before.
# Otherwise a claim that was returned to a caller may not be found where the caller confirms it.
# The bits are for SELECT and BEGIN (1), UPDATE and DELETE (2), INSERT (4).
IS_GALERA = "SHOW VARIABLES WHERE variable_name = 'wsrep_on' AND value = 'ON'"
SYNC_WAIT = 'SET SESSION wsrep_sync_wait = 7'


def _tune_server(engine, limits, waits):
    """Set the time limits, the isolation that claims need, and a clock in UTC; limits in the URL
    have precedence.

    ``waits``: on Galera, as SYNC_WAIT says.
    """
    driver = engine.dialect.driver
    arguments = db_limits.of_driver(limits, driver)
    if driver == 'psycopg2' and limits.answer_s:
        from nova_sched.db import silence  # where this driver is installed

        arguments['connection_factory'] = silence.SilenceMonitor(limits.answer_s).connection

    _, asked = engine.dialect.create_connect_args(engine.url)

    @sa.event.listens_for(engine, 'do_connect')
    def _limit(_dialect, _record, _given, named):
        for name, value in arguments.items():
            named.setdefault(name, value)

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        if driver == 'pymysql':
            db_limits.after_connect(limits, connection, asked)
        said = f'{asked.get("options", "")} {asked.get("init_command", "")}'
        with connection.cursor() as cursor:
            for statement in db_limits.of_session(limits, _kind(engine, connection), said):
                cursor.execute(statement)
            if waits and engine.dialect.name != 'postgresql':
                cursor.execute(IS_GALERA)
                if cursor.fetchone():
                    cursor.execute(SYNC_WAIT)
        connection.commit()


def _kind(engine, connection):
    """`postgresql`, `mariadb` or `mysql`: the kind of the server, whichever name the URL has for
    it."""
    if engine.dialect.name == 'postgresql':
        return 'postgresql'
    return 'mariadb' if 'mariadb' in connection.get_server_info().lower() else 'mysql'


@contextlib.contextmanager
def transaction(engine):
    """A new connection in a transaction.

    Raises StoreUnavailable, StoreBusy or StoreFull; then the transaction is rolled back. Only
    after StoreUnavailable, it may have been committed.
    """
    with faults.told_apart(engine.dialect), engine.begin() as connection:
        yield connection


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
                _begin_sqlite(connection, reads)
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def brief(self, reads=False):
        """A transaction only for db.bulk's statements, in the shortest time; raises the same
        errors."""
        with self._kept() as connection, _brief(connection, reads) as made:
            yield made

    @contextlib.contextmanager
    def _kept(self):
        with faults.told_apart(self._engine.dialect):
            connection = getattr(self._of_thread, 'connection', None)
            if connection is None:
                connection = self._of_thread.connection = self._engine.connect()
            try:
                yield connection
            except BaseException as error:
                # After a deadlock, a duplicate or an error of the caller, the connection is as
                # good as before. After any other error, the next transaction starts on a new one.
                lost = faults.meaning(error, connection.dialect) is errors.StoreUnavailable
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
        with faults.told_apart(self._engine.dialect), self._turn:
            yield self._connection


def sessions(engine):
    """The Sessions that fit the engine."""
    if not isinstance(engine.pool, sa.StaticPool):
        return Sessions(engine)
    if not hasattr(engine, 'shared_session'):
        engine.shared_session = SharedSession(engine)
    return engine.shared_session


def _begin_sqlite(connection, reads):
    """Begin directly, and notify oslo.db: its own BEGIN takes as long as a statement."""
    connection.connection.driver_connection.execute('BEGIN' if reads else 'BEGIN IMMEDIATE')
    connection.info['in_transaction'] = True


# For the claims that a caller waits for, transactions in few messages and without SQLAlchemy. To a
# database on another machine, each message takes longer than most statements. SQLAlchemy's own
# processing of a statement takes as long as SQLite takes to run it (the benchmarks `shared` and
# `claims` show it).


@contextlib.contextmanager
def _brief(connection, reads):
    """A transaction on the driver's connection below an SQLAlchemy connection that has none;
    ``reads``: it only reads."""
    kind = {'psycopg2': _InFewMessages, 'pysqlite': _OnSqlite}.get(
        connection.dialect.driver, _Brief
    )
    made = kind(connection)
    made.begin(reads)
    try:
        yield made
        made.commit()
    except BaseException:
        try:
            made.rollback()
        except connection.dialect.dbapi.Error:
            # The error that is being raised describes the fault better than this one.
            connection.invalidate()
        raise


class _Brief:
    """Runs statements as far as db.bulk needs it, like SQLAlchemy's connection and with its
    errors."""

    def __init__(self, connection):
        self.dialect = connection.dialect
        self._driver = connection.connection.driver_connection
        self._cursor = self._driver.cursor()

    def begin(self, reads):
        """Begin, where the driver does not."""

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


class _OnSqlite(_Brief):
    def begin(self, reads):
        self.exec_driver_sql('BEGIN' if reads else 'BEGIN IMMEDIATE')


class _InFewMessages(_Brief):
    """Delays statements without rows to fetch until one has rows, or until the end.

    The driver would send BEGIN and COMMIT each in a separate message, so its own transaction
    handling is switched off.
    """

    def __init__(self, connection):
        super().__init__(connection)
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

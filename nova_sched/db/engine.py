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
"""The database engine, set up for claims."""

import contextlib
import re

import sqlalchemy as sa
from oslo_db import exception as db_error
from oslo_db.sqlalchemy import exc_filters

from nova_sched import errors
from nova_sched.db import address, transactions
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
    connection, see transactions.SharedSession. It ends with the engine."""
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
    """Raise BadConfig for a database that can never be used, StoreUnavailable for one that does
    not answer."""
    with transactions.told_apart():
        try:
            yield
        except sa.exc.ResourceClosedError as error:
            # The link was cut while the first connection was made.
            raise errors.StoreUnavailable(transactions.first_line(error)) from error
        except (sa.exc.DBAPIError, db_error.DBError) as error:
            why = transactions.first_line(error)
            if not (isinstance(error, UNUSABLE) or REFUSED.search(str(error))):
                raise
            raise errors.BadConfig('[database] connection', why) from error
        except UNUSABLE as error:
            why = transactions.first_line(error) + _driver_advice(error)
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

    _, url_arguments = engine.dialect.create_connect_args(engine.url)

    @sa.event.listens_for(engine, 'do_connect')
    def _limit(_dialect, _record, _given, named):
        for name, value in arguments.items():
            named.setdefault(name, value)

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        if driver == 'pymysql':
            db_limits.after_connect(limits, connection, url_arguments)
        said = f'{url_arguments.get("options", "")} {url_arguments.get("init_command", "")}'
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

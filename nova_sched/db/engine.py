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
"""The database engine, set up for claims, and its errors told apart."""

import contextlib
import sqlite3
import threading

import sqlalchemy as sa
from oslo_db import exception as db_error
from oslo_db.sqlalchemy import enginefacade

from nova_sched import errors

# Whoever waits for a database does it in its own loop, where it can be stopped: here one try is enough.
OPTIONS = {'sqlite_fk': True, 'max_retries': 1, 'retry_interval': 0}

# What only another URL, another driver or another database will cure.
UNUSABLE = (
    sa.exc.ArgumentError,
    sa.exc.NoSuchModuleError,
    ImportError,
    ValueError,
    db_error.DBNonExistentDatabase,
)


def create(connection, **options):
    """An engine for a database URL; ``options`` are those of oslo.db's [database] group.

    Raises StoreUnavailable if the database does not answer, BadConfig for a bad URL.
    """
    facade = enginefacade.transaction_context()
    facade.configure(connection=connection, **options, **OPTIONS)
    with _told_apart():
        try:
            engine = facade.writer.get_engine()
        except UNUSABLE as error:
            raise errors.BadConfig('[database] connection', _first_line(error)) from error
    if engine.dialect.name == 'sqlite':
        _tune_sqlite(engine)
    if engine.dialect.name in ('mysql', 'mariadb'):
        _tune_mysql(engine)
    return engine


def _tune_sqlite(engine):
    """Durable and fast: a write-ahead log, synced at each commit; one writer at a time, from the start."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        connection.execute('PRAGMA journal_mode=WAL')
        connection.execute('PRAGMA synchronous=FULL')
        connection.execute('PRAGMA busy_timeout=30000')

    @sa.event.listens_for(engine, 'before_cursor_execute', retval=True)
    def _begin(_connection, _cursor, statement, parameters, *_):
        # oslo.db says BEGIN; but who reads first and writes later could not be granted the lock in between.
        return ('BEGIN IMMEDIATE' if statement == 'BEGIN' else statement), parameters

    engine.dispose()


def _tune_mysql(engine):
    """Every statement sees what is committed by then: who waited for a lock must not read what was before."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        with connection.cursor() as cursor:
            cursor.execute('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')

    engine.dispose()


# Errors after which the same transaction may be made again; everything else is final. An OperationalError
# that oslo.db gives no better name is a server that starts, ends, refuses us or lacks something, or a lock
# that took too long.
AWAY = (
    db_error.DBConnectionError,
    db_error.DBDeadlock,
    db_error.DBNonExistentDatabase,  # it was there when the engine was made
    sa.exc.DisconnectionError,
    sa.exc.OperationalError,
    sa.exc.TimeoutError,
    sqlite3.OperationalError,  # of our own BEGIN
)


@contextlib.contextmanager
def _told_apart():
    try:
        yield
    except AWAY as error:
        raise errors.StoreUnavailable(_first_line(error)) from error


def _first_line(error):
    return str(error).splitlines()[0]


@contextlib.contextmanager
def transaction(engine):
    """A new connection in a transaction; StoreUnavailable if the database is away."""
    with _told_apart(), engine.begin() as connection:
        yield connection


class Sessions:
    """One connection for each thread, kept open from one transaction to the next.

    To take a connection from a pool and give it back costs as much as a small transaction, and on
    SQLite, where oslo.db keeps no pool, to close the last one costs a checkpoint of the log.
    """

    def __init__(self, engine):
        self._engine = engine
        self._of_thread = threading.local()

    @contextlib.contextmanager
    def transaction(self, reads=False):
        """The thread's connection in a transaction; StoreUnavailable if the database is away.

        One that only reads waits for no writer, and none waits for it.
        """
        with _told_apart():
            connection = getattr(self._of_thread, 'connection', None)
            if connection is None:
                connection = self._of_thread.connection = self._engine.connect()
            try:
                if connection.dialect.name == 'sqlite':
                    _begin_sqlite(connection, reads)
                with connection.begin():
                    yield connection
            except AWAY:
                # Whatever is wrong with it, the next transaction starts on a new one.
                self._of_thread.connection = None
                connection.invalidate()
                connection.close()
                raise


def _begin_sqlite(connection, reads):
    """Begin by ourselves, and let oslo.db know: its way to say BEGIN takes as long as a statement."""
    connection.connection.driver_connection.execute('BEGIN' if reads else 'BEGIN IMMEDIATE')
    connection.info['in_transaction'] = True

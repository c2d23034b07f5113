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
import threading

import sqlalchemy as sa
from oslo_db import exception as db_error
from oslo_db.sqlalchemy import enginefacade

from nova_sched import errors
from nova_sched.db import brief, faults

# Whoever waits for a database does it in its own loop, where it can be stopped: here one try is enough.
# Green threads take no turns when a connection is given back: Python gives back forgotten ones at any time,
# so in the midst of another's transaction; who wants SQLite's lock then holds up the whole process.
OPTIONS = {'sqlite_fk': True, 'max_retries': 1, 'retry_interval': 0, 'thread_checkin': False}

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
    with faults.told_apart():
        try:
            engine = facade.writer.get_engine()
        except UNUSABLE as error:
            raise errors.BadConfig('[database] connection', faults.first_line(error)) from error
    if engine.dialect.name == 'sqlite':
        _tune_sqlite(engine)
    else:
        _tune_server(engine)
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


# Every statement sees what is committed by then: who waited for a lock must not read what was before. The
# servers' own defaults are an operator's to change.
READ_COMMITTED = {
    'postgresql': 'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED',
    'mysql': 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
    'mariadb': 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
}


def _tune_server(engine):
    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, _record):
        with connection.cursor() as cursor:
            cursor.execute(READ_COMMITTED[engine.dialect.name])
        connection.commit()

    engine.dispose()


@contextlib.contextmanager
def transaction(engine):
    """A new connection in a transaction. Raises StoreUnavailable, StoreBusy or StoreFull; then all is undone.

    After StoreUnavailable alone it may be that the transaction was done.
    """
    with faults.told_apart(engine.dialect), engine.begin() as connection:
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
        """The thread's connection in a transaction; raises what a transaction of the module raises.

        One that only reads waits for no writer, and none waits for it.
        """
        with self._kept() as connection:
            if connection.dialect.name == 'sqlite':
                _begin_sqlite(connection, reads)
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def brief(self):
        """A transaction for db.bulk's statements and nothing else, in the shortest time; raises the same."""
        with self._kept() as connection, brief.transaction(connection) as made:
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
                # After a deadlock, a duplicate or an error of the caller it is as good as before. Whatever
                # else is wrong with it, the next transaction starts on a new one.
                lost = faults.meaning(error, connection.dialect) is errors.StoreUnavailable
                if lost or not isinstance(error, Exception):
                    self._of_thread.connection = None
                    connection.invalidate()
                    connection.close()
                raise


def _begin_sqlite(connection, reads):
    """Begin by ourselves, and let oslo.db know: its way to say BEGIN takes as long as a statement."""
    connection.connection.driver_connection.execute('BEGIN' if reads else 'BEGIN IMMEDIATE')
    connection.info['in_transaction'] = True

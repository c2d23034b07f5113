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

import sqlalchemy as sa
from oslo_db import exception as db_error
from oslo_db.sqlalchemy import enginefacade

from nova_sched import errors


# Whoever waits for a database does it in its own loop, where it can be stopped: here one try is enough.
OPTIONS = {'sqlite_fk': True, 'max_retries': 1, 'retry_interval': 0}


def create(connection):
    """An engine for a database URL. Raises StoreUnavailable if the database does not answer, BadConfig for a bad URL."""
    facade = enginefacade.transaction_context()
    facade.configure(connection=connection, **OPTIONS)
    try:
        with _told_apart():
            engine = facade.writer.get_engine()
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise errors.BadConfig('[database] connection', str(error)) from error
    if engine.dialect.name == 'sqlite':
        _tune_sqlite(engine)
    return engine


def _tune_sqlite(engine):
    """Durable and fast: a write-ahead log that is synced at each commit, and one writer at a time, from the start."""

    @sa.event.listens_for(engine, 'connect')
    def _connect(connection, record):
        connection.execute('PRAGMA journal_mode=WAL')
        connection.execute('PRAGMA synchronous=FULL')
        connection.execute('PRAGMA busy_timeout=30000')

    @sa.event.listens_for(engine, 'begin', insert=True)
    def _begin(connection):
        # A transaction that reads first and writes later could not be granted the lock in between.
        if not connection.info.get('in_transaction'):
            connection.exec_driver_sql('BEGIN IMMEDIATE')
            connection.info['in_transaction'] = True

    engine.dispose()


# Errors after which the same transaction may be made again; everything else is final.
AWAY = (db_error.DBConnectionError, db_error.DBDeadlock, sa.exc.DisconnectionError, sa.exc.TimeoutError)


@contextlib.contextmanager
def _told_apart():
    try:
        yield
    except AWAY as error:
        raise errors.StoreUnavailable(str(error).splitlines()[0]) from error


@contextlib.contextmanager
def transaction(engine):
    """A connection in a transaction; StoreUnavailable if the database is away."""
    with _told_apart(), engine.begin() as connection:
        yield connection

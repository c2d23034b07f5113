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
"""Tests of what databases' errors mean: each driver's own, bare and in the wrappings that they
come in."""

import sqlite3

import psycopg2
import psycopg2.errors
import pymysql
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import transactions
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
def test_errors_are_told_apart(error, kind, words):
    with pytest.raises(kind, match=words) as raised, transactions.told_apart():
        raise error
    assert type(raised.value) is kind

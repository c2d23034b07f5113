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
"""Converts the database's own error codes to the errors of a transaction that it stopped."""

import contextlib
import re

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.measures.catalogue import STORE_ERRORS

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
    """Returns StoreBusy, StoreFull or StoreUnavailable, for an error of oslo.db, SQLAlchemy or the
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
        or _is_lost(driver, dialect)
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


def _is_lost(driver, dialect):
    """Whether the driver reports, in its own way, that the connection is lost."""
    return dialect is not None and dialect.is_disconnect(driver, None, None)

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
"""What it means for a transaction that the database stopped it, told from the database's own error
code."""

import contextlib
import re

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors

# Codes are SQLite's names, PostgreSQL's SQLSTATEs and the numbers of MySQL and MariaDB. Others
# were in the way: a lock that took too long, a deadlock, a certification that failed on Galera (it
# comes as a deadlock), a row that changed since it was read. All that the transaction did is
# undone.
BUSY = frozenset(
    {'SQLITE_BUSY', 'SQLITE_LOCKED', '40001', '40P01', '55P03', 1020, 1205, 1213, 3572}
)

# No room, and all that the transaction did is undone. The second are errors of writing that name
# the system's own error number for a full disk.
FULL = frozenset({'SQLITE_FULL', '53100', 1021, 1114, 3675})
NOT_WRITTEN = frozenset({3, 1026, 1030})
NO_SPACE = re.compile(r'No space left|err\w*:? 28\b', re.IGNORECASE)

# Nothing can be written here; after a failover, on another server it can. A file may be remounted.
READ_ONLY = frozenset({'SQLITE_READONLY', '25006', 1290, 1792, 1836})

# The server's limits of time: for a statement, a transaction that stood idle, a whole transaction,
# a session. What was done is settled by doing the same again.
OUT_OF_TIME = frozenset({'57014', '25P03', '25P04', '57P05', 1969, 3024, 4031})

# Errors that lack a telling code. An OperationalError that oslo.db gives no better name is a
# server that starts, ends, refuses us or lacks something.
AWAY = (
    db_error.DBConnectionError,
    db_error.DBNonExistentDatabase,  # it was there when the engine was made
    sa.exc.DisconnectionError,
    sa.exc.OperationalError,
    sa.exc.TimeoutError,
)


def meaning(error, dialect=None):
    """StoreBusy, StoreFull or StoreUnavailable, for an error of oslo.db, SQLAlchemy or the
    dialect's driver.

    None if it is none of these, or no error of a database at all.
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
    """Errors of the database inside the block become errors of ours; those with another meaning
    stay."""
    try:
        yield
    except Exception as error:
        if (kind := meaning(error, dialect)) is None:
            raise
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
    """Whether the driver says, in its own way, that the connection is gone."""
    return dialect is not None and dialect.is_disconnect(driver, None, None)

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
"""The database's clock in statements: seconds since the epoch at the moment when a row is read.

Everything in the database that is ordered by time uses this clock. SQLite uses its host's clock.
"""

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

# UNIX_TIMESTAMP reads a time in the session's time zone, which is UTC (see db.engine).
ON_MYSQL = 'unix_timestamp(sysdate(6)) + 0e0'
TEXTS = {
    'postgresql': 'extract(epoch FROM clock_timestamp())::float8',
    'mysql': ON_MYSQL,
    'mariadb': ON_MYSQL,
    'sqlite': "(julianday('now') - 2440587.5) * 86400.0",
}


# Nova's columns hold times in UTC without a zone. SQLite compares them as texts.
AGO_ON_MYSQL = 'utc_timestamp(6) - INTERVAL {} SECOND'
AGO_TEXTS = {
    'postgresql': "(clock_timestamp() AT TIME ZONE 'utc') - {} * INTERVAL '1 second'",
    'mysql': AGO_ON_MYSQL,
    'mariadb': AGO_ON_MYSQL,
    'sqlite': "strftime('%Y-%m-%d %H:%M:%f', 'now', (-1.0 * {}) || ' seconds')",
}


class Now(sa.ColumnElement):
    """The clock as a column of a statement."""

    type = sa.Double()
    inherit_cache = True


@compiles(Now)
def _text(_element, compiler, **_words):
    return TEXTS[compiler.dialect.name]


class UtcAgo(FunctionElement):
    """The time some seconds ago, as a column of a statement: in UTC, without a zone."""

    type = sa.DateTime()
    inherit_cache = True


@compiles(UtcAgo)
def _ago_text(element, compiler, **words):
    return AGO_TEXTS[compiler.dialect.name].format(compiler.process(element.clauses, **words))


NOW = Now()
READ = sa.select(NOW)


def read(connection):
    """Seconds since the epoch, by the database's clock."""
    return connection.execute(READ).scalar_one()

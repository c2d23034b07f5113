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
"""A transaction on the driver's own connection, with one message for each answer that it needs.

For the claims that a caller waits for. To a database on another machine, each message takes longer
than most statements. SQLAlchemy's own processing of a statement takes as long as SQLite takes to
run it (the benchmarks `shared` and `claims` show it).
"""

import contextlib

import sqlalchemy as sa


@contextlib.contextmanager
def transaction(connection, reads=False):
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

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
"""Work that is done just before a message goes to a database server: the driver's connections are
heard.

Nothing of SQLAlchemy's would do, because not all goes through it.
"""

import contextlib

import psycopg2.extensions
import pymysql.connections
import sqlalchemy as sa

_listeners = []


def hear(engine):
    """Let all connections that the engine will make be heard."""

    @sa.event.listens_for(engine, 'do_connect')
    def _connect(dialect, _record, given, named):
        kind = {'psycopg2': _PostgreSQL, 'pymysql': _MySQL}[dialect.driver]
        return kind.made(*given, **named)

    engine.dispose()
    return engine


@contextlib.contextmanager
def just_before(words, work):
    """Once, when a message with these words is about to be sent, call ``work(connection,
    message)``.

    It gets the driver's connection.
    """
    todo = [work]

    def listen(connection, message):
        if todo and words in message:
            todo.pop()(connection, message)

    _listeners.append(listen)
    with _listening(listen):
        yield
    assert not todo


@contextlib.contextmanager
def counted():
    """The messages that are sent inside the block."""
    found = []
    with _listening(lambda _connection, message: found.append(message)):
        yield found


@contextlib.contextmanager
def _listening(listen):
    _listeners.append(listen)
    try:
        yield
    finally:
        _listeners.remove(listen)


def on_the_side(connection, message):
    """Send a message on a connection that is heard."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(message)


def _tell(connection, message):
    for listen in list(_listeners):
        listen(connection, message)


class _Cursor(psycopg2.extensions.cursor):
    def execute(self, query, given=None):
        _tell(self.connection, self.mogrify(query, given).decode())
        super().execute(query, given)


class _PostgreSQL(psycopg2.extensions.connection):
    @classmethod
    def made(cls, *given, **named):
        return psycopg2.connect(
            *given, **(named | {'connection_factory': cls, 'cursor_factory': _Cursor})
        )

    @property
    def session(self):
        return self.info.backend_pid

    def commit(self):
        _tell(self, 'COMMIT')
        super().commit()


class _MySQL(pymysql.connections.Connection):
    @classmethod
    def made(cls, *given, **named):
        return cls(*given, **named)

    @property
    def session(self):
        return self.thread_id()

    def query(self, sql, unbuffered=False):
        _tell(self, sql if isinstance(sql, str) else sql.decode(errors='replace'))
        return super().query(sql, unbuffered)

    def commit(self):
        _tell(self, 'COMMIT')
        super().commit()

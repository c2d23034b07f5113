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
"""The databases of Nova and Placement on a private server: users, URLs, rights, statements."""

import abc
import re
from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

QUERIES = """
    SELECT argument FROM mysql.general_log
    WHERE user_host LIKE '{user}[%' AND command_type IN ('Query', 'Prepare', 'Execute')
"""


class Statements(abc.ABC):
    """Of ``user`` on the server that ``owner`` (an engine that commits each statement) may set
    up. They are recorded until the server ends."""

    def __init__(self, owner: sa.Engine, user: str, log: Path):
        self._owner, self._user, self._log = owner, user, log

    @abc.abstractmethod
    def begin(self) -> None:
        """Record the sessions that begin from now on."""

    @abc.abstractmethod
    def read(self) -> list[str]:
        """Those until now."""

    def _do(self, *statements: str) -> None:
        with self._owner.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


class OfMariaDB(Statements):
    def begin(self) -> None:
        self._do("SET GLOBAL log_output = 'TABLE'", 'SET GLOBAL general_log = 1')

    def read(self) -> list[str]:
        with self._owner.connect() as connection:
            query = sa.text(QUERIES.format(user=self._user))
            return [row.argument for row in connection.execute(query)]


class OfPostgreSQL(Statements):
    LINE = re.compile(r'LOG:  (?:statement|execute [^:]*): (.*)')

    def begin(self) -> None:
        self._do(f"ALTER ROLE {self._user} SET log_statement = 'all'")

    def read(self) -> list[str]:
        """Only the first line of each; no other user's are logged."""
        return self.LINE.findall(self._log.read_text())


STATEMENTS = {'mysql': OfMariaDB, 'postgresql': OfPostgreSQL}


NAMES = ('api', 'cell0', 'cell1', 'placement')
SERVICES, SCHEDULER, SHADOW = 'nova', 'scheduler', 'shadow'  # the users
PASSWORD = 'secret'
TEMPLATE = '{scheme}://{username}:{password}@{hostname}:{port}/'
USERS = {
    'mysql': [
        f"CREATE USER IF NOT EXISTS {SERVICES}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        f"CREATE OR REPLACE USER {SCHEDULER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        f"CREATE OR REPLACE USER {SHADOW}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON *.* TO {SERVICES}@'127.0.0.1'",
    ],
    'postgresql': [
        f"CREATE ROLE {SERVICES} SUPERUSER LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE ROLE {SCHEDULER} LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE ROLE {SHADOW} LOGIN PASSWORD '{PASSWORD}'",
    ],
}
ALL_RIGHTS = {
    'mysql': f"GRANT ALL ON *.* TO {SCHEDULER}@'127.0.0.1'",
    'postgresql': f'ALTER ROLE {SCHEDULER} SUPERUSER',
}


class Databases:
    """Four new databases on ``server``, a MariaDB or PostgreSQL fixture.

    The scheduler's user has no rights until one of the ``let`` methods is called.
    """

    def __init__(self, server, has_templates: bool):
        self._server, self._log = sa.make_url(server.url), server.log
        self._fresh = server.fresh
        self._has_templates = has_templates
        self._databases = {name: sa.make_url(server.fresh()).database for name in NAMES}
        self._kind = self._server.get_backend_name()
        self._run(USERS[self._kind])

    def url(self, name: str, user: str = SERVICES) -> str:
        """Of one of NAMES, as SQLAlchemy writes it."""
        url = self._server.set(username=user, password=PASSWORD, database=self._databases[name])
        return url.render_as_string(hide_password=False)

    def mapped_url(self, name: str) -> str:
        """What the cell mapping of this database holds."""
        url = self.url(name)
        return TEMPLATE + url.rpartition('/')[2] if self._has_templates else url

    def of_claims(self) -> str:
        """URL of a new database for the claims of schedulers; its user owns it."""
        return self._fresh()

    def rows(self, database: str, statement: str) -> list[tuple]:
        """What a SELECT finds in one of NAMES, or in the database of a URL."""
        url = self.url(database) if database in NAMES else database
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def statements(self, user: str) -> Statements:
        """A record of what this user asks for; it is not begun."""
        owner = sa.create_engine(self._server, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool)
        return STATEMENTS[self._kind](owner, user, self._log)

    def let_the_scheduler_write(self) -> None:
        """All rights, as nova-scheduler has them."""
        self._run([ALL_RIGHTS[self._kind]])

    def let_the_scheduler_read(self) -> None:
        """SELECT on Nova's tables, and the service record; nothing else. The tables are there."""
        for name in NAMES[:3]:
            self._run(self._reading(name, SCHEDULER), self._databases[name])
            if name != 'api':
                self._run(self._recording(name), self._databases[name])

    def let_the_shadow_read(self) -> None:
        """SELECT on Nova's tables, and nothing else. The tables are there."""
        for name in NAMES[:3]:
            self._run(self._reading(name, SHADOW), self._databases[name])

    def _reading(self, name: str, user: str) -> Iterable[str]:
        if self._kind == 'mysql':
            yield f"GRANT SELECT ON {self._databases[name]}.* TO {user}@'127.0.0.1'"
        else:
            yield f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}'

    def _recording(self, name: str) -> Iterable[str]:
        if self._kind == 'mysql':
            services = f'{self._databases[name]}.services'
            yield f"GRANT INSERT, UPDATE ON {services} TO {SCHEDULER}@'127.0.0.1'"
        else:
            yield f'GRANT INSERT, UPDATE ON services TO {SCHEDULER}'
            yield f'GRANT USAGE ON SEQUENCE services_id_seq TO {SCHEDULER}'

    def _run(self, statements: Iterable[str], database: str | None = None) -> None:
        url = self._server.set(database=database) if database else self._server
        engine = sa.create_engine(url, isolation_level='AUTOCOMMIT')
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
        finally:
            engine.dispose()

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
"""What a server logs of one user's statements, from its first statement on."""

import abc
import re
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


KINDS = {'mysql': OfMariaDB, 'postgresql': OfPostgreSQL}

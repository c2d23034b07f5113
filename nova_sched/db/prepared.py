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
"""Statements compiled once for a database, and run on the driver's own cursor.

For the few statements of a single claim: SQLAlchemy's way to run one takes several times what SQLite takes,
and what the decision before it took (the benchmarks of claims and calls show it).
"""

import sqlalchemy as sa


class Prepared:
    """One statement for one dialect; parameters go by the names of its binds."""

    def __init__(self, statement, dialect):
        compiled = statement.compile(dialect=dialect)
        self._text = compiled.string
        self._constants = compiled.params
        self._order = compiled.positiontup  # None: this driver takes names
        self._errors = dialect.dbapi.Error

    def run(self, cursor, **given):
        """Run it; the driver's errors are SQLAlchemy's, as everywhere else."""
        named = self._constants | given
        parameters = named if self._order is None else [named[name] for name in self._order]
        try:
            cursor.execute(self._text, parameters)
        except self._errors as error:
            raise sa.exc.DBAPIError.instance(self._text, None, error, self._errors) from error

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
"""A database of an earlier release, in any database: `load` fills an empty one.

The rows were recorded from that release's own daemons: see `data/releases/README.md`.
"""

import json
import time
from pathlib import Path

import alembic.command
import sqlalchemy as sa

from nova_sched.db import schema
from nova_sched.db.transactions import transaction

FOLDER = Path(__file__).parent / 'data' / 'releases'


def recorded(revision):
    """The recording at a revision: ``tables`` (rows by table) and facts of its cloud."""
    return json.loads((FOLDER / f'revision-{revision}.json').read_text())


def load(engine, recording):
    """Make the tables of the recording's release in an empty database, and fill them.

    All times are moved, as if the recording had been made just now.
    """
    later_s = time.time() - recording['captured_s']
    with transaction(engine) as connection:
        alembic.command.upgrade(schema.config(connection), recording['revision'])
    with engine.begin() as connection:
        for name, rows in recording['tables'].items():
            if name == 'alembic_version':
                continue
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            connection.execute(sa.delete(table))
            if rows:
                connection.execute(sa.insert(table), [_row(table, row, later_s) for row in rows])


def _row(table, row, later_s):
    """A row of SQLite as any database takes it."""
    found = {}
    for name, value in row.items():
        if name.endswith('_s') and value is not None:
            value += later_s
        elif isinstance(table.columns[name].type, sa.Boolean) and value is not None:
            value = bool(value)
        found[name] = value
    return found

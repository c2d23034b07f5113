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
"""Flavors in the database: each is a queue, and every change raises the version of the whole
list."""

import json

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import clock
from nova_sched.db.tables import FLAVORS, REVISIONS
from nova_sched.db.transactions import transaction

COLUMNS = tuple(FLAVORS.columns.keys())

VERSION = REVISIONS.c.name == 'flavors'
# In one statement, because two statements would see two moments.
READ = (
    sa.select(REVISIONS.c.value, FLAVORS)
    .select_from(sa.outerjoin(REVISIONS, FLAVORS, sa.true()))
    .where(VERSION)
)
# A transaction that changes the list locks this row, so changes run one after the other.
LOCK = sa.select(REVISIONS.c.value).where(VERSION).with_for_update()
RAISE = sa.update(REVISIONS).where(VERSION).values(value=REVISIONS.c.value + 1)
LIKE = sa.select(FLAVORS).where(
    sa.or_(FLAVORS.c.name == sa.bindparam('name'), FLAVORS.c.flavorid == sa.bindparam('flavorid'))
)
PUT = sa.insert(FLAVORS)
DROP = sa.delete(FLAVORS).where(FLAVORS.c.name == sa.bindparam('gone'))


class SqlFlavors:
    """A flavor is a mapping: its columns by name, with ``extra_specs`` as a mapping.

    Each method raises StoreUnavailable if the database does not answer; methods that change data
    also raise StoreBusy and StoreFull.
    """

    def __init__(self, engine):
        self._engine = engine

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        with transaction(self._engine) as connection:
            return clock.read(connection)

    def create(self, row):
        """Add a flavor; return whether it is new. Raises FlavorExists.

        An existing flavor that is equal except for its age stays as it is.
        """
        with transaction(self._engine) as connection:
            connection.execute(LOCK)
            near = {'name': row['name'], 'flavorid': row['flavorid']}
            stored = [_row(mapping) for mapping in connection.execute(LIKE, near).mappings()]
            if any(_asked(flavor) == _asked(row) for flavor in stored):
                return False
            for flavor in stored:
                raise errors.FlavorExists(flavor['name'], _clash(flavor, row))
            connection.execute(PUT, {**row, 'extra_specs': _text(row['extra_specs'])})
            connection.execute(RAISE)
            return True

    def delete(self, name):
        """Delete a flavor. Raises FlavorNotFound."""
        with transaction(self._engine) as connection:
            connection.execute(LOCK)
            if connection.execute(DROP, {'gone': name}).rowcount == 0:
                raise errors.FlavorNotFound(name)
            connection.execute(RAISE)

    def list(self):
        """The version of the list and all flavors by name, as they are at one moment."""
        with transaction(self._engine) as connection:
            stored = connection.execute(READ).mappings().all()
        rows = (_row(row) for row in stored if row['name'] is not None)
        return stored[0]['value'], sorted(rows, key=lambda row: row['name'])


def _row(mapping):
    return {
        **{name: mapping[name] for name in COLUMNS},
        'extra_specs': json.loads(mapping['extra_specs']),
    }


def _text(extra_specs):
    return json.dumps(dict(extra_specs), sort_keys=True)


def _asked(row):
    """All columns except its age."""
    return {
        **{name: row[name] for name in COLUMNS if name != 'created_s'},
        'extra_specs': dict(row['extra_specs']),
    }


def _clash(stored, row):
    if stored['name'] != row['name']:
        return f'it has the ID {row["flavorid"]}'
    differ = [name for name in COLUMNS if name != 'created_s' and stored[name] != row[name]]
    return ', '.join(
        f'its {name} is {_shown(stored[name])}, not {_shown(row[name])}' for name in differ
    )


def _shown(value):
    return value if isinstance(value, int | str) else _text(value)

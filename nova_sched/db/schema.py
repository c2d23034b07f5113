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
"""Upgrades a database to the schema that this release needs, and returns the revision it has.

Alembic is imported only for an upgrade: it takes a tenth of the time in which a daemon starts.
"""

import functools
import logging
import pathlib
import re

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine as db_engine
from nova_sched.db.transactions import transaction

# It logs its context each time.
logging.getLogger('alembic').setLevel(logging.WARNING)

HEAD = '0020'  # the revision that this release needs
UPGRADE = 'run nova-sched-manage db upgrade'
REVISION = re.compile('[0-9]{4}')
MIGRATIONS = pathlib.Path(__file__).parent / 'migrations'
VERSIONS = sa.table('alembic_version', sa.column('version_num'))


def version(engine):
    """The revision of the database; None if it is empty."""
    with transaction(engine) as connection:
        if not sa.inspect(connection).has_table(VERSIONS.name):
            return None
        return connection.execute(sa.select(VERSIONS.c.version_num)).scalar()


def is_older(revision):
    """Whether an upgrade makes a database of this revision usable."""
    return revision is None or (bool(REVISION.fullmatch(revision)) and revision < HEAD)


def misfit(revision):
    """Why this release cannot use a database of this revision, and what to do: (problem, advice).
    None if it can use it."""
    if revision == HEAD:
        return None
    if is_older(revision):
        return f'the schema is {revision or "empty"}, but this release needs {HEAD}', UPGRADE
    if not REVISION.fullmatch(revision):
        return (
            f'the schema {revision} is of another program, this release needs {HEAD}',
            'name a database of its own',
        )
    return (
        f'the schema {revision} is newer than this release, which needs {HEAD}',
        'install the release that has upgraded the database',
    )


def check(engine):
    """Raise BadConfig for a database that this release cannot use as it is."""
    if why := misfit(version(engine)):
        raise errors.BadConfig('[database] connection', ': '.join(why))


def upgrade(engine):
    """Upgrade the database to the newest revision; a database that has it is left alone.

    Raises BadConfig for a database of a newer release or of another program.
    """
    if not is_older(version(engine)):
        check(engine)
        return
    import alembic.command

    with transaction(engine) as connection:
        alembic.command.upgrade(config(connection), 'head')


def in_memory():
    """An engine for a new database with these tables, which ends with this process."""
    engine = db_engine.in_memory()
    with _empty().connect() as old, engine.connect() as new:
        old.connection.driver_connection.backup(new.connection.driver_connection)
    return engine


@functools.cache
def _empty():
    engine = db_engine.in_memory()
    upgrade(engine)
    return engine


def config(connection=None):
    """Alembic's configuration for the migrations."""
    import alembic.config

    alembic_config = alembic.config.Config()
    alembic_config.set_main_option('script_location', str(MIGRATIONS))
    alembic_config.attributes['connection'] = connection
    return alembic_config

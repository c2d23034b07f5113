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
"""Upgrades a database to the schema that this release needs, and returns the revision it has."""

import logging
import pathlib

import alembic.command
import alembic.config
import alembic.migration
import alembic.script
import alembic.util

from nova_sched import errors
from nova_sched.db.engine import transaction

# Reading the schema version should not be logged.
logging.getLogger('alembic').setLevel(logging.WARNING)

NOT_OURS = 'its schema is none of this release'
MIGRATIONS = pathlib.Path(__file__).parent / 'migrations'


def _config(connection=None):
    config = alembic.config.Config()
    config.set_main_option('script_location', str(MIGRATIONS))
    config.attributes['connection'] = connection
    return config


def head():
    """The revision that this release needs."""
    return alembic.script.ScriptDirectory.from_config(_config()).get_current_head()


def version(engine):
    """The revision of the database; None if it is empty."""
    with transaction(engine) as connection:
        return alembic.migration.MigrationContext.configure(connection).get_current_revision()


def upgrade(engine):
    """Upgrade the database to the newest revision; a database that has it is left alone.

    Raises BadConfig for a database of a newer release.
    """
    try:
        with transaction(engine) as connection:
            alembic.command.upgrade(_config(connection), 'head')
    except alembic.util.CommandError as error:
        raise errors.BadConfig('[database] connection', f'{NOT_OURS}: {error}') from error

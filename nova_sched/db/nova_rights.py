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
"""Whether an account may do in Nova's databases what a scheduler does there."""

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import clock, faults, nova_api, nova_cell, nova_services
from nova_sched.db.engine import transaction

OF_CELL = nova_cell.SERVICES, nova_cell.NODES, nova_cell.INSTANCES, nova_cell.MIGRATIONS
OF_API = (
    nova_api.CELLS,
    nova_api.HOSTS,
    nova_api.AGGREGATES,
    nova_api.AGGREGATE_HOSTS,
    nova_api.AGGREGATE_METADATA,
    nova_api.BUILD_REQUESTS,
)
# A missing right or column is an OperationalError in some databases, as a lost connection is.
REFUSALS = errors.StoreUnavailable, db_error.DBError, sa.exc.DBAPIError


def unreadable(engine, tables):
    """Returns why tables cannot be read with the columns that a scheduler reads: a text by table.

    Raises StoreUnavailable, or BadConfig if the database refuses the account.
    """
    _connect(engine)
    statements = {table.name: sa.select(table).limit(0) for table in tables}
    return {name: why for name, one in statements.items() if (why := _refused(engine, one))}


def unwritable(engine):
    """Returns why the record of a scheduler cannot be written among Nova's services; None: it can.

    The statements change no row. Raises the errors of ``unreadable``.
    """
    _connect(engine)
    table = nova_services.SERVICES
    names = [column.name for column in table.c if column.name != 'id']
    same = sa.select(*(table.c[name] for name in names)).where(sa.false())
    changes = {table.c.report_count: table.c.report_count, table.c.version: table.c.version}
    for statement in (
        sa.update(table).where(sa.false()).values(changes),
        sa.insert(table).from_select(names, same),
    ):
        if why := _refused(engine, statement):
            return why
    return None


def _connect(engine):
    try:
        with transaction(engine) as connection:
            clock.read(connection)
    except (db_error.DBError, sa.exc.DBAPIError) as error:
        raise errors.BadConfig(
            f'database {engine.url.database}', faults.first_line(error)
        ) from error


def _refused(engine, statement):
    try:
        with transaction(engine) as connection:
            connection.execute(statement)
    except REFUSALS as error:
        return faults.first_line(error)
    return None

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
from nova_sched.db import clock, nova_api, nova_cell, nova_discovery, nova_services
from nova_sched.db.transactions import first_line, transaction

OF_CELL = (
    nova_cell.SERVICES,
    nova_cell.NODES,
    nova_cell.INSTANCES,
    nova_cell.MIGRATIONS,
    nova_cell.DEVICES,
)
OF_API = (
    nova_api.CELLS,
    nova_api.HOSTS,
    nova_api.AGGREGATES,
    nova_api.AGGREGATE_HOSTS,
    nova_api.AGGREGATE_METADATA,
    nova_api.FLAVORS,
    nova_api.FLAVOR_EXTRA_SPECS,
    nova_api.BUILD_REQUESTS,
)
# What is read only to move servers.
OF_MOVES = (
    nova_api.REQUEST_SPECS,
    nova_api.GROUPS,
    nova_api.GROUP_MEMBERS,
    nova_api.GROUP_POLICIES,
)
# A missing right or column is an OperationalError in some databases, as a lost connection is.
REFUSALS = errors.StoreUnavailable, db_error.DBError, sa.exc.DBAPIError


def unreadable(engine, tables):
    """Return why tables cannot be read with the columns that a scheduler reads: a text by table.

    Raises StoreUnavailable, or BadConfig if the database refuses the account.
    """
    _connect(engine)
    statements = {table.name: sa.select(table).limit(0) for table in tables}
    return {
        name: why for name, statement in statements.items() if (why := _refused(engine, statement))
    }


def unwritable(engine):
    """Return why the record of a scheduler cannot be written among Nova's services; None: it can.

    The statements change no row. Raises the errors of ``unreadable``.
    """
    table = nova_services.SERVICES
    changes = {table.c.report_count: table.c.report_count, table.c.version: table.c.version}
    update = sa.update(table).where(sa.false()).values(changes)
    return _first_refused(engine, update, _insert(table))


def unmappable(api_engine, cell_engines):
    """Return why new hosts cannot be mapped to their cells; None: they can be. As
    ``unwritable``."""
    nodes = nova_discovery.NODES
    mark = sa.update(nodes).where(sa.false()).values({nodes.c.mapped: nodes.c.mapped})
    reasons = [_first_refused(api_engine, _insert(nova_discovery.MAPPINGS))]
    reasons += [_first_refused(engine, mark) for engine in cell_engines]
    return next(filter(None, reasons), None)


def _insert(table):
    """Insert no row."""
    names = [column.name for column in table.c if column.name != 'id']
    same = sa.select(*(table.c[name] for name in names)).where(sa.false())
    return sa.insert(table).from_select(names, same)


def _first_refused(engine, *statements):
    _connect(engine)
    return next(filter(None, (_refused(engine, statement) for statement in statements)), None)


def _connect(engine):
    try:
        with transaction(engine) as connection:
            clock.read(connection)
    except (db_error.DBError, sa.exc.DBAPIError) as error:
        raise errors.BadConfig(f'database {engine.url.database}', first_line(error)) from error


def _refused(engine, statement):
    try:
        with transaction(engine) as connection:
            connection.execute(statement)
    except REFUSALS as error:
        return first_line(error)
    return None

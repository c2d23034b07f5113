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
"""Maps new compute hosts to their cells, in Nova's databases."""

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db import nova_api
from nova_sched.db.nova_cell import table
from nova_sched.db.nova_services import UTC_NOW
from nova_sched.db.transactions import first_line, transaction

NODES = table('compute_nodes', 'uuid host mapped updated_at deleted')
MAPPINGS = table('host_mappings', 'created_at cell_id host')
UNMAPPED = sa.select(NODES.c.uuid, NODES.c.host).where(
    NODES.c.deleted == 0, NODES.c.mapped < 1, NODES.c.host.is_not(None)
)
IS_MAPPED = sa.select(MAPPINGS.c.host).where(MAPPINGS.c.host == sa.bindparam('host'))


def unmapped(engine):
    """Return (compute node UUID, host) of the nodes of a cell that are not marked as mapped.

    Raises StoreUnavailable.
    """
    with transaction(engine) as connection:
        return [tuple(row) for row in connection.execute(UNMAPPED.order_by(NODES.c.host))]


def map_host(api_engine, cell_uuid, host):
    """Map a host to its cell in the API database. Returns False if it is mapped already.

    Two schedulers may do that at the same time: the host is unique there. Raises StoreUnavailable,
    or BadConfig if the account may not write.
    """
    cells = nova_api.CELLS
    now = UTC_NOW[api_engine.dialect.name]
    row = sa.select(now, cells.c.id, sa.literal(host, sa.String(255))).where(
        cells.c.uuid == cell_uuid
    )
    statement = sa.insert(MAPPINGS).from_select(['created_at', 'cell_id', 'host'], row)
    try:
        with transaction(api_engine) as connection:
            if connection.execute(IS_MAPPED, {'host': host}).first() is not None:
                return False
            return connection.execute(statement).rowcount > 0
    except db_error.DBDuplicateEntry:
        return False
    except (db_error.DBError, sa.exc.DBAPIError) as error:
        raise errors.BadConfig('[api_database] connection', first_line(error)) from error


def mark(engine, node_uuid):
    """Mark a compute node of a cell as mapped. Raises the errors of ``map_host``."""
    statement = (
        sa.update(NODES)
        .where(NODES.c.uuid == node_uuid, NODES.c.deleted == 0)
        .values(mapped=1, updated_at=UTC_NOW[engine.dialect.name])
    )
    try:
        with transaction(engine) as connection:
            connection.execute(statement)
    except (db_error.DBError, sa.exc.DBAPIError) as error:
        raise errors.BadConfig('cell_mappings.database_connection', first_line(error)) from error

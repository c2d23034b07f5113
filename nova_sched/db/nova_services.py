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
"""The record of a scheduler among Nova's services."""

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.db.transactions import first_line, transaction

BINARY, TOPIC = 'nova-scheduler', 'scheduler'
VERSION = 74  # of the services of Nova 34

SERVICES = sa.table(
    'services',
    *map(
        sa.column,
        'id uuid host binary topic report_count disabled forced_down version created_at '
        'updated_at last_seen_up deleted'.split(),
    ),
)
# The time of the server in UTC, as Nova stores it.
UTC_NOW = {
    'mysql': sa.func.utc_timestamp(),
    'postgresql': sa.func.timezone('utc', sa.func.now()),
    'sqlite': sa.func.current_timestamp(),
}


class SqlServiceRecords:
    """Records of nova-scheduler services, in the database of a cell."""

    def __init__(self, engine):
        self._engine = engine
        self._now = UTC_NOW[engine.dialect.name]

    def write(self, host, uuid):
        """Write a heartbeat of the scheduler on this host. Makes its row, with this UUID, if
        there is none.

        Raises StoreUnavailable, or BadConfig if the account may not write.
        """
        try:
            if not self._update(host):
                self._insert(host, uuid)
        except db_error.DBDuplicateEntry:  # another process of this host has made it
            self._update(host)
        except (db_error.DBError, sa.exc.DBAPIError) as error:
            raise errors.BadConfig('[database] connection', first_line(error)) from error

    def _update(self, host):
        own_row = (SERVICES.c.host == host, SERVICES.c.binary == BINARY, SERVICES.c.deleted == 0)
        values = {
            'report_count': SERVICES.c.report_count + 1,
            'last_seen_up': self._now,
            'updated_at': self._now,
            'version': VERSION,
        }
        with transaction(self._engine) as connection:
            return connection.execute(sa.update(SERVICES).where(*own_row).values(values)).rowcount

    def _insert(self, host, uuid):
        no = sa.false() if self._engine.dialect.name == 'postgresql' else sa.literal(0)
        values = {
            'uuid': uuid,
            'host': host,
            'binary': BINARY,
            'topic': TOPIC,
            'report_count': 0,
            'disabled': no,
            'forced_down': no,
            'version': VERSION,
            'created_at': self._now,
            'deleted': 0,
        }
        with transaction(self._engine) as connection:
            connection.execute(sa.insert(SERVICES).values(values))

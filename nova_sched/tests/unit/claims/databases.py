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
"""Databases that one test after the other uses."""

import sqlalchemy as sa

from nova_sched.db.tables import METADATA, REVISIONS

# Asked in one statement: on a server, each costs a round trip, and most tests fill few tables.
FILLED = sa.text(
    'SELECT '
    + ', '.join(
        f'EXISTS (SELECT 1 FROM {table.name}) AS {table.name}'
        for table in METADATA.sorted_tables
        if table is not REVISIONS
    )
)


def cleared(engine):
    """The same database without content, as after the migrations."""
    with engine.begin() as connection:
        for name, is_filled in connection.execute(FILLED).mappings().one().items():
            if is_filled:
                connection.execute(sa.delete(METADATA.tables[name]))
        connection.execute(sa.delete(REVISIONS).where(REVISIONS.c.name == 'watched'))
        connection.execute(sa.update(REVISIONS).values(value=0))
    return engine

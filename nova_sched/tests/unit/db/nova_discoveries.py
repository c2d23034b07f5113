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
"""New hosts in Nova's databases, on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine that may write.
"""

import time

import pytest
import sqlalchemy as sa

from nova_sched.db import nova_discovery
from nova_sched.db.nova_api import NovaApi
from nova_sched.db.transactions import transaction
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.db.nova_tables import fill, node

CELL = uuid_of('cell')


class HostDiscoveries:
    @pytest.fixture
    def nova(self, database):
        """The cell and the API database are one here."""
        tables.emptied(database, tables.OF_CELL)
        tables.emptied(database, tables.OF_API)
        fill(database, tables.CELLS, {'id': 2, 'uuid': CELL, 'name': 'cell1', 'disabled': False})
        return database

    def test_nodes_that_are_not_mapped(self, nova):
        rows = [('new', 0, 0), ('old', 1, 0), ('gone', 0, 7), ('never', None, 0)]
        fill(nova, tables.NODES, node('ancient', mapped=0) | {'host': None})
        for host, mapped, deleted in rows:
            fill(nova, tables.NODES, node(host, mapped=mapped, deleted=deleted))
        assert nova_discovery.unmapped(nova) == [(uuid_of('node new'), 'new')]

    def test_a_host_is_mapped_once(self, nova):
        assert nova_discovery.map_host(nova, CELL, 'cmp1')
        assert not nova_discovery.map_host(nova, CELL, 'cmp1')
        assert NovaApi(nova).host_mappings() == {'cmp1': CELL}
        with transaction(nova) as connection:
            (created,) = connection.execute(sa.select(tables.HOSTS.c.created_at)).scalars()
        assert tables.seconds(created) == pytest.approx(time.time(), abs=60)

    def test_a_cell_that_is_gone(self, nova):
        assert not nova_discovery.map_host(nova, uuid_of('other'), 'cmp1')
        assert NovaApi(nova).host_mappings() == {}

    def test_a_node_is_marked(self, nova):
        fill(nova, tables.NODES, node('cmp1', mapped=0, written_s=1000), node('cmp2', mapped=0))
        nova_discovery.mark(nova, uuid_of('node cmp1'))
        assert [host for _, host in nova_discovery.unmapped(nova)] == ['cmp2']
        with transaction(nova) as connection:
            updated = connection.execute(
                sa.select(tables.NODES.c.updated_at).where(tables.NODES.c.host == 'cmp1')
            ).scalar()
        assert tables.seconds(updated) == pytest.approx(time.time(), abs=60)

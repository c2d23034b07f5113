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
"""What is read of Nova's API database, on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine that may write, on an empty database.
"""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine
from nova_sched.db.nova_api import AggregateRow, CellMappingRow, NovaApi, ServerGroupRow
from nova_sched.extensions.queues.catalogue import bare_requests
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.db.nova_tables import fill


def mapping(number=1, url='mysql+pymysql://nova:secret@db/nova', disabled=False):
    """A row of a cell."""
    return {
        'id': number,
        'uuid': uuid_of(f'cell {number}'),
        'name': f'cell{number}',
        'transport_url': 'rabbit://nova:secret@mq//',
        'database_connection': url,
        'disabled': disabled,
    }


class NovaApis:
    @pytest.fixture
    def writer(self, database):
        return tables.emptied(database, tables.OF_API)

    @pytest.fixture
    def api(self, writer):
        reader = engine.reader(writer.url.render_as_string(hide_password=False))
        yield NovaApi(reader)
        reader.dispose()

    def test_cells(self, writer, api):
        rows = [mapping(2, None, None), mapping(1), mapping(3, disabled=True)]
        fill(writer, tables.CELLS, *rows)
        found = api.cell_mappings()
        assert [one.disabled for one in found] == [False, False, True]
        assert found[0] == CellMappingRow(
            uuid_of('cell 1'), 'cell1', rows[1]['transport_url'], rows[1]['database_connection']
        )
        assert found[1].database_connection is None
        assert 'secret' not in repr(found)

    def test_host_mappings(self, writer, api):
        fill(writer, tables.CELLS, mapping(1), mapping(2))
        hosts = [{'host': 'cmp1', 'cell_id': 1}, {'host': 'cmp2', 'cell_id': 2}]
        fill(writer, tables.HOSTS, *hosts)
        assert api.host_mappings() == {'cmp1': uuid_of('cell 1'), 'cmp2': uuid_of('cell 2')}

    def test_aggregates(self, writer, api):
        rows = [{'id': 2, 'uuid': None, 'name': 'empty'}, {'id': 1, 'uuid': 'x', 'name': 'zone'}]
        fill(writer, tables.AGGREGATES, *rows)
        hosts = [{'aggregate_id': 1, 'host': host} for host in ('cmp1', 'cmp2')]
        fill(writer, tables.AGGREGATE_HOSTS, *hosts)
        data = {'aggregate_id': 1, 'key': 'availability_zone', 'value': 'az1'}
        fill(writer, tables.AGGREGATE_METADATA, data)
        zone = frozenset(['cmp1', 'cmp2']), {'availability_zone': 'az1'}
        assert api.aggregates() == [
            AggregateRow(1, 'zone', *zone, 'x'),
            AggregateRow(2, 'empty', frozenset(), {}, None),
        ]

    def test_flavors(self, writer, api):
        amounts = {'root_gb': 10, 'ephemeral_gb': 0, 'swap': 0}
        rows = [
            {'id': 2, 'name': 'small', 'vcpus': 1, 'memory_mb': 512, **amounts},
            {'id': 1, 'name': 'gpu', 'vcpus': 8, 'memory_mb': 4096, **amounts},
        ]
        fill(writer, tables.FLAVORS, *rows)
        spec = {'flavor_id': 1, 'key': 'resources:VGPU', 'value': '1'}
        fill(writer, tables.FLAVOR_EXTRA_SPECS, spec)
        found = api.flavors()
        assert [one['name'] for one in found] == ['gpu', 'small']
        assert found[0]['extra_specs'] == {'resources:VGPU': '1'}
        assert found[1]['extra_specs'] == {}
        assert [one.vcpus for one in bare_requests(found)] == [8, 1]

    def test_flavors_that_may_not_be_read(self, writer, api):
        with writer.begin() as connection:
            connection.execute(sa.text('DROP TABLE flavor_extra_specs'))
        with pytest.raises(
            (errors.BadConfig, errors.StoreUnavailable), match='flavor_extra_specs'
        ):
            api.flavors()

    def test_a_server_that_is_to_be_built(self, writer, api):
        fill(writer, tables.BUILD_REQUESTS, {'instance_uuid': uuid_of('server')})
        assert api.has_build_request(uuid_of('server')) is True
        assert api.has_build_request(uuid_of('other')) is False

    def test_the_stored_request_of_a_server(self, writer, api):
        text = '{"long": "' + 'x' * 70000 + '"}'  # more than MySQL's TEXT has
        fill(writer, tables.REQUEST_SPECS, {'instance_uuid': uuid_of('server'), 'spec': text})
        assert api.request_spec(uuid_of('server')) == text
        assert api.request_spec(uuid_of('other')) is None

    def test_the_group_of_a_server(self, writer, api):
        groups = [{'id': number, 'uuid': uuid_of(f'group {number}')} for number in (1, 2)]
        fill(writer, tables.GROUPS, *groups)
        members = [(1, 'a'), (1, 'b'), (2, 'c')]
        rows = [{'group_id': group, 'instance_uuid': uuid_of(name)} for group, name in members]
        fill(writer, tables.GROUP_MEMBERS, *rows)
        policy = {'group_id': 1, 'policy': 'anti-affinity', 'rules': '{"a": 1}'}
        fill(writer, tables.GROUP_POLICIES, policy)
        both = frozenset([uuid_of('a'), uuid_of('b')])
        assert api.server_group(uuid_of('b')) == ServerGroupRow(
            uuid_of('group 1'), 'anti-affinity', '{"a": 1}', both
        )
        assert api.server_group(uuid_of('c')) == ServerGroupRow(
            uuid_of('group 2'), None, None, frozenset([uuid_of('c')])
        )
        assert api.server_group(uuid_of('d')) is None

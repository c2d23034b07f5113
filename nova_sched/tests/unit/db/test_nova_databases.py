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
"""What is read of Nova's databases, on SQLite: cells and the API database, and what is written:
mappings of new hosts, and the record of a scheduler among Nova's services.

``integration/test_nova_databases.py`` runs the classes on database servers: ``database`` is an
engine that may write.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import engine, nova_discovery, nova_rights, nova_services, transactions
from nova_sched.db.nova_api import AggregateRow, CellMappingRow, NovaApi, ServerGroupRow
from nova_sched.db.nova_cell import CHUNK, InstanceRow, NovaCell, ServiceRow
from nova_sched.db.nova_services import SqlServiceRecords
from nova_sched.db.transactions import transaction
from nova_sched.extensions.queues.catalogue import bare_requests
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.db.nova_tables import (
    OF_RECORDS,
    SERVICE_RECORDS,
    ago,
    fill,
    instance,
    mapping,
    node,
    seconds,
    service,
)

DOWN_S = 60.0  # service_down_time
CLOSE_S = 20.0  # on a slow machine; a wrong zone is off by half an hour at least
CELL = uuid_of('cell')


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova.sqlite')
    yield made
    made.dispose()


@pytest.fixture
def url(database):
    return database.url.render_as_string(hide_password=False)


@pytest.fixture
def away():
    """A server that nobody has started: it is connected to when it is read, not before."""
    return engine.reader('postgresql+psycopg2://nova@127.0.0.1:1/nova')


class TestNovaCell:
    @pytest.fixture
    def writer(self, database):
        return tables.emptied(database, tables.OF_CELL)

    @pytest.fixture
    def cell(self, writer):
        url = writer.url.render_as_string(hide_password=False)
        made = NovaCell(engine.reader(url), uuid_of('cell'), 'cell1')
        yield made
        made.close()

    def test_the_clock(self, cell):
        assert cell.now_s() == pytest.approx(time.time(), abs=CLOSE_S)

    def test_nothing_is_written(self, writer):
        reader = engine.reader(writer.url.render_as_string(hide_password=False))
        with (
            pytest.raises(errors.StoreUnavailable, match=r'(?i)read.?only'),
            transactions.transaction(reader) as connection,
        ):
            connection.execute(sa.delete(tables.SERVICES))
        reader.dispose()

    @pytest.mark.parametrize(
        'fields, is_not_up',
        [
            pytest.param({'seen_s': 50.0}, False, id='up'),
            pytest.param({'seen_s': 70.0}, True, id='silent'),
            pytest.param({'seen_s': -50.0}, False, id='a clock that is ahead a little'),
            pytest.param({'seen_s': -70.0}, True, id='a clock that is far ahead'),
            pytest.param({'seen_s': None, 'created_s': 50.0}, False, id='just made'),
            pytest.param({'seen_s': None, 'created_s': 70.0}, True, id='made, but never seen'),
            pytest.param({'seen_s': None, 'created_s': None}, True, id='no time at all'),
            pytest.param({'disabled': True}, True, id='disabled'),
            pytest.param({'disabled': None, 'forced_down': None}, False, id='NULL is no'),
            pytest.param({'forced_down': True}, True, id='forced down'),
            pytest.param({'binary': 'nova-conductor', 'seen_s': 70.0}, False, id='no compute'),
            pytest.param({'deleted': 7, 'seen_s': 70.0}, False, id='deleted'),
        ],
    )
    def test_services_that_are_not_up(self, writer, cell, fields, is_not_up):
        fill(writer, tables.SERVICES, service(**fields), service('other'))
        found = [row.host for row in cell.services_not_up(DOWN_S)]
        assert found == ['cmp1'] * is_not_up

    @pytest.mark.parametrize('down_s', [0.5, 60, 3600.25])
    def test_any_time_until_a_service_is_down(self, writer, cell, down_s):
        fill(writer, tables.SERVICES, service('one', down_s + 5), service('two', down_s - 5))
        assert {row.host for row in cell.services_not_up(down_s)} == {'one'} | (
            {'two'} if down_s < 5 else set()
        )

    def test_the_facts_of_services(self, writer, cell):
        seen_s = time.time() - 100
        row = service(seen_s=100.0, disabled=True, disabled_reason='größe', forced_down=True)
        fill(writer, tables.SERVICES, row, service('two', disabled=None), service('three'))
        (found,) = cell.services_not_up(DOWN_S, ['cmp1', 'none'])
        assert found == ServiceRow('cmp1', True, 'größe', True, pytest.approx(found.seen_s))
        assert found.seen_s == pytest.approx(seen_s, abs=CLOSE_S)
        assert cell.services_not_up(DOWN_S, []) == []
        assert cell.services_not_up(DOWN_S, ['two']) == []

    def test_ten_thousand_services(self, writer, cell):
        rows = [service(f'cmp{n}', seen_s=1.0 if n % 100 else 70.0) for n in range(10_000)]
        fill(writer, tables.SERVICES, *rows)
        assert len(cell.services_not_up(DOWN_S)) == 100
        assert len(cell.services_not_up(DOWN_S, [row['host'] for row in rows])) == 100

    @pytest.mark.parametrize(
        'rows, found',
        [
            pytest.param([], None, id='none'),
            pytest.param([{'version': 66}, {'version': 74}], 66, id='the oldest'),
            pytest.param([{'version': 66, 'forced_down': True}, {}], 74, id='not forced down'),
            pytest.param([{'version': 66, 'deleted': 1}, {}], 74, id='not deleted'),
            pytest.param([{'version': 1, 'binary': 'nova-conductor'}, {}], 74, id='no compute'),
        ],
    )
    def test_the_oldest_compute_version(self, writer, cell, rows, found):
        if rows:
            services = [service(f'cmp{place}', **fields) for place, fields in enumerate(rows)]
            fill(writer, tables.SERVICES, *services)
        assert cell.oldest_compute_version() == found

    def test_the_times_of_compute_nodes(self, writer, cell):
        now_s = time.time()
        rows = [
            node('old', 500.0),
            node('new', 5.0),
            node('made', None, 7.0),
            node('gone', 1.0, deleted=3),
        ]
        fill(writer, tables.NODES, *rows)
        stamps = cell.node_stamps()
        assert {host: now_s - written_s for host, written_s in stamps.values()} == {
            'old': pytest.approx(500, abs=CLOSE_S),
            'new': pytest.approx(5, abs=CLOSE_S),
            'made': pytest.approx(7, abs=CLOSE_S),
        }
        later = cell.nodes_changed_since(now_s - 20)
        assert later == {uuid: stamps[uuid] for uuid in map(uuid_of, ('node new', 'node made'))}
        last_s = stamps[uuid_of('node new')][1]
        assert uuid_of('node new') in cell.nodes_changed_since(last_s)
        (row,) = cell.nodes([uuid_of('node made')])
        assert (row.host, row.updated_s) == stamps[row.uuid]

    def test_a_poll(self, writer, cell):
        fill(writer, tables.SERVICES, service(), service('cmp2', disabled=True))
        fill(writer, tables.NODES, node(), node('cmp2', 500.0))
        before_s = time.time()
        found = cell.poll(DOWN_S, before_s - 20)
        assert before_s - 1 <= found.now_s <= time.time() + 1
        assert found.not_up == cell.services_not_up(DOWN_S)
        assert [row.host for row in found.not_up] == ['cmp2']
        assert found.written == cell.nodes_changed_since(before_s - 20)
        assert [host for host, _ in found.written.values()] == ['cmp1']

    def test_the_facts_of_compute_nodes(self, writer, cell):
        full = node(
            stats='{"x": "größe"}', metrics=None, pci_stats='{}', numa_topology='x' * 60_000
        )
        bare = node('cmp2', **dict.fromkeys(['free_disk_gb', 'host_ip', 'stats']))
        fill(writer, tables.NODES, full, bare, node('gone', deleted=7))
        others = service('cmp2', deleted=1), service('cmp2', binary='nova-conductor')
        fill(writer, tables.SERVICES, service(), *others)
        wanted = [row['uuid'] for row in (full, bare)] + [uuid_of('node gone'), uuid_of('none')]
        found = {row.host: row for row in cell.nodes(wanted)}
        assert {host: row.has_service for host, row in found.items()} == {
            'cmp1': True,
            'cmp2': False,
        }
        for row in (full, bare):
            for name in row.keys() - {'created_at', 'updated_at', 'deleted'}:
                assert getattr(found[row['host']], name) == row[name]
        assert cell.nodes([]) == []

    def test_the_nodes_that_a_service_serves(self, writer, cell):
        rows = [node(), node('cmp2'), node('gone', deleted=7)]
        fill(writer, tables.NODES, *rows)
        others = service('cmp2', deleted=1), service('cmp2', binary='nova-conductor')
        fill(writer, tables.SERVICES, service(disabled=True), service('gone'), *others)
        wanted = [row['uuid'] for row in rows] + [uuid_of('none')]
        assert cell.served(wanted) == {rows[0]['uuid']: 'cmp1'}
        assert cell.served([]) == {}

    def test_more_keys_than_one_statement_has(self, writer, cell):
        rows = [node(f'cmp{number}') for number in range(CHUNK + 1)]
        fill(writer, tables.NODES, *rows)
        assert len(cell.nodes([row['uuid'] for row in rows])) == CHUNK + 1

    def test_the_instances_of_nodes(self, writer, cell):
        fill(writer, tables.NODES, node('cmp1'), node('cmp2'), node('old', deleted=3))
        there = [instance('a'), instance('b'), instance('c', 'cmp2'), instance('d', None)]
        others = instance('gone', deleted=9), instance('x', node='other'), instance('y', 'old')
        fill(writer, tables.INSTANCES, *there, *others)
        asked = [uuid_of(f'node {host}') for host in ('cmp1', 'old', 'none')]
        found = cell.servers_on(asked)
        assert found == {asked[0]: {uuid_of('a'), uuid_of('b')}}
        assert cell.servers_on([]) == {}

    @pytest.mark.parametrize(
        'fields, has_device, is_tracked',
        [
            pytest.param({}, False, True, id='it runs'),
            pytest.param({'task_state': 'resize_prep'}, False, True, id='it runs, and is busy'),
            pytest.param({'vm_state': 'error'}, False, True, id='it has failed'),
            pytest.param({'vm_state': None}, False, False, id='no state'),
            pytest.param(
                {'vm_state': 'building', 'task_state': None}, False, False, id='on its host'
            ),
            pytest.param(
                {'vm_state': 'building', 'task_state': 'block_device_mapping'},
                False,
                True,
                id='nova-compute has begun',
            ),
            pytest.param(
                {'vm_state': 'building', 'task_state': 'spawning'}, False, True, id='it starts'
            ),
            pytest.param(
                {'vm_state': 'shelved_offloaded', 'task_state': 'spawning'},
                False,
                False,
                id='unshelved',
            ),
            pytest.param({'host': 'cmp2'}, False, False, id='on another host'),
            pytest.param({'host': 'cmp2'}, True, True, id='with a device, on another host'),
            pytest.param({'node': 'other'}, False, False, id='on another node of the host'),
            pytest.param({'deleted': 5}, False, False, id='deleted'),
        ],
    )
    def test_instances_that_the_row_of_a_node_counts(
        self, writer, cell, fields, has_device, is_tracked
    ):
        fill(writer, tables.NODES, node(id=7), node('cmp2', id=8))
        fill(writer, tables.INSTANCES, instance('a', **fields))
        others = [
            {'compute_node_id': 7, 'instance_uuid': None, 'deleted': 0},
            {'compute_node_id': 7, 'instance_uuid': uuid_of('x'), 'deleted': 4},
            {'compute_node_id': 8, 'instance_uuid': uuid_of('y'), 'deleted': 0},
        ]
        mine = {'compute_node_id': 7, 'instance_uuid': uuid_of('a'), 'deleted': 0}
        fill(writer, tables.DEVICES, *others, *[mine] * has_device)
        asked = uuid_of('node cmp1')
        (row,) = cell.nodes([asked], [asked])
        assert row.tracked == ({uuid_of('a')} if is_tracked else set())
        (row,) = cell.nodes([asked])
        assert row.tracked == frozenset()

    def test_the_census_of_the_nodes(self, writer, cell):
        """It is what the rows of nodes have, and tells one instance from another."""
        fill(writer, tables.NODES, node(id=7), node('cmp2', id=8))
        there = [instance('a', id=3), instance('b', id=5)]
        gone = [instance('c', id=7, deleted=7), instance('d', id=9, host=None, node=None)]
        fill(writer, tables.INSTANCES, *there, *gone)
        one, two = uuid_of('node cmp1'), uuid_of('node cmp2')
        assert cell.census() == {one: (2, 8)}
        rows = {row.uuid: row for row in cell.nodes([one, two], [one, two])}
        assert rows[one].instances == {uuid_of('a'): 3, uuid_of('b'): 5}
        assert {uuid: row.census for uuid, row in rows.items()} == {one: (2, 8), two: (0, 0)}
        known = {uuid_of(name) for name in 'abcd'}
        assert cell.instances([*known, uuid_of('e')]) == known

    @pytest.mark.parametrize(
        'fields, found',
        [
            pytest.param({}, ('cmp1', 'cmp1', 'active', None, False), id='there'),
            pytest.param(
                {'host': None, 'vm_state': 'building', 'task_state': 'scheduling'},
                (None, None, 'building', 'scheduling', False),
                id='to be built',
            ),
            pytest.param(
                {'vm_state': 'deleted', 'deleted': 5},
                ('cmp1', 'cmp1', 'deleted', None, True),
                id='deleted',
            ),
        ],
    )
    def test_an_instance(self, writer, cell, fields, found):
        fill(writer, tables.INSTANCES, instance(**fields), instance('other'))
        row = InstanceRow(uuid_of('server'), *found)
        assert cell.instance(uuid_of('server')) == row
        assert cell.server(uuid_of('server')) == (None if row.deleted else row)
        assert cell.instance(uuid_of('none')) is cell.server(uuid_of('none')) is None

    def test_the_instances_that_are_there(self, writer, cell):
        fill(
            writer, tables.INSTANCES, instance('a'), instance('b', None), instance('c', deleted=9)
        )
        wanted = [uuid_of(name) for name in ('a', 'b', 'c', 'none')]
        assert cell.needing(wanted) == {uuid_of('a'), uuid_of('b')}
        assert cell.needing([]) == frozenset()

    def test_the_hosts_of_instances(self, writer, cell):
        rows = [instance('a'), instance('b', None), instance('c', 'cmp9', deleted=9)]
        fill(writer, tables.INSTANCES, *rows)
        assert cell.hosts_of([uuid_of(name) for name in ('a', 'b', 'c')]) == {rows[0]['host']}

    def test_migrations(self, writer, cell):
        row = {'uuid': uuid_of('migration'), 'instance_uuid': uuid_of('server')}
        fill(writer, tables.MIGRATIONS, row, {'uuid': uuid_of('other'), 'instance_uuid': None})
        assert cell.migrations([uuid_of(one) for one in ('migration', 'other', 'server')]) == {
            uuid_of('migration'): uuid_of('server'),
            uuid_of('other'): uuid_of('other'),
        }
        assert cell.migrations([]) == {}

    def test_servers_that_an_audit_looks_at(self, writer, cell):
        away = {'host': None, 'vm_state': 'shelved_offloaded'}
        rows = {
            'built': {},
            'busy': {'task_state': 'rebooting'},
            'failed': {'vm_state': 'error'},
            'unplaced': {'host': None},
            'without a state': {'host': None, 'vm_state': None},
            'deleted': {'deleted': 7},
            'offloaded': away,
            'unshelving': {**away, 'task_state': 'unshelving'},
            'spawning': {'vm_state': 'shelved_offloaded', 'task_state': 'spawning'},
        }
        fill(writer, tables.INSTANCES, *(instance(name, **row) for name, row in rows.items()))
        assert cell.placed() == {uuid_of('built'): 'cmp1'}
        asked = [uuid_of(name) for name in (*rows, 'unknown')]
        needing = {uuid_of(name) for name in rows.keys() - {'deleted', 'offloaded'}}
        assert cell.needing(asked) == needing
        there = {uuid: row for uuid in asked if (row := cell.server(uuid))}
        assert {uuid for uuid, row in there.items() if row.needs_allocations} == needing

    def test_servers_that_were_evacuated(self, writer, cell):
        states = {
            'accepted': 'evacuation',
            'done': 'evacuation',
            'completed': 'evacuation',
            'finished': 'resize',
        }
        rows = [
            {
                'uuid': uuid_of(f'{status} {kind}'),
                'instance_uuid': uuid_of(status),
                'migration_type': kind,
                'status': status,
            }
            for status, kind in states.items()
        ]
        fill(writer, tables.MIGRATIONS, *rows)
        assert cell.evacuated() == {uuid_of('accepted'), uuid_of('done')}

    def test_servers_that_nova_moves_now(self, writer, cell):
        under_way = {'accepted', 'queued', 'preparing', 'pre-migrating', 'running', 'migrating'}
        over = {'done', 'finished', 'confirmed', 'reverted', 'completed', 'failed', 'error'}
        rows = [
            {'instance_uuid': uuid_of(status), 'migration_type': kind, 'status': status}
            for kind in ('resize', 'live-migration', 'evacuation')
            for status in under_way | over
        ]
        fill(writer, tables.MIGRATIONS, *rows)
        assert {one for one in under_way | over if cell.is_moving(uuid_of(one))} == under_way
        assert not cell.is_moving(uuid_of('none'))

    def test_schedulers_that_are_up(self, writer, cell):
        seen = {'up': 5.0, 'silent': 70.0}
        rows = [service(host, seen_s, binary='nova-scheduler') for host, seen_s in seen.items()]
        gone = service('gone', 5.0, binary='nova-scheduler', deleted=3)
        nameless = service(None, 5.0, binary='nova-scheduler')
        fill(writer, tables.SERVICES, *rows, gone, nameless, service('compute'))
        assert cell.schedulers_up(20.0) == ['up']

    def test_a_row_is_as_old_as_nova_says(self, writer, cell):
        """Nova writes UTC, whatever the zone of the server or of this process."""
        fill(writer, tables.NODES, {**node(), 'updated_at': ago(0)})
        ((_, written_s),) = cell.node_stamps().values()
        assert written_s == pytest.approx(cell.now_s(), abs=2)


class TestNovaApi:
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


class TestHostDiscovery:
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
        assert seconds(created) == pytest.approx(time.time(), abs=60)

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
        assert seconds(updated) == pytest.approx(time.time(), abs=60)


class TestServiceRecords:
    @pytest.fixture
    def records(self, database):
        OF_RECORDS.drop_all(database)
        OF_RECORDS.create_all(database)
        yield SqlServiceRecords(database)
        OF_RECORDS.drop_all(database)

    def rows(self, database):
        with transaction(database) as connection:
            select = sa.select(SERVICE_RECORDS).order_by(SERVICE_RECORDS.c.host)
            return connection.execute(select).all()

    def test_the_first_sign_makes_the_row(self, records, database):
        records.write('controller', uuid_of('one'))
        (row,) = self.rows(database)
        assert row.uuid == uuid_of('one')
        assert (row.host, row.binary, row.topic) == ('controller', 'nova-scheduler', 'scheduler')
        assert (row.report_count, row.version, row.deleted) == (0, nova_services.VERSION, 0)
        assert (bool(row.disabled), bool(row.forced_down)) == (False, False)
        assert seconds(row.created_at) == pytest.approx(time.time(), abs=60)

    def test_later_signs_count(self, records, database):
        for name in ('one', 'two', 'three'):
            records.write('controller', uuid_of(name))
        records.write('other', uuid_of('other'))
        first, _ = self.rows(database)
        assert (first.uuid, first.report_count) == (uuid_of('one'), 2)
        for moment in (first.updated_at, first.last_seen_up):
            assert seconds(moment) == pytest.approx(time.time(), abs=60)

    def test_a_row_that_an_operator_has_disabled_stays_so(self, records, database):
        records.write('controller', uuid_of('one'))
        with transaction(database) as connection:
            connection.execute(sa.update(SERVICE_RECORDS).values(disabled=True))
        records.write('controller', uuid_of('one'))
        assert self.rows(database)[0].disabled

    def test_a_deleted_row_is_not_used(self, records, database):
        records.write('controller', uuid_of('one'))
        with transaction(database) as connection:
            connection.execute(sa.update(SERVICE_RECORDS).values(deleted=7))
        records.write('controller', uuid_of('two'))
        assert sorted(row.deleted for row in self.rows(database)) == [0, 7]

    def test_processes_that_start_at_once_make_one_row(self, records, database):
        with ThreadPoolExecutor(4) as pool:
            names = [uuid_of(str(number)) for number in range(8)]
            list(pool.map(lambda name: records.write('controller', name), names))
        assert len(self.rows(database)) == 1

    def test_a_database_that_refuses_is_told(self, records, database):
        OF_RECORDS.drop_all(database)
        with pytest.raises((errors.BadConfig, errors.StoreUnavailable)):
            records.write('controller', uuid_of('one'))


@each(
    'kind, method, arguments',
    [
        (NovaCell, 'now_s', ()),
        (NovaCell, 'services_not_up', (60,)),
        (NovaCell, 'services_not_up', (60, ['x'])),
        (NovaCell, 'node_stamps', ()),
        (NovaCell, 'nodes', (['x'],)),
        (NovaCell, 'served', (['x'],)),
        (NovaApi, 'cell_mappings', ()),
        (NovaApi, 'host_mappings', ()),
        (NovaApi, 'aggregates', ()),
        (NovaApi, 'has_build_request', ('x',)),
        (NovaApi, 'request_spec', ('x',)),
        (NovaApi, 'server_group', ('x',)),
    ],
)
def test_a_database_that_is_away(away, kind, method, arguments):
    with pytest.raises(errors.StoreUnavailable, match='refused'):
        getattr(kind(away), method)(*arguments)


def test_new_hosts_are_not_mapped_by_an_account_that_may_not_write(database, url):
    tables.emptied(database, tables.OF_API)
    tables.emptied(database, tables.OF_CELL)
    reader = engine.reader(url)
    for work in (
        lambda: nova_discovery.map_host(reader, CELL, 'cmp1'),
        lambda: nova_discovery.mark(reader, 'any'),
    ):
        with pytest.raises((errors.BadConfig, errors.StoreUnavailable), match='readonly'):
            work()


@pytest.mark.parametrize(
    'change, found',
    [
        pytest.param(None, {}, id='all is there'),
        pytest.param('DROP TABLE migrations', {'migrations': 'no such table'}, id='a table'),
        pytest.param(
            'ALTER TABLE compute_nodes RENAME COLUMN stats TO other',
            {'compute_nodes': 'no such column'},
            id='a column',
        ),
    ],
)
def test_what_cannot_be_read(url, database, change, found):
    tables.emptied(database, tables.OF_CELL)
    if change:
        with database.begin() as connection:
            connection.execute(sa.text(change))
    told = nova_rights.unreadable(engine.reader(url), nova_rights.OF_CELL)
    assert told.keys() == found.keys()
    assert all(found[name] in why for name, why in told.items())


def test_the_api_database(url, database):
    tables.emptied(database, tables.OF_API)
    for needed in (nova_rights.OF_API, nova_rights.OF_MOVES):
        assert nova_rights.unreadable(engine.reader(url), needed) == {}


def test_rights_on_a_database_that_is_away(away):
    with pytest.raises(errors.StoreUnavailable):
        nova_rights.unreadable(away, nova_rights.OF_CELL)


def test_whether_the_record_can_be_written(url, database):
    OF_RECORDS.create_all(database)
    assert nova_rights.unwritable(database) is None
    assert 'readonly' in nova_rights.unwritable(engine.reader(url))
    with database.begin() as connection:
        assert connection.execute(sa.text('SELECT count(*) FROM services')).scalar() == 0


def test_whether_new_hosts_can_be_mapped(url, database):
    tables.emptied(database, tables.OF_API)
    tables.emptied(database, tables.OF_CELL)
    assert nova_rights.unmappable(database, [database]) is None
    assert 'readonly' in nova_rights.unmappable(engine.reader(url), [])
    assert 'readonly' in nova_rights.unmappable(database, [engine.reader(url)])

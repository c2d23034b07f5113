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
"""A scheduler that reads its hosts from Nova's databases and claims in Placement."""

import contextlib
import json
import threading

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa
from oslo_messaging.notify import _impl_test

from nova_sched import errors, nova_service, objects, rpc, service
from nova_sched.conf import CONF, services
from nova_sched.db import engine, nova_services
from nova_sched.db.tables import MOVES
from nova_sched.extensions.optimize.rebalance import Move
from nova_sched.rpc import client
from nova_sched.tests import fake_neutron, fake_nova
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import Fault, served
from nova_sched.tests.functional.harness import (
    HOST,
    TIMEOUT_S,
    eventually,
    scenario,
    spec,
)
from nova_sched.tests.functional.manage import runner
from nova_sched.tests.options import settings
from nova_sched.tests.unit.db import nova_tables as nova

HOSTS = 'cmp1', 'cmp2'
CELL = uuid_of('cell')
ROOM = {'VCPU': 4, 'MEMORY_MB': 8192, 'DISK_GB': 100}


def node(host):
    return uuid_of(f'node {host}')


class NovaCloud:
    """Nova's databases in files, a Placement, and a scheduler that has their options."""

    def __init__(self, folder, fake):
        for group in services.OPTS:
            services.register_keystone_opts(CONF, group)
        self.fake, self.urls = fake, {}
        self.engines = {}
        for name, tables in (
            ('api', nova.OF_API),
            ('cell1', nova.OF_CELL),
            ('cell0', nova.OF_RECORDS),
        ):
            self.urls[name] = f'sqlite:///{folder}/nova_{name}.sqlite'
            self.engines[name] = nova.emptied(engine.create(self.urls[name]), tables)
        self.write(
            'api',
            nova.CELLS,
            {
                'id': 2,
                'uuid': CELL,
                'name': 'cell1',
                'transport_url': 'fake://',
                'database_connection': self.urls['cell1'],
                'disabled': False,
            },
        )
        for number, host in enumerate(HOSTS):
            self.write('api', nova.HOSTS, {'id': number, 'host': host, 'cell_id': 2})
            self.write('cell1', nova.SERVICES, nova.service(host))
            self.write('cell1', nova.NODES, nova.node(host))
            fake.add(node(host), **ROOM)
        self.options = {
            'default.host': HOST,
            'database.connection': self.urls['cell0'],
            'api_database.connection': self.urls['api'],
            'claims.connection': f'sqlite:///{folder}/claims.sqlite',
            'claims.refresh_interval': 0.2,
            'claims.retry_interval': 0.05,
            'cluster.look_interval': 0.2,
            'placement.auth_type': 'none',
            'placement.endpoint_override': fake.url,
            'placement.read_timeout': 1.0,
        }

    def write(self, database, table, *rows):
        nova.fill(self.engines[database], table, *rows)

    def change(self, table, host, **values):
        with self.engines['cell1'].begin() as connection:
            connection.execute(sa.update(table).where(table.c.host == host).values(values))

    @contextlib.contextmanager
    def scheduler(self):
        """A client of a running scheduler."""
        with settings(self.options):
            bus = rpc.transport(CONF, 'fake://')
            self.service = service.SchedulerService(CONF, bus)
            self.service.start()
            try:
                yield client.SchedulerClient(bus, timeout_s=TIMEOUT_S)
            finally:
                self.service.stop()
                bus.cleanup()

    def claims(self):
        return {
            (claim.consumer_uuid, claim.node_uuid): claim.state
            for claim in self.service.store.claims()
        }

    def close(self):
        for one in self.engines.values():
            one.dispose()


@pytest.fixture
def cloud(tmp_path):
    with served() as fake:
        made = NovaCloud(tmp_path, fake)
        yield made
        made.close()


def boot(scheduler, *names, **words):
    found = scheduler.select_destinations(spec(**words), [uuid_of(name) for name in names])
    return [chosen[0].service_host for chosen in found]


def test_a_server_is_claimed_in_placement_before_the_answer(cloud):
    with cloud.scheduler() as scheduler:
        (host,) = boot(scheduler, 'a', vcpus=1)
        held = cloud.fake.allocated()[uuid_of('a')]
        assert list(held) == [node(host)]
        assert held[node(host)]['VCPU'] == 1
        confirmed = {(uuid_of('a'), node(host)): 'confirmed'}
        eventually(lambda: cloud.claims() == confirmed)


def test_room_that_others_take_in_placement_counts(cloud):
    cloud.fake.consumers[uuid_of('x')] = [1, {node('cmp1'): {'VCPU': 4}}, 'p', 'u']
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=1) == ['cmp2']
        # What was taken since the last poll is found when Placement refuses the claim.
        cloud.fake.consumers[uuid_of('y')] = [1, {node('cmp2'): {'VCPU': 3}}, 'p', 'u']
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'b', vcpus=1)
        assert set(cloud.fake.allocated()) == {uuid_of(name) for name in 'axy'}
        assert set(cloud.claims()) == {(uuid_of('a'), node('cmp2'))}


def test_room_that_placement_has_since_the_last_poll(cloud):
    with cloud.scheduler() as scheduler:
        cloud.fake.add(node('cmp2'), **{**ROOM, 'VCPU': 16})
        assert boot(scheduler, 'a', vcpus=8) == ['cmp2']
        assert ('GET', '/allocation_candidates') in cloud.fake.requests


def test_a_member_of_a_group_that_was_deleted_since_the_last_poll(cloud):
    """Another one takes its place, also before nova-compute has written the row of its host."""
    apart = objects.InstanceGroup(
        uuid=uuid_of('group'), policy='anti-affinity', rules={}, members=[], hosts=[]
    )
    with cloud.scheduler() as scheduler:
        hosts = [boot(scheduler, name, instance_group=apart) for name in 'ab']
        assert sorted(hosts) == [['cmp1'], ['cmp2']]
        assert boot(scheduler, 'other', force_hosts=hosts[1]) == hosts[1]
        eventually(lambda: set(cloud.claims().values()) == {'confirmed'})
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'c', instance_group=apart)
        del cloud.fake.consumers[uuid_of('b')]
        assert boot(scheduler, 'c', instance_group=apart) == hosts[1]


@pytest.mark.parametrize(
    'version, takes',
    [
        pytest.param(74, False, id='each provider of Nova has its trait'),
        pytest.param(72, True, id='an older nova-compute writes no such trait'),
    ],
)
def test_a_provider_that_is_not_of_nova(cloud, version, takes):
    cloud.fake.foreign = {node('cmp1')}
    cloud.change(nova.SERVICES, 'cmp2', version=version)
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=4, force_hosts=['cmp2']) == ['cmp2']
        if takes:
            assert boot(scheduler, 'b', vcpus=4) == ['cmp1']
            return
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'b', vcpus=4)
        query = {'root_required': 'OWNER_NOVA,!COMPUTE_STATUS_DISABLED'}
        assert query.items() <= cloud.fake.asked[-1].items()


def test_a_device_profile(cloud):
    device = uuid_of('fpga')
    cloud.fake.add(device, root=node('cmp2'), FPGA=1)
    cloud.fake.traits = {node('cmp2'): ['COMPUTE_ACCELERATORS'], device: ['CUSTOM_FPGA_X']}
    with cloud.scheduler() as scheduler:
        ((chosen, *_),) = scheduler.select_destinations(scenario('accelerator'), [uuid_of('a')])
        mappings = json.loads(chosen.allocation_request)['mappings']
        assert (chosen.service_host, mappings['device_profile_0']) == ('cmp2', [device])
        assert cloud.fake.allocated()[uuid_of('a')][device] == {'FPGA': 1}
        with pytest.raises(errors.NoValidHost):
            scheduler.select_destinations(scenario('accelerator'), [uuid_of('b')])


def test_a_routed_network(cloud):
    zone = uuid_of('aggregate of a segment')
    cloud.write('api', nova.AGGREGATES, {'id': 1, 'uuid': zone, 'name': 'segment'})
    cloud.write('api', nova.AGGREGATE_HOSTS, {'id': 1, 'aggregate_id': 1, 'host': 'cmp2'})
    cloud.fake.aggregates['segment'] = [zone]
    networks = objects.NetworkRequestList(objects=[objects.NetworkRequest(network_id='net')])
    with fake_neutron.served() as neutron:
        neutron.subnets = {'subnet': ('net', 'segment')}
        cloud.options |= {
            'scheduler.query_placement_for_routed_network_aggregates': True,
            'neutron.auth_type': 'none',
            'neutron.endpoint_override': neutron.url,
        }
        with cloud.scheduler() as scheduler:
            for name in 'ab':
                assert boot(scheduler, name, requested_networks=networks) == ['cmp2']
            neutron.broken = 503, 'away'
            with pytest.raises(errors.NoValidHost, match='segments'):
                boot(scheduler, 'c', requested_networks=networks)


@pytest.fixture
def heard():
    """Notifications that oslo.messaging's driver for tests got: publisher, event, payload."""
    found = _impl_test.NOTIFICATIONS
    found.clear()
    yield lambda: [
        (told['publisher_id'], told['event_type'], told['payload']) for _, told, *_ in found
    ]
    found.clear()


def test_notifications(cloud, heard):
    messaging.get_notification_transport(CONF, url='fake://')
    cloud.options |= {
        'oslo_messaging_notifications.driver': ['test'],
        'oslo_messaging_notifications.transport_url': 'fake://',
        'notifications.notification_format': 'both',
    }
    with cloud.scheduler() as scheduler:
        boot(scheduler, 'a')
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'b', vcpus=64)
    events = [(publisher, event.rpartition('.')[2]) for publisher, event, _ in heard()]
    publishers = f'scheduler.{HOST}', f'nova-scheduler:{HOST}'
    assert events == [
        (publisher, phase) for phase in ('start', 'end', 'start') for publisher in publishers
    ]
    assert {payload.get('nova_object.name') for _, _, payload in heard()} == {
        None,
        'RequestSpecPayload',
    }


def test_notifications_of_refusals(cloud, heard):
    messaging.get_notification_transport(CONF, url='fake://')
    cloud.options |= {
        'oslo_messaging_notifications.driver': ['test'],
        'oslo_messaging_notifications.transport_url': 'fake://',
        'notifications.notification_format': 'versioned',
        'notifications.scheduler_events': ['refusals'],
    }
    with cloud.scheduler() as scheduler, pytest.raises(errors.NoValidHost):
        boot(scheduler, 'a', vcpus=64)
    (payload,) = [told for _, event, told in heard() if event == 'nova_sched.request.refused']
    assert payload['nova_object.data']['request']['nova_object.data']['instances'] == [
        uuid_of('a')
    ]


def test_a_failure_is_a_refusal(cloud, caplog):
    with cloud.scheduler() as scheduler:
        cloud.service.scheduler.loop.stop()
        with pytest.raises(errors.NoValidHost, match='could not decide the request'):
            boot(scheduler, 'a')
    (told,) = [one for one in caplog.records if 'failed, and is refused' in one.getMessage()]
    assert told.exc_info


def test_disk_of_a_sharing_provider(cloud):
    share, disk = uuid_of('share'), {'DISK_GB': 20}
    cloud.fake.add(share, DISK_GB=30)
    for host in HOSTS:
        cloud.fake.add(node(host), VCPU=4, MEMORY_MB=8192)
        cloud.fake.shares[node(host)] = [share]
    with cloud.scheduler() as scheduler:
        (host,) = boot(scheduler, 'a', vcpus=1, root_gb=20)
        held = cloud.fake.allocated()[uuid_of('a')]
        assert held.keys() == {node(host), share}
        assert held[share] == disk
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'b', vcpus=1, root_gb=20)
        cloud.service._nova.mirror.compare_soon()
        confirmed = {(uuid_of('a'), node(host)): 'confirmed'}
        eventually(lambda: cloud.claims() == confirmed)
        assert boot(scheduler, 'c', vcpus=1, root_gb=10, force_hosts=['cmp2']) == ['cmp2']
        assert cloud.fake.allocated()[uuid_of('c')].keys() == {node('cmp2'), share}


def test_a_server_that_is_deleted_between_two_polls_leaves_no_claim(cloud):
    with cloud.scheduler() as scheduler:
        (host,) = boot(scheduler, 'a', vcpus=4)
        del cloud.fake.consumers[uuid_of('a')]
        cloud.service._nova.mirror.host_told(host)
        eventually(lambda: cloud.claims() == {})


@pytest.mark.parametrize(
    'go',
    [
        pytest.param(lambda cloud: None, id='its provider'),
        pytest.param(
            lambda cloud: cloud.change(nova.NODES, 'cmp1', deleted=1), id='its node as well'
        ),
    ],
)
def test_a_host_that_has_just_gone(cloud, go):
    cloud.options['cluster.look_interval'] = 1000.0
    cloud.fake.add(node('cmp2'), **{**ROOM, 'MEMORY_MB': 4096})
    with cloud.scheduler() as scheduler:
        del cloud.fake.providers[node('cmp1')]
        go(cloud)
        assert boot(scheduler, 'a') == ['cmp2']


def test_a_host_that_has_gone_while_no_scheduler_ran(cloud):
    cloud.fake.add(node('cmp2'), **{**ROOM, 'MEMORY_MB': 4096})
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a') == ['cmp1']
    del cloud.fake.providers[node('cmp1')]
    for table in (nova.NODES, nova.SERVICES):
        cloud.change(table, 'cmp1', deleted=1)
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'b') == ['cmp2']
        assert cloud.claims().keys() == {(uuid_of('b'), node('cmp2'))}


@pytest.mark.parametrize(
    'change',
    [
        pytest.param({'disabled': True}, id='disabled'),
        pytest.param({'forced_down': True}, id='forced down'),
        pytest.param({'last_seen_up': nova.ago(100)}, id='silent'),
    ],
)
def test_a_service_that_has_just_changed(cloud, change):
    cloud.options['cluster.look_interval'] = 1000.0
    with cloud.scheduler() as scheduler:
        cloud.change(nova.SERVICES, 'cmp1', **change)
        assert boot(scheduler, 'a') == boot(scheduler, 'b') == ['cmp2']
        cloud.change(nova.SERVICES, 'cmp2', **change)
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'c')
        cloud.change(
            nova.SERVICES, 'cmp1', disabled=False, forced_down=False, last_seen_up=nova.ago(0)
        )
        assert boot(scheduler, 'd') == ['cmp1']


def test_an_evacuation_while_another_cell_is_away(cloud):
    away = 'mysql+pymysql://nova@127.0.0.1:1/nova'
    cloud.write('api', nova.CELLS, nova.mapping(1, away))
    cloud.change(nova.SERVICES, 'cmp1', forced_down=True)
    cloud.fake.consumers[uuid_of('a')] = [1, {node('cmp1'): {'VCPU': 1}}, 'p', 'u']
    evacuation = {
        'uuid': uuid_of('evacuation'),
        'instance_uuid': uuid_of('a'),
        'migration_type': 'evacuation',
        'status': 'accepted',
    }
    cloud.write('cell1', nova.MIGRATIONS, evacuation)
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=1, ignore_hosts=['cmp1']) == ['cmp2']
        assert cloud.fake.allocated()[uuid_of('a')].keys() == {node('cmp1'), node('cmp2')}


def test_a_server_on_a_host_that_is_left_out(cloud, caplog):
    """The log has where it is, although no server can be placed there now."""
    cloud.change(nova.NODES, 'cmp1', stats='{')
    cloud.fake.consumers[uuid_of('a')] = [1, {node('cmp1'): {'VCPU': 1}}, 'p', 'u']
    with cloud.scheduler() as scheduler, pytest.raises(errors.NoValidHost):
        boot(scheduler, 'a')
    elsewhere = {uuid_of('a'): node('cmp1')}
    assert f'Instances are on other nodes by an earlier call: {elsewhere}' in caplog.text


def test_several_servers_are_claimed_together_or_not_at_all(cloud):
    with cloud.scheduler() as scheduler:
        assert sorted(boot(scheduler, 'a', 'b', vcpus=3)) == ['cmp1', 'cmp2']
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'c', 'd', vcpus=1, memory_mb=4096 * 2)
        assert set(cloud.fake.allocated()) == {uuid_of('a'), uuid_of('b')}


def test_placement_that_is_away_refuses_and_says_so(cloud):
    with cloud.scheduler() as scheduler:
        cloud.service._nova.writer._timeout_s = 1.0
        cloud.fake.faults = lambda method, path: Fault(503)
        with pytest.raises(errors.NoValidHost, match='Placement'):
            boot(scheduler, 'a')
        cloud.fake.faults = lambda method, path: None
        assert boot(scheduler, 'a')


def test_the_record_of_the_service(cloud):
    def rows():
        with cloud.engines['cell0'].connect() as connection:
            return connection.execute(sa.text('SELECT host, "binary", topic FROM services')).all()

    with cloud.scheduler():
        found = eventually(rows)
    assert found == [(HOST, 'nova-scheduler', 'scheduler')]


def test_a_stop_lets_writes_end(cloud):
    going, slow = threading.Event(), threading.Event()

    def hold(method, path):
        if method == 'PUT':
            going.set()
            slow.wait(2.0)

    with cloud.scheduler() as scheduler:
        cloud.fake.faults = hold
        answers = []
        caller = threading.Thread(target=lambda: answers.append(boot(scheduler, 'a')))
        caller.start()
        assert going.wait(TIMEOUT_S)
        slow.set()
    caller.join(TIMEOUT_S)
    assert answers
    assert set(cloud.fake.allocated()) == {uuid_of('a')}


@pytest.mark.parametrize(
    'options, where',
    [
        pytest.param(
            {'cluster.source': 'nova', 'api_database.connection': None},
            '[api_database] connection',
            id='no API database',
        ),
        pytest.param({'claims.connection': 'same'}, '[claims] connection', id='claims in Nova'),
        pytest.param({'placement.auth_type': None}, '[placement] auth_type', id='no Placement'),
        pytest.param(
            {'scheduler.query_placement_for_routed_network_aggregates': True},
            '[neutron] auth_type',
            id='no Neutron',
        ),
    ],
)
def test_a_configuration_that_cannot_work(cloud, options, where):
    options = {
        name: cloud.urls['cell0'] if value == 'same' else value for name, value in options.items()
    }
    with (
        settings({**cloud.options, **options}),
        pytest.raises(errors.BadConfig, match=r'\[') as told,
    ):
        nova_service.check(CONF)
    assert where in str(told.value)


def test_the_status_of_the_cloud(cloud, tmp_path, capsys):
    run = runner('cloud', tmp_path, capsys)
    with cloud.scheduler():
        status, out, _ = run('status', '--format', 'json')
        assert status == 0
        found = json.loads(out)
        (cell,) = found['cells']
        assert (cell['name'], cell['state'], cell['taking']) == ('cell1', 'readable', 2)
        assert found['writes'] == {'pending': 0, 'in_doubt': 0}
        cloud.change(nova.SERVICES, 'cmp1', forced_down=True)
        cloud.change(nova.NODES, 'cmp2', free_disk_gb=None, updated_at=nova.ago(0))
        eventually(lambda: run('status')[0] == 1)
        status, out, _ = run('status', '--format', 'json')
        states = {one['host']: one['state'] for one in json.loads(out)['hosts']}
        assert states == {'cmp1': 'forced down', 'cmp2': 'left out'}
        for form, text in (
            ('table', '| cmp1 | cell1 |'),
            ('yaml', 'ok: false'),
            ('csv', 'false,'),
        ):
            assert text in run('status', '--format', form)[1]


def test_the_status_of_a_cloud_without_placement(cloud, tmp_path, capsys):
    run = runner('cloud', tmp_path, capsys)
    with cloud.scheduler():
        cloud.fake.faults = lambda method, path: Fault(503)
        status, out, _ = run('status')
    assert status == 1
    assert 'Placement: FAILED' in out


def test_a_scheduler_that_does_not_share_the_claims_is_reported(cloud, caplog):
    row = {'report_count': 1, 'version': 74, 'deleted': 0, 'binary': 'nova-scheduler'}
    seen = {host: nova.ago(3) for host in ('control-2', HOST)} | {'gone': nova.ago(50)}
    for host, seen_at in seen.items():
        cloud.write('cell0', nova.SERVICE_RECORDS, {'host': host, 'last_seen_up': seen_at, **row})
    with cloud.scheduler():
        pass
    (line,) = [one for one in caplog.messages if 'do not share' in one]
    assert 'are up on control-2: policies' in line


def test_an_audit_compares_with_placement(cloud, tmp_path, capsys):
    run = runner('claim', tmp_path, capsys)
    with cloud.scheduler() as scheduler:
        (host,) = boot(scheduler, 'a', vcpus=1)
        status, out, _ = run('audit', '--format', 'json')
        assert (status, json.loads(out)['consumers']) == (0, 1)
        cloud.fake.consumers[uuid_of('x')] = [1, {node(host): {'VCPU': 1}}, 'p', 'u']
        written = len(cloud.fake.bodies)
        status, out, _ = run('audit')
        assert status == 1
        assert f'ERROR leaked: host {host}, instance {uuid_of("x")}' in out
        assert '2 consumers: 1 error' in out
        assert len(cloud.fake.bodies) == written


@pytest.mark.parametrize('has_record', [True, False])
def test_a_new_host_is_mapped_and_gets_servers(cloud, caplog, monkeypatch, has_record):
    """Also if the record of the service cannot be written."""

    def refuse(*_):
        raise errors.StoreUnavailable('connection refused')

    if not has_record:
        monkeypatch.setattr(nova_services.SqlServiceRecords, 'write', refuse)
    cloud.options['scheduler.discover_hosts_in_cells_interval'] = 1
    cloud.write('cell1', nova.SERVICES, nova.service('cmp3'))
    cloud.write('cell1', nova.NODES, nova.node('cmp3', mapped=0))
    cloud.fake.add(node('cmp3'), **{**ROOM, 'VCPU': 100})
    with cloud.scheduler() as scheduler:

        def placed():
            try:
                return boot(scheduler, 'big', vcpus=50) == ['cmp3']
            except errors.NoValidHost:
                return False

        eventually(placed)
    told = [one.partition(' has failed')[0] for one in caplog.messages if 'after each poll' in one]
    assert told == ([] if has_record else ['Writing the record of service nova-scheduler'])
    assert [one for one in caplog.messages if 'cannot be read' in one] == []


class TestMoves:
    """A rebalance that Nova carries out; its API is a fake."""

    @pytest.fixture
    def nova_api(self, cloud):
        with fake_nova.served() as made:
            cloud.options |= {
                'nova_api.auth_type': 'none',
                'nova_api.endpoint_override': made.url,
            }
            yield made

    def test_a_move(self, cloud, nova_api):
        server = uuid_of('a')
        stored = json.dumps(objects.to_primitive(spec(vcpus=1, instance_uuid=server)))
        cloud.write('api', nova.REQUEST_SPECS, {'instance_uuid': server, 'spec': stored})
        with cloud.scheduler() as scheduler:
            (source,) = boot(scheduler, 'a', vcpus=1)
            (host,) = {*HOSTS} - {source}
            cloud.write(
                'cell1',
                nova.INSTANCES,
                {'uuid': server, 'host': source, 'node': source, 'deleted': 0},
            )
            nova_api.servers[server] = [source, None]
            eventually(lambda: cloud.claims() == {(server, node(source)): 'confirmed'})
            rebalances = cloud.service.scheduler.parts['optimize'].rebalances
            made = rebalances.create([Move(server, node(source), node(host))], close_s=60.0)
            nova_api.services = {one: ['enabled', None] for one in HOSTS}
            eventually(lambda: nova_api.asked == [(server, host)])
            status, reason = nova_api.services[source]
            assert (status, reason.startswith(f'closed by rebalance {made}')) == ('disabled', True)
            nova_api.end(server, 'error', details='No valid host was found.')
            with rebalances._sessions.transaction() as connection:
                connection.execute(sa.update(MOVES).values(due_s=0.0))
            eventually(lambda: rebalances.list(made)[0].state == 'done')
            (row,) = rebalances.moves(made)
            assert (row.state, row.why.partition(' (')[0]) == (
                'reverted',
                'No valid host was found.',
            )

    @pytest.mark.parametrize('goal, is_told', [(None, False), ('empty', True)])
    def test_no_account(self, cloud, caplog, goal, is_told):
        cloud.options['rebalance.goal'] = goal
        with cloud.scheduler():
            assert ('[rebalance] goal has no effect' in caplog.text) == is_told
            assert not cloud.service.scheduler.parts['optimize'].moves_servers

    def test_an_account_that_is_not_whole(self, cloud):
        cloud.options['nova_api.auth_section'] = 'nowhere'
        with (
            settings(cloud.options),
            pytest.raises(errors.BadConfig, match=r'\[nowhere\] auth_type: it is not set'),
        ):
            nova_service.check(CONF)

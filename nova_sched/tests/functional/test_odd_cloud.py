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
"""Rows, classes and keys of a Nova cloud that no sound cloud has: each costs itself alone."""

import contextlib

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.engine.sync.nova_hosts import UP
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import served
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.functional.test_nova_source import CELL, ROOM, NovaCloud, boot, node
from nova_sched.tests.unit.db import nova_tables as nova

TEXTS = None, '', '{', '[]', '{}', 'null', '5', '[[1]]', '{"a": {}}', 'x' * 255
NUMBERS = None, -1, 2**31 - 1, 2**62
MOMENTS = None, nova.ago(10**10), nova.ago(-(10**10))
COLUMNS = {
    **dict.fromkeys(
        'hypervisor_hostname hypervisor_type host_ip cpu_info stats metrics numa_topology '
        'pci_stats supported_instances'.split(),
        TEXTS,
    ),
    **dict.fromkeys(
        'hypervisor_version free_disk_gb disk_available_least running_vms '
        'current_workload'.split(),
        NUMBERS,
    ),
    'updated_at': MOMENTS,
    'created_at': MOMENTS,
}
STATS = [
    '{"num_instances": "many"}',
    '{"num_instances": -1}',
    '{"failed_builds": 1e999}',
    '{"io_workload": null}',
    '{"": "x"}',
    '{"cpu_arch": ["x86_64"]}',
]
# Inventories that Placement accepts, or that an odd Placement tells.
INVENTORIES = [
    {'allocation_ratio': 0.0},
    {'allocation_ratio': -1.0},
    {'allocation_ratio': 100_000.0},
    {'allocation_ratio': 3.4e38},
    {'allocation_ratio': float('nan')},
    {'reserved': 5},
    {'reserved': 4},
    {'reserved': -1},
    {'min_unit': 9},
    {'max_unit': 0},
    {'max_unit': 2**31 - 1},
    {'step_size': 9},
    {'step_size': 0},
    {'total': 0},
    {'total': 2**31 - 1, 'allocation_ratio': 16.0},
    {'total': 2**62},
    {'total': None},
    {'of_a_later_version': 1},
]
# Of these, one unit can be taken.
TAKEN = [
    {'allocation_ratio': 100_000.0},
    {'max_unit': 2**31 - 1},
    {'total': 2**31 - 1, 'allocation_ratio': 16.0},
    {'of_a_later_version': 1},
]


class OddCloud(NovaCloud):
    """A cloud with two sound hosts, to which odd ones are added. ``odd`` has their names, and
    what is odd about them."""

    def __init__(self, folder, fake):
        super().__init__(folder, fake)
        self.odd = {}

    def add(self, what, services=True, **columns):
        """A host whose row of compute_nodes has these columns. Returns its name."""
        host = f'odd-{len(self.odd)}'
        self.odd[host] = what
        self.write('api', nova.HOSTS, {'id': 100 + len(self.odd), 'host': host, 'cell_id': 2})
        self.write('cell1', nova.SERVICES, nova.service(host))
        self.write('cell1', nova.NODES, nova.node(host, **columns))
        self.fake.add(columns.get('uuid') or node(host), **ROOM)
        return host

    @property
    def mirror(self):
        return self.service._nova.mirror


@pytest.fixture
def cloud(tmp_path):
    with served() as fake:
        made = OddCloud(tmp_path, fake)
        yield made
        made.close()


def check_others(cloud, scheduler, caplog):
    """The sound hosts take servers, a new host is found, and nothing stopped a poll."""
    for number, host in enumerate(('cmp1', 'cmp2')):
        assert boot(scheduler, f'server {number}', vcpus=1, force_hosts=[host]) == [host]
    cloud.write('api', nova.HOSTS, {'id': 90, 'host': 'cmp9', 'cell_id': 2})
    cloud.write('cell1', nova.SERVICES, nova.service('cmp9'))
    cloud.write('cell1', nova.NODES, nova.node('cmp9', written_s=-1.0))
    cloud.fake.add(node('cmp9'), **ROOM)

    def takes():
        with contextlib.suppress(errors.NoValidHost):
            return boot(scheduler, 'server of cmp9', vcpus=1, force_hosts=['cmp9']) == ['cmp9']

    eventually(takes)
    cloud.mirror.compare_soon()
    cloud.mirror.poll_now()
    assert cloud.mirror.unreadable == {}
    assert not [one.getMessage() for one in caplog.records if one.exc_info]


def outcomes(cloud, scheduler):
    """What became of each odd host: None if it takes a server, else why it does not."""
    found = {host: cloud.mirror.left_out.get(host) for host in cloud.odd}
    for host in (host for host, why in found.items() if why is None):
        try:
            boot(scheduler, f'server of {host}', vcpus=1, force_hosts=[host])
        except errors.NoValidHost as error:
            found[host] = str(error)
    return found


def test_columns_of_compute_nodes(cloud, caplog):
    for column, values in COLUMNS.items():
        for value in values:
            cloud.add((column, value), **{column: value})
    for text in STATS:
        cloud.add(('stats', text), stats=text)
    with cloud.scheduler() as scheduler:
        check_others(cloud, scheduler, caplog)
        standing = cloud.service.scheduler.call(cloud.service.scheduler.nova_hosts.standing)[CELL]
        left_out = cloud.mirror.left_out
    whys = {odd: left_out.get(host) for host, odd in cloud.odd.items()}
    assert {host for host in cloud.odd if host not in left_out} <= {
        host for host, (state, _) in standing.items() if state == UP
    }
    named = {column: [column] for column in COLUMNS}
    named['pci_stats'].append('pci_device_pools')
    named['free_disk_gb'].append('disk_slack_gb')
    named['disk_available_least'].append('disk_slack_gb')
    unnamed = {
        odd: why
        for odd, why in whys.items()
        if why is not None and not any(f'refused, {one}' in why for one in named[odd[0]])
    }
    assert not unnamed
    taking = {odd for odd, why in whys.items() if why is None}
    assert ('updated_at', None) in taking
    assert taking >= {(name, None) for name in ('host_ip', 'cpu_info', 'stats', 'metrics')}


def test_rows_without_a_name(cloud, caplog):
    """NULL is allowed in these columns, and a table has no two rows of a name but NULL."""
    for table, row in (
        (nova.NODES, nova.node('ancient') | {'host': None}),
        (nova.NODES, nova.node('older') | {'uuid': None}),
        (nova.NODES, nova.node('oldest') | {'uuid': None, 'host': None}),
        (nova.NODES, nova.node('strange') | {'uuid': 'node of host strange'}),
        (nova.SERVICES, nova.service(None)),
        (nova.SERVICES, nova.service(None, seen_s=1000.0)),
        (nova.INSTANCES, nova.instance('nowhere', host=None, node=None)),
        (nova.MIGRATIONS, {'uuid': None, 'instance_uuid': None, 'status': None}),
        (nova.MIGRATIONS, {'uuid': uuid_of('move'), 'instance_uuid': None, 'status': None}),
    ):
        cloud.write('cell1', table, row)
    for name in ('ancient', 'strange'):
        cloud.fake.add(node(name), **ROOM)
    cloud.fake.consumers[uuid_of('move')] = [1, {node('cmp2'): {'VCPU': 1}}, 'p', 'u']
    cloud.write('api', nova.AGGREGATES, {'id': 1, 'uuid': None, 'name': None})
    cloud.write('api', nova.AGGREGATES, {'id': 2, 'uuid': None, 'name': 'n' * 255})
    for number, host in enumerate((None, 'cmp1', 'h' * 255, 'gone')):
        cloud.write('api', nova.AGGREGATE_HOSTS, {'id': number, 'aggregate_id': 2, 'host': host})
    for number, (key, value) in enumerate(
        ((None, None), ('cpu_allocation_ratio', 'many'), ('k' * 255, 'v' * 255), ('k', None))
    ):
        row = {'id': number, 'aggregate_id': 2, 'key': key, 'value': value}
        cloud.write('api', nova.AGGREGATE_METADATA, row)
    cloud.write('api', nova.CELLS, {'id': 8, 'uuid': uuid_of('no URL'), 'name': None})
    cloud.write('api', nova.HOSTS, {'id': 80, 'host': 'lost', 'cell_id': 99})
    with cloud.scheduler() as scheduler:
        check_others(cloud, scheduler, caplog)
        left_out = cloud.mirror.left_out
        assert 'NULL' in left_out[node('ancient')]
        assert 'UUID' in left_out['strange']
        assert set(left_out) == {node('ancient'), 'strange', f'cell {uuid_of("no URL")}'}
        (cell,) = [one for one in scheduler_status(cloud)['cells'] if one['cell_uuid'] == CELL]
        assert (cell['hosts'], cell['taking']) == (5, 3)


def scheduler_status(cloud):
    return cloud.service._nova.status()


BARE = {
    **dict.fromkeys(('resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB'), '0'),
    'resources:CUSTOM_GOLD': '1',
}


class BareMetal:
    """Nodes of bare metal: three of host `ironic`, none of host `other`, both up."""

    def __init__(self, cloud):
        self._cloud = cloud
        for number, host in enumerate(('ironic', 'other')):
            cloud.write('api', nova.HOSTS, {'id': 70 + number, 'host': host, 'cell_id': 2})
            cloud.write('cell1', nova.SERVICES, nova.service(host))
        for name in ('bm0', 'bm1', 'bm2'):
            row = nova.node('ironic', uuid=uuid_of(name), hypervisor_hostname=name)
            cloud.write('cell1', nova.NODES, row)
            cloud.fake.add(uuid_of(name), CUSTOM_GOLD=1)

    def change(self, name, **values):
        with self._cloud.engines['cell1'].begin() as connection:
            row = nova.NODES.c.uuid == uuid_of(name)
            values['updated_at'] = nova.ago(-1)
            connection.execute(sa.update(nova.NODES).where(row).values(values))

    def host_of(self, name):
        return self._cloud.service.scheduler.nova_hosts.host_of(uuid_of(name))

    def of_servers(self, *names):
        allocated = self._cloud.fake.allocated()
        return {node for name in names for node in allocated[uuid_of(name)]}


def test_one_odd_node_of_a_host_with_many(cloud, caplog):
    """The others go on, and the odd one comes back when it is mended."""
    metal = BareMetal(cloud)
    with cloud.scheduler() as scheduler:
        metal.change('bm0', stats='{')
        eventually(lambda: 'stats' in cloud.mirror.left_out.get('ironic', ''))
        cloud.mirror.poll_now()  # the poll that found it has told the loop then
        assert boot(scheduler, 'a', 'b', extra_specs=BARE) == ['ironic'] * 2
        assert metal.of_servers('a', 'b') == {uuid_of('bm1'), uuid_of('bm2')}
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'c', extra_specs=BARE)
        metal.change('bm0', stats='{}')
        eventually(lambda: 'ironic' not in cloud.mirror.left_out)
        assert boot(scheduler, 'c', extra_specs=BARE) == ['ironic']
        check_others(cloud, scheduler, caplog)


def test_a_node_that_moves_between_hosts_that_are_up(cloud):
    """https://launchpad.net/bugs/1853009: its row says which host has it."""
    metal = BareMetal(cloud)
    with cloud.scheduler() as scheduler:
        metal.change('bm1', host='other')
        eventually(lambda: metal.host_of('bm1') == 'other')
        found = boot(scheduler, 'a', 'b', 'c', extra_specs=BARE)
        assert sorted(found) == ['ironic', 'ironic', 'other']


@pytest.mark.parametrize('is_child', [False, True], ids=['own', 'of a child'])
def test_inventories(cloud, caplog, is_child):
    """A class of which nobody can get anything costs itself; the host takes other servers."""
    for fields in INVENTORIES:
        host = cloud.add(repr(fields))
        uuid = uuid_of(f'child of {host}') if is_child else node(host)
        totals = {'CUSTOM_ODD': 4} if is_child else ROOM | {'CUSTOM_ODD': 4}
        cloud.fake.add(uuid, root=node(host), **totals)
        cloud.fake.fields[uuid] = {'CUSTOM_ODD': fields}
    host = cloud.add('names')
    cloud.fake.add(node(host), **ROOM, **{'lower case': 1, 'X' * 255: 1, 'X' * 256: 1, '': 1})
    cloud.fake.traits[node(host)] = ['lower case', 'T' * 255, '']
    gone = cloud.add('in use, and gone')
    cloud.fake.consumers[uuid_of('x')] = [1, {node(gone): {'CUSTOM_GONE': 2**31 - 1}}, 'p', 'u']
    small = cloud.add('in use, and smaller')
    cloud.fake.add(node(small), CUSTOM_SMALL=1, **ROOM)
    cloud.fake.consumers[uuid_of('y')] = [1, {node(small): {'CUSTOM_SMALL': 10**6}}, 'p', 'u']
    with cloud.scheduler() as scheduler:
        check_others(cloud, scheduler, caplog)
        whys = outcomes(cloud, scheduler)
        assert not {cloud.odd[host]: why for host, why in whys.items() if why is not None}
        told = [one for one in caplog.messages if one.startswith('Nobody gets ')]
        assert len(told) == len(set(told))
        assert len([one for one in told if 'CUSTOM_ODD' in one]) == 10
        # The classes that can be taken.
        odd = {'resources:CUSTOM_ODD': '1'}
        for fields in INVENTORIES:
            (host,) = (one for one, what in cloud.odd.items() if what == repr(fields))
            takes = repr(fields) in map(repr, TAKEN)
            with contextlib.nullcontext() if takes else pytest.raises(errors.NoValidHost):
                boot(scheduler, f'odd {host}', extra_specs=odd, vcpus=1, force_hosts=[host])


def test_a_device_for_one_use(cloud):
    """Its compute reserves it when a server has it: what is used is more than there is then, and
    it is not free before an operator ends the reserve."""
    first, second = uuid_of('device 1'), uuid_of('device 2')
    for device, host in ((first, 'cmp1'), (second, 'cmp2')):
        cloud.fake.add(device, root=node(host), CUSTOM_NVME=1)
        cloud.fake.traits[device] = ['HW_PCI_ONE_TIME_USE']
    nvme = {'resources:CUSTOM_NVME': '1', 'trait:HW_PCI_ONE_TIME_USE': 'required'}

    def burn(device, reserved=1):
        cloud.fake.fields[device] = {'CUSTOM_NVME': {'reserved': reserved}}
        cloud.fake.generations[device] += 1
        cloud.mirror.compare_soon()
        eventually(lambda: stock(device).reserved == reserved)

    def stock(device):
        nodes = cloud.service.scheduler._cluster.snapshot()
        trees = [one.providers for one in nodes if one.providers is not None]
        (found,) = (tree.by_uuid[device] for tree in trees if device in tree.by_uuid)
        return found.stocks['CUSTOM_NVME']

    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=1, extra_specs=nvme, force_hosts=['cmp1']) == ['cmp1']
        burn(first)
        assert stock(first).free < 0
        # Its server stays, the host takes others, and the device is not taken.
        assert boot(scheduler, 'b', vcpus=1, force_hosts=['cmp1']) == ['cmp1']
        assert boot(scheduler, 'c', vcpus=1, extra_specs=nvme) == ['cmp2']
        assert {claim[0] for claim in cloud.claims()} == {uuid_of(name) for name in 'abc'}
        burn(second)
        for name in 'ac':
            del cloud.fake.consumers[uuid_of(name)]
        for host in ('cmp1', 'cmp2'):
            cloud.mirror.host_told(host)
        eventually(lambda: {claim[0] for claim in cloud.claims()} == {uuid_of('b')})
        with pytest.raises(errors.NoValidHost):
            boot(scheduler, 'd', vcpus=1, extra_specs=nvme)
        burn(first, reserved=0)
        assert boot(scheduler, 'd', vcpus=1, extra_specs=nvme) == ['cmp1']
        assert cloud.mirror.left_out == {}

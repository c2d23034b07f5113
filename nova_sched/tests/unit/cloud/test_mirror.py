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
"""The mirror of Nova's databases and Placement, and the steps after each poll."""

import dataclasses
import threading
import time

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.cloud import mirror, node_reader
from nova_sched.cloud.mirror import Intervals, Mirror, MirrorHooks
from nova_sched.cloud.placement import NodeProviders
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.hardware import pci
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import CELL, NOW, aggregate, request, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.rows import each
from nova_sched.tests.unit.cloud.doubles import FakeCell, FakeCloud, FakePlacement, node_uuid
from nova_sched.tests.unit.engine.world import World, rules
from nova_sched.tests.unit.hardware import builders as hw

A, B, OTHER = uuid_of('a'), uuid_of('b'), uuid_of('other cell')
MAPPED = 'host-0', 'host-1'


class Cloud:
    """Two hosts in a cell, and a scheduler that reads them."""

    def __init__(self, *cells, rules=None):
        self.placement = FakePlacement()
        self.nova = FakeCloud(*cells)
        self.cell = self.nova.cells[0]
        self.cell.add('host-0', 'host-1', updated_s=self.cell.now_s() - 60.0)
        self.placement.add('host-0', 'host-1')
        self.world = World(reads_nova=True, refresh_interval_s=1e9, chain=rules)
        for cell in self.nova.cells:
            cell.clock = lambda: self.world.now_s
        self.scheduler = self.world.scheduler
        self.scheduler.loop.start()
        self.mirror = self._mirror()
        self.poll(compare=True)

    def _mirror(self):
        return Mirror(
            self.scheduler, self.nova, self.nova, self.placement, lambda: Intervals(down_s=60.0)
        )

    def restart(self, position_and_count=(0, 1)):
        """A mirror that has read nothing; the nodes are in the host state."""
        self.mirror.stop()
        self.world.context.membership.position_and_count = position_and_count
        self.mirror = self._mirror()

    def poll(self, compare=False, after_s=0.0):
        self.world.now_s += after_s
        with self.mirror._polling:
            self.mirror._poll(compare=compare)

    def stop(self):
        self.mirror.stop()
        self.scheduler.loop.stop()

    def place(self, uuid, **words):
        return self.scheduler.place([request(instance_uuid=uuid, vcpus=1, **words)])[0][0].host

    def up(self):
        hosts = self.world.cluster.hosts
        return {
            node.host
            for node in self.world.cluster
            if hosts.seen_s[node.row] > self.world.now_s - 60
            and not hosts.disabled[node.row]
            and not hosts.forced_down[node.row]
        }

    def taking(self):
        """The names of the nodes that take servers."""
        hosts, up = self.world.cluster.hosts, self.up()
        nodes = [node for node in self.world.cluster if node.host in up]
        return {node.nodename for node in nodes if not hosts.disabled[node.row]}

    def used(self, host):
        node = self.world.cluster.find(host, host)
        return int(self.world.cluster.hosts.resources['VCPU'].used[node.row])

    def claims(self):
        return {(one.consumer_uuid, one.node_uuid): one.state for one in self.world.store.claims()}


@pytest.fixture
def make():
    made = []

    def start(*cells, rules=None):
        made.append(Cloud(*cells, rules=rules))
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.fixture
def cloud(make):
    return make()


def test_the_first_poll_reads_everything(make):
    cloud = make()
    cloud.nova.listed = [aggregate(1, ['host-0'], availability_zone='z')]
    cloud.poll(compare=True)
    assert {node.host for node in cloud.world.cluster} == cloud.up() == {'host-0', 'host-1'}
    assert [one.id for one in cloud.world.cluster.hosts.aggregates] == [1]
    assert {node.cell_uuid for node in cloud.world.cluster} == {CELL}


MANY_HOSTS = [f'host-{number}' for number in range(2, node_reader.FEW + 3)]
LAST = MANY_HOSTS[-1]


@pytest.fixture
def large(cloud):
    """Many more hosts, that are not read yet, with a server of A on the last one."""
    cloud.cell.add(*MANY_HOSTS)
    cloud.placement.add(*MANY_HOSTS)
    cloud.placement.allocate(A, LAST, VCPU=2)
    cloud.cell.there[LAST, LAST] = frozenset([A])
    cloud.placement.reads.clear()
    return cloud


def test_many_nodes_are_read_from_a_survey(large):
    large.poll(compare=True)
    assert large.up() == {'host-0', 'host-1', *MANY_HOSTS}
    assert large.placement.reads == []
    node = large.world.cluster.find(LAST, LAST)
    assert (large.used(LAST), node.instances) == (2, {A})
    large.poll(compare=True)
    assert large.placement.reads == []


def test_nodes_that_the_survey_does_not_have_are_read_in_full(large):
    large.placement.full.add(node_uuid(LAST))
    large.poll(compare=True)
    assert large.placement.reads == [node_uuid(LAST)]
    assert large.used(LAST) == 2


@pytest.mark.parametrize('schedulers', [1, 2])
@pytest.mark.parametrize(
    'servers, vcpus, is_read',
    [
        pytest.param([A], 1, False, id='Nova has the server of its claim'),
        pytest.param([A], 2, True, id='another size'),
        pytest.param([], 1, True, id='Nova has it elsewhere'),
    ],
)
def test_a_node_with_a_claim(large, servers, vcpus, is_read, schedulers):
    large.placement.allocate(A, LAST)
    large.poll(compare=True)
    assert large.place(A, force_hosts=[LAST]) == LAST
    (claim,) = large.world.store.claims()
    large.placement.allocate(A, LAST, **{**claim.resources, 'VCPU': vcpus})
    large.scheduler.call(large.scheduler.state_sync.allocated, [claim])
    large.cell.there[LAST, LAST] = frozenset(servers)
    large.world.now_s += 100.0
    large.cell.add(*MANY_HOSTS)
    large.world.context.membership.position_and_count = (0, schedulers)
    large.poll(compare=True)
    assert large.placement.reads == [node_uuid(LAST)] * is_read
    assert large.claims() == {(A, node_uuid(LAST)): CONFIRMED}
    assert large.used(LAST) == vcpus


def test_a_changed_aggregate_is_read_alone(cloud):
    cloud.nova.listed = [aggregate(1, ['host-0'], availability_zone='z')]
    cloud.poll()
    assert list(cloud.world.cluster.hosts.aggregates) == []
    cloud.mirror.aggregates_changed()
    with cloud.placement.failing(AssertionError('no comparison')):
        cloud.poll()
    assert [one.id for one in cloud.world.cluster.hosts.aggregates] == [1]


def test_only_what_was_written_is_read_again(cloud):
    cloud.cell.reads.clear()
    cloud.poll(after_s=10.0)
    assert cloud.cell.reads == []
    cloud.cell.add('host-1')
    cloud.poll()
    assert cloud.cell.reads == [node_uuid('host-1')]


def test_what_was_written_is_read_once_more_at_the_next_poll(cloud):
    """Nova deletes the allocation of a server after it has written the row of its node."""
    cloud.placement.allocate(A, 'host-1', VCPU=2)
    cloud.world.now_s += 1
    cloud.cell.add('host-1')
    cloud.poll()
    assert cloud.used('host-1') == 2
    cloud.placement.allocate(A, 'host-1')
    cloud.poll(after_s=2.0)
    assert cloud.used('host-1') == 0
    cloud.cell.reads.clear()
    cloud.poll(after_s=2.0)
    assert cloud.cell.reads == []


@pytest.mark.parametrize(
    'read',
    [
        pytest.param(lambda cloud: cloud.mirror.read_nodes([node_uuid('host-1')]), id='by itself'),
        pytest.param(lambda cloud: cloud.poll(), id='by a poll'),
        pytest.param(lambda cloud: (cloud.poll(), cloud.mirror.poll_now()), id='by two polls'),
    ],
)
def test_a_row_that_is_written_twice_in_one_second_is_read_again(cloud, read):
    """The times of rows have whole seconds."""
    cloud.world.now_s += 10.2
    second = float(int(cloud.world.now_s))
    cloud.cell.add('host-1', running_vms=1, updated_s=second)
    read(cloud)
    cloud.world.now_s += 0.3
    cloud.cell.add('host-1', running_vms=2, updated_s=second)
    cloud.poll(after_s=2.0)
    node = cloud.world.cluster.node(node_uuid('host-1'))
    assert node.report.running_vms == 2
    cloud.poll(after_s=2.0)
    cloud.cell.reads.clear()
    cloud.poll(compare=True, after_s=2.0)
    assert cloud.cell.reads == []


def test_a_row_of_the_future_is_not_read_at_each_poll(cloud):
    """The clock of its host is wrong."""
    cloud.cell.add('host-1', updated_s=cloud.world.now_s + 3600.0)
    cloud.poll()
    cloud.poll(after_s=2.0)
    cloud.cell.reads.clear()
    cloud.poll(after_s=2.0)
    assert cloud.cell.reads == []


def test_a_comparison_finds_what_placement_has_changed(cloud):
    cloud.placement.allocate(A, 'host-0', VCPU=3)
    cloud.poll()
    assert cloud.used('host-0') == 0
    cloud.poll(compare=True)
    assert cloud.used('host-0') == 3


def test_a_claim_follows_its_allocation(cloud):
    host = cloud.place(A)
    key = A, node_uuid(host)
    cloud.poll(compare=True)
    assert (cloud.claims(), cloud.used(host)) == ({key: PENDING}, 1)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    assert (cloud.claims(), cloud.used(host)) == ({key: CONFIRMED}, 1)
    cloud.placement.allocate(A, host)
    cloud.poll(compare=True, after_s=1.0)
    assert (cloud.claims(), cloud.used(host)) == ({}, 0)


def test_a_loss_that_no_generation_shows(cloud):
    """A live migration fails, and a later one moves the server, whose node is not written."""
    here, there = 'host-0', 'host-1'
    cloud.cell.serve(A, host=here, node=here, vm_state='active')
    cloud.cell.moves[B] = A
    cloud.placement.allocate(B, here, VCPU=1)
    for is_moved in (False, True):
        cloud.placement.allocate(A, there, VCPU=1)
        cloud.poll(compare=True, after_s=1.0)
        if is_moved:
            cloud.cell.serve(A, host=there, node=there, vm_state='active')
            cloud.poll(compare=True, after_s=1.0)
        before = cloud.used(here), cloud.used(there)
        cloud.placement.allocate(B if is_moved else A, here if is_moved else there)
        cloud.poll(compare=True, after_s=1.0)
        assert (before, cloud.used(here), cloud.used(there)) == ((1, 1), not is_moved, is_moved)
    cloud.placement.reads.clear()
    cloud.poll(compare=True, after_s=1.0)
    assert cloud.placement.reads == []  # nothing is unsettled


def test_the_servers_of_a_node_have_changed(cloud):
    """The allocation of one goes after the server, and nobody writes the row of the node."""
    for uuid in (A, B):
        cloud.cell.serve(uuid, host='host-0', node='host-0', vm_state='active')
        cloud.placement.allocate(uuid, 'host-0', VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    cloud.cell.serve(A, deleted=True, vm_state='deleted')
    for left in (2, 1):
        cloud.poll(compare=True, after_s=1.0)
        assert cloud.used('host-0') == left
        cloud.placement.allocate(A, 'host-0') if left == 2 else None


def test_the_allocation_of_a_migration_counts_for_its_server(cloud):
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    cloud.placement.allocate(A, host)
    cloud.placement.allocate(B, host, VCPU=1)
    cloud.cell.moves[B] = A
    cloud.poll(compare=True, after_s=1.0)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}
    assert cloud.used(host) == 1


@pytest.mark.parametrize(
    'now, used',
    [
        pytest.param({'A': 1}, 1, id='smaller'),
        pytest.param({'A': 3}, 3, id='larger'),
        pytest.param({'A': 3, 'M': 1}, 4, id='not confirmed yet'),
    ],
)
def test_a_claim_is_as_large_as_its_allocations(cloud, now, used):
    """A server that Nova resizes in place."""
    host = cloud.place(A)
    cloud.cell.moves[uuid_of('M')] = A
    cloud.placement.allocate(A, host, VCPU=2)
    cloud.poll(compare=True, after_s=1.0)
    for name, vcpus in now.items():
        cloud.placement.allocate(A if name == 'A' else uuid_of(name), host, VCPU=vcpus)
    cloud.poll(compare=True, after_s=1.0)
    (claim,) = cloud.world.store.claims()
    assert (claim.resources['VCPU'], cloud.used(host)) == (used, used)


def test_hardware_is_held_until_the_row_counts_it(make):
    """A host with two devices, of which a server gets one."""
    cloud = make(rules=rules([PciPassthroughFilter()]))
    uuid, device = node_uuid('host-0'), hw.wanted(requests=[hw.request(1)])

    def write(free):
        cloud.world.now_s += 1.0
        cloud.cell.add('host-0', pci_stats=pci.pools_to_json([hw.pool(free)] if free else []))

    def free():
        cloud.poll(compare=True, after_s=10.0)
        return cloud.world.cluster.node(uuid).machine.free_devices

    write(2)
    cloud.poll(after_s=10.0)
    assert cloud.place(A, pieces=device) == 'host-0'
    assert free() == 1
    cloud.placement.allocate(A, 'host-0', VCPU=1)
    assert free() == 1  # nova-compute has not begun
    cloud.cell.serve(A, host='host-0', node='host-0', task_state='scheduling')
    assert free() == 1
    write(1)
    assert free() == 0  # it has written the row, and not yet the device
    cloud.cell.devices[uuid].add(A)
    assert free() == 1
    cloud.cell.devices[uuid].clear()
    cloud.cell.serve(A, host='host-0', node='host-0', task_state='spawning')
    assert free() == 1


def test_what_the_store_has_refused_is_read_again(make):
    """Another scheduler has reported the node since its generation was read."""
    cloud = make()
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.poll(compare=True, after_s=10.0)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}
    cloud.placement.allocate(A, host)
    stored = cloud.world.store.read_nodes([node_uuid(host)]).nodes[0].report
    node = cloud.placement.node

    def slow(uuid):
        found = node(uuid)
        if uuid == node_uuid(host):
            order = ReportOrder(seen=cloud.world.cluster.node(uuid).generation)
            cloud.world.store.report([dataclasses.replace(stored, running_vms=7, order=order)])
        return found

    cloud.placement.node = slow
    cloud.poll(compare=True, after_s=10.0)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}
    cloud.placement.node = node
    cloud.world.state_sync.refresh()
    cloud.poll(after_s=2.0)
    assert cloud.claims() == {}


def test_what_was_read_before_a_claim_was_made_is_read_again(cloud):
    node, host = cloud.placement.node, 'host-0'

    def slow(uuid):
        found = node(uuid)
        cloud.world.now_s += 1.0
        if uuid == node_uuid(host) and not cloud.world.store.claims():
            cloud.place(A, force_hosts=[host])
            cloud.placement.allocate(A, host, VCPU=1)
            claims = cloud.world.store.claims()
            cloud.scheduler.call(cloud.scheduler.state_sync.allocated, claims)
        return found

    cloud.placement.allocate(B, host, VCPU=1)
    cloud.placement.node = slow
    reads = []
    for compare in (True, False, False):
        cloud.placement.reads.clear()
        cloud.poll(compare=compare, after_s=10.0)
        reads.append(len(cloud.placement.reads))
        assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}
    assert reads == [1, 1, 0]


def test_an_older_read_does_not_end_a_younger_claim(cloud):
    """The read began before the claim was confirmed."""
    host = cloud.place(A)
    cloud.world.store.confirm([A], [node_uuid(host)])
    cloud.world.now_s -= 5
    cloud.poll(compare=True)
    cloud.world.now_s += 5
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}


@each(
    'facts',
    [
        pytest.param({'disabled': True, 'seen_s': NOW}, id='disabled'),
        pytest.param({'forced_down': True, 'seen_s': NOW}, id='forced down'),
        pytest.param({'seen_s': NOW - 100}, id='silent'),
    ],
)
def test_a_service_that_is_not_up(cloud, facts):
    cloud.cell.silence('host-0', **facts)
    cloud.poll()
    assert cloud.up() == {'host-1'}
    cloud.cell.not_up.clear()
    cloud.poll()
    assert cloud.up() == {'host-0', 'host-1'}


def test_the_clock_of_a_cell_may_be_wrong(make):
    cloud = make(FakeCell(ahead_s=3600.0))
    assert cloud.up() == {'host-0', 'host-1'}
    cloud.cell.silence('host-0', seen_s=NOW + 3600.0 - 100.0)
    cloud.poll()
    hosts = cloud.world.cluster.hosts
    row = cloud.world.cluster.find('host-0', 'host-0').row
    assert hosts.seen_s[row] == NOW - 100.0


@pytest.mark.parametrize(
    'spoil, why',
    [
        pytest.param(
            lambda cloud: cloud.nova.unmapped.add('host-0'), 'discover_hosts', id='no mapping'
        ),
        pytest.param(
            lambda cloud: cloud.cell.add('host-0', has_service=False), 'service', id='no service'
        ),
        pytest.param(
            lambda cloud: cloud.placement.trees.pop(node_uuid('host-0')), 'provider', id='provider'
        ),
        pytest.param(
            lambda cloud: cloud.cell.add('host-0', free_disk_gb=None), 'free_disk_gb', id='no disk'
        ),
        pytest.param(lambda cloud: cloud.cell.add('host-0', stats='{'), 'stats', id='unreadable'),
    ],
)
def test_a_host_that_is_left_out(cloud, caplog, spoil, why):
    cloud.world.now_s += 1
    spoil(cloud)
    cloud.poll(compare=True)
    assert cloud.up() == {'host-1'}
    (line,) = [one for one in caplog.messages if 'gets no servers' in one]
    assert 'host-0' in line
    assert why in line
    cloud.nova.unmapped.clear()
    cloud.placement.add('host-0')
    cloud.cell.add('host-0')
    cloud.poll(compare=True)
    assert cloud.up() == {'host-0', 'host-1'}


def test_a_node_that_is_gone(cloud):
    cloud.place(A)
    del cloud.cell.rows[node_uuid('host-0')]
    cloud.poll(compare=True, after_s=1.0)
    assert {node.host for node in cloud.world.cluster} == {'host-1'}


def test_a_node_that_has_gone_while_nobody_read_its_cell(cloud):
    cloud.place(A, force_hosts=['host-0'])
    del cloud.cell.rows[node_uuid('host-0')]
    cloud.world.now_s += 1.0
    cloud.restart()
    cloud.poll(compare=True)
    assert {node.host for node in cloud.world.cluster} == cloud.up() == {'host-1'}
    assert cloud.claims() == {}


def test_a_host_that_is_mapped_to_another_cell_keeps_its_node(make, monkeypatch):
    other = FakeCell(OTHER)
    cloud = make(FakeCell(), other)
    monkeypatch.setattr(cloud.nova, 'host_mappings', lambda: dict.fromkeys(MAPPED, OTHER))
    for _ in range(2):
        cloud.cell.add('host-0')
        cloud.poll(compare=True, after_s=1.0)
        assert {node.host for node in cloud.world.cluster} == set(MAPPED)
        assert {node.cell_uuid for node in cloud.world.cluster} == {CELL}


def test_nodes_of_bare_metal_are_left_out_one_by_one(cloud):
    """One service has all of them."""
    cloud.cell.add('b0', 'b1', host='ironic')
    cloud.placement.add('b0', 'b1')
    cloud.poll(after_s=2.0)
    cloud.cell.add('new', host='ironic')  # it has no provider yet
    for _ in range(3):
        cloud.poll(after_s=2.0)
        assert {'b0', 'b1'} <= cloud.taking()
    assert 'new' not in cloud.taking()


def test_a_node_of_bare_metal_goes_to_another_service_that_is_up(cloud):
    """It is offered there alone, and the others where they are."""
    cloud.cell.add('b0', 'b1', host='ironic')
    cloud.cell.add('b2', host='other')
    cloud.placement.add('b0', 'b1', 'b2')
    cloud.poll(after_s=2.0)
    cloud.cell.add('b1', host='other')
    provider = cloud.placement.trees.pop(node_uuid('b1'))
    cloud.poll(after_s=2.0)
    assert cloud.taking() & {'b0', 'b1', 'b2'} == {'b0', 'b2'}
    cloud.placement.trees[node_uuid('b1')] = provider
    cloud.poll(after_s=2.0)
    assert cloud.taking() & {'b0', 'b1', 'b2'} == {'b0', 'b1', 'b2'}
    nodes = {node.nodename: node.host for node in cloud.world.cluster}
    assert (nodes['b0'], nodes['b1'], nodes['b2']) == ('ironic', 'other', 'other')


@pytest.mark.parametrize('first', [0, 1], ids=['the old cell is read first', 'the new one is'])
def test_a_node_that_goes_to_another_cell_keeps_its_claims(make, first):
    cells = [FakeCell(), FakeCell(OTHER)]
    cloud = make(cells[0], cells[1])
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    cells[1].rows[node_uuid(host)] = cells[0].rows.pop(node_uuid(host))
    views = cloud.mirror.views
    views[cells[1].uuid].again.add(node_uuid(host))
    order = [cells[first].uuid, cells[1 - first].uuid]
    cloud.mirror._views = {str(place): views[uuid] for place, uuid in enumerate(order)}
    cloud.mirror._compare_cloud = cloud.mirror._read_mappings
    cloud.poll(compare=True, after_s=1.0)
    cloud.poll(compare=True, after_s=1.0)
    assert cloud.world.cluster.node(node_uuid(host)).cell_uuid == OTHER
    kept = {(A, node_uuid(host)): CONFIRMED}
    assert cloud.claims() == (kept if first == 1 else {})
    assert cloud.used(host) == 1


@pytest.mark.parametrize('mapped', [CELL, OTHER])
def test_two_nodes_of_one_name_in_two_cells(make, monkeypatch, mapped):
    """The one in the cell of the host is the node; the other one is left over."""
    cells, twin = [FakeCell(), FakeCell(OTHER)], uuid_of('twin')
    cloud = make(*cells)
    tree = cloud.placement.trees[node_uuid('host-0')]
    cloud.placement.trees[twin] = NodeProviders(
        twin, {twin: tree.providers[tree.root_uuid]}, {twin: 1}
    )
    monkeypatch.setattr(cloud.nova, 'host_mappings', lambda: {'host-0': mapped, 'host-1': CELL})
    for _ in range(3):
        cloud.world.now_s += 1.0
        cells[0].add('host-0')
        cells[1].rows[twin] = dataclasses.replace(cells[0].rows[tree.root_uuid], uuid=twin)
        cloud.poll(compare=True)
        cell_of = {node.host: node.cell_uuid for node in cloud.world.cluster}
        assert cell_of == {'host-0': mapped, 'host-1': CELL}
    assert list(cloud.mirror.left_out) == ['host-0']


def test_a_host_that_was_left_out_and_is_gone(cloud):
    cloud.world.now_s += 1
    cloud.cell.add('host-0', free_disk_gb=None)
    cloud.poll()
    assert set(cloud.mirror.left_out) == {'host-0'}
    del cloud.cell.rows[node_uuid('host-0')]
    cloud.poll(compare=True)
    assert cloud.mirror.left_out == {}


def test_a_cell_that_is_away_does_not_hold_up_the_others(make, caplog):
    other = FakeCell(OTHER)
    other.add('host-2')
    cloud = make(FakeCell(), other)
    cloud.placement.add('host-2')
    cloud.poll(compare=True)
    assert cloud.up() == {'host-0', 'host-1', 'host-2'}
    cloud.cell.is_away = True
    for _ in range(3):
        cloud.poll(after_s=21.0)
    assert cloud.up() == {'host-2'}
    assert len([one for one in caplog.messages if f'Cell {CELL} cannot be read' in one]) == 1
    cloud.cell.is_away = False
    cloud.poll()
    assert cloud.up() == {'host-0', 'host-1', 'host-2'}


def test_placement_that_is_away_leaves_hosts_as_they_are(cloud):
    cloud.placement.allocate(A, 'host-0', VCPU=2)
    with cloud.placement.failing(errors.PlacementUnavailable('timeout')):
        cloud.poll(compare=True)
        assert (cloud.up(), cloud.used('host-0')) == ({'host-0', 'host-1'}, 0)
    cloud.poll(compare=cloud.mirror._must_compare)
    assert cloud.used('host-0') == 2


def test_a_service_that_changes_while_nodes_are_read(cloud, monkeypatch):
    read = cloud.placement.node

    def node(uuid):
        cloud.cell.silence('host-0', disabled=True)
        return read(uuid)

    monkeypatch.setattr(cloud.placement, 'node', node)
    cloud.world.now_s += 1
    cloud.cell.add('host-1')  # its row changes
    cloud.poll()
    assert cloud.up() == {'host-1'}


def test_a_node_that_placement_cannot_tell_does_not_hold_up_the_others(cloud, caplog):
    for host in ('host-0', 'host-1'):
        cloud.placement.allocate(A, host, VCPU=2)
    cloud.placement.broken = {node_uuid('host-0')}
    cloud.world.now_s += 1
    cloud.cell.add('host-0', 'host-1')  # their rows change
    for _ in range(2):
        cloud.poll(after_s=10.0)
        assert (cloud.used('host-0'), cloud.used('host-1')) == (0, 2)
    assert len([one for one in caplog.messages if 'status 500' in one]) == 1
    cloud.placement.broken = set()
    cloud.poll()
    assert cloud.used('host-0') == 2


def test_the_thread_waits_before_it_compares_again(make, monkeypatch):
    """Unless it is asked to."""
    cloud, compared = make(), threading.Event()
    asked = Intervals(poll_s=0.01, compare_s=1000.0, down_s=60.0)
    cloud.mirror._intervals, cloud.mirror._then = lambda: asked, lambda one: one and compared.set()
    with cloud.placement.failing(errors.PlacementUnavailable('timeout')):
        cloud.mirror.start()
        assert not compared.wait(0.3)
        cloud.mirror.compare_soon()
        assert compared.wait(60)
        compared.clear()
        assert not compared.wait(0.3)
        monkeypatch.setattr(mirror, 'AGAIN_S', 0.0)
        assert compared.wait(60)


def test_a_disabled_cell_gets_no_servers(make):
    other = FakeCell(OTHER)
    other.add('host-2')
    cloud = make(FakeCell(), other)
    cloud.placement.add('host-2')
    cloud.poll(compare=True)
    cloud.nova.cells.remove(other)
    cloud.poll(compare=True)
    assert cloud.up() == {'host-0', 'host-1'}
    cloud.nova.cells.append(other)
    cloud.poll(compare=True)
    assert cloud.up() == {'host-0', 'host-1', 'host-2'}


def test_schedulers_share_the_cells(make):
    """Each reads the services of all cells, and the nodes of its share."""
    other = FakeCell(OTHER)
    other.add('host-2')
    cloud = make(FakeCell(), other)
    cloud.placement.add('host-2')
    cloud.poll(compare=True)
    reads = []
    for position in (0, 1):
        cloud.world.now_s += 1
        cloud.world.context.membership.position_and_count = (position, 2)
        for cell in cloud.nova.cells:
            cell.reads.clear()
        cloud.cell.add('host-0')
        other.add('host-2')
        cloud.poll()
        reads.append({*cloud.cell.reads, *other.reads})
    assert [len(some) for some in reads] == [1, 1]
    assert set().union(*reads) == {node_uuid('host-0'), node_uuid('host-2')}
    assert cloud.up() == {'host-0', 'host-1', 'host-2'}


@pytest.mark.parametrize('tell', ['host_changed', 'host_told'])
def test_a_host_that_a_message_names_is_read(cloud, tell):
    cloud.placement.allocate(A, 'host-1', VCPU=2)
    for host in ('host-1', 'unknown'):
        getattr(cloud.mirror, tell)(host)
    cloud.poll()
    assert cloud.used('host-1') == 2


def test_nodes_of_a_refused_claim_are_read_at_once(cloud):
    cloud.placement.allocate(A, 'host-1', VCPU=2)
    cloud.mirror.read_nodes([node_uuid('host-1')])
    assert cloud.used('host-1') == 2


def test_a_node_of_a_refused_claim_is_gone(cloud):
    del cloud.cell.rows[node_uuid('host-1')]
    cloud.mirror.read_nodes([node_uuid('host-1')])
    assert {node.host for node in cloud.world.cluster} == {'host-0'}


class TestAnotherReader:
    """Another scheduler reads the cell; this one knows its nodes from the claim store."""

    @pytest.fixture
    def cloud(self, make):
        cloud = make()
        cloud.restart(position_and_count=(1, 2))
        cloud.poll(compare=True, after_s=1.0)
        cloud.cell.reads.clear()
        return cloud

    def test_what_was_just_written_is_read_before_a_refusal(self, cloud):
        """The other scheduler reads it at its next poll."""
        cloud.world.now_s += 60.0
        cloud.cell.add('host-0')
        cloud.poll(after_s=60.0)  # the other one has read it
        cloud.cell.add('host-1')
        cloud.placement.allocate(A, 'host-1', VCPU=2)
        cloud.poll(after_s=1.0)
        assert cloud.cell.reads == []
        assert cloud.mirror.poll_now()
        assert (cloud.cell.reads, cloud.used('host-1')) == ([node_uuid('host-1')], 2)
        cloud.cell.reads.clear()
        cloud.world.now_s += 2.0
        cloud.mirror.poll_now()  # once more: Nova may have deleted an allocation since
        assert cloud.cell.reads == [node_uuid('host-1')]
        cloud.mirror.poll_now()
        assert cloud.cell.reads == [node_uuid('host-1')]

    def test_suspects_are_read_before_a_refusal(self, cloud):
        cloud.placement.allocate(A, 'host-1', VCPU=2)
        cloud.mirror.poll_now({node_uuid('host-1'), uuid_of('unknown')})
        assert (cloud.cell.reads, cloud.used('host-1')) == ([node_uuid('host-1')], 2)
        cloud.mirror.poll_now()
        assert cloud.cell.reads == [node_uuid('host-1')]

    def test_what_was_written_before_the_cell_is_taken_over(self, cloud):
        cloud.world.now_s += 60.0
        cloud.cell.add('host-1', running_vms=3)
        cloud.poll(after_s=60.0)
        cloud.world.context.membership.position_and_count = (0, 1)
        cloud.poll(after_s=2.0)
        assert cloud.world.cluster.node(node_uuid('host-1')).report.running_vms == 3

    def test_the_host_of_a_node(self, cloud):
        assert cloud.mirror.host_of(node_uuid('host-1')) == 'host-1'
        assert cloud.mirror.host_of(uuid_of('unknown')) is None

    def test_nodes_of_a_refused_claim_are_read_at_once(self, cloud):
        cloud.placement.allocate(A, 'host-1', VCPU=2)
        cloud.mirror.read_nodes([node_uuid('host-1'), uuid_of('unknown')])
        assert cloud.used('host-1') == 2
        assert cloud.cell.reads == [node_uuid('host-1')]

    def test_a_node_of_a_refused_claim_is_gone(self, cloud):
        del cloud.cell.rows[node_uuid('host-1')]
        cloud.mirror.read_nodes([node_uuid('host-1')])
        assert {node.host for node in cloud.world.cluster} == {'host-0'}

    def test_a_host_whose_move_has_ended(self, cloud):
        cloud.placement.allocate(A, 'host-1', VCPU=2)
        cloud.mirror.host_changed('host-1')
        cloud.poll()
        assert cloud.used('host-1') == 2

    def test_a_host_that_a_cast_names_is_read_by_the_other_one(self, cloud):
        cloud.mirror.read_nodes([node_uuid('host-1')])  # so that it has a stamp
        cloud.cell.reads.clear()
        cloud.mirror.host_told('host-1')
        cloud.poll()
        assert cloud.cell.reads == []

    def test_a_host_that_was_mapped_since_the_last_comparison(self, cloud, caplog):
        cloud.mirror.nodes.mappings = {}
        cloud.mirror.read_nodes([node_uuid('host-1')])
        assert cloud.mirror.left_out == {}
        assert 'gets no servers' not in caplog.text

    def test_a_host_without_a_provider_is_left_out_until_it_has_one(self, cloud):
        provider = cloud.placement.trees.pop(node_uuid('host-1'))
        cloud.mirror.read_nodes([node_uuid('host-1')])
        cloud.poll()
        assert cloud.up() == {'host-0'}
        cloud.placement.trees[node_uuid('host-1')] = provider
        cloud.poll()
        assert cloud.up() == {'host-0', 'host-1'}

    def test_a_host_that_was_left_out_before_the_other_one_read_the_cell(self, make):
        cloud = make()
        cloud.nova.unmapped.add('host-2')
        cloud.cell.add('host-2')
        cloud.placement.add('host-2')
        cloud.poll(compare=True)
        assert set(cloud.mirror.left_out) == {'host-2'}
        cloud.world.context.membership.position_and_count = (1, 2)
        cloud.poll()
        assert cloud.mirror.left_out == {}


def test_a_poll_before_a_refusal(cloud):
    cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
    assert cloud.mirror.poll_now()
    assert cloud.up() == {'host-1'}


def test_suspects_of_a_refusal(cloud):
    cloud.placement.allocate(A, 'host-1', VCPU=2)
    cloud.mirror.poll_now([node_uuid('host-1')])
    assert cloud.used('host-1') == 2


def test_suspects_of_refusals_at_the_same_time_are_read_by_one_poll(cloud):
    for host in MAPPED:
        cloud.placement.allocate(A, host, VCPU=2)
    with cloud.mirror._refusing:
        callers = [
            threading.Thread(target=cloud.mirror.poll_now, args=([node_uuid(host)],))
            for host in MAPPED
        ]
        for one in callers:
            one.start()
        time.sleep(0.2)
    for one in callers:
        one.join()
    assert [cloud.used(host) for host in MAPPED] == [2, 2]


def test_a_refusal_does_not_wait_long_for_another_poll(cloud, monkeypatch):
    monkeypatch.setattr(mirror, 'WAIT_S', 0.01)
    with cloud.mirror._refusing:
        assert not cloud.mirror.poll_now()


def test_refusals_at_the_same_time_share_a_poll(cloud):
    polls = []
    for cell in cloud.nova.cells:
        cell.poll = lambda *args, poll=cell.poll: polls.append(args) or poll(*args)
    with cloud.mirror._refusing:
        callers = [threading.Thread(target=cloud.mirror.poll_now) for _ in range(5)]
        for one in callers:
            one.start()
        time.sleep(0.2)
    for one in callers:
        one.join()
    assert len(polls) == 1


def test_a_refusal_waits_for_no_comparison(cloud, monkeypatch):
    """Neither for its lock, nor for its reads of other nodes."""
    goes_on, reads = threading.Event(), threading.Event()
    read = cloud.placement.node

    def node(uuid):
        if uuid == node_uuid('host-0'):
            reads.set()
            assert goes_on.wait(60)
        return read(uuid)

    monkeypatch.setattr(cloud.placement, 'node', node)
    for host in MAPPED:
        cloud.placement.allocate(A, host, VCPU=2)
    comparison = threading.Thread(target=cloud.poll, args=(True,))
    comparison.start()
    assert reads.wait(60)
    cloud.placement.allocate(B, 'host-1', VCPU=3)
    cloud.mirror.read_nodes([node_uuid('host-1')])
    assert cloud.used('host-1') == 5
    assert cloud.mirror.poll_now()
    goes_on.set()
    comparison.join()  # it has read host-1 before, and reports it after
    assert (cloud.used('host-0'), cloud.used('host-1')) == (2, 5)


@pytest.mark.parametrize(
    'server, waits',
    [
        pytest.param(None, False, id='no server'),
        pytest.param({'task_state': 'resize_prep'}, True, id='it moves'),
        pytest.param({'task_state': None, 'vm_state': 'error'}, False, id='it failed'),
        pytest.param({'task_state': 'resize_prep', 'deleted': True}, False, id='it is deleted'),
    ],
)
def test_whether_nova_waits_for_a_host(cloud, server, waits):
    if server is not None:
        cloud.cell.serve(A, **server)
    assert cloud.mirror.waits_for_host([A]) is waits
    cloud.nova.build_requests.add(A)
    assert cloud.mirror.waits_for_host([B, A])


def test_a_cell_that_is_away_does_not_hide_that_nova_waits_for_a_host(make):
    other = FakeCell(OTHER)
    cloud = make(FakeCell(), other)
    cloud.cell.is_away = True
    with pytest.raises(errors.StoreUnavailable):
        cloud.mirror.waits_for_host([A])
    other.serve(A, task_state='scheduling')
    assert cloud.mirror.waits_for_host([A])
    assert cloud.mirror.waits_for_host([B, A])


def test_a_trait_that_disables_is_read_until_it_is_gone(cloud):
    """Nova removes it a moment after the service is enabled."""
    cloud.placement.add('host-0', traits=['COMPUTE_STATUS_DISABLED'])
    cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
    cloud.poll(compare=True)
    cloud.cell.not_up.clear()
    cloud.poll()
    assert cloud.up() == {'host-1'}
    cloud.placement.add('host-0')
    cloud.poll()
    assert cloud.up() == {'host-0', 'host-1'}


class TestNotUp:
    """The services of chosen hosts and alternates are read once more before they are claimed."""

    def test_a_host_that_was_disabled_since_the_last_poll(self, cloud):
        uuids = [node_uuid('host-0'), node_uuid('host-1'), uuid_of('unknown')]
        assert cloud.mirror.not_up(uuids) == []
        cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
        assert cloud.mirror.not_up(uuids) == [node_uuid('host-0')]
        assert cloud.up() == {'host-1'}
        cloud.cell.not_up.clear()
        cloud.poll()
        assert cloud.up() == {'host-0', 'host-1'}

    def test_the_next_decision_knows_all_hosts_that_are_not_up(self, cloud):
        cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
        cloud.cell.silence('host-1', forced_down=True, seen_s=NOW)
        assert cloud.mirror.not_up([node_uuid('host-0')]) == [node_uuid('host-0')]
        assert cloud.up() == set()

    @pytest.mark.parametrize(
        'change',
        [
            pytest.param(lambda cell, uuid: cell.rows.pop(uuid), id='gone'),
            pytest.param(
                lambda cell, uuid: cell.add('host-0', has_service=False), id='without a service'
            ),
            pytest.param(
                lambda cell, uuid: cell.add('host-0', host='host-1'), id='on another host'
            ),
        ],
    )
    def test_a_node_that_its_host_has_no_more(self, cloud, change):
        """No write tells of a row that was deleted, and its provider may stay."""
        uuid = node_uuid('host-0')
        change(cloud.cell, uuid)
        assert cloud.mirror.not_up([uuid, node_uuid('host-1')]) == [uuid]
        assert 'host-0' not in cloud.up()

    def test_a_cell_that_is_away_counts_as_up(self, cloud):
        cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
        cloud.cell.is_away = True
        assert cloud.mirror.not_up([node_uuid('host-0')]) == []

    def test_a_cell_that_was_away_is_asked_again_when_it_has_answered_a_poll(self, cloud):
        cloud.cell.is_away = True
        cloud.mirror.not_up([node_uuid('host-0')])
        cloud.cell.is_away = False
        cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
        assert cloud.mirror.not_up([node_uuid('host-0')]) == []
        cloud.cell.not_up.clear()
        cloud.poll()
        cloud.cell.silence('host-0', disabled=True, seen_s=NOW)
        assert cloud.mirror.not_up([node_uuid('host-0')]) == [node_uuid('host-0')]

    def test_few_checks_wait_for_a_cell_that_hangs(self, make, monkeypatch):
        monkeypatch.setattr(mirror, 'TURN_S', 0.01)
        other, asked, goes_on = FakeCell(OTHER), [], threading.Event()
        other.add('host-2')
        cloud = make(FakeCell(), other)
        cloud.placement.add('host-2')
        cloud.poll(compare=True)

        def hang(*args):
            asked.append(args)
            assert goes_on.wait(60)
            raise errors.StoreUnavailable('no answer')

        monkeypatch.setattr(cloud.cell, 'services_not_up', hang)
        waiting = [
            threading.Thread(target=cloud.mirror.not_up, args=([node_uuid('host-0')],))
            for _ in range(4)
        ]
        for one in waiting:
            one.start()
        eventually(lambda: len(asked) == 4)
        for _ in range(2):
            assert cloud.mirror.not_up([node_uuid('host-0')]) == []
        other.silence('host-2', disabled=True, seen_s=NOW)
        down = cloud.mirror.not_up([node_uuid('host-0'), node_uuid('host-2')])
        assert down == [node_uuid('host-2')]
        assert len(asked) == 4
        goes_on.set()
        for one in waiting:
            one.join()


@pytest.mark.parametrize(
    'state, is_placed',
    [
        pytest.param({}, True, id='at rest'),
        pytest.param({'task_state': 'rebuilding'}, False, id='on its way'),
        pytest.param({'vm_state': 'resized'}, False, id='it may go back'),
        pytest.param({'vm_state': 'error'}, False, id='failed'),
    ],
)
def test_a_member_that_has_left_a_host_for_good(make, state, is_placed):
    """It was evacuated, and its host stays down, and keeps the allocation."""
    cloud = make(rules=rules([ServerGroupAffinityFilter()]))
    near = {'policy': 'affinity', 'members': [A, B], 'uuid': uuid_of('group'), 'hosts': []}
    source = cloud.place(A, group=near)
    (there,) = {*MAPPED} - {source}
    for host in (source, there):
        cloud.placement.allocate(A, host, VCPU=1)
        cloud.poll(compare=True, after_s=10.0)
        if host == source:
            assert cloud.place(A, group=near, ignore_hosts=[source]) == there
    cloud.cell.serve(A, **{'host': there, 'node': there, 'vm_state': 'active', **state})
    cloud.poll(compare=True, after_s=10.0)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED for host in MAPPED}
    if is_placed:
        assert cloud.place(B, group=near) == there
    else:
        with pytest.raises(errors.NoValidHost, match='on its way from one host to another'):
            cloud.place(B, group=near)


# What a shadow asks.


def test_the_host_of_a_node(cloud):
    cloud.cell.add('host-2')  # it has no provider
    cloud.poll(compare=True)
    found = [cloud.mirror.host_of(node_uuid(f'host-{number}')) for number in (0, 2, 9)]
    assert found == ['host-0', 'host-2', None]


def test_why_hosts_are_left_out(cloud):
    assert cloud.mirror.left_out == {}
    cloud.nova.unmapped.add('host-1')
    cloud.nova.left_out[OTHER] = 'it is disabled'
    cloud.poll(compare=True)
    assert set(cloud.mirror.left_out) == {'host-1', f'cell {OTHER}'}


def test_what_cannot_be_read(cloud):
    assert cloud.mirror.unreadable == {}
    cloud.cell.is_away = True
    cloud.poll()
    assert list(cloud.mirror.unreadable) == [f'Cell {CELL}']
    assert 'connection refused' in cloud.mirror.unreadable[f'Cell {CELL}']
    cloud.cell.is_away = False
    cloud.poll()
    assert cloud.mirror.unreadable == {}


class Steps:
    """Two steps, the first of which raises ``problem`` if there is one."""

    def __init__(self):
        self.problem = None
        self.seen = []
        self.run = MirrorHooks({'Writing': self.write, 'Ending': self.end}).run

    def write(self, has_compared):
        if self.problem is not None:
            raise self.problem
        self.seen.append(('write', has_compared))

    def end(self, has_compared):
        self.seen.append(('end', has_compared))


@pytest.fixture
def steps(caplog):
    caplog.set_level('INFO')
    return Steps()


def test_each_step_is_run_in_order(steps, caplog):
    steps.run(True)
    steps.run(False)
    assert steps.seen == [('write', True), ('end', True), ('write', False), ('end', False)]
    assert caplog.messages == []


def test_a_step_that_fails_is_logged_once_and_the_next_is_run(steps, caplog):
    steps.problem = errors.StoreUnavailable('connection refused')
    steps.run(True)
    steps.run(False)
    assert steps.seen == [('end', True), ('end', False)]
    steps.problem = None
    steps.run(False)
    failed, succeeds = caplog.messages
    assert failed.startswith(
        'Writing has failed: The database does not answer: connection refused'
    )
    assert succeeds == 'Writing succeeds again'


def test_an_unexpected_error_does_not_stop_the_next_step(steps, caplog):
    steps.problem = ZeroDivisionError('by zero')
    steps.run(True)
    assert steps.seen == [('end', True)]
    (record,) = caplog.records
    assert record.exc_info[0] is ZeroDivisionError
    assert record.getMessage() == 'Writing has failed with an unexpected error; it is tried again'

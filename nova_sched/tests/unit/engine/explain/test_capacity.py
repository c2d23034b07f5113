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
"""Tests of counting capacity: compared with placing one by one until no host takes any more."""

import itertools
import random

import pytest

from nova_sched import errors
from nova_sched.engine.explain import capacity
from nova_sched.filters.core import CoreFilter
from nova_sched.filters.disk import DiskFilter
from nova_sched.filters.io_ops import IoOpsFilter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.filters.ram import RamFilter
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.tests.builders import aggregate, report, request, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each, table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.world import Opened, World, picture, rules
from nova_sched.tests.unit.filters.test_child_providers import GPU, devices, gpu
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

LIMITS = {'filter_scheduler.max_instances_per_host': 5, 'filter_scheduler.max_io_ops_per_host': 3}


def world(filters, *reports, aggregates=()):
    """A world in which claims of any store are won."""
    made = World(MemoryClaimStore(), rules(filters))
    made.report(*reports)
    made.call(made.state_sync.set_aggregates, list(aggregates))
    return made


def counted(made, asked):
    """The answer; and that the question left no trace."""
    before = picture(made.cluster)
    room = made.call(made.scheduler.questions.room, asked)
    # No time goes by, whatever else the machine does: what is cut short is tested below.
    while not capacity.try_some(room, made.cluster, clock=lambda: 0.0):
        assert picture(made.cluster) == before
    assert picture(made.cluster) == before
    return capacity.summed(room)


def placed(made, most=1000, **words):
    """How many are placed one after the other until one is refused."""
    members = []
    for number in range(most):
        uuid = uuid_of(f'guest {number}')
        if 'group' in words:
            members.append(uuid)
            words['group'] = {**words['group'], 'members': list(members)}
        try:
            made.place(request(instance_uuid=uuid, **words))
        except errors.NoValidHost:
            return number
    raise AssertionError('no end')


def some_reports(seed):
    """Hosts of all sizes, partly used."""
    chance = random.Random(seed)
    return [
        report(
            f'host-{row}',
            vcpus=chance.choice([0, 2, 8]),
            vcpus_used=chance.choice([0, 1, 3]),
            vcpus_ratio=chance.choice([1.0, 1.5, 4.0]),
            memory_mb=chance.choice([512, 4096]),
            memory_mb_reserved=chance.choice([0, 512]),
            disk_gb=chance.choice([10, 100]),
            num_instances=chance.choice([0, 2, 5]),
            io_workload=chance.choice([0, 1]),
        )
        for row in range(8)
    ]


CELLS = cell(0, [], range(4)), cell(1, [], range(4, 7))
POOLS = [pool(2, 0), pool(1, 1)]


@each('seed', range(5))
@table(
    'filters, words',
    {
        'capacity alone': ([], {'vcpus': 1, 'memory_mb': 300}),
        'filters of it': ([RamFilter(), CoreFilter(), DiskFilter()], {'root_gb': 7}),
        'instances of a host': ([NumInstancesFilter()], {}),
        'builds on a host': ([IoOpsFilter()], {}),
        'a group that keeps apart': (
            [ServerGroupAntiAffinityFilter()],
            {'group': {'policy': 'anti-affinity', 'rules': {'max_server_per_host': 2}}},
        ),
    },
)
def test_as_many_as_could_be_placed(filters, words, seed):
    made = world(filters, *some_reports(seed))
    with settings(LIMITS):
        found = counted(made, request(**words))
        assert found['total'] == placed(made, **words)
    assert not found['at_least']


@table(
    'filters, pieces',
    {
        'NUMA cells': ([NUMATopologyFilter()], wanted(dedicated(2))),
        'devices': ([PciPassthroughFilter()], wanted(requests=[device(1)])),
        'both': (
            [PciPassthroughFilter(), NUMATopologyFilter()],
            wanted(dedicated(1), requests=[device(1, policy='required')]),
        ),
        'judged pieces only': (
            [PciPassthroughFilter()],
            wanted(dedicated(1), requests=[device(1)]),
        ),
        'pieces that nobody judges': ([], wanted(dedicated(9))),
    },
)
def test_piece_by_piece(filters, pieces):
    facts = told(machine(*CELLS, pools=POOLS))
    hosts = [report(f'host-{row}', vcpus=7 - row, **facts) for row in range(3)]
    made = world(filters, *hosts)
    found = counted(made, request(pieces=pieces, vcpus=2, resources={'VCPU': 1}))
    assert found['total'] == placed(made, pieces=pieces, vcpus=2, resources={'VCPU': 1})
    assert not found['at_least']


@table(
    'extra_specs',
    {
        'a part of a device': {f'resources1:{GPU}': '400'},
        'of two devices': {
            f'resources1:{GPU}': '400',
            f'resources2:{GPU}': '300',
            'group_policy': 'isolate',
        },
        'in no group': {f'resources:{GPU}': '500'},
        'of the host itself': {'resources1:VCPU': '2'},
    },
)
def test_devices_below_hosts(extra_specs):
    below = [[gpu(), gpu(300), gpu()], [gpu()], []]
    hosts = [
        report(f'host-{row}', vcpus=9, providers=devices(f'host-{row}', *found) if found else None)
        for row, found in enumerate(below)
    ]
    made = world([], *hosts)
    found = counted(made, request(extra_specs=extra_specs))
    assert found['total'] == placed(made, extra_specs=extra_specs)
    assert found['total'] > 0


@each('ratio', [1.0, 4.0])
def test_shared_cpus_in_place_of_dedicated_ones(ratio):
    words = {'vcpus': 3, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}
    made = world([], report('host-0', vcpus=8, vcpus_ratio=ratio), report('host-1', vcpus=4))
    assert counted(made, request(**words))['total'] == placed(made, **words)


def test_hosts_that_are_alike_are_tried_once():
    facts = told(machine(*CELLS))
    hosts = [report(f'host-{row}', vcpus=7 - row // 4, **facts) for row in range(8)]
    made = world([NUMATopologyFilter()], *hosts)
    room = made.call(made.scheduler.questions.room, request(pieces=wanted(dedicated(2))))
    assert sorted(room.kinds.tolist()) == [0] * 4 + [1] * 4


def test_a_group_that_stays_together_counts_on_one_host():
    group = {'policy': 'affinity'}
    hosts = [report('host-0', vcpus=3), report('host-1', vcpus=5), report('host-2', vcpus=4)]
    zones = [aggregate(1, ['host-0', 'host-2'], availability_zone='west')]
    made = world([ServerGroupAffinityFilter()], *hosts, aggregates=zones)
    found = counted(made, request(group=group))
    assert (found['total'], found['zones']) == (5, {'nova': 5, 'west': 4})
    somewhere = counted(made, request(group={**group, 'hosts': ['host-0', 'host-2']}))
    assert somewhere['total'] == 7


def test_by_zone_and_aggregate():
    hosts = [report(f'host-{row}', vcpus=row) for row in range(5)]
    groups = [
        aggregate(1, ['host-1', 'host-2'], availability_zone='west'),
        aggregate(2, ['host-2', 'host-3'], ssd='true'),
        aggregate(3, ['host-0']),
    ]
    assert counted(world([], *hosts, aggregates=groups), request()) == {
        'total': 10,
        'at_least': False,
        'hosts': 4,
        'zones': {'nova': 7, 'west': 3},
        'aggregates': [
            {'id': 1, 'name': 'aggregate 1', 'total': 3},
            {'id': 2, 'name': 'aggregate 2', 'total': 5},
        ],
    }


@table(
    'hosts, words',
    {
        'no hosts': (0, {}),
        'nobody takes one': (3, {'vcpus': 99}),
    },
)
def test_none(hosts, words):
    made = world([], *(report(f'host-{row}') for row in range(hosts)))
    assert counted(made, request(**words)) == {
        'total': 0,
        'at_least': False,
        'hosts': 0,
        'zones': {},
        'aggregates': [],
    }


def test_a_request_for_nothing_has_no_end():
    found = counted(world([], report()), request(vcpus=0, memory_mb=0))
    assert (found['total'], found['at_least']) == (capacity.MAX_COUNTED, True)


def test_rules_that_open_each_host_are_asked_once_only():
    opened = Opened('host-0')
    made = world([opened], report('host-0', vcpus=4), report('host-1'))
    assert counted(made, request())['total'] == 4
    assert opened.seen == ['host-0', 'host-1']


def three():
    """A world of three hosts that differ in their CPUs."""
    hosts = [report(f'host-{row}', vcpus=7 - row, **told(machine(*CELLS))) for row in range(3)]
    return world([NUMATopologyFilter()], *hosts)


def test_tries_do_not_depend_on_time(monkeypatch):
    """A process that stops between any two tries gives the same answer."""
    asked = request(pieces=wanted(dedicated(2)), vcpus=2)
    at_once = counted(three(), asked)
    monkeypatch.setattr(capacity, 'SLICE_S', -1.0)
    assert counted(three(), asked) == at_once
    assert (at_once['total'], at_once['at_least']) == (8, False)


def test_without_further_tries_one_counts_on_each(monkeypatch):
    monkeypatch.setattr(capacity, 'SLICE_S', -1.0)
    made = three()
    room = made.call(made.scheduler.questions.room, request(pieces=wanted(dedicated(2))))
    room.tries_left = 2
    found = [made.call(made.scheduler.questions.try_some, room) for _ in range(2)]
    assert found == [False, True]
    first, *others = sorted(room.counts.tolist(), reverse=True)
    assert first > 1
    assert others == [1, 1]
    assert capacity.summed(room)['at_least']


def test_a_long_search_counts_as_many_tries():
    made = three()
    room = made.call(made.scheduler.questions.room, request(pieces=wanted(dedicated(2))))
    room.tries_left, seconds = 50, itertools.count(0, 0.01)
    while not capacity.try_some(room, made.cluster, lambda: next(seconds)):
        pass
    assert room.tried < 3
    assert capacity.summed(room)['at_least']


@pytest.mark.parametrize('limit', [{'MAX_TRIES_ON_HOST': 3}, {'HOST_S': 2.5}])
def test_a_host_that_takes_long(limit, monkeypatch):
    """Its tries cannot pause: they have a limit."""
    for name, value in limit.items():
        monkeypatch.setattr(capacity, name, value)
    made = world([NUMATopologyFilter()], report(vcpus=7, **told(machine(*CELLS))))
    room = made.call(made.scheduler.questions.room, request(pieces=wanted(dedicated(1))))
    seconds = itertools.count()
    clock = (lambda: next(seconds)) if 'HOST_S' in limit else (lambda: 0.0)
    while not capacity.try_some(room, made.cluster, clock):
        pass
    found = capacity.summed(room)
    assert 1 < found['total'] < 7
    assert found['at_least']


def test_a_host_that_left_meanwhile_keeps_its_figures():
    made = world([NUMATopologyFilter()], report(vcpus=7, **told(machine(*CELLS))))
    room = made.call(made.scheduler.questions.room, request(pieces=wanted(dedicated(2))))
    made.call(made.state_sync.remove_node, 'host-0', 'host-0')
    assert made.call(made.scheduler.questions.try_some, room)
    assert capacity.summed(room)['total'] == 7

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
"""Cells of guests and hosts, guests that are placed, and their JSON text."""

import json
import types

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import Overdrawn, numa
from nova_sched.objects import object_io
from nova_sched.tests import reference
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    mixed,
    shared,
    threaded,
)


def test_a_recorded_request():
    asked = numa.GuestTopology.of(reference.scenario('numa-2cells-hugepages-pinned').numa_topology)
    pages = {'pagesize_kb': 1048576, 'cpu_policy': 'dedicated', 'thread_policy': 'require'}
    none, first, second = frozenset(), frozenset([0, 1]), frozenset([2, 3])
    assert asked == numa.GuestTopology(
        (
            numa.GuestCell(0, none, first, 4096, **pages),
            numa.GuestCell(1, none, second, 4096, **pages),
        )
    )


@table(
    'topology',
    {
        'unset fields': objects.InstanceNUMATopology(
            cells=[objects.InstanceNUMACell(id=0, cpuset={0}, pcpuset=set(), memory=1)]
        ),
        'missing fields': types.SimpleNamespace(
            cells=[types.SimpleNamespace(id=0, cpuset=[0], memory=1)]
        ),
    },
)
def test_what_is_not_told(topology):
    assert numa.GuestTopology.of(topology) == guest(shared(1, memory_mb=1))


@each('of', [numa.GuestTopology.of, numa.Fitted.of])
def test_a_cell_without_memory_is_refused(of):
    cells = [objects.InstanceNUMACell(id=3, cpuset={0}, pcpuset=set())]
    with pytest.raises(errors.InvalidRequest, match='cell 3 has no memory'):
        of(objects.InstanceNUMATopology(cells=cells))


def test_cells_of_different_policies_are_refused():
    cells = [
        objects.InstanceNUMACell(memory=1, cpu_policy=policy) for policy in (None, 'dedicated')
    ]
    with pytest.raises(errors.InvalidRequest, match='different CPU policies'):
        numa.GuestTopology.of(objects.InstanceNUMATopology(cells=cells))


def test_no_policy_is_shared():
    cells = [objects.InstanceNUMACell(memory=1, cpu_policy=policy) for policy in (None, 'shared')]
    assert numa.GuestTopology.of(objects.InstanceNUMATopology(cells=cells)).cpu_policy == 'shared'


@table(
    'asked, cpus',
    {
        'shared': (guest(shared(4)), (0,)),
        'dedicated': (guest(dedicated(4), dedicated(2)), (4, 2)),
        'mixed': (guest(mixed(2, 4)), (4,)),
        'emulator with the first': (guest(dedicated(4), dedicated(2), emulator='isolate'), (5, 2)),
        'emulator on shared CPUs': (guest(dedicated(4), emulator='share'), (4,)),
        'emulator of a shared guest': (guest(shared(4), emulator='isolate'), (0,)),
        'no cells': (guest(), ()),
    },
)
def test_dedicated_cpus(asked, cpus):
    assert asked.dedicated_cpus == cpus


@table(
    'limits, read',
    {
        'no networks': (
            objects.NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5),
            numa.NumaLimits(4.0, 1.5),
        ),
        'networks': (
            objects.NUMATopologyLimits(
                cpu_allocation_ratio=4.0,
                ram_allocation_ratio=1.5,
                network_metadata=objects.NetworkMetadata(physnets={'a'}, tunneled=True),
            ),
            numa.NumaLimits(4.0, 1.5, frozenset('a'), True),
        ),
        'nothing set': (objects.NUMATopologyLimits(), numa.NumaLimits(1.0, 1.0)),
    },
)
def test_limits(limits, read):
    assert numa.NumaLimits.of(limits) == read


def reported():
    """The topology text of a recorded compute node."""
    node = reference.wire('object-ComputeNode-numa-pci-metrics')['primitive']
    return node['nova_object.data']['numa_topology']


def test_a_recorded_node():
    first, second = numa.HostTopology.from_json(reported()).cells
    assert (first.id, first.memory_mb, first.socket) == (0, 131072, 0)
    assert (first.cpuset, first.pcpuset) == (frozenset(range(8, 16)), frozenset(range(8)))
    assert first.siblings[0] == frozenset([0, 1])
    assert first.pages[1:] == (numa.HostPages(2048, 32768, 512), numa.HostPages(1048576, 16, 0, 1))
    assert (first.physnets, first.tunneled) == (frozenset(['physnet0']), False)
    assert (second.cpu_usage, second.memory_usage_mb) == (2, 4096)
    assert (second.pinned_cpus, second.physnets, second.tunneled) == (
        frozenset([16, 17]),
        frozenset(),
        True,
    )


def test_the_text_is_the_object():
    """What we write, the versioned object reads and writes again."""
    ours = numa.HostTopology.from_json(reported())
    theirs = objects.NUMATopology.from_json(ours.to_json())
    assert numa.HostTopology.from_json(json.dumps(theirs.obj_to_primitive())) == ours


def test_an_old_cell():
    """Before 1.4 there was one set of CPUs, for sharing and for pinning."""
    pages = {
        'nova_object.name': 'NUMAPagesTopology',
        'nova_object.data': {'size_kb': 4, 'total': 9},
    }
    data = {'id': 3, 'cpuset': [0, 1], 'memory': 512, 'mempages': [pages]}
    text = {
        'nova_object.name': 'NUMATopology',
        'nova_object.data': {
            'cells': [{'nova_object.name': 'NUMACell', 'nova_object.data': data}]
        },
    }
    assert numa.HostTopology.from_json(json.dumps(text)) == host(
        cell(3, cpuset=[0, 1], pcpuset=[0, 1], cores=[], memory_mb=512, pages=[(4, 9)])
    )


@table(
    'change',
    {
        'page size of nothing': ('"size_kb": 4,', '"size_kb": 0,'),
        'memory in words': ('"memory": 131072', '"memory": "much"'),
        'CPU that is a list': ('"cpuset": [8,', '"cpuset": [[8],'),
        'another class': ('"NUMACell"', '"NUMASell"'),
        'no JSON': ('{', ''),
    },
)
def test_a_malformed_topology(change):
    old, new = change
    assert old in reported()
    with pytest.raises(errors.MalformedObject, match='NUMATopology'):
        numa.HostTopology.from_json(reported().replace(old, new))


@each('text', ['', 'null', '[]', '{}', '[' * 100000])
def test_no_topology(text):
    with pytest.raises(errors.MalformedObject):
        numa.HostTopology.from_json(text)


@table(
    'cores, pinned, free, whole',
    {
        'all free': ([(0, 2), (1, 3)], [], [(0, 2), (1, 3)], [(0, 2), (1, 3)]),
        'one thread in use': ([(0, 2), (1, 3)], [0], [(2,), (1, 3)], [(1, 3)]),
        'a core in use': ([(0, 2), (1, 3)], [0, 2], [(1, 3)], [(1, 3)]),
        'the sibling is not for pinning': ([(0, 9), (1, 3)], [], [(0,), (1, 3)], [(1, 3)]),
        'no cores told': ([], [0], [(1,), (2,), (3,)], [(1,), (2,), (3,)]),
    },
)
def test_free_cores(cores, pinned, free, whole):
    some = cell(pcpuset=range(4), cores=cores, pinned=pinned)
    assert list(some.free_cores) == free
    assert some.whole_cores == whole


@table(
    'pages, all_mb, free_mb',
    {
        'no pages: the memory itself': ([], 4096, 4000),
        'the only size': ([(2048, 100, 10)], 200, 180),
        'the smallest size, wherever it stands': ([(2048, 100, 10), (4, 512, 256)], 2, 1),
        'more in use than there is': ([(4, 512, 1024)], 2, -2),
    },
)
def test_plain_memory(pages, all_mb, free_mb):
    some = cell(pages=pages, memory_usage_mb=96)
    assert (some.plain_memory_mb, some.free_plain_memory_mb) == (all_mb, free_mb)


@table(
    'sockets, cells, near',
    {
        'two cells on a socket': ([0, 0, 1], [0], {0, 1}),
        'on two sockets': ([0, 0, 1], [1, 2], {0, 1, 2}),
        'a cell that is not there': ([0, 0, 1], [9], set()),
        'one cell does not tell': ([0, 0, None], [0], set()),
    },
)
def test_on_sockets_of(sockets, cells, near):
    some = host(*(cell(number, socket=socket) for number, socket in enumerate(sockets)))
    assert some.on_sockets_of(cells) == near


def test_with_cells():
    old, kept = host(cell(0), cell(1)), cell(1)
    assert old.with_cells({0: cell(0, memory_mb=1)}) == host(cell(0, memory_mb=1), kept)


@table(
    'some, siblings',
    {
        'cores of one thread': (host(cell(0, pcpuset=[0])), False),
        'one cell has them': (host(cell(0, pcpuset=[0]), threaded(1)), True),
        'no CPUs': (host(cell(0)), False),
    },
)
def test_has_siblings(some, siblings):
    assert some.has_siblings is siblings


HOST = host(
    threaded(0, pinned=[0], socket=0, pages=[(4, 1024, 512), (2048, 100)]),
    cell(
        1,
        range(20, 30),
        [30, 31],
        memory_mb=8192,
        memory_usage_mb=8000,
        socket=1,
        pages=[(2048, 9, 2, 1)],
    ),
    cell(2, socket=1, memory_mb=7),
)


def test_figures():
    assert numa.NumaSummary.of(HOST) == numa.NumaSummary(
        cells=3,
        sockets=2,
        has_siblings=True,
        dedicated_best=7,
        dedicated_total=9,
        shared_best=10,
        memory_best_mb=12,
        memory_largest_mb=18,
        pages_best={4: 512, 2048: 100},
    )


def test_an_empty_host():
    assert numa.NumaSummary.of(host()) == numa.NumaSummary(0, 0, False, 0, 0, 0, 0, 0, {})


@table(
    'asked, may',
    {
        'shared, just': ([shared(10, memory_mb=18)], True),
        'shared CPUs': ([shared(11, memory_mb=1)], False),
        'memory of shared': ([shared(1, memory_mb=19)], False),
        'dedicated, just': ([dedicated(7, memory_mb=12)], True),
        'dedicated CPUs of a cell': ([dedicated(8, memory_mb=1)], False),
        'dedicated CPUs in all': ([dedicated(5, memory_mb=1), dedicated(5, memory_mb=1)], False),
        'memory of dedicated': ([dedicated(1, memory_mb=13)], False),
        'shared CPUs of mixed': ([mixed(11, 1, memory_mb=1)], False),
        'cells': ([shared(1, memory_mb=1)] * 4, False),
        'pages, just': ([shared(1, memory_mb=200, pagesize_kb=2048)], True),
        'pages': ([shared(1, memory_mb=202, pagesize_kb=2048)], False),
        'pages of a size that it has not': ([shared(1, memory_mb=2, pagesize_kb=64)], False),
        'large pages, just': ([shared(1, memory_mb=200, pagesize_kb=-2)], True),
        'pages of any size': ([shared(1, memory_mb=202, pagesize_kb=-3)], False),
    },
)
def test_may_take(asked, may):
    assert numa.NumaSummary.of(HOST).may_take(guest(*asked)) is may


def test_the_emulator_counts():
    summary = numa.NumaSummary.of(HOST)
    both = guest(dedicated(7, memory_mb=1)), guest(dedicated(7, memory_mb=1), emulator='isolate')
    assert [summary.may_take(some) for some in both] == [True, False]


def test_require_needs_siblings():
    single = numa.NumaSummary.of(host(cell(0, pcpuset=range(4))))
    policies = ('require', 'prefer', 'isolate')
    assert [single.may_take(guest(dedicated(1, thread_policy=policy))) for policy in policies] == [
        False,
        True,
        True,
    ]


PLACED = numa.Fitted(
    (
        numa.PlacedCell(mixed(1, 2), 3, {1: 8, 2: 12}, frozenset([9]), 2048),
        numa.PlacedCell(shared(2), 0),
    )
)


def test_host_cpus_and_cells():
    assert PLACED.cells[0].host_cpus == {8, 9, 12}
    assert PLACED.cells[1].host_cpus == frozenset()
    assert PLACED.host_cells == (3, 0)


def test_the_text_of_a_placed_guest_is_the_object():
    """What we write, the versioned object reads; what it holds is what we wrote."""
    theirs = object_io.read(json.loads(PLACED.to_json()))
    first = theirs.cells[0]
    assert (first.id, first.pagesize, first.cpuset_reserved) == (3, 2048, {9})
    assert first.cpu_pinning == {1: 8, 2: 12}
    taken = numa.Fitted.of(theirs)
    assert (taken.host_cells, taken.cells[0].pinning) == (
        PLACED.host_cells,
        PLACED.cells[0].pinning,
    )


def test_round_trip():
    again = numa.Fitted.from_json(PLACED.to_json())
    assert numa.Fitted.from_json(again.to_json()) == again
    assert [one.host_cpus for one in again.cells] == [one.host_cpus for one in PLACED.cells]


def test_a_fit_read_again_is_given_back():
    empty = host(threaded())
    fitted = numa.fit(empty, guest(dedicated(2, thread_policy='isolate'), emulator='isolate'))
    full = numa.take(empty, fitted)
    assert numa.give_back(full, numa.Fitted.from_json(fitted.to_json())) == empty


@table(
    'text',
    {
        'no JSON': '',
        'no object': '{}',
        'no data': '{"nova_object.name": "InstanceNUMATopology"}',
        'no memory': PLACED.to_json().replace('"memory"', '"mummery"'),
        'no cell': PLACED.to_json().replace('"id"', '"ids"'),
    },
)
def test_a_malformed_placed_guest(text):
    with pytest.raises(errors.MalformedObject, match='InstanceNUMATopology'):
        numa.Fitted.from_json(text)


PAGES = [(4, 100000, 5), (2048, 100, 7)]
ON_0 = {'cpu_usage': 1, 'memory_usage_mb': 100}


def lying(one, pinning=(), reserved=(), pagesize_kb=None, on=0):
    return numa.Fitted(
        (numa.PlacedCell(one, on, dict(pinning), frozenset(reserved), pagesize_kb),)
    )


@table(
    'fitted, after',
    {
        'shared, smallest pages': (lying(shared(2)), {'cpu_usage': 3, 'pages': [32773, 7]}),
        'its pages': (lying(shared(2), pagesize_kb=2048), {'cpu_usage': 3, 'pages': [5, 71]}),
        'pages unknown': (lying(shared(2), pagesize_kb=64), {'cpu_usage': 3, 'pages': [5, 7]}),
        'pages not settled': (lying(shared(2), pagesize_kb=-1), {'cpu_usage': 3, 'pages': [5, 7]}),
        'dedicated': (lying(dedicated(2), {0: 0, 1: 4}), {'pinned': {0, 4}}),
        'emulator': (lying(dedicated(1), {0: 0}, [1]), {'pinned': {0, 1}}),
        'mixed': (lying(mixed(1, 1), {1: 0}), {'cpu_usage': 2, 'pinned': {0}}),
        'dedicated, never pinned': (lying(dedicated(1)), {}),
        'isolated': (
            lying(dedicated(1, thread_policy='isolate'), {0: 0}, [1]),
            {'pinned': {0, 4, 1, 5}},
        ),
        'nothing to isolate': (lying(mixed(1, 0, thread_policy='isolate')), {'cpu_usage': 2}),
    },
)
def test_take_and_give_back(fitted, after):
    before = host(threaded(pages=PAGES, **ON_0), cell(1))
    full = numa.take(before, fitted)
    one = full.cells[0]
    expected = {'cpu_usage': 1, 'pinned': set(), 'pages': [32773, 7]} | after
    assert one.cpu_usage == expected['cpu_usage']
    assert one.memory_usage_mb == 228
    assert one.pinned_cpus == expected['pinned']
    assert [some.used for some in one.pages] == expected['pages']
    assert full.cells[1] == before.cells[1]
    assert numa.give_back(full, fitted) == before


def test_two_cells_on_one():
    fitted = numa.Fitted((numa.PlacedCell(shared(2), 0), numa.PlacedCell(shared(1), 0)))
    assert numa.take(host(cell(0)), fitted).cells[0].cpu_usage == 3


@table(
    'before, fitted, why',
    {
        'in use': (threaded(pinned=[0]), lying(dedicated(1), {0: 0}), r'\[0\] are not free'),
        'unknown': (threaded(), lying(dedicated(1), {0: 77}), r'\[77\] are not free'),
        'shared': (cell(0, [1], [2]), lying(dedicated(1), {0: 1}), r'\[1\] are not free'),
        'emulator': (threaded(pinned=[1]), lying(dedicated(0), {}, [1]), r'\[1\] are not free'),
        'sibling of an isolated one': (
            threaded(pinned=[4]),
            lying(dedicated(1, thread_policy='isolate'), {0: 0}),
            r'\[4\] are not free',
        ),
        'no such cell': (
            threaded(),
            lying(shared(1), on=9),
            'NUMA cell 9: the host has no such cell',
        ),
    },
)
def test_what_is_not_there_is_not_taken(before, fitted, why):
    with pytest.raises(Overdrawn, match=why):
        numa.take(host(before), fitted)


def test_one_cpu_for_two_cells_of_a_guest():
    fitted = numa.Fitted(tuple(numa.PlacedCell(dedicated(1), 0, {0: 3}) for _ in range(2)))
    with pytest.raises(Overdrawn, match=r'\[3\] are not free'):
        numa.take(host(threaded()), fitted)


def test_what_is_not_taken_is_not_given_back():
    with pytest.raises(Overdrawn, match=r'NUMA cell 0: CPUs \[0\] are not in use'):
        numa.give_back(host(threaded(pinned=[1])), lying(dedicated(2), {0: 0, 1: 1}))


def test_usage_never_falls_below_nothing():
    """The node's own report may have left the guest out already."""
    after = numa.give_back(host(cell(0, pages=[(4, 100)])), lying(shared(2)))
    assert after == host(cell(0, pages=[(4, 100)]))


def test_a_cell_that_is_gone_gets_nothing_back():
    assert numa.give_back(host(cell(0)), lying(shared(2), on=9)) == host(cell(0))


def test_an_instance_as_the_compute_has_it():
    """Ids of cells are the host's; no pins are asked for, and none are taken."""
    own = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset={0}, memory=128, cpu_policy='dedicated'
    )
    fitted = numa.Fitted.of(objects.InstanceNUMATopology(cells=[own]))
    assert numa.take(host(threaded()), fitted) == host(threaded(memory_usage_mb=128))

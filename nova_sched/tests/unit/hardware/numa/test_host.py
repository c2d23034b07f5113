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
"""Host cells: what they say of themselves, and their JSON text."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import numa
from nova_sched.tests import reference
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    mixed,
    shared,
    threaded,
)


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
    assert numa.HostTopology.from_json(theirs.to_json()) == ours


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


@pytest.mark.parametrize(
    'change',
    [
        pytest.param(('"size_kb": 4,', '"size_kb": 0,'), id='page size of nothing'),
        pytest.param(('"memory": 131072', '"memory": "much"'), id='memory in words'),
        pytest.param(('"cpuset": [8,', '"cpuset": [[8],'), id='CPU that is a list'),
        pytest.param(('"NUMACell"', '"NUMASell"'), id='another class'),
        pytest.param(('{', ''), id='no JSON'),
    ],
)
def test_a_malformed_text(change):
    old, new = change
    assert old in reported()
    with pytest.raises(errors.MalformedObject, match='NUMATopology'):
        numa.HostTopology.from_json(reported().replace(old, new))


@pytest.mark.parametrize('text', ['', 'null', '[]', '{}', '[' * 100000])
def test_no_topology(text):
    with pytest.raises(errors.MalformedObject):
        numa.HostTopology.from_json(text)


@pytest.mark.parametrize(
    'cores, pinned, free, whole',
    [
        pytest.param([(0, 2), (1, 3)], [], [(0, 2), (1, 3)], [(0, 2), (1, 3)], id='all free'),
        pytest.param([(0, 2), (1, 3)], [0], [(2,), (1, 3)], [(1, 3)], id='one thread in use'),
        pytest.param([(0, 2), (1, 3)], [0, 2], [(1, 3)], [(1, 3)], id='a core in use'),
        pytest.param(
            [(0, 9), (1, 3)], [], [(0,), (1, 3)], [(1, 3)], id='the sibling is not for pinning'
        ),
        pytest.param([], [0], [(1,), (2,), (3,)], [(1,), (2,), (3,)], id='no cores told'),
    ],
)
def test_free_cores(cores, pinned, free, whole):
    some = cell(pcpuset=range(4), cores=cores, pinned=pinned)
    assert list(some.free_cores) == free
    assert some.whole_cores == whole


@pytest.mark.parametrize(
    'pages, all_mb, free_mb',
    [
        pytest.param([], 4096, 4000, id='no pages: the memory itself'),
        pytest.param([(2048, 100, 10)], 200, 180, id='the only size'),
        pytest.param(
            [(2048, 100, 10), (4, 512, 256)], 2, 1, id='the smallest size, wherever it stands'
        ),
        pytest.param([(4, 512, 1024)], 2, -2, id='more in use than there is'),
    ],
)
def test_plain_memory(pages, all_mb, free_mb):
    some = cell(pages=pages, memory_usage_mb=96)
    assert (some.plain_memory_mb, some.free_plain_memory_mb) == (all_mb, free_mb)


@pytest.mark.parametrize(
    'sockets, cells, near',
    [
        pytest.param([0, 0, 1], [0], {0, 1}, id='two cells on a socket'),
        pytest.param([0, 0, 1], [1, 2], {0, 1, 2}, id='on two sockets'),
        pytest.param([0, 0, 1], [9], set(), id='a cell that is not there'),
        pytest.param([0, 0, None], [0], set(), id='one cell does not tell'),
    ],
)
def test_on_sockets_of(sockets, cells, near):
    some = host(*(cell(number, socket=socket) for number, socket in enumerate(sockets)))
    assert some.on_sockets_of(cells) == near


def test_with_cells():
    old, kept = host(cell(0), cell(1)), cell(1)
    assert old.with_cells({0: cell(0, memory_mb=1)}) == host(cell(0, memory_mb=1), kept)


@pytest.mark.parametrize(
    'some, siblings',
    [
        pytest.param(host(cell(0, pcpuset=[0])), False, id='cores of one thread'),
        pytest.param(host(cell(0, pcpuset=[0]), threaded(1)), True, id='one cell has them'),
        pytest.param(host(cell(0)), False, id='no CPUs'),
    ],
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


@pytest.mark.parametrize(
    'asked, may',
    [
        pytest.param([shared(10, memory_mb=18)], True, id='shared, just'),
        pytest.param([shared(11, memory_mb=1)], False, id='shared CPUs'),
        pytest.param([shared(1, memory_mb=19)], False, id='memory of shared'),
        pytest.param([dedicated(7, memory_mb=12)], True, id='dedicated, just'),
        pytest.param([dedicated(8, memory_mb=1)], False, id='dedicated CPUs of a cell'),
        pytest.param(
            [dedicated(5, memory_mb=1), dedicated(5, memory_mb=1)],
            False,
            id='dedicated CPUs in all',
        ),
        pytest.param([dedicated(1, memory_mb=13)], False, id='memory of dedicated'),
        pytest.param([mixed(11, 1, memory_mb=1)], False, id='shared CPUs of mixed'),
        pytest.param([shared(1, memory_mb=1)] * 4, False, id='cells'),
        pytest.param([shared(1, memory_mb=200, pagesize_kb=2048)], True, id='pages, just'),
        pytest.param([shared(1, memory_mb=202, pagesize_kb=2048)], False, id='pages'),
        pytest.param(
            [shared(1, memory_mb=2, pagesize_kb=64)], False, id='pages of a size that it has not'
        ),
        pytest.param([shared(1, memory_mb=200, pagesize_kb=-2)], True, id='large pages, just'),
        pytest.param([shared(1, memory_mb=202, pagesize_kb=-3)], False, id='pages of any size'),
    ],
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

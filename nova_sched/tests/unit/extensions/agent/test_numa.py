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
"""NUMA cells: as read, and as reported."""

import pytest

from nova_sched import errors
from nova_sched.extensions.agent import numa
from nova_sched.extensions.agent.numa import MachinePages
from nova_sched.extensions.agent.usage import CellUse
from nova_sched.tests.rows import each_afresh, table
from nova_sched.tests.unit.extensions.agent.builders import settings
from nova_sched.tests.unit.extensions.agent.fake_machine import FakeMachine, two_cells


def cells(machine, memory_mb=0):
    return numa.cells(machine.sys, memory_mb, page_kb=4)


def test_two_cells_with_siblings_and_huge_pages(tmp_path):
    assert cells(two_cells(tmp_path)) == [
        numa.MachineCell(
            id=0,
            cpus=frozenset({0, 1, 4, 5}),
            siblings=(frozenset({0, 4}), frozenset({1, 5})),
            socket=0,
            memory_mb=4096,
            # 4096 MiB - 100 x 2 MiB - 2 x 1 GiB = 1848 MiB of small pages
            pages=(
                MachinePages(4, 1848 * 256),
                MachinePages(2048, 100, used=40),
                MachinePages(1048576, 2),
            ),
        ),
        numa.MachineCell(
            id=1,
            cpus=frozenset({2, 3, 6, 7}),
            siblings=(frozenset({2, 6}), frozenset({3, 7})),
            socket=1,
            memory_mb=2048,
            pages=(MachinePages(4, 2048 * 256),),
        ),
    ]


def test_without_numa_the_machine_is_one_cell(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0', '1']).huge({2048: (8, 8)}, 'kernel/mm')
    assert cells(machine, memory_mb=1024) == [
        numa.MachineCell(
            id=0,
            cpus=frozenset({0, 1}),
            siblings=(frozenset({0}), frozenset({1})),
            socket=0,
            memory_mb=1024,
            pages=(MachinePages(4, 1008 * 256), MachinePages(2048, 8)),
        )
    ]


def test_offline_cpus_are_in_no_cell(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0,2', '1,3'], online='0-2').cell(0, '0-3', 64)
    (cell,) = cells(machine)
    assert cell.cpus == {0, 1, 2}
    assert cell.siblings == ({0, 2}, {1})


def test_siblings_in_another_cell_are_none(tmp_path):
    # A kernel that was told to fake cells can split a core.
    machine = FakeMachine(tmp_path).cpus(['0,1']).cell(0, '0', 64).cell(1, '1', 64)
    assert [cell.siblings for cell in cells(machine)] == [({0},), ({1},)]


@each_afresh('cpus', {'memory alone': '', 'its CPUs are offline': '1'})
def test_cells_that_can_run_nothing_are_left_out(tmp_path, cpus):
    machine = FakeMachine(tmp_path).cpus(['0', '1'], online='0').cell(0, '0', 64).cell(7, cpus, 64)
    assert [cell.id for cell in cells(machine)] == [0]


def test_cells_come_by_number(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0', '1', '2'])
    for cell, cpus in ((10, '0'), (2, '1'), (0, '2')):
        machine.cell(cell, cpus, 64)
    assert [cell.id for cell in cells(machine)] == [0, 2, 10]


def test_more_huge_pages_than_memory_leave_no_small_ones(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0']).cell(0, '0', 3, {2048: (2, 0)})
    assert cells(machine)[0].pages == (MachinePages(4, 0), MachinePages(2048, 2, used=2))


@each_afresh(
    'spoil',
    {
        'unreadable CPUs': lambda machine, node: machine.unreadable(f'{node}/cpulist'),
        'unreadable memory': lambda machine, node: machine.unreadable(f'{node}/meminfo'),
        'no total': lambda machine, node: machine.file(f'{node}/meminfo', 'MemFree: 3 kB'),
        'pages that are no number': lambda machine, node: machine.file(
            f'{node}/hugepages/hugepages-2048kB/nr_hugepages', 'x'
        ),
    },
)
def test_a_broken_cell_is_named(tmp_path, spoil):
    machine = spoil(two_cells(tmp_path), 'devices/system/node/node0')
    with pytest.raises(errors.BadMachineFacts) as error:
        cells(machine)
    assert '/node0/' in error.value.what


PAGES = (numa.MachinePages(4, 1000), numa.MachinePages(2048, 100, used=30))
CELL = numa.MachineCell(
    id=0,
    cpus=frozenset({0, 1, 4, 5}),
    siblings=(frozenset({0, 4}), frozenset({1, 5})),
    socket=0,
    memory_mb=4096,
    pages=PAGES,
)


def cell(shared=(0, 1, 4, 5), dedicated=(), used=None, **options):
    """The one cell of a topology."""
    return numa.build(
        [CELL], shared, dedicated, {0: used or CellUse()}, settings(**options)
    ).cells[0]


# Shared and dedicated CPUs; the sets and the siblings of the cell.
SETS = {
    'nothing set apart': ((0, 1, 4, 5), (), {0, 1, 4, 5}, {0, 1, 4, 5}, [{0, 4}, {1, 5}]),
    'a core set apart': ((0, 4), (1, 5), {0, 4}, {1, 5}, [{0, 4}, {1, 5}]),
    "the rest is the host's": ((0,), (1,), {0}, {1}, [{0}, {1}]),
    'all dedicated': ((), (1, 5), set(), {1, 5}, [{1, 5}]),
    "another cell's CPUs": ((8, 9), (10,), set(), set(), []),
}


def test_cpus():
    found = {}
    for name, (shared, dedicated, *_) in SETS.items():
        made = cell(shared, dedicated)
        found[name] = [made.cpuset, made.pcpuset, made.siblings]
    assert found == {name: expected for name, (_, _, *expected) in SETS.items()}


def test_usage_of_instances():
    made = cell(used=CellUse(vcpus=3, memory_mb=512, pinned=frozenset({1})))
    assert (made.cpu_usage, made.memory_usage, made.pinned_cpus) == (3, 512, {1})


def test_isolated_instances_take_the_siblings_too():
    assert cell(used=CellUse(pinned=frozenset({1}), isolated=frozenset({1}))).pinned_cpus == {1, 5}


def test_pins_outside_the_dedicated_cpus_are_not_ours_to_tell():
    assert cell(
        shared=(0, 4), dedicated=(1, 5), used=CellUse(pinned=frozenset({1, 4, 9}))
    ).pinned_cpus == {1}


@table(
    'by_instances, reserved, used',
    {
        'what others hold cannot be given': (0, 0, 30),
        'what others hold is what was reserved': (0, 30, 0),
        'reserved and not all held yet': (0, 64, 0),
        'instances hold part of what is held': (20, 0, 30),
        'instances have not taken all of theirs yet': (50, 0, 50),
    },
)
def test_huge_pages(by_instances, reserved, used):
    entries = [{'node': 0, 'size': 2048, 'count': reserved}]
    small, huge = cell(
        used=CellUse(pages={2048: by_instances}), reserved_huge_pages=entries
    ).mempages
    assert (huge.size_kb, huge.total, huge.used, huge.reserved) == (2048, 100, used, reserved)
    assert (small.size_kb, small.total, small.used, small.reserved) == (4, 1000, 0, 0)


@table(
    'use, small, huge',
    {
        'memory in whatever pages is in the smallest': ({'plain_mb': 1}, 256, 30),
        'beside memory in small pages': ({'plain_mb': 1, 'pages': {4: 10}}, 266, 30),
        'huge pages': ({'pages': {2048: 50}}, 0, 50),
    },
)
def test_pages_of_instances(use, small, huge):
    assert [pages.used for pages in cell(used=CellUse(**use)).mempages] == [small, huge]


def test_networks_near_a_cell():
    made = cell(physnet_cells={'near': [0, 1], 'far': [1]}, tunnel_cells=[0]).network_metadata
    assert (made.physnets, made.tunneled) == ({'near'}, True)


SIZES_KB = {
    'kiB': ('2048', 2048),
    'a number': (4, 4),
    'MiB': ('2MB', 2048),
    'GiB': ('1GB', 1048576),
}


def test_reserved_pages():
    found = {
        name: numa.reserved_pages([{'node': '1', 'size': size, 'count': '64'}])
        for name, (size, _) in SIZES_KB.items()
    }
    assert found == {name: {(1, size_kb): 64} for name, (_, size_kb) in SIZES_KB.items()}


@table(
    'entry',
    {
        'no count': {'node': '0', 'size': '2048'},
        'cell is no number': {'node': 'zero', 'size': '2048', 'count': '1'},
        'size is no size': {'node': '0', 'size': 'huge', 'count': '1'},
        'negative': {'node': '0', 'size': '2048', 'count': '-1'},
    },
)
def test_bad_reserved_pages_are_told(entry):
    with pytest.raises(errors.BadMachineFacts, match='reserved_huge_pages'):
        numa.reserved_pages([entry])

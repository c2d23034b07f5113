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

"""Tests of reading NUMA cells."""

import pytest

from nova_sched import errors
from nova_sched.agent import numa
from nova_sched.agent.numa import Pages
from nova_sched.tests.unit.agent.fake_machine import FakeMachine, two_cells


def cells(machine, memory_mb=0):
    return numa.cells(machine.sys, memory_mb, page_kb=4)


def test_two_cells_with_siblings_and_huge_pages(tmp_path):
    assert cells(two_cells(tmp_path)) == [
        numa.Cell(
            id=0,
            cpus=frozenset({0, 1, 4, 5}),
            siblings=(frozenset({0, 4}), frozenset({1, 5})),
            socket=0,
            memory_mb=4096,
            # 4096 MiB - 100 x 2 MiB - 2 x 1 GiB = 1848 MiB of small pages
            pages=(Pages(4, 1848 * 256), Pages(2048, 100, used=40), Pages(1048576, 2)),
        ),
        numa.Cell(
            id=1,
            cpus=frozenset({2, 3, 6, 7}),
            siblings=(frozenset({2, 6}), frozenset({3, 7})),
            socket=1,
            memory_mb=2048,
            pages=(Pages(4, 2048 * 256),),
        ),
    ]


def test_without_numa_the_machine_is_one_cell(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0', '1']).huge({2048: (8, 8)}, 'kernel/mm')
    assert cells(machine, memory_mb=1024) == [
        numa.Cell(
            id=0,
            cpus=frozenset({0, 1}),
            siblings=(frozenset({0}), frozenset({1})),
            socket=0,
            memory_mb=1024,
            pages=(Pages(4, 1008 * 256), Pages(2048, 8)),
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


@pytest.mark.parametrize(
    'cpus',
    [
        pytest.param('', id='memory alone'),
        pytest.param('1', id='its CPUs are offline'),
    ],
)
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
    assert cells(machine)[0].pages == (Pages(4, 0), Pages(2048, 2, used=2))


@pytest.mark.parametrize(
    'spoil',
    [
        pytest.param(
            lambda machine, node: machine.unreadable(f'{node}/cpulist'), id='unreadable CPUs'
        ),
        pytest.param(
            lambda machine, node: machine.unreadable(f'{node}/meminfo'), id='unreadable memory'
        ),
        pytest.param(
            lambda machine, node: machine.file(f'{node}/meminfo', 'MemFree: 3 kB'), id='no total'
        ),
        pytest.param(
            lambda machine, node: machine.file(
                f'{node}/hugepages/hugepages-2048kB/nr_hugepages', 'x'
            ),
            id='pages that are no number',
        ),
    ],
)
def test_a_broken_cell_is_named(tmp_path, spoil):
    machine = spoil(two_cells(tmp_path), 'devices/system/node/node0')
    with pytest.raises(errors.BadMachineFacts) as error:
        cells(machine)
    assert '/node0/' in error.value.what

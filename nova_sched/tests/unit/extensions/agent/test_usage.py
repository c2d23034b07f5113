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

"""Tests of what instances use."""

import pytest

from nova_sched import objects
from nova_sched.extensions.agent import usage
from nova_sched.hardware import numa
from nova_sched.tests.unit.extensions.agent.builders import guest


@pytest.mark.parametrize(
    'pagesize, policy, pages, plain_mb, isolated',
    [
        pytest.param(None, None, {}, 512, set(), id='plain'),
        pytest.param(-1, None, {}, 0, set(), id='a wish for small pages'),
        pytest.param(4, 'prefer', {4: 131072}, 0, set(), id='small pages'),
        pytest.param(2048, 'isolate', {2048: 256}, 0, {8, 9}, id='huge pages, isolated'),
    ],
)
def test_pages_and_isolation(pagesize, policy, pages, plain_mb, isolated):
    cell = objects.InstanceNUMACell(
        id=0,
        cpuset=set(),
        pcpuset={0},
        memory=512,
        pagesize=pagesize,
        cpu_pinning_raw={'0': 8},
        cpuset_reserved={9},
        cpu_thread_policy=policy,
    )
    use = usage.cells(numa.Fitted.of(objects.InstanceNUMATopology(cells=[cell])))[0]
    assert (use.pages, use.plain_mb, use.pinned, use.isolated) == (
        pages,
        plain_mb,
        {8, 9},
        isolated,
    )


def test_nothing_on_the_node():
    used = usage.total([])
    assert (used.vcpus, used.memory_mb, used.disk_gb, used.instances, used.busy) == (0, 0, 0, 0, 0)
    assert used.stats == {'num_instances': '0', 'io_workload': '0', 'failed_builds': '0'}
    assert (used.cells, used.devices) == ({}, frozenset())


def test_sums_and_stats():
    used = usage.total(
        [
            guest(
                vm_state='active',
                project_id='a',
                os_type='linux',
                devices=frozenset({'0000:81:00.0'}),
            ),
            guest(
                vm_state='building',
                task_state='spawning',
                project_id='a',
                devices=frozenset({'0000:82:00.0'}),
            ),
            guest(vm_state='active', task_state='rebuilding', project_id='b', dedicated=2),
            guest(vm_state='active', task_state='deleting', project_id='b'),
        ],
        failed_builds=3,
    )
    assert (used.vcpus, used.dedicated, used.memory_mb, used.disk_gb) == (8, 2, 4096, 40)
    assert (used.instances, used.busy) == (4, 3)
    assert used.devices == {'0000:81:00.0', '0000:82:00.0'}
    assert used.stats == {
        'num_instances': '4',
        'io_workload': '2',
        'failed_builds': '3',
        'num_vm_active': '3',
        'num_vm_building': '1',
        'num_task_None': '1',
        'num_task_spawning': '1',
        'num_task_rebuilding': '1',
        'num_task_deleting': '1',
        'num_os_type_None': '3',
        'num_os_type_linux': '1',
        'num_proj_a': '2',
        'num_proj_b': '2',
    }


@pytest.mark.parametrize(
    'state, counted',
    [
        pytest.param('active', 1, id='active'),
        pytest.param('stopped', 1, id='stopped holds its place'),
        pytest.param('deleted', 0, id='deleted'),
        pytest.param('shelved_offloaded', 0, id='offloaded'),
    ],
)
def test_instances_that_are_gone_use_nothing(state, counted):
    used = usage.total([guest(vm_state=state, devices=frozenset({'0000:81:00.0'}))])
    assert (used.instances, used.vcpus, len(used.devices)) == (counted, 2 * counted, counted)


def test_cells_of_several_instances_add_up():
    one = usage.CellUse(1, 100, frozenset({4}), frozenset(), {2048: 50}, plain_mb=7)
    two = usage.CellUse(
        2, 200, frozenset({5}), frozenset({5}), {2048: 100, 1048576: 1}, plain_mb=3
    )
    used = usage.total([guest(cells={0: one}), guest(cells={0: two, 1: one})])
    assert used.cells == {
        0: usage.CellUse(
            3, 300, frozenset({4, 5}), frozenset({5}), {2048: 150, 1048576: 1}, plain_mb=10
        ),
        1: one,
    }

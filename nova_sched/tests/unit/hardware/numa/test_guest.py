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
"""Guests and limits, from whatever has the attributes."""

import types

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import numa
from nova_sched.tests import reference
from nova_sched.tests.unit.hardware.builders import dedicated, guest, mixed, shared


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


@pytest.mark.parametrize(
    'topology',
    [
        pytest.param(
            objects.InstanceNUMATopology(
                cells=[objects.InstanceNUMACell(id=0, cpuset={0}, pcpuset=set(), memory=1)]
            ),
            id='unset fields',
        ),
        pytest.param(
            types.SimpleNamespace(cells=[types.SimpleNamespace(id=0, cpuset=[0], memory=1)]),
            id='missing fields',
        ),
    ],
)
def test_what_is_not_told(topology):
    assert numa.GuestTopology.of(topology) == guest(shared(1, memory_mb=1))


@pytest.mark.parametrize('of', [numa.GuestTopology.of, numa.Fitted.of])
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


@pytest.mark.parametrize(
    'asked, cpus',
    [
        pytest.param(guest(shared(4)), (0,), id='shared'),
        pytest.param(guest(dedicated(4), dedicated(2)), (4, 2), id='dedicated'),
        pytest.param(guest(mixed(2, 4)), (4,), id='mixed'),
        pytest.param(
            guest(dedicated(4), dedicated(2), emulator='isolate'),
            (5, 2),
            id='emulator with the first',
        ),
        pytest.param(guest(dedicated(4), emulator='share'), (4,), id='emulator on shared CPUs'),
        pytest.param(guest(shared(4), emulator='isolate'), (0,), id='emulator of a shared guest'),
        pytest.param(guest(), (), id='no cells'),
    ],
)
def test_dedicated_cpus(asked, cpus):
    assert asked.dedicated_cpus == cpus


@pytest.mark.parametrize(
    'limits, read',
    [
        pytest.param(
            objects.NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5),
            numa.NumaLimits(4.0, 1.5),
            id='no networks',
        ),
        pytest.param(
            objects.NUMATopologyLimits(
                cpu_allocation_ratio=4.0,
                ram_allocation_ratio=1.5,
                network_metadata=objects.NetworkMetadata(physnets={'a'}, tunneled=True),
            ),
            numa.NumaLimits(4.0, 1.5, frozenset('a'), True),
            id='networks',
        ),
        pytest.param(objects.NUMATopologyLimits(), numa.NumaLimits(1.0, 1.0), id='nothing set'),
    ],
)
def test_limits(limits, read):
    assert numa.NumaLimits.of(limits) == read

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
"""Why a guest does not fit, in words."""

import pytest

from nova_sched.hardware import numa, pci
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    pool,
    request,
    shared,
    threaded,
)

TWO = host(
    cell(0, [0, 1], range(10, 14), pinned=[10, 11], memory_mb=2048, physnets=frozenset('a')),
    cell(1, [2], range(20, 26), pinned=range(20, 23), memory_mb=1024, cpu_usage=1),
)


@pytest.mark.parametrize(
    'asked, why',
    [
        pytest.param([shared()] * 3, 'needs 3 NUMA cells, the host has 2', id='cells'),
        pytest.param(
            [shared(4)],
            'guest cell 0 needs 4 shared CPUs, the best host cell has 2',
            id='shared CPUs',
        ),
        pytest.param(
            [shared(), dedicated(5)],
            'guest cell 1 needs 5 free dedicated CPUs, the best host cell has 3',
            id='the second cell',
        ),
        pytest.param(
            [dedicated(7)],
            'guest cell 0 needs 7 dedicated CPUs, the best host cell has 6',
            id='CPUs',
        ),
        pytest.param(
            [dedicated(4)],
            'guest cell 0 needs 4 free dedicated CPUs, the best host cell has 3',
            id='free CPUs, in the cell that is nearest',
        ),
        pytest.param(
            [shared(1, memory_mb=4096)],
            'guest cell 0 needs 4096 MiB of memory, the best host cell has 2048',
            id='memory',
        ),
        pytest.param(
            [shared(1, pagesize_kb=2048)],
            'guest cell 0 needs 128 MiB in free pages of 2048 KiB, the best host cell has 0',
            id='pages',
        ),
        pytest.param(
            [dedicated(1, thread_policy='require')],
            'guest cell 0 needs 1 free dedicated CPUs next to free siblings, '
            'the best host cell has 0',
            id='siblings',
        ),
        pytest.param(
            [shared(2), shared(2)],
            'each guest cell fits in a host cell, but not all 2 at once',
            id='not at once',
        ),
    ],
)
def test_short(asked, why):
    assert numa.why_not(TWO, guest(*asked)) == why


def test_over_the_ratio():
    why = numa.why_not(TWO, guest(shared(2)), numa.NumaLimits(0.5, 1.0))
    assert (
        why
        == 'guest cell 0 needs 2 shared CPUs under the allocation ratio, the best host cell has 1'
    )


def test_full_cells_have_nothing_rather_than_less():
    full = host(cell(0, [0], memory_mb=100, memory_usage_mb=300))
    why = numa.why_not(full, guest(shared(1, memory_mb=1)), numa.NumaLimits(1.0, 1.0))
    assert (
        why == 'guest cell 0 needs 1 MiB of memory under the allocation ratio, '
        'the best host cell has 0'
    )


@pytest.mark.parametrize(
    'physnets, why',
    [
        pytest.param('b', '', id='near no cell'),
        pytest.param(
            'a', 'host cells [1] fit, but are not near network a', id='near a cell that is full'
        ),
    ],
)
def test_networks(physnets, why):
    assert (
        numa.why_not(TWO, guest(dedicated(3)), numa.NumaLimits(1.0, 1.0, frozenset(physnets)))
        == why
    )


def test_tunnels():
    three = host(cell(0, [0]), cell(1, tunneled=True))
    why = numa.why_not(three, guest(shared()), numa.NumaLimits(1.0, 1.0, tunneled=True))
    assert why == 'host cells [0] fit, but are not near the tunnel network'


def test_devices():
    wanted = pci.WantedDevices((pool(2, 0),), (request(2, policy='required', name='gpu'),))
    why = numa.why_not(TWO, guest(dedicated(3)), pci=wanted)
    assert why == (
        'host cells [1] fit, but not with the PCI devices: gpu: 2 devices asked, '
        '0 near to the NUMA cells'
    )


def test_what_fits_needs_no_reason():
    assert numa.why_not(host(threaded()), guest(dedicated(8))) == ''

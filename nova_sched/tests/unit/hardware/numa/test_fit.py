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
"""Guests into hosts: choice and order of cells, networks, devices."""

import dataclasses
import json
import time

import pytest

from nova_sched.hardware import numa, pci
from nova_sched.tests.rows import each
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    mixed,
    named,
    pool,
    recorded,
    request,
    shared,
)


def cells_of(*arguments, **options):
    """Host cells of the fit, or None."""
    found = numa.fit(*arguments, **options)
    return found and found.host_cells


def as_recorded(placed):
    pinning = [list(pin) for pin in sorted(placed.pinning.items())]
    return [placed.host_cell, pinning, sorted(placed.reserved), placed.pagesize_kb]


def usage_of(one):
    pages = [some.used for some in one.pages]
    return [one.id, one.cpu_usage, one.memory_usage_mb, sorted(one.pinned_cpus), pages]


@each('case', recorded('numa-fits'))
def test_a_recorded_answer_of_nova(case):
    before = numa.HostTopology.from_json(json.dumps(case['host']))
    asked = numa.GuestTopology.of(named(case['guest']))
    wanted = pci.WantedDevices(
        pci.pools_from_json(json.dumps(case['pools'])),
        tuple(map(pci.PciRequest.of, named(case['requests']))),
        case['mapping'],
    )
    limits = case['limits'] and numa.NumaLimits.of(named(case['limits']))
    found = numa.fit(before, asked, limits, wanted, case['packing'])
    assert bool(found) is not bool(numa.why_not(before, asked, limits, wanted, case['packing']))
    assert case['fits'] == (found and list(map(as_recorded, found.cells)))
    if case['usage']:
        after = numa.take(before, found)
        assert [usage_of(one) for one in after.cells] == case['usage']


FOUR = [
    cell(number, cpuset=[number], pcpuset=[10 * number + cpu for cpu in (1, 2)])
    for number in range(4)
]


@pytest.mark.parametrize(
    'cells, asked, given',
    [
        pytest.param(FOUR, [shared()], (0,), id='one of equals: the first'),
        pytest.param(FOUR[:2], [shared(), shared()], (0, 1), id='as many as there are: in order'),
        pytest.param(FOUR[:2], [shared()] * 3, None, id='more than there are'),
        pytest.param(
            [FOUR[0], cell(1, pcpuset=range(11, 16))],
            [dedicated(2), dedicated(4)],
            (0, 1),
            id='by size',
        ),
        pytest.param(
            [FOUR[0], cell(1, pcpuset=range(11, 16))],
            [dedicated(4), dedicated(2)],
            (1, 0),
            id='turned',
        ),
        pytest.param(
            [FOUR[0], cell(1, pcpuset=range(11, 16))],
            [dedicated(4)] * 2,
            None,
            id='one is too small',
        ),
        pytest.param([], [], (), id='nothing for nothing'),
    ],
)
def test_choice_of_cells(cells, asked, given):
    assert cells_of(host(*cells), guest(*asked)) == given


@pytest.mark.parametrize('packing', [False, True])
@pytest.mark.parametrize(
    'cells, asked, spread, packed',
    [
        pytest.param(
            [{'memory_usage_mb': 1}, {'memory_usage_mb': 0}], shared(), 1, 0, id='free memory'
        ),
        pytest.param([{'cpu_usage': 1}, {'cpu_usage': 0}], shared(), 1, 0, id='shared: usage'),
        pytest.param(
            [{'pinned': [1]}, {'pinned': []}], dedicated(), 1, 0, id='dedicated: free CPUs'
        ),
        pytest.param([{'pinned': [1]}, {'pinned': []}], mixed(), 1, 0, id='mixed: the same'),
        pytest.param(
            [{'pinned': [1]}, {'pinned': []}], shared(), 0, 0, id='shared: free CPUs do not matter'
        ),
        pytest.param(
            [{'cpu_usage': 1}, {'memory_usage_mb': 1}], shared(), 1, 0, id='usage before memory'
        ),
    ],
)
def test_preferred_cells(cells, asked, spread, packed, packing):
    two = (cell(number, [0], [1, 2], **fields) for number, fields in enumerate(cells))
    assert cells_of(host(*two), guest(asked), packing=packing) == (packed if packing else spread,)


def test_no_preference_without_a_cell_to_spare():
    two = host(cell(0, [0], cpu_usage=9), cell(1, [1]))
    assert cells_of(two, guest(shared(), shared())) == (0, 1)


@pytest.mark.parametrize(
    'pools, requests, first',
    [
        pytest.param([pool(1, 0), pool(3, 1)], [], 2, id='none wanted: where there are fewest'),
        pytest.param([pool(1, 0), pool(3, 1)], [request()], 1, id='wanted: where there are most'),
        pytest.param(
            [pool(2, 0), pool(1, 1, x='1'), pool(2, 1, x='2')],
            [request()],
            1,
            id='devices, not pools',
        ),
        pytest.param(
            [pool(9, None), pool(1, 2)], [request()], 2, id='those without a cell do not count'
        ),
        pytest.param(
            [pool(1, 0), pool(5, 1, vendor='10de')],
            [request(policy='preferred')],
            1,
            id='of any kind',
        ),
    ],
)
@pytest.mark.parametrize('packing', [False, True])
def test_devices_come_before_all(pools, requests, first, packing):
    three = host(*(cell(number, [number], cpu_usage=number == first) for number in range(3)))
    wanted = pci.WantedDevices(tuple(pools), tuple(requests))
    assert cells_of(three, guest(shared()), pci=wanted, packing=packing) == (first,)


@pytest.mark.parametrize(
    'policy, node, given',
    [
        pytest.param('required', 1, (1,), id='required'),
        pytest.param('required', None, None, id='required, of no cell'),
        pytest.param('legacy', None, (0,), id='legacy, of no cell'),
        pytest.param('required', 2, None, id='required, of the cell that is full'),
        pytest.param('socket', 2, (1,), id='socket: the cell beside the full one'),
        pytest.param('preferred', 2, (0,), id='preferred, of the full cell'),
    ],
)
def test_devices_are_near(policy, node, given):
    three = host(
        *(cell(number, [] if number == 2 else [number], socket=number > 0) for number in range(3))
    )
    wanted = pci.WantedDevices((pool(1, node),), (request(policy=policy),))
    assert cells_of(three, guest(shared()), pci=wanted) == given


@pytest.mark.parametrize(
    'physnets, tunneled, given',
    [
        pytest.param([], False, (0,), id='none wanted'),
        pytest.param(['a'], False, (1,), id='near one cell'),
        pytest.param(['a', 'b'], False, None, id='near two cells, one asked'),
        pytest.param(['nowhere'], False, (0,), id='near no cell: anywhere'),
        pytest.param([], True, (2,), id='tunnels'),
        pytest.param(['a'], True, None, id='tunnels elsewhere'),
    ],
)
def test_networks_are_near(physnets, tunneled, given):
    three = host(
        cell(0, [0]),
        cell(1, [1], physnets=frozenset('a')),
        cell(2, [2], physnets=frozenset('b'), tunneled=True),
    )
    limits = numa.NumaLimits(1.0, 1.0, frozenset(physnets), tunneled)
    assert cells_of(three, guest(shared()), limits) == given


def test_networks_near_either_of_two_cells():
    three = host(
        *(cell(number, [number], physnets=frozenset(net)) for number, net in enumerate('xab'))
    )
    limits = numa.NumaLimits(1.0, 1.0, frozenset('ab'))
    assert cells_of(three, guest(shared(), shared()), limits) == (1, 2)


def test_a_realtime_guest_is_like_any_other():
    """Its mask divides virtual CPUs: which host CPUs they get is the same."""
    asked = named(
        {
            'cells': [
                {'id': 0, 'cpuset': [0], 'pcpuset': [1, 2], 'memory': 1, 'cpu_policy': 'mixed'}
            ]
        }
    )
    found = numa.fit(host(cell(0, [0], [1, 2])), numa.GuestTopology.of(asked))
    assert found.cells[0].pinning == {1: 1, 2: 2}


def test_many_cells_without_devices_end_soon():
    """Every order of the same cells is the same choice, as far as devices are concerned."""
    eight = host(*(cell(number, [number]) for number in range(8)))
    asked = []

    class Counted(pci.WantedDevices):
        def why_not(self, cells, host):
            asked.append(cells)
            return super().why_not(cells, host)

    assert cells_of(eight, guest(*[shared()] * 8), pci=Counted((), (request(),))) is None
    assert len(asked) == 1


NO_RATIO = numa.NumaLimits(1.0, 1.0)


def mixed_cell(number, cpus=1, pinned=1, used=0):
    first = 10 * number
    return cell(
        number, range(first, first + cpus), range(first + 5, first + 5 + pinned), cpu_usage=used
    )


@pytest.mark.parametrize(
    'cells, asked, ids, found',
    [
        pytest.param(
            [cell(0, pages=[(4, 999999)]), cell(1, [0], pages=[(2048, 100)])],
            [shared(1, pagesize_kb=-3)],
            [0],
            [1],
            id='a page size that the first cell offered is kept',
        ),
        pytest.param(
            [cell(0, [0, 1, 2]), cell(1, [3])],
            [shared(1), shared(3)],
            [1, 0],
            [1, 0],
            id='a cell is taken for one that failed',
        ),
        pytest.param(
            [cell(0), cell(2, [1, 2]), cell(1, [3])],
            [shared(1), shared(2)],
            [0, 1],
            [1, 2],
            id='a cell that was placed is taken for one that failed',
        ),
        pytest.param(
            [mixed_cell(0), mixed_cell(1), mixed_cell(2, used=1)],
            [mixed(0, 1), mixed(1, 1), mixed(1, 1)],
            [0, 1, 2],
            [2, 0, 1],
            id='a cell over the ratio is taken for another one',
        ),
        pytest.param(
            [mixed_cell(1, 2, 2, used=1), mixed_cell(0, used=1), mixed_cell(2, 2, 2)],
            [mixed(2, 1), mixed(1, 1)],
            [0, 1],
            [2, 1],
            id='a cell over the ratio is taken for another one when it is tried again',
        ),
    ],
)
def test_overlooked(cells, asked, ids, found):
    """The answers of Nova itself to these were the same."""
    numbered = (
        dataclasses.replace(one, id=number) for one, number in zip(asked, ids, strict=True)
    )
    wanted = numa.GuestTopology(tuple(numbered))
    assert numa.fit(host(*cells), wanted, NO_RATIO) is None
    assert numa.fit(host(*cells), wanted, NO_RATIO, thorough=True).host_cells == tuple(found)
    assert 'Nova does not find' in numa.why_not(host(*cells), wanted, NO_RATIO)


def test_a_cell_that_is_not_tried_again_is_not_mistaken():
    two = host(mixed_cell(1, 1, 2, used=1), mixed_cell(0, 1, 2))
    assert numa.fit(two, guest(mixed(1, 1), mixed(0, 1)), NO_RATIO).host_cells == (0, 1)


def test_nothing_is_remembered_from_one_search_to_the_next():
    asked = guest(shared(1, pagesize_kb=-3))
    small, large = (cell(0, [0], pages=[(size_kb, 99999)]) for size_kb in (4, 2048))
    assert [
        numa.fit(host(some), asked).cells[0].pagesize_kb for some in (small, large, small)
    ] == [
        4,
        2048,
        4,
    ]


SIXTEEN = host(*(cell(number, [number], memory_mb=1000 + number) for number in range(16)))
FAR = pci.WantedDevices((pool(node=99),), (request(policy='required'),))
TOO_LONG = 'its cells allow too many choices to search all of them'
NOT_AT_ONCE = 'each guest cell fits in a host cell, but not all 8 at once'
# What is asked of sixteen cells, and what it is refused for. No order of eight of them is tried
# 518,918,400 times.
WIDE = {
    'two cells want the same host cell': (
        [*([1] * 6), 1015, 1015], None, NOT_AT_ONCE,
    ),
    'seven want the same six': (
        [1, *([1010] * 7)], None, NOT_AT_ONCE,
    ),
    'the devices are elsewhere': ([1] * 8, FAR, TOO_LONG),
}  # fmt: skip


@pytest.mark.parametrize('what', WIDE)
def test_no_search_is_endless(what):
    sizes, wanted, why = WIDE[what]
    asked = guest(*(shared(memory_mb=size) for size in sizes))
    limits = numa.NumaLimits(1.0, 1.0)
    begin_s = time.process_time()
    assert numa.fit(SIXTEEN, asked, limits, wanted) is None
    assert numa.fit(SIXTEEN, asked, limits, wanted, thorough=True) is None
    assert numa.why_not(SIXTEEN, asked, limits, wanted) == why
    assert time.process_time() - begin_s < 10  # a tenth of a second, on a quiet machine


def test_a_wide_guest_that_fits_is_found():
    asked = guest(*(shared(memory_mb=1015 - number) for number in range(8)))
    assert cells_of(SIXTEEN, asked, numa.NumaLimits(1.0, 1.0)) is not None

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
"""A guest into a host: one cell into one cell, choice and order of cells, networks, devices; and
why it does not fit, in words."""

import dataclasses
import json
import time

import pytest

from nova_sched.hardware import numa, pci
from nova_sched.hardware.numa.fit import most_pins, pin, place
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
    threaded,
)

PAGES = [(4, 100000, 0), (2048, 100, 10, 5), (1048576, 3, 1)]  # free: 390 MiB, 170 MiB, 2 GiB
PAGED = cell(cpuset=[0, 1], pcpuset=[2, 3], pages=PAGES)
NO_PAGES = cell(cpuset=[0, 1], pcpuset=[2, 3], memory_usage_mb=4000)
CELL = cell(cpuset=[0, 1], pcpuset=[2, 3, 4], pinned=[4], cpu_usage=3, memory_usage_mb=1024)


def outcome(host, guest, reserved=0, limits=None):
    """Page size of the cell that was placed, or what is short of it."""
    found = place(host, guest, reserved, limits)
    return (
        found.pagesize_kb
        if isinstance(found, numa.PlacedCell)
        else (found.what, found.needs, found.has)
    )


@each('build', [shared, dedicated])
@each(
    'asked, memory_mb, given',
    [
        pytest.param(2048, 170, 2048, id='size, exact fit'),
        pytest.param(2048, 172, ('MiB in free pages of 2048 KiB', 172, 170), id='size, too few'),
        pytest.param(
            2048, 101, ('MiB in whole pages of 2048 KiB', 101, 0), id='size does not divide'
        ),
        pytest.param(64, 2, ('MiB in free pages of 64 KiB', 2, 0), id='size unknown'),
        pytest.param(-1, 390, 4, id='small'),
        pytest.param(-1, 391, ('MiB in free small pages', 391, 390.625), id='small, too few'),
        pytest.param(-2, 1024, 1048576, id='large takes the largest'),
        pytest.param(-2, 100, 2048, id='large, next size'),
        pytest.param(
            -2, 180, ('MiB in free large pages', 180, 170), id='large never takes the smallest'
        ),
        pytest.param(-2, 101, ('MiB in whole large pages', 101, 0), id='large does not divide'),
        pytest.param(-3, 2048, 1048576, id='any takes the largest'),
        pytest.param(-3, 180, 4, id='any, down to the smallest'),
        pytest.param(-3, 3072, ('MiB in free pages', 3072, 2048), id='any, too few'),
    ],
)
def test_pages_that_were_asked_for(build, asked, memory_mb, given):
    """They must be free for any guest."""
    assert outcome(PAGED, build(1, memory_mb=memory_mb, pagesize_kb=asked)) == given


@each('asked', [-1, -2, -3, 4])
def test_a_host_without_pages_has_none_to_give(asked):
    assert outcome(NO_PAGES, shared(1, pagesize_kb=asked))[1:] == (128, 0)


def test_large_pages_where_there_is_one_size():
    host = cell(cpuset=[0], pages=[(2048, 100)])
    assert outcome(host, shared(1, pagesize_kb=-2)) == ('MiB in free large pages', 128, 0)


@each(
    'host, build, memory_mb, given',
    [
        pytest.param(NO_PAGES, shared, 4096, None, id='shared: all there is'),
        pytest.param(
            NO_PAGES, shared, 4097, ('MiB of memory', 4097, 4096), id='shared: more than that'
        ),
        pytest.param(NO_PAGES, dedicated, 96, None, id='dedicated: what is free'),
        pytest.param(
            NO_PAGES, dedicated, 97, ('MiB of free memory', 97, 96), id='dedicated: more than that'
        ),
        pytest.param(NO_PAGES, mixed, 97, ('MiB of free memory', 97, 96), id='mixed: the same'),
        pytest.param(PAGED, shared, 390, None, id='the smallest pages'),
        pytest.param(
            PAGED, shared, 391, ('MiB of memory', 391, 390.625), id='more than the smallest pages'
        ),
        pytest.param(
            cell(pcpuset=[0], pages=[(4, 512, 256)]),
            dedicated,
            2,
            ('MiB of free memory', 2, 1),
            id='the smallest pages must be free',
        ),
        pytest.param(
            cell(cpuset=[0], pages=[(4, 512, 256)]), shared, 2, None, id='or not, if shared'
        ),
    ],
)
def test_memory_without_a_page_size(host, build, memory_mb, given):
    assert outcome(host, build(1, memory_mb=memory_mb)) == given


@each(
    'guest, reserved, given',
    [
        pytest.param(shared(2), 0, None, id='shared'),
        pytest.param(shared(3), 0, ('shared CPUs', 3, 2), id='shared, more than there are'),
        pytest.param(dedicated(2), 0, None, id='dedicated'),
        pytest.param(
            dedicated(3), 0, ('free dedicated CPUs', 3, 2), id='dedicated, one is in use'
        ),
        pytest.param(
            dedicated(4), 0, ('dedicated CPUs', 4, 3), id='dedicated, more than there are'
        ),
        pytest.param(
            dedicated(2), 1, ('free dedicated CPUs', 3, 2), id='the emulator is one more'
        ),
        pytest.param(mixed(2, 2), 0, None, id='mixed'),
        pytest.param(mixed(3, 1), 0, ('shared CPUs', 3, 2), id='mixed, shared'),
        pytest.param(mixed(1, 3), 0, ('free dedicated CPUs', 3, 2), id='mixed, dedicated'),
        pytest.param(mixed(1, 0), 0, None, id='mixed, none pinned'),
        pytest.param(
            mixed(1, 0),
            1,
            ('places for a cell without pinned CPUs', 1, 0),
            id='the emulator alone',
        ),
    ],
)
def test_cpus(guest, reserved, given):
    assert outcome(CELL, guest, reserved) == given


@each(
    'guest, limits, given',
    [
        pytest.param(shared(1), (2.0, 1.0), None, id='the last under the ratio'),
        pytest.param(
            shared(2), (2.0, 1.0), ('shared CPUs under the allocation ratio', 2, 1), id='above it'
        ),
        pytest.param(
            mixed(2, 1), (2.0, 1.0), ('shared CPUs under the allocation ratio', 2, 1), id='mixed'
        ),
        pytest.param(mixed(1, 2), (2.0, 1.0), None, id='mixed: pinned ones do not count'),
        pytest.param(dedicated(2), (0.5, 0.1), None, id='dedicated: no ratio'),
        pytest.param(shared(1, memory_mb=3072), (2.0, 1.0), None, id='memory, exact'),
        pytest.param(
            shared(1, memory_mb=3073),
            (2.0, 1.0),
            ('MiB of memory under the allocation ratio', 3073, 3072),
            id='memory, above',
        ),
        pytest.param(shared(1, memory_mb=3073), (2.0, 1.5), None, id='memory, overcommitted'),
    ],
)
def test_ratios(guest, limits, given):
    assert outcome(CELL, guest, limits=numa.NumaLimits(*limits)) == given


def test_ratios_hold_for_guests_with_pages_too():
    host = cell(cpuset=[0], pages=[(2048, 1000)], memory_usage_mb=4000)
    short = outcome(host, shared(1, pagesize_kb=2048), limits=numa.NumaLimits(1.0, 1.0))
    assert short == ('MiB of memory under the allocation ratio', 128, 96)


@each(
    'host, policy, given',
    [
        pytest.param(threaded(), 'isolate', None, id='threads, no CPUs set apart'),
        pytest.param(
            cell(cpuset=[0, 1], pcpuset=[2, 3]), 'isolate', None, id='set apart, no threads'
        ),
        pytest.param(
            cell(cpuset=[0, 1], pcpuset=[2, 3], cores=[(0, 1), (2, 3)]),
            'isolate',
            ('cores of one thread', 1, 0),
            id='set apart, with threads',
        ),
        pytest.param(
            cell(cpuset=[0, 1], pcpuset=[2, 3], cores=[(0, 1), (2, 3)]),
            'require',
            None,
            id='require',
        ),
        pytest.param(
            cell(pcpuset=[2, 3]),
            'require',
            ('free dedicated CPUs next to free siblings', 1, 0),
            id='require without threads',
        ),
        pytest.param(
            threaded(pinned=range(4)),
            'isolate',
            ('cores with all threads free', 1, 0),
            id='isolate, all cores in use',
        ),
        pytest.param(
            cell(pcpuset=[2, 3], cores=[(8, 9)]),
            'prefer',
            ('free dedicated CPUs on known cores', 1, 0),
            id='CPUs on no core',
        ),
    ],
)
def test_threads(host, policy, given):
    assert outcome(host, dedicated(1, thread_policy=policy)) == given


def test_where_it_lies():
    found = place(threaded(7), mixed(1, 2), 1, None)
    assert (found.host_cell, found.pinning, found.reserved) == (7, {1: 0, 2: 4}, {1})


def test_a_shared_cell_is_not_pinned():
    assert place(threaded(), shared(2), 0, None).host_cpus == frozenset()


QUADS = cell(pcpuset=range(8), cpuset=range(8), cores=[range(4), range(4, 8)])
USED_QUADS = cell(pcpuset=range(8), cores=[range(4), range(4, 8)], pinned=[0, 1, 4])
UNEVEN = cell(pcpuset=range(4), cores=[(0, 1), (2,), (3,)])


@each('policy', ['prefer', 'require'])
@each(
    'host, wanted, pinned',
    [
        pytest.param(threaded(), 1, [0], id='a thread of the first core'),
        pytest.param(threaded(), 2, [0, 4], id='a whole core'),
        pytest.param(threaded(), 3, [0, 4, 1], id='a core and a half'),
        pytest.param(threaded(), 8, [0, 4, 1, 5, 2, 6, 3, 7], id='all'),
        pytest.param(threaded(pinned=[0, 1]), 2, [2, 6], id='cores in use are passed over'),
        pytest.param(QUADS, 5, [0, 1, 2, 3, 4], id='four threads'),
        pytest.param(USED_QUADS, 3, [5, 6, 7], id='three threads of the fuller core'),
        pytest.param(USED_QUADS, 4, [2, 3, 5, 6], id='two threads of each'),
        pytest.param(UNEVEN, 2, [0, 1], id='a core of each kind'),
    ],
)
def test_prefer_and_require_fill_cores(host, wanted, pinned, policy):
    assert pin(host, wanted, 0, policy).guest == pinned


@each(
    'host, wanted, pinned',
    [
        pytest.param(threaded(pinned=[0, 1]), 5, [4, 5, 2, 6, 3], id='half cores too'),
        pytest.param(USED_QUADS, 5, [2, 3, 5, 6, 7], id='all that is free'),
        pytest.param(UNEVEN, 3, [0, 2, 3], id='one of each core'),
        pytest.param(UNEVEN, 4, [0, 1, 2, 3], id='uneven cores'),
        pytest.param(cell(pcpuset=range(4)), 3, [0, 1, 2], id='cores of one thread'),
    ],
)
def test_only_prefer_takes_lone_threads(host, wanted, pinned):
    assert pin(host, wanted, 0, 'prefer').guest == pinned
    assert pin(host, wanted, 0, 'require') is None


@each(
    'host, wanted, pinned',
    [
        pytest.param(threaded(), 4, [0, 1, 2, 3], id='a thread of each core'),
        pytest.param(threaded(), 5, None, id='more than cores'),
        pytest.param(threaded(pinned=[4]), 3, [1, 2, 3], id='the core in use is passed over'),
        pytest.param(threaded(pinned=[4]), 4, None, id='too few are wholly free'),
        pytest.param(QUADS, 2, [0, 4], id='four threads'),
        pytest.param(UNEVEN, 1, [0], id='cores of full size'),
        pytest.param(UNEVEN, 2, None, id='not the smaller ones'),
        pytest.param(cell(pcpuset=range(4)), 4, [0, 1, 2, 3], id='cores of one thread'),
        pytest.param(cell(pcpuset=range(2), cores=[]), 2, [0, 1], id='no cores told'),
    ],
)
def test_isolate(host, wanted, pinned):
    found = pin(host, wanted, 0, 'isolate')
    assert (found and found.guest) == pinned


@each(
    'host, wanted, policy, emulator',
    [
        pytest.param(threaded(), 1, 'prefer', {4}, id='beside the guest'),
        pytest.param(threaded(), 2, 'prefer', {1}, id='next core'),
        pytest.param(threaded(pinned=[4]), 2, 'prefer', {0}, id='a lone thread'),
        pytest.param(
            threaded(pinned=[4, 5, 6]),
            2,
            'require',
            {0},
            id='a lone thread, whatever the guest requires',
        ),
        pytest.param(threaded(), 8, 'prefer', None, id='none left'),
        pytest.param(threaded(), 2, 'isolate', {2}, id='a core of its own'),
        pytest.param(threaded(pinned=[6]), 2, 'isolate', {3}, id='not one in use'),
        pytest.param(threaded(), 4, 'isolate', None, id='no core left'),
        pytest.param(threaded(pinned=[7]), 3, 'isolate', None, id='no whole core left'),
        pytest.param(UNEVEN, 1, 'isolate', {2}, id='a smaller core will do'),
    ],
)
def test_the_emulator(host, wanted, policy, emulator):
    found = pin(host, wanted, 1, policy)
    assert (found and found.emulator) == emulator
    assert not found or emulator.isdisjoint(found.guest)


@each(
    'host, reserved, policy, found',
    [
        pytest.param(threaded(), 0, 'prefer', True, id='prefer'),
        pytest.param(threaded(), 0, 'require', True, id='require, with a pair free'),
        pytest.param(cell(pcpuset=range(4)), 0, 'require', False, id='require, without pairs'),
        pytest.param(threaded(), 0, 'isolate', False, id='isolate'),
        pytest.param(threaded(), 1, 'prefer', False, id='the emulator alone'),
    ],
)
def test_no_pinned_cpus(host, reserved, policy, found):
    """A cell of a mixed guest may have none; the answers are Nova's."""
    assert (pin(host, 0, reserved, policy) is not None) is found


@each(
    'host, policy, most',
    [
        pytest.param(USED_QUADS, 'prefer', 5, id='prefer: all that is free'),
        pytest.param(USED_QUADS, 'require', 4, id='require: two of each'),
        pytest.param(threaded(), 'require', 8, id='require: all'),
        pytest.param(USED_QUADS, 'isolate', 0, id='isolate: no core is whole'),
        pytest.param(cell(pcpuset=[0]), 'require', 0, id='require: no pairs'),
        pytest.param(threaded(pinned=[0]), 'isolate', 3, id='isolate: three whole'),
    ],
)
def test_most(host, policy, most):
    assert most_pins(host, policy) == most
    assert pin(host, most + 1, 0, policy) is None
    assert most == 0 or pin(host, most, 0, policy)


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


@each(
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


@each('packing', [False, True])
@each(
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


@each(
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
@each('packing', [False, True])
def test_devices_come_before_all(pools, requests, first, packing):
    three = host(*(cell(number, [number], cpu_usage=number == first) for number in range(3)))
    wanted = pci.WantedDevices(tuple(pools), tuple(requests))
    assert cells_of(three, guest(shared()), pci=wanted, packing=packing) == (first,)


@each(
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


@each(
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


@each(
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


@each('what', WIDE)
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


TWO = host(
    cell(0, [0, 1], range(10, 14), pinned=[10, 11], memory_mb=2048, physnets=frozenset('a')),
    cell(1, [2], range(20, 26), pinned=range(20, 23), memory_mb=1024, cpu_usage=1),
)


@each(
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


@each(
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

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

from nova_sched.hardware import numa, pci
from nova_sched.hardware.numa.fit import most_pins, pin, place
from nova_sched.tests.rows import each, table
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
@table(
    'asked, memory_mb, given',
    {
        'size, exact fit': (2048, 170, 2048),
        'size, too few': (2048, 172, ('MiB in free pages of 2048 KiB', 172, 170)),
        'size does not divide': (2048, 101, ('MiB in whole pages of 2048 KiB', 101, 0)),
        'size unknown': (64, 2, ('MiB in free pages of 64 KiB', 2, 0)),
        'small': (-1, 390, 4),
        'small, too few': (-1, 391, ('MiB in free small pages', 391, 390.625)),
        'large takes the largest': (-2, 1024, 1048576),
        'large, next size': (-2, 100, 2048),
        'large never takes the smallest': (-2, 180, ('MiB in free large pages', 180, 170)),
        'large does not divide': (-2, 101, ('MiB in whole large pages', 101, 0)),
        'any takes the largest': (-3, 2048, 1048576),
        'any, down to the smallest': (-3, 180, 4),
        'any, too few': (-3, 3072, ('MiB in free pages', 3072, 2048)),
    },
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


@table(
    'host, build, memory_mb, given',
    {
        'shared: all there is': (NO_PAGES, shared, 4096, None),
        'shared: more than that': (NO_PAGES, shared, 4097, ('MiB of memory', 4097, 4096)),
        'dedicated: what is free': (NO_PAGES, dedicated, 96, None),
        'dedicated: more than that': (NO_PAGES, dedicated, 97, ('MiB of free memory', 97, 96)),
        'mixed: the same': (NO_PAGES, mixed, 97, ('MiB of free memory', 97, 96)),
        'the smallest pages': (PAGED, shared, 390, None),
        'more than the smallest pages': (PAGED, shared, 391, ('MiB of memory', 391, 390.625)),
        'the smallest pages must be free': (
            cell(pcpuset=[0], pages=[(4, 512, 256)]),
            dedicated,
            2,
            ('MiB of free memory', 2, 1),
        ),
        'or not, if shared': (cell(cpuset=[0], pages=[(4, 512, 256)]), shared, 2, None),
    },
)
def test_memory_without_a_page_size(host, build, memory_mb, given):
    assert outcome(host, build(1, memory_mb=memory_mb)) == given


@table(
    'guest, reserved, given',
    {
        'shared': (shared(2), 0, None),
        'shared, more than there are': (shared(3), 0, ('shared CPUs', 3, 2)),
        'dedicated': (dedicated(2), 0, None),
        'dedicated, one is in use': (dedicated(3), 0, ('free dedicated CPUs', 3, 2)),
        'dedicated, more than there are': (dedicated(4), 0, ('dedicated CPUs', 4, 3)),
        'the emulator is one more': (dedicated(2), 1, ('free dedicated CPUs', 3, 2)),
        'mixed': (mixed(2, 2), 0, None),
        'mixed, shared': (mixed(3, 1), 0, ('shared CPUs', 3, 2)),
        'mixed, dedicated': (mixed(1, 3), 0, ('free dedicated CPUs', 3, 2)),
        'mixed, none pinned': (mixed(1, 0), 0, None),
        'the emulator alone': (mixed(1, 0), 1, ('places for a cell without pinned CPUs', 1, 0)),
    },
)
def test_cpus(guest, reserved, given):
    assert outcome(CELL, guest, reserved) == given


@table(
    'guest, limits, given',
    {
        'the last under the ratio': (shared(1), (2.0, 1.0), None),
        'above it': (shared(2), (2.0, 1.0), ('shared CPUs under the allocation ratio', 2, 1)),
        'mixed': (mixed(2, 1), (2.0, 1.0), ('shared CPUs under the allocation ratio', 2, 1)),
        'mixed: pinned ones do not count': (mixed(1, 2), (2.0, 1.0), None),
        'dedicated: no ratio': (dedicated(2), (0.5, 0.1), None),
        'memory, exact': (shared(1, memory_mb=3072), (2.0, 1.0), None),
        'memory, above': (
            shared(1, memory_mb=3073),
            (2.0, 1.0),
            ('MiB of memory under the allocation ratio', 3073, 3072),
        ),
        'memory, overcommitted': (shared(1, memory_mb=3073), (2.0, 1.5), None),
    },
)
def test_ratios(guest, limits, given):
    assert outcome(CELL, guest, limits=numa.NumaLimits(*limits)) == given


def test_ratios_hold_for_guests_with_pages_too():
    host = cell(cpuset=[0], pages=[(2048, 1000)], memory_usage_mb=4000)
    short = outcome(host, shared(1, pagesize_kb=2048), limits=numa.NumaLimits(1.0, 1.0))
    assert short == ('MiB of memory under the allocation ratio', 128, 96)


@table(
    'host, policy, given',
    {
        'threads, no CPUs set apart': (threaded(), 'isolate', None),
        'set apart, no threads': (cell(cpuset=[0, 1], pcpuset=[2, 3]), 'isolate', None),
        'set apart, with threads': (
            cell(cpuset=[0, 1], pcpuset=[2, 3], cores=[(0, 1), (2, 3)]),
            'isolate',
            ('cores of one thread', 1, 0),
        ),
        'require': (cell(cpuset=[0, 1], pcpuset=[2, 3], cores=[(0, 1), (2, 3)]), 'require', None),
        'require without threads': (
            cell(pcpuset=[2, 3]),
            'require',
            ('free dedicated CPUs next to free siblings', 1, 0),
        ),
        'isolate, all cores in use': (
            threaded(pinned=range(4)),
            'isolate',
            ('cores with all threads free', 1, 0),
        ),
        'CPUs on no core': (
            cell(pcpuset=[2, 3], cores=[(8, 9)]),
            'prefer',
            ('free dedicated CPUs on known cores', 1, 0),
        ),
    },
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
@table(
    'host, wanted, pinned',
    {
        'a thread of the first core': (threaded(), 1, [0]),
        'a whole core': (threaded(), 2, [0, 4]),
        'a core and a half': (threaded(), 3, [0, 4, 1]),
        'all': (threaded(), 8, [0, 4, 1, 5, 2, 6, 3, 7]),
        'cores in use are passed over': (threaded(pinned=[0, 1]), 2, [2, 6]),
        'four threads': (QUADS, 5, [0, 1, 2, 3, 4]),
        'three threads of the fuller core': (USED_QUADS, 3, [5, 6, 7]),
        'two threads of each': (USED_QUADS, 4, [2, 3, 5, 6]),
        'a core of each kind': (UNEVEN, 2, [0, 1]),
    },
)
def test_prefer_and_require_fill_cores(host, wanted, pinned, policy):
    assert pin(host, wanted, 0, policy).guest == pinned


@table(
    'host, wanted, pinned',
    {
        'half cores too': (threaded(pinned=[0, 1]), 5, [4, 5, 2, 6, 3]),
        'all that is free': (USED_QUADS, 5, [2, 3, 5, 6, 7]),
        'one of each core': (UNEVEN, 3, [0, 2, 3]),
        'uneven cores': (UNEVEN, 4, [0, 1, 2, 3]),
        'cores of one thread': (cell(pcpuset=range(4)), 3, [0, 1, 2]),
    },
)
def test_only_prefer_takes_lone_threads(host, wanted, pinned):
    assert pin(host, wanted, 0, 'prefer').guest == pinned
    assert pin(host, wanted, 0, 'require') is None


@table(
    'host, wanted, pinned',
    {
        'a thread of each core': (threaded(), 4, [0, 1, 2, 3]),
        'more than cores': (threaded(), 5, None),
        'the core in use is passed over': (threaded(pinned=[4]), 3, [1, 2, 3]),
        'too few are wholly free': (threaded(pinned=[4]), 4, None),
        'four threads': (QUADS, 2, [0, 4]),
        'cores of full size': (UNEVEN, 1, [0]),
        'not the smaller ones': (UNEVEN, 2, None),
        'cores of one thread': (cell(pcpuset=range(4)), 4, [0, 1, 2, 3]),
        'no cores told': (cell(pcpuset=range(2), cores=[]), 2, [0, 1]),
    },
)
def test_isolate(host, wanted, pinned):
    found = pin(host, wanted, 0, 'isolate')
    assert (found and found.guest) == pinned


@table(
    'host, wanted, policy, emulator',
    {
        'beside the guest': (threaded(), 1, 'prefer', {4}),
        'next core': (threaded(), 2, 'prefer', {1}),
        'a lone thread': (threaded(pinned=[4]), 2, 'prefer', {0}),
        'a lone thread, whatever the guest requires': (
            threaded(pinned=[4, 5, 6]),
            2,
            'require',
            {0},
        ),
        'none left': (threaded(), 8, 'prefer', None),
        'a core of its own': (threaded(), 2, 'isolate', {2}),
        'not one in use': (threaded(pinned=[6]), 2, 'isolate', {3}),
        'no core left': (threaded(), 4, 'isolate', None),
        'no whole core left': (threaded(pinned=[7]), 3, 'isolate', None),
        'a smaller core will do': (UNEVEN, 1, 'isolate', {2}),
    },
)
def test_the_emulator(host, wanted, policy, emulator):
    found = pin(host, wanted, 1, policy)
    assert (found and found.emulator) == emulator
    assert not found or emulator.isdisjoint(found.guest)


@table(
    'host, reserved, policy, found',
    {
        'prefer': (threaded(), 0, 'prefer', True),
        'require, with a pair free': (threaded(), 0, 'require', True),
        'require, without pairs': (cell(pcpuset=range(4)), 0, 'require', False),
        'isolate': (threaded(), 0, 'isolate', False),
        'the emulator alone': (threaded(), 1, 'prefer', False),
    },
)
def test_no_pinned_cpus(host, reserved, policy, found):
    """A cell of a mixed guest may have none; the answers are Nova's."""
    assert (pin(host, 0, reserved, policy) is not None) is found


@table(
    'host, policy, most',
    {
        'prefer: all that is free': (USED_QUADS, 'prefer', 5),
        'require: two of each': (USED_QUADS, 'require', 4),
        'require: all': (threaded(), 'require', 8),
        'isolate: no core is whole': (USED_QUADS, 'isolate', 0),
        'require: no pairs': (cell(pcpuset=[0]), 'require', 0),
        'isolate: three whole': (threaded(pinned=[0]), 'isolate', 3),
    },
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


@table(
    'cells, asked, given',
    {
        'one of equals: the first': (FOUR, [shared()], (0,)),
        'as many as there are: in order': (FOUR[:2], [shared(), shared()], (0, 1)),
        'more than there are': (FOUR[:2], [shared()] * 3, None),
        'by size': (
            [FOUR[0], cell(1, pcpuset=range(11, 16))],
            [dedicated(2), dedicated(4)],
            (0, 1),
        ),
        'turned': (
            [FOUR[0], cell(1, pcpuset=range(11, 16))],
            [dedicated(4), dedicated(2)],
            (1, 0),
        ),
        'one is too small': ([FOUR[0], cell(1, pcpuset=range(11, 16))], [dedicated(4)] * 2, None),
        'nothing for nothing': ([], [], ()),
        'large pages of one cell, the small ones of the other': (
            [cell(0, pages=[(4, 100), (2048, 100)]), cell(1, [1], pages=[(2048, 100)])],
            [shared(pagesize_kb=-2)],
            None,
        ),
    },
)
def test_choice_of_cells(cells, asked, given):
    assert cells_of(host(*cells), guest(*asked)) == given


@each('packing', [False, True])
@table(
    'cells, asked, spread, packed',
    {
        'free memory': ([{'memory_usage_mb': 1}, {'memory_usage_mb': 0}], shared(), 1, 0),
        'shared: usage': ([{'cpu_usage': 1}, {'cpu_usage': 0}], shared(), 1, 0),
        'dedicated: free CPUs': ([{'pinned': [1]}, {'pinned': []}], dedicated(), 1, 0),
        'mixed: the same': ([{'pinned': [1]}, {'pinned': []}], mixed(), 1, 0),
        'shared: free CPUs do not matter': ([{'pinned': [1]}, {'pinned': []}], shared(), 0, 0),
        'usage before memory': ([{'cpu_usage': 1}, {'memory_usage_mb': 1}], shared(), 1, 0),
    },
)
def test_preferred_cells(cells, asked, spread, packed, packing):
    two = (cell(number, [0], [1, 2], **fields) for number, fields in enumerate(cells))
    assert cells_of(host(*two), guest(asked), packing=packing) == (packed if packing else spread,)


def test_no_preference_without_a_cell_to_spare():
    two = host(cell(0, [0], cpu_usage=9), cell(1, [1]))
    assert cells_of(two, guest(shared(), shared())) == (0, 1)


@table(
    'pools, requests, first',
    {
        'none wanted: where there are fewest': ([pool(1, 0), pool(3, 1)], [], 2),
        'wanted: where there are most': ([pool(1, 0), pool(3, 1)], [request()], 1),
        'devices, not pools': ([pool(2, 0), pool(1, 1, x='1'), pool(2, 1, x='2')], [request()], 1),
        'those without a cell do not count': ([pool(9, None), pool(1, 2)], [request()], 2),
        'of any kind': ([pool(1, 0), pool(5, 1, vendor='10de')], [request(policy='preferred')], 1),
    },
)
@each('packing', [False, True])
def test_devices_come_before_all(pools, requests, first, packing):
    three = host(*(cell(number, [number], cpu_usage=number == first) for number in range(3)))
    wanted = pci.WantedDevices(tuple(pools), tuple(requests))
    assert cells_of(three, guest(shared()), pci=wanted, packing=packing) == (first,)


@table(
    'policy, node, given',
    {
        'required': ('required', 1, (1,)),
        'required, of no cell': ('required', None, None),
        'legacy, of no cell': ('legacy', None, (0,)),
        'required, of the cell that is full': ('required', 2, None),
        'socket: the cell beside the full one': ('socket', 2, (1,)),
        'preferred, of the full cell': ('preferred', 2, (0,)),
    },
)
def test_devices_are_near(policy, node, given):
    three = host(
        *(cell(number, [] if number == 2 else [number], socket=number > 0) for number in range(3))
    )
    wanted = pci.WantedDevices((pool(1, node),), (request(policy=policy),))
    assert cells_of(three, guest(shared()), pci=wanted) == given


@table(
    'physnets, tunneled, given',
    {
        'none wanted': ([], False, (0,)),
        'near one cell': (['a'], False, (1,)),
        'near two cells, one asked': (['a', 'b'], False, None),
        'near no cell: anywhere': (['nowhere'], False, (0,)),
        'tunnels': ([], True, (2,)),
        'tunnels elsewhere': (['a'], True, None),
    },
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


@table(
    'cells, asked, ids, found',
    {
        'a page size that the first cell offered is kept': (
            [cell(0, pages=[(4, 999999)]), cell(1, [0], pages=[(2048, 100)])],
            [shared(1, pagesize_kb=-3)],
            [0],
            [1],
        ),
        'a cell is taken for one that failed': (
            [cell(0, [0, 1, 2]), cell(1, [3])],
            [shared(1), shared(3)],
            [1, 0],
            [1, 0],
        ),
        'a cell that was placed is taken for one that failed': (
            [cell(0), cell(2, [1, 2]), cell(1, [3])],
            [shared(1), shared(2)],
            [0, 1],
            [1, 2],
        ),
        'a cell over the ratio is taken for another one': (
            [mixed_cell(0), mixed_cell(1), mixed_cell(2, used=1)],
            [mixed(0, 1), mixed(1, 1), mixed(1, 1)],
            [0, 1, 2],
            [2, 0, 1],
        ),
        'a cell over the ratio is taken for another one when it is tried again': (
            [mixed_cell(1, 2, 2, used=1), mixed_cell(0, used=1), mixed_cell(2, 2, 2)],
            [mixed(2, 1), mixed(1, 1)],
            [0, 1],
            [2, 1],
        ),
    },
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


@table(
    'asked, why',
    {
        'cells': ([shared()] * 3, 'needs 3 NUMA cells, the host has 2'),
        'shared CPUs': ([shared(4)], 'guest cell 0 needs 4 shared CPUs, the best host cell has 2'),
        'the second cell': (
            [shared(), dedicated(5)],
            'guest cell 1 needs 5 free dedicated CPUs, the best host cell has 3',
        ),
        'CPUs': ([dedicated(7)], 'guest cell 0 needs 7 dedicated CPUs, the best host cell has 6'),
        'free CPUs, in the cell that is nearest': (
            [dedicated(4)],
            'guest cell 0 needs 4 free dedicated CPUs, the best host cell has 3',
        ),
        'memory': (
            [shared(1, memory_mb=4096)],
            'guest cell 0 needs 4096 MiB of memory, the best host cell has 2048',
        ),
        'pages': (
            [shared(1, pagesize_kb=2048)],
            'guest cell 0 needs 128 MiB in free pages of 2048 KiB, the best host cell has 0',
        ),
        'siblings': (
            [dedicated(1, thread_policy='require')],
            (
                'guest cell 0 needs 1 free dedicated CPUs next to free siblings, '
                'the best host cell has 0'
            ),
        ),
        'not at once': (
            [shared(2), shared(2)],
            'each guest cell fits in a host cell, but not all 2 at once',
        ),
    },
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


@table(
    'physnets, why',
    {
        'near no cell': ('b', ''),
        'near a cell that is full': ('a', 'host cells [1] fit, but are not near network a'),
    },
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

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
"""One guest cell into one host cell, and which CPUs of which cores are pinned."""

import pytest

from nova_sched.hardware import numa
from nova_sched.hardware.numa import cell as one
from nova_sched.tests.rows import each
from nova_sched.tests.unit.hardware.builders import cell, dedicated, mixed, shared, threaded

PAGES = [(4, 100000, 0), (2048, 100, 10, 5), (1048576, 3, 1)]  # free: 390 MiB, 170 MiB, 2 GiB
PAGED = cell(cpuset=[0, 1], pcpuset=[2, 3], pages=PAGES)
NO_PAGES = cell(cpuset=[0, 1], pcpuset=[2, 3], memory_usage_mb=4000)
CELL = cell(cpuset=[0, 1], pcpuset=[2, 3, 4], pinned=[4], cpu_usage=3, memory_usage_mb=1024)


def outcome(host, guest, reserved=0, limits=None):
    """Page size of the cell that was placed, or what is short of it."""
    found = one.place(host, guest, reserved, limits)
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


@pytest.mark.parametrize('asked', [-1, -2, -3, 4])
def test_a_host_without_pages_has_none_to_give(asked):
    assert outcome(NO_PAGES, shared(1, pagesize_kb=asked))[1:] == (128, 0)


def test_large_pages_where_there_is_one_size():
    host = cell(cpuset=[0], pages=[(2048, 100)])
    assert outcome(host, shared(1, pagesize_kb=-2)) == ('MiB in free large pages', 128, 0)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    found = one.place(threaded(7), mixed(1, 2), 1, None)
    assert (found.host_cell, found.pinning, found.reserved) == (7, {1: 0, 2: 4}, {1})


def test_a_shared_cell_is_not_pinned():
    assert one.place(threaded(), shared(2), 0, None).host_cpus == frozenset()


QUADS = cell(pcpuset=range(8), cpuset=range(8), cores=[range(4), range(4, 8)])
USED_QUADS = cell(pcpuset=range(8), cores=[range(4), range(4, 8)], pinned=[0, 1, 4])
UNEVEN = cell(pcpuset=range(4), cores=[(0, 1), (2,), (3,)])


@pytest.mark.parametrize('policy', ['prefer', 'require'])
@pytest.mark.parametrize(
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
    assert one.pin(host, wanted, 0, policy).guest == pinned


@pytest.mark.parametrize(
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
    assert one.pin(host, wanted, 0, 'prefer').guest == pinned
    assert one.pin(host, wanted, 0, 'require') is None


@pytest.mark.parametrize(
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
    found = one.pin(host, wanted, 0, 'isolate')
    assert (found and found.guest) == pinned


@pytest.mark.parametrize(
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
    found = one.pin(host, wanted, 1, policy)
    assert (found and found.emulator) == emulator
    assert not found or emulator.isdisjoint(found.guest)


@pytest.mark.parametrize(
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
    assert (one.pin(host, 0, reserved, policy) is not None) is found


@pytest.mark.parametrize(
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
    assert one.most_pins(host, policy) == most
    assert one.pin(host, most + 1, 0, policy) is None
    assert most == 0 or one.pin(host, most, 0, policy)

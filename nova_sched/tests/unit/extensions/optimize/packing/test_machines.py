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
"""Machines as the potentials see them, and the potential of NUMA cells."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.extensions.optimize.packing.devices import UNFIT
from nova_sched.extensions.optimize.packing.machines import NO_MACHINE, CellPotential, Machines
from nova_sched.extensions.optimize.packing.mix import CellDemand, Mix, PciDemand, Size, size_of
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.tests.builders import request as server
from nova_sched.tests.unit.extensions.optimize.packing.builders import host_resources, size
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    pool,
    request,
    shared,
    wanted,
)

CELLS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4)
SIZES = ((1, (1, 1), 0), (1, (3, 2), 1), (2, (2, 2), 0), (3, (1, 2), 1))  # cells, needs, devices


def potential(sizes=SIZES, share=None):
    counts, needs, beside = zip(*sizes, strict=True)
    share = np.full(len(sizes), 1 / len(sizes)) if share is None else np.array(share)
    return CellPotential(
        np.array(needs, dtype=float),
        np.array(counts),
        np.array(beside, dtype=float)[:, None],
        share,
        np.array([16.0, 16.0]),
        np.array([4.0]),
    )


def most_copies(cells, devices, count, needs, beside):
    """How many copies fit, by trying each choice of cells for the next one."""
    if beside > devices:
        return 0
    found = 0
    for chosen in itertools.combinations(range(len(cells)), count):
        left = [
            tuple(has - need for has, need in zip(cell, needs, strict=True))
            if place in chosen
            else cell
            for place, cell in enumerate(cells)
        ]
        if min(min(cell) for cell in left) >= 0:
            found = max(
                found, 1 + most_copies(sorted(left), devices - beside, count, needs, beside)
            )
    return found


@given(CELLS.filter(lambda cells: sum(map(sum, cells)) <= 20), st.integers(0, 3))
def test_copies_are_those_of_trying_all(cells, devices):
    found = potential().copies(np.array(cells, dtype=float), np.array([float(devices)]))
    assert found.tolist() == [
        most_copies(cells, devices, count, needs, beside) for count, needs, beside in SIZES
    ]


@given(st.integers(1, 4), st.data())
def test_a_host_that_has_lost_copies_is_never_better(number, data):
    """Of two hosts with as much free, one on which no size has more copies and one has less."""
    total = data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20)))

    def split(units):
        cuts = data.draw(st.lists(st.integers(0, units), min_size=number - 1, max_size=number - 1))
        ends = [0, *sorted(cuts), units]
        return [float(after - before) for before, after in itertools.pairwise(ends)]

    one, other = (np.array([split(units) for units in total]).T for _ in range(2))
    made, devices = potential(), np.array([2.0])
    lost = made.copies(one, devices) - made.copies(other, devices)
    worse = made.of(other, devices) - made.of(one, devices)
    if (lost >= 0).all():
        assert worse >= -1e-6
        assert (worse > 1e-6) == lost.any()


def test_the_cell_that_guests_of_two_cells_need_costs_more():
    large = potential([(2, (4, 4), 0), (1, (1, 1), 0)], [0.5, 0.5])
    devices = np.zeros(1)
    before = np.array([[8.0, 8.0], [4.0, 8.0]])
    costs = [
        large.of(before - taken, devices) - large.of(before, devices)
        for taken in ([[1, 1], [0, 0]], [[0, 0], [1, 1]])
    ]
    assert costs[0] < costs[1]


@pytest.mark.parametrize('cells', [0, 1, 3])
def test_without_sizes_nothing_is_lost(cells):
    none = CellPotential(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 1)), np.zeros(0),
                         np.ones(2), np.ones(1))  # fmt: skip
    assert none.of(np.ones((cells, 2)), np.ones(1)) == 0


NIC = PciDemand(1, ((('vendor_id', '8086'),),))
PINNED = CellDemand(0, 4, 1024, cpu_policy='dedicated')


def host(*free, pools=(), **fields):
    """Two cells or so with this many free dedicated CPUs of 8 each."""
    return machine(
        *(cell(number, [], range(8), pinned=range(8 - one), memory_mb=8192, **fields)
          for number, one in enumerate(free)), pools=pools)  # fmt: skip


def costs(mix, asked, machines):
    """What a request costs on hosts with these machines and 8 VCPU each."""
    hosts = host_resources([None] * len(machines), machines=machines, VCPU=[8] * len(machines))
    tables = Tables(Mix(mix), hosts)
    return tables.cost(asked, tables.state(hosts))[0].tolist()


def test_the_size_of_a_request_with_cells_and_devices():
    pieces = wanted(
        dedicated(2, pagesize_kb=2048), dedicated(1), requests=[request(2)], emulator='isolate'
    )
    found = size_of(server(resources={'VCPU': 3}, pieces=pieces), set())
    assert found == Size(
        (('VCPU', 3),),
        None,
        (
            CellDemand(0, 3, 128, 2048, 'dedicated'),
            CellDemand(0, 1, 128, None, 'dedicated'),
        ),
        (PciDemand(2, NIC.alternatives),),
    )
    assert Mix.from_json(Mix({found: 2.0}).to_json()).counts == {found: 2.0}


def test_a_cell_that_a_larger_guest_cannot_use_is_taken():
    small = Size(cells=(CellDemand(0, 1, 128, cpu_policy='dedicated'),))
    mix = {Size(cells=(PINNED,)): 3.0, small: 1.0}
    whole, used = costs(mix, small, [host(8, 8), host(8, 7)])
    # The node takes its emptiest cell: no copy is kept whole there either.
    assert whole == used
    whole, used = costs(mix, small, [host(8), host(7)])
    assert used < whole


def test_huge_pages_are_counted():
    small = Size(cells=(CellDemand(1, 0, 512, 2048),))
    large = Size(cells=(CellDemand(1, 0, 4096, 2048),))
    hosts = [
        machine(cell(0, range(64), memory_mb=32768, pages=[(4, 1000), (2048, pages)]))
        for pages in (4096, 4096 - 256)
    ]
    exact, used = costs({small: 1.0, large: 1.0}, small, hosts)
    assert used < exact


def test_devices_are_not_left_without_cpus():
    """A request without devices goes to the host that has none, or too few CPUs for them."""
    nic = Size((('VCPU', 4),), None, (), (NIC,))
    mix = {nic: 1.0, size(4): 1.0}
    without, beside = costs(mix, size(4), [machine(), machine(pools=[pool(2)])])
    assert without < beside


def test_what_does_not_fit():
    assert costs({Size(cells=(PINNED,)): 1.0}, Size(cells=(PINNED,)), [host(3, 3), None]) == [
        UNFIT,
        UNFIT,
    ]
    nic = Size((), None, (), (NIC,))
    assert costs({nic: 1.0}, nic, [machine(pools=[pool(0)]), None]) == [UNFIT, UNFIT]


def test_a_mix_without_hardware_knows_no_machines():
    some = Machines({size(2): 1.0}, [host(8)])
    assert not some.is_used
    assert some.number(host(8)) == NO_MACHINE
    assert costs({size(2): 1.0}, Size(cells=(PINNED,)), [host(1)]) != [UNFIT]


def test_equal_machines_have_one_number():
    some = Machines({Size(cells=(PINNED,)): 1.0}, [])
    assert [some.number(one) for one in (host(8), host(7), host(8), None)] == [0, 1, 0, NO_MACHINE]
    some.forget()
    assert some.number(host(7)) == 0


def test_large_pages_and_the_share_of_cells():
    anything = Size(cells=(CellDemand(1, 0, 1024, -2), CellDemand(1, 0, 1024, -1)))
    some = Machines({anything: 1.0}, [host(8, pages=[(4, 9), (2048, 9), (1048576, 2)])])
    found = some.potential([some.number(host(8, 8, pages=[(4, 9), (1048576, 2)])), NO_MACHINE])
    assert np.isfinite(found).all()
    assert found[1] == 0


@pytest.mark.parametrize(
    'plain',
    [
        pytest.param([1, 2, 3, 4, 'shared', 'prefer', 7], id='too many'),
        pytest.param([-1, 2, 3, None, 'shared', 'prefer'], id='negative'),
        pytest.param([1, 2, 3, '4', 'shared', 'prefer'], id='pages as text'),
    ],
)
def test_cells_that_cannot_be_read(plain):
    with pytest.raises((ValueError, TypeError)):
        CellDemand.from_plain(plain)


def test_shared_cpus():
    asked = Size(cells=CellDemand.all_of(wanted(shared(2)).guest))
    hosts = [machine(cell(0, range(4), memory_mb=4096), cpu_ratio=2.0)]
    assert costs({asked: 1.0}, asked, hosts) == [pytest.approx(0, abs=100)]

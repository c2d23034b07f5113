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
"""The potential of NUMA cells."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.packing.machines import CellPotential

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

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
"""What Nova's way of searching overlooks, and a thorough search finds."""

import dataclasses

import pytest

from nova_sched.hardware import numa
from nova_sched.tests.unit.hardware.builders import cell, guest, host, mixed, shared

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

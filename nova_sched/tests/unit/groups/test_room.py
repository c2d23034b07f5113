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
"""Room on one host for members that may take it in several ways."""

import numpy as np
import pytest

from nova_sched.groups.arrays import room

CELLS = [[2, 0], [0, 2]]  # two of either cell
BOTH = [[1, 1]]


@pytest.mark.parametrize(
    'members, free, fits',
    [
        pytest.param([], [0, 0], True, id='nobody'),
        pytest.param([CELLS], [2, 0], True, id='the first cell'),
        pytest.param([CELLS], [1, 1], False, id='half of each is neither'),
        pytest.param([CELLS, CELLS], [2, 2], True, id='one in each'),
        pytest.param([CELLS, CELLS, CELLS], [4, 2], True, id='two in the larger'),
        pytest.param([CELLS, CELLS, BOTH], [3, 3], True, id='one in each and one in both'),
        pytest.param([CELLS, CELLS, BOTH], [4, 1], False, id='sums alone would do'),
        pytest.param([[[0, 1]]], [-5, 1], True, id='what nobody asks for may be overdrawn'),
        pytest.param([[[1, 0]]], [-5, 1], False, id='overdrawn'),
    ],
)
def test_fit(members, free, fits):
    assert room.fit([np.array(ways) for ways in members], np.array(free)) == fits


def test_sums_are_different_ones():
    assert room.sums([np.array(CELLS)] * 2).tolist() == [[0, 4], [2, 2], [4, 0]]


def test_a_wasteful_way_is_no_choice():
    assert room.thrifty(np.array([[3, 1], [1, 1], [0, 2]])).tolist() == [[1, 1], [0, 2]]

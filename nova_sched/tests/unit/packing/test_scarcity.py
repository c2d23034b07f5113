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
"""Scarce models and blocks."""

import numpy as np
import pytest

from nova_sched.packing.prices import MOST_SETS, block_weights, scarce_models


@pytest.mark.parametrize(
    'demand, idle, allowed, scarce',
    [
        pytest.param([1.0], [5, 5], ['11'], [0, 0], id='any model'),
        pytest.param([0.5, 0.5], [2, 8], ['11', '10'], [1, 0], id='one is asked for by name'),
        pytest.param([0.75, 0.25], [2, 8], ['11', '10'], [0.4, 0], id='soon scarce'),
        pytest.param(
            [0.4, 0.4, 0.2],
            [3, 3, 14],
            ['100', '010', '111'],
            [1, 1, 0],
            id='two lists that are short together',
        ),
        pytest.param([0.5, 0.5], [8, 2, 10], ['110', '111'], [0, 0, 0], id='enough of both'),
        pytest.param([0.5, 0.5], [5, 5], ['00', '11'], [0, 0], id='nothing serves it'),
        pytest.param([1.0], [0, 0], ['10'], [0, 0], id='nothing is idle'),
    ],
)
def test_scarce_models(demand, idle, allowed, scarce):
    lists = np.array([[one == '1' for one in line] for line in allowed])
    found = scarce_models(np.array(demand), np.array(idle, dtype=float), lists)
    assert found.tolist() == pytest.approx(scarce)


def test_many_lists_end():
    lists = np.eye(40, dtype=bool)
    found = scarce_models(np.full(40, 1 / 40), np.ones(40), lists)
    assert found.shape == (40,)
    assert MOST_SETS < 2**40


@pytest.mark.parametrize(
    'share, counts, blocks, coming, weights',
    [
        pytest.param([0.5, 0.5], [1, 1], [9, 9], 10, [0, 0], id='single devices'),
        pytest.param([0.1, 0.9], [8, 1], [1, 9], 20, [1, 0], id='scarce'),
        pytest.param([0.1, 0.9], [8, 1], [4, 9], 20, [1 / 16, 0], id='half as many'),
        pytest.param([0.3, 0.1], [8, 8], [1, 1], 100, [0.75, 0.25], id='two of one number'),
        pytest.param([0.3], [8], [0], 100, [1.0], id='none left'),
    ],
)
def test_blocks(share, counts, blocks, coming, weights):
    found = block_weights(*map(np.array, (share, counts, blocks)), coming)
    assert found.tolist() == pytest.approx(weights)

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
"""The values of holes, against the linear program whose dual they are; what is scarce."""

import numpy as np
import pytest

from nova_sched.extensions.optimize.packing.prices import (
    LEVELS,
    MAX_SETS,
    STEP,
    block_weights,
    hole_values,
    scarce_models,
)
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.optimize.packing.naive import best_filling


def holes_of(**counts):
    found = np.zeros((1, LEVELS))
    for level, count in counts.items():
        found[0, int(level[1:])] = count
    return found


@pytest.mark.parametrize(
    'holes, sizes, expected, near, asked',
    [
        pytest.param(
            holes_of(_100=50), [81, 10], [100, 5], 20, {100: 810, 19: 0}, id='too few are small'
        ),
        pytest.param(
            holes_of(_100=50),
            [50],
            [1000],
            20,
            {100: 1000, 49: 0, 50: 500},
            id='enough of one size',
        ),
        pytest.param(
            holes_of(_100=50, _19=50),
            [81, 19],
            [40, 500],
            20,
            {19: 190, 100: 1000},
            id='many are small',
        ),
        pytest.param(holes_of(_100=50), [100], [10], 20, {100: 0}, id='more holes than demand'),
    ],
)
def test_a_value(holes, sizes, expected, near, asked):
    values, _ = hole_values(holes, np.array(sizes), np.ones((1, len(sizes)), bool),
                         np.array(expected))  # fmt: skip
    assert {level: values[0, level] for level in asked} == pytest.approx(asked, abs=near)


@each('seed', range(8))
def test_values_and_prices_are_the_dual_of_the_best_filling(seed):
    """No prices give less than the optimum, and the best ones give just that."""
    chance = np.random.default_rng(seed)
    sizes = chance.choice(np.arange(5, 100), 6, replace=False)
    allowed = chance.random((2, 6)) < 0.8
    holes = np.zeros((2, LEVELS))
    holes[:, -1], holes[:, chance.integers(10, 90, 4)] = 400, 200
    expected = chance.integers(100, 900, 6).astype(float)
    values, prices = hole_values(holes, sizes, allowed, expected)
    assert (np.diff(values) > -1e-6).all()
    dual = (holes * values).sum() + expected @ prices
    assert 1 - 1e-9 <= dual / (best_filling(holes, sizes, allowed, expected) * STEP) < 1.04


def test_a_model_that_serves_nothing_has_no_value():
    values, _ = hole_values(holes_of(_100=5), np.array([50]), np.zeros((1, 1), bool), np.ones(1))
    assert values.max() < 20


def test_without_requests_nothing_has_a_value():
    nothing = np.zeros(0, dtype=int)
    values, prices = hole_values(holes_of(_100=5), nothing, np.zeros((1, 0), bool), nothing)
    assert not values.any()
    assert not len(prices)


def test_the_processor_is_yielded():
    calls = []
    hole_values(holes_of(_100=5), np.array([50]), np.ones((1, 1), bool), np.ones(1), rounds=3,
                pause=lambda: calls.append(1))  # fmt: skip
    assert len(calls) == 6


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
    assert MAX_SETS < 2**40


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

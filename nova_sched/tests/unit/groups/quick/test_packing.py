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
"""Plans of a spread: a ceiling and domains that can be filled between floor and ceiling."""

import itertools

import numpy as np
import pytest

from nova_sched.groups.quick.packing import plans
from nova_sched.tests.rows import each


def first(room, left, there=None, score=None, min_domains=1, max_skew=1):
    there = [0] * len(room) if there is None else there
    score = [0] * len(room) if score is None else score
    found = plans(np.array(room), np.array(there), np.array(score), left, min_domains, max_skew)
    return next(((ceiling, np.flatnonzero(domains).tolist()) for ceiling, domains in found), None)


@pytest.mark.parametrize(
    'room, left, more, expected',
    [
        pytest.param([9, 9, 9], 3, {}, (2, [0, 1, 2]), id='one each, and one to spare'),
        pytest.param([1, 5, 5], 6, {'max_skew': 0}, (3, [1, 2]), id='the small one is left out'),
        pytest.param(
            [1, 5, 5], 6, {'max_skew': 0, 'min_domains': 3}, None, id='the small one is needed'
        ),
        pytest.param(
            [9, 9, 9], 2, {'score': [1, 3, 2]}, (2, [1, 2]), id='the better of equal ones'
        ),
        pytest.param(
            [9, 9, 9],
            2,
            {'there': [0, 0, 2], 'max_skew': 0},
            (2, [0, 2]),
            id='who has some is used',
        ),
        pytest.param(
            [0, 9, 9], 6, {'there': [1, 0, 0]}, None, id='one that is used cannot keep up'
        ),
        pytest.param([1, 1], 3, {}, None, id='too little in all'),
    ],
)
def test_the_first_plan(room, left, more, expected):
    assert first(room, left, **more) == expected


@each('seed', range(80))
def test_a_plan_is_found_exactly_when_there_are_counts(seed):
    """Against all ways to spread the members over the domains."""
    chance = np.random.default_rng(seed)
    size, left = int(chance.integers(1, 5)), int(chance.integers(1, 7))
    room = chance.integers(0, 4, size)
    there = chance.integers(0, 2, size) * chance.integers(0, 3, size)
    min_domains, max_skew = int(chance.integers(1, 4)), int(chance.integers(0, 3))

    def good(more):
        counts = np.array(more) + there
        used = counts[counts > 0]
        return (
            sum(more) == left and len(used) >= min_domains and used.max() - used.min() <= max_skew
        )

    exists = any(good(more) for more in itertools.product(*(range(most + 1) for most in room)))
    found = list(plans(room, there, np.zeros(size), left, min_domains, max_skew))
    assert bool(found) == exists
    for ceiling, domains in found:
        holds = np.minimum(room + there, ceiling)[domains]
        assert holds.sum() >= left + there.sum()
        assert (holds >= max(1, ceiling - max_skew)).all()
        assert domains[there > 0].all()

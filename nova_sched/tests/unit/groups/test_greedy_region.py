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
"""What each zone promises to a group that must be in one."""

import numpy as np
import pytest

from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.tally import Tally, Wiring
from nova_sched.groups.quick.greedy_order import split
from nova_sched.groups.quick.greedy_region import promise
from nova_sched.tests.groups import policy, problem

ZONE = policy('affinity', 'zone', 'a b c d')
PAIRS = [policy('affinity', 'rack', 'a b'), policy('affinity', 'rack', 'c d')]
APART = [policy('anti-affinity', 'host', 'a b'), policy('anti-affinity', 'host', 'c d')]


@pytest.mark.parametrize(
    'rules, free, score, expected',
    [
        pytest.param([ZONE], 9, [9, 0, 0, 0, 7, 7, 7, 7], [36, 28], id='one host takes all'),
        pytest.param(
            [ZONE, policy('anti-affinity', 'host', 'a b c d')],
            9,
            [9, 5, 0, 0, 7, 7, 7, 7],
            [14, 28],
            id='a host each',
        ),
        pytest.param(
            [ZONE, *PAIRS, *APART],
            1,
            [9, 9, 0, 0, 7, 7, 7, 7],
            [18, 28],
            id='a rack for each pair',
        ),
        pytest.param(
            [ZONE, *PAIRS, *APART],
            2,
            [9, 9, 0, 0, 7, 7, 7, 7],
            [36, 28],
            id='a rack takes both pairs',
        ),
        pytest.param(
            [ZONE, *PAIRS, *APART, policy('anti-affinity', 'rack', 'a c')],
            2,
            [9, 9, 0, 0, 7, 7, 7, 7],
            [18, 28],
            id='a rack could take both pairs, but may not',
        ),
    ],
)
def test_promise(rules, free, score, expected):
    """Two zones of two racks of two hosts."""
    group = problem(
        dict.fromkeys('abcd', 1),
        [free] * 8,
        *rules,
        zones=[0] * 4 + [1] * 4,
        score=np.array([score], dtype=np.float32),
    )
    compiled = compile(group)
    packed, regions = split(compiled)
    zone = next(block for block in compiled.blocks if block.level == 2)
    inside = [block for block in packed if block.number in zone.inner]
    worth = promise(Tally(Wiring(compiled)), zone, inside, np.arange(2))
    assert worth.tolist() == pytest.approx(expected)
    assert regions == ([zone] if inside else [])

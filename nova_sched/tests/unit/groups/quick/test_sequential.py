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
"""One member after the other: the last resort, and what joint placement is measured against."""

import numpy as np
import pytest

from nova_sched.groups.limits import TimeLimit
from nova_sched.groups.quick import sequential
from nova_sched.tests.groups import policy, problem

FOUR = dict.fromkeys('abcd', 1)
SCORE = np.array([[6, 5, 4, 3, 2, 1]], dtype=np.float32)


@pytest.mark.parametrize(
    'rules, more, expected',
    [
        pytest.param([], {}, [0, 0, 1, 1], id='the best host with room'),
        pytest.param(
            [policy('anti-affinity', 'rack', 'a b c')], {}, [0, 2, 4, 0], id='anti-affinity'
        ),
        pytest.param([policy('affinity', 'rack', 'b d')], {}, [0, 0, 1, 1], id='affinity'),
        pytest.param(
            [policy('affinity', 'host', 'a c d')], {}, None, id='affinity without look ahead'
        ),
        pytest.param(
            [policy('spread', 'rack', 'a b c d', min_domains=3)], {}, [0, 2, 4, 0], id='new racks'
        ),
        pytest.param(
            [policy('spread', 'rack', 'a b c d', min_domains=2, max_skew=0)],
            {},
            [0, 2, 0, 2],
            id='then who is behind',
        ),
        pytest.param([policy('exclusive', 'rack', 'a b')], {}, [0, 0, 2, 2], id='exclusive'),
        pytest.param([policy('apart', 'rack', 'a', 'b c')], {}, [0, 2, 2, 0], id='apart'),
        pytest.param(
            [policy('near', 'rack', 'c d', 'b')], {}, [0, 0, 1, 1], id='near, anchor first'
        ),
        pytest.param([policy('near', 'host', 'a', 'c d')], {}, None, id='near, anchor too late'),
        pytest.param([], {'fixed': {'a': 5}}, [5, 0, 0, 1], id='who stays'),
        pytest.param(
            [policy('apart', 'rack', 'a', 'b')], {'fixed': {'a': 0}}, [0, 2, 0, 0], id='it counts'
        ),
        pytest.param([], {'cap': np.array([[1] * 6])}, [0, 1, 2, 3], id='caps'),
    ],
)  # fmt: skip
def test_place(rules, more, expected):
    hosts = sequential.place(problem(FOUR, [2] * 6, *rules, score=SCORE, **more))
    assert (hosts if hosts is None else hosts.tolist()) == expected


def test_ways():
    cells = [[2, 0], [0, 2]]
    hosts = sequential.place(problem(dict.fromkeys('abc', cells), [[2, 2], [2, 0]]))
    assert hosts.tolist() == [0, 0, 1]


def test_hosts_where_nothing_fits_change_nothing():
    hosts = sequential.place(
        problem(FOUR, [0, 2, 0, 2, 0, 2], policy('exclusive', 'rack', 'a b')),
    )
    assert hosts.tolist() == [1, 1, 3, 3]


def test_time_is_kept():
    assert sequential.place(problem(FOUR, [2] * 6), TimeLimit(0.0)) is None

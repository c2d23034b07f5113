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
"""A problem and its rules, made from policies."""

import numpy as np
import pytest

from nova_sched.groups.arrays.problem import Rule, demand_sums, thrifty_ways
from nova_sched.tests.groups import LEVELS, policy, problem


def test_a_rule_has_sorted_numbers_of_its_members():
    index = {'a': 0, 'b': 1, 'c': 2}
    rule = Rule.of(policy('apart', 'rack', 'c a', 'b', weight=2.0), index, LEVELS)
    assert (rule.kind, rule.level, rule.weight) == ('apart', 1, 2.0)
    assert (rule.a.tolist(), rule.b.tolist(), rule.a.dtype) == ([0, 2], [1], np.int32)
    assert not rule.is_required


def test_a_rule_without_members():
    rule = Rule.of(policy('spread', 'zone', ''), {}, LEVELS)
    assert rule.a.tolist() == [] == rule.b.tolist()
    assert rule.is_required


def test_what_is_not_said_has_a_value():
    group = problem({'a': 1, 'b': 2}, [4, 4, 4])
    assert (group.member_count, group.host_count, group.size(1)) == (2, 3, 2)
    assert group.fixed.tolist() == [-1, -1] == group.home.tolist()
    assert len(group.resources) == 1
    assert len(group.kind_names) == 2


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
    sums = demand_sums([np.array(ways) for ways in members], np.array(free))
    assert bool(len(sums)) == fits


def test_sums_are_different_ones():
    assert demand_sums([np.array(CELLS)] * 2).tolist() == [[0, 4], [2, 2], [4, 0]]


def test_a_wasteful_way_is_no_choice():
    assert thrifty_ways(np.array([[3, 1], [1, 1], [0, 2]])).tolist() == [[1, 1], [0, 2]]

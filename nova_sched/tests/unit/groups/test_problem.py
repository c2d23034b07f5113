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

from nova_sched.groups.arrays.problem import Rule
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

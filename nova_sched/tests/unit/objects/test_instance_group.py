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

"""Server groups: policy, policies and rules."""

import pytest

from nova_sched import objects


@pytest.mark.parametrize(
    'rules, found',
    [
        pytest.param(
            {'max_server_per_host': '2'}, {'max_server_per_host': 2}, id='number as text'
        ),
        pytest.param({'max_server_per_host': 3}, {'max_server_per_host': 3}, id='number'),
        pytest.param({'a': 'b', 'c': '-1'}, {'a': 'b', 'c': '-1'}, id='words'),
        pytest.param({}, {}, id='empty'),
        pytest.param(None, {}, id='unset'),
    ],
)
def test_rules(rules, found):
    assert objects.InstanceGroup(rules=rules).rules == found


@pytest.mark.parametrize(
    'fields, policy, policies',
    [
        pytest.param({'policy': 'affinity'}, 'affinity', ['affinity'], id='policy only'),
        pytest.param({'policies': ['affinity']}, 'affinity', ['affinity'], id='policies only'),
        pytest.param({'policy': None}, None, [], id='null policy'),
        pytest.param({'policies': []}, None, [], id='no policies'),
        pytest.param({'policies': ['a'], 'policy': 'b'}, 'b', ['a'], id='both'),
    ],
)
def test_policy_and_policies_tell_each_other(fields, policy, policies):
    group = objects.InstanceGroup(**fields)
    assert (group.policy, group.policies) == (policy, policies)
    assert [name for name in ('policies', 'policy') if name in group] == [
        name for name in ('policies', 'policy') if name in fields
    ]


def test_a_group_without_any_policy():
    with pytest.raises(NotImplementedError):
        objects.InstanceGroup().policies  # noqa: B018

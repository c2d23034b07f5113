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
"""The parts of a request, and what they read from older senders."""

import pytest

from nova_sched import objects


@pytest.mark.parametrize(
    'hints, name, default, found',
    [
        pytest.param({'a': ['x']}, 'a', None, 'x', id='one value'),
        pytest.param({'a': ['x', 'y']}, 'a', None, ['x', 'y'], id='several values'),
        pytest.param({'a': []}, 'a', 'd', [], id='no values'),
        pytest.param({'a': ['x']}, 'b', 'd', 'd', id='absent'),
        pytest.param({}, 'b', None, None, id='absent without default'),
        pytest.param(None, 'a', 'd', 'd', id='null'),
    ],
)
def test_a_hint(hints, name, default, found):
    assert objects.RequestSpec(scheduler_hints=hints).get_scheduler_hint(name, default) == found


def test_a_hint_of_hints_that_are_not_set():
    assert objects.RequestSpec().get_scheduler_hint('a', 'd') == 'd'


def test_the_flavor_shows_through():
    flavor = objects.Flavor(vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=5, swap=256)
    spec = objects.RequestSpec(flavor=flavor)
    shown = (spec.vcpus, spec.memory_mb, spec.root_gb, spec.ephemeral_gb, spec.swap)
    assert shown == (2, 512, 10, 5, 256)


@pytest.mark.parametrize(
    'field, nothing',
    [
        pytest.param('requested_destination', None, id='destination'),
        pytest.param('requested_resources', None, id='resources'),
        pytest.param('security_groups', {'objects': []}, id='security groups'),
        pytest.param(
            'network_metadata', {'physnets': [], 'tunneled': False}, id='network metadata'
        ),
        pytest.param('request_level_params', {}, id='request level'),
        pytest.param('requested_networks', {'objects': []}, id='networks'),
    ],
)
def test_what_an_older_sender_could_not_tell_reads_as_nothing_asked(field, nothing):
    spec = objects.RequestSpec()
    found = objects.to_primitive(getattr(spec, field))
    assert (found['nova_object.data'] if found else found) == nothing
    assert field not in spec


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

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
"""Server groups: a policy holds for one call with several servers, and for call after call."""

from collections import Counter

import pytest

from nova_sched.tests.stock_cloud.schedulers import REFERENCE
from nova_sched.tests.stock_cloud.servers import REFUSAL, allocations

POLICIES = [
    pytest.param('anti-affinity', {}, 5, [1, 1, 1, 1, 1], id='anti-affinity'),
    pytest.param('anti-affinity', {'max_server_per_host': 2}, 6, None, id='two per host'),
    pytest.param('affinity', {}, 3, [3], id='affinity'),
    pytest.param('soft-anti-affinity', {}, 6, [2, 1, 1, 1, 1], id='soft anti-affinity'),
    pytest.param('soft-affinity', {}, 3, [3], id='soft affinity'),
]


def spread(servers):
    """Servers on each host, the most first."""
    return sorted(Counter(server.host for server in servers).values(), reverse=True)


@pytest.mark.parametrize('policy, rules, count, expected', POLICIES)
@pytest.mark.parametrize('is_one_call', [True, False], ids=['one call', 'call after call'])
def test_policy(servers, placement, policy, rules, count, expected, is_one_call):
    flavor, group = servers.flavor(), {'group': servers.group(policy, **rules)}
    if is_one_call:
        booted = servers.boot(flavor, count, hints=group)
    else:
        booted = [servers.boot(flavor, hints=group)[0] for _ in range(count)]
    assert {server.status for server in booted} == {'ACTIVE'}
    found = spread(booted)
    assert found == (expected or found)
    assert found[0] <= rules.get('max_server_per_host', count)
    assert placement.allocations() == allocations(booted, flavor)


@pytest.mark.brief
def test_no_host_is_left_for_a_member(servers, placement):
    flavor, group = servers.flavor(), {'group': servers.group('anti-affinity')}
    booted = servers.boot(flavor, 5, hints=group)
    assert {server.status for server in booted} == {'ACTIVE'}
    (refused,) = servers.boot(flavor, hints=group)
    assert refused.status == 'ERROR'
    assert refused.fault.startswith(REFUSAL)
    assert set(placement.allocations()) == {server.uuid for server in booted}
    servers.delete([booted[2].uuid])
    (last,) = servers.boot(flavor, hints=group)
    assert (last.status, last.host) == ('ACTIVE', booted[2].host)


@pytest.mark.brief
def test_members_requested_at_the_same_time(cloud, servers):
    if cloud.scheduler.kind == REFERENCE:
        pytest.skip('nova-scheduler forgets between two calls what it has chosen')
    flavor, group = servers.flavor(), {'group': servers.group('anti-affinity')}
    names = [servers.ask(flavor, hints=group) for _ in range(5)]
    booted = [servers.built(name)[0] for name in names]
    assert {server.status for server in booted} == {'ACTIVE'}
    assert spread(booted) == [1, 1, 1, 1, 1]

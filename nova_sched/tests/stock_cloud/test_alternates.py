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
"""Builds that fail: the server runs on an alternate, and no call asks the scheduler again."""

import time

import pytest

from nova_sched.tests.stock_cloud.services import FLAKY, HOSTS

LOOK_S = 3.0  # our scheduler looks each 2 s for hosts that are enabled, if it has other ones


@pytest.fixture
def flaky(hosts):
    """The host on which builds fail, in service, and preferred: it is by far the largest."""
    hosts.enable(FLAKY)
    time.sleep(LOOK_S)
    return FLAKY


@pytest.mark.brief
@pytest.mark.parametrize(
    'count, group',
    [
        pytest.param(1, None, id='one'),
        pytest.param(3, None, id='three in one call'),
        pytest.param(3, 'anti-affinity', id='members of a group'),
    ],
)
def test_an_alternate_takes_the_server(cloud, servers, placement, flaky, count, group):
    calls = len(cloud.tap.of('select_destinations'))
    flavor = servers.flavor()
    hints = {'group': servers.group(group)} if group else None
    booted = servers.boot(flavor, count, hints=hints)
    assert {server.status for server in booted} == {'ACTIVE'}
    assert any(flaky in servers.tried(server.uuid) for server in booted)
    assert {server.host for server in booted} <= {*HOSTS}
    assert len({server.host for server in booted}) == count or not group
    assert placement.allocations() == {
        server.uuid: {server.host: flavor.resources} for server in booted
    }
    assert len(cloud.tap.of('select_destinations')) == calls + 1


def test_there_is_no_alternate(servers, hosts, placement, flaky):
    hosts.disable(*HOSTS)
    (server,) = servers.boot(servers.flavor())
    assert (server.status, servers.tried(server.uuid)) == ('ERROR', {flaky})
    assert placement.allocations() == {}

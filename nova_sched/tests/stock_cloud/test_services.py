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
"""Compute services that are taken out of service, or put back, a moment before a boot."""

import time

import pytest

from nova_sched.tests.stock_cloud.servers import REFUSAL

MOMENT_S = 0.1


@pytest.mark.brief
@pytest.mark.parametrize(
    'before, change, allowed',
    [
        pytest.param(
            lambda hosts: hosts.disable('cmp1', 'cmp2', 'cmp3'),
            lambda hosts: hosts.disable('cmp4'),
            'cmp5',
            id='disabled',
        ),
        pytest.param(
            lambda hosts: hosts.disable('cmp1', 'cmp2', 'cmp3'),
            lambda hosts: hosts.force_down('cmp4'),
            'cmp5',
            id='forced down',
        ),
        pytest.param(
            lambda hosts: hosts.disable('cmp1', 'cmp2', 'cmp3', 'cmp4', 'cmp5'),
            lambda hosts: hosts.enable('cmp3'),
            'cmp3',
            id='enabled',
        ),
        pytest.param(
            lambda hosts: (
                hosts.disable('cmp1', 'cmp2', 'cmp4', 'cmp5'),
                hosts.force_down('cmp3'),
            ),
            lambda hosts: hosts.force_up('cmp3'),
            'cmp3',
            id='no longer forced down',
        ),
    ],
)
def test_a_change_counts_at_once(servers, hosts, placement, before, change, allowed):
    before(hosts)
    flavor = servers.flavor()
    change(hosts)
    time.sleep(MOMENT_S)
    booted = servers.boot(flavor, 4)
    assert [(server.status, server.host) for server in booted] == [('ACTIVE', allowed)] * 4
    assert placement.allocations() == {
        server.uuid: {allowed: flavor.resources} for server in booted
    }


def test_no_host_in_service(servers, hosts, placement):
    hosts.disable('cmp1', 'cmp2', 'cmp3')
    hosts.force_down('cmp4', 'cmp5')
    (server,) = servers.boot(servers.flavor())
    assert server.status == 'ERROR'
    assert server.fault.startswith(REFUSAL)
    assert placement.allocations() == {}

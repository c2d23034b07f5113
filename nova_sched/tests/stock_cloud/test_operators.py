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
"""What operators are told of a cloud: before a switch, at any time, and by an audit."""

import uuid

import pytest

from nova_sched.tests.stock_cloud.schedulers import OURS
from nova_sched.tests.stock_cloud.services import HOSTS
from nova_sched.tests.stock_cloud.waiting import eventually


@pytest.fixture
def ask(cloud):
    """Runs a program with the configuration of our scheduler: exit status, document."""
    if cloud.scheduler.kind != OURS:
        pytest.skip('nova-scheduler answers none of these questions')
    return cloud.scheduler.ask


def checks(ask):
    status, found = ask('nova-sched-status', 'upgrade', 'check', '--json')
    return status, {one['check']: (one['result'], one['details']) for one in found['checks']}


def cloud_status(ask):
    return ask('nova-sched-manage', 'cloud', 'status', '--format', 'json')


def states(ask):
    return {one['host']: one['state'] for one in cloud_status(ask)[1]['hosts']}


def audit(ask):
    return ask('nova-sched-manage', 'claim', 'audit', '--format', 'json')


def test_a_check(ask):
    status, found = checks(ask)
    assert status == 0, found
    assert found['Compute services'][1] == 'The oldest has version 74.'
    assert found['Consumers of the queue'][1] == '1 consumer, of 1 known.'


def test_a_check_while_nova_scheduler_runs(cloud):
    if cloud.scheduler.kind == OURS:
        pytest.skip('for the reference')
    status, found = checks(cloud.scheduler.ask)
    warnings = {name: told for name, (code, told) in found.items() if code}
    assert (status, list(warnings)) == (1, ['Consumers of the queue']), found
    assert warnings['Consumers of the queue'].startswith('1 of 1 consumer of the queue scheduler')


def test_the_status(ask, hosts):
    eventually(0, lambda: cloud_status(ask)[0])
    eventually([len(HOSTS)], lambda: [one['taking'] for one in cloud_status(ask)[1]['cells']])
    before = states(ask)
    hosts.disable('cmp1')
    hosts.force_down('cmp2')
    told = {'cmp1': 'disabled', 'cmp2': 'forced down'}
    eventually({**before, **told}, lambda: states(ask))


def test_an_audit(ask, servers, placement):
    booted = servers.boot(servers.flavor(), 3)
    status, found = audit(ask)
    assert (status, found['consumers']) == (0, 3), found
    leaked = str(uuid.uuid4())
    placement.allocate(leaked, placement.uuid('cmp1'), {'VCPU': 1})
    server = booted[0]
    placement.release(server.uuid)
    status, found = audit(ask)
    kinds = {
        (one['kind'], one['consumer_uuid'])
        for one in found['findings']
        if one['severity'] == 'error'
    }
    placement.release(leaked)
    assert status == 1
    assert kinds == {('leaked', leaked), ('missing', server.uuid)}


def test_an_audit_during_a_move(ask, servers):
    (server,) = servers.boot(servers.flavor())
    servers.act(server.uuid, 'migrate', until='VERIFY_RESIZE')
    status, found = audit(ask)
    assert (status, found['consumers']) == (0, 2), found

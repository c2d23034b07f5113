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
"""Rebalances: plans that our scheduler makes, and Nova carries out."""

import contextlib
import json

import pytest

from nova_sched.tests.stock_cloud.schedulers import OURS
from nova_sched.tests.stock_cloud.servers import allocations
from nova_sched.tests.stock_cloud.services import HOSTS
from nova_sched.tests.stock_cloud.waiting import eventually

ACCOUNT = {'nova_api': {'auth_section': 'placement'}}


@pytest.fixture
def mover(cloud):
    """Our scheduler with an account for Nova's API, in place of the cloud's."""
    if cloud.scheduler.kind != OURS:
        pytest.skip('nova-scheduler has no rebalances')
    made = cloud.schedulers.make(OURS, options=ACCOUNT)
    with cloud.scheduled_by(made):
        yield made


@pytest.fixture
def settled(placement):
    """``settled(servers, flavor)``: soon, these have allocations on their hosts, and nothing else
    has any."""

    def settled(servers, flavor):
        eventually(allocations(servers, flavor), placement.allocations)

    return settled


@pytest.fixture
def run(mover, tmp_path, placement):
    """``run(*moves)``: have moves (server, host) made and wait for the end: the row of each
    server."""

    def run(*moves, words=()):
        plan = tmp_path / 'plan.json'
        nodes = [
            {
                'server': server.uuid,
                'source': placement.uuid(server.host),
                'destination': placement.uuid(host),
            }
            for server, host in moves
        ]
        plan.write_text(json.dumps({'moves': nodes}))
        return rows(mover, str(plan), '--wait', *words)

    return run


def rows(mover, *words):
    """What `rebalance run` ends with: the row of each server."""
    shown = json.loads(mover.manage('rebalance', 'run', *words, '--format', 'json'))
    return {one['server']: one for one in shown['plan']}


def known(mover, servers):
    """Wait until the scheduler has the claims of these servers, as Placement has them."""

    def claims():
        with contextlib.suppress(AssertionError):
            shown = json.loads(mover.manage('claim', 'list', '--format', 'json'))
            return {(one['consumer_uuid'], one['host'], one['state']) for one in shown}
        return None

    eventually({(one.uuid, one.host, 'confirmed') for one in servers}, claims)


@pytest.mark.brief
def test_a_host_is_drained(mover, servers, settled):
    flavor = servers.flavor()
    booted = servers.boot(flavor, 3, host='cmp1')
    known(mover, booted)
    found = rows(mover, '--goal', 'drain:cmp1', '--moves', '100%', '--wait')
    assert {one['state'] for one in found.values()} == {'confirmed'}, found
    moved = [servers.get(one.uuid) for one in booted]
    assert found.keys() == {one.uuid for one in moved}
    assert {one.host for one in moved} <= {*HOSTS} - {'cmp1'}
    assert {one.status for one in moved} == {'ACTIVE'}
    settled(moved, flavor)
    known(mover, moved)


def test_a_member_of_a_group_is_refused(run, mover, servers, settled):
    flavor, group = servers.flavor(), {'group': servers.group('anti-affinity')}
    first, second = servers.boot(flavor, 2, hints=group)
    free = sorted({*HOSTS} - {first.host, second.host})[0]
    known(mover, [first, second])
    row = run((first, second.host))[first.uuid]
    assert (row['state'], 'ServerGroupAntiAffinityFilter' in row['why']) == ('refused', True), row
    assert run((first, free))[first.uuid]['state'] == 'confirmed'
    settled([servers.get(first.uuid), second], flavor)


def test_a_live_migration_that_fails_in_nova(run, mover, servers, hosts, settled):
    flavor = servers.flavor()
    (server,) = servers.boot(flavor, host='cmp1')
    known(mover, [server])
    hosts.force_down('cmp1')
    row = run((server, 'cmp2'))[server.uuid]
    assert row['state'] == 'reverted', row
    assert 'Compute service of cmp1 is unavailable at this time' in row['why']
    assert servers.get(server.uuid).host == 'cmp1'
    settled([server], flavor)
    hosts.force_up('cmp1')
    assert run((server, 'cmp2'))[server.uuid]['state'] == 'confirmed'


def test_a_server_that_nova_does_not_migrate(run, mover, servers, settled):
    flavor = servers.flavor()
    (server,) = servers.boot(flavor, host='cmp1')
    servers.act(server.uuid, 'os-stop', until='SHUTOFF')
    known(mover, [server])
    row = run((server, 'cmp2'))[server.uuid]
    assert (row['state'], 'vm_state stopped' in row['why']) == ('reverted', True), row
    settled([server], flavor)


def test_a_scheduler_that_is_killed(mover, servers, settled):
    flavor = servers.flavor()
    booted = servers.boot(flavor, 3, host='cmp1')
    known(mover, booted)
    found = rows(mover, '--goal', 'drain:cmp1', '--moves', '100%')
    uuid = next(iter(json.loads(mover.manage('rebalance', 'list', '--format', 'json'))[-1:]))
    mover.kill()
    mover.start()

    def states():
        shown = mover.manage('rebalance', 'show', uuid['rebalance_uuid'], '--format', 'json')
        return {one['state'] for one in json.loads(shown)['plan']}

    eventually({'confirmed'}, states)
    assert found.keys() == {one.uuid for one in booted}
    settled([servers.get(one.uuid) for one in booted], flavor)


def test_a_host_is_closed_meanwhile(run, mover, servers, hosts):
    (server,) = servers.boot(servers.flavor(), host='cmp1')
    known(mover, [server])
    assert run((server, 'cmp2'), words=['--close', '1h'])[server.uuid]['state'] == 'confirmed'
    (made,) = (
        one['rebalance_uuid']
        for one in json.loads(mover.manage('rebalance', 'list', '--format', 'json'))[-1:]
    )
    status, reason = hosts.service('cmp1')
    assert (status, reason.startswith(f'closed by rebalance {made}')) == ('disabled', True)
    mover.manage('rebalance', 'stop', made)
    eventually(('enabled', None), lambda: hosts.service('cmp1'))

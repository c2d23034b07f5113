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
"""Moves: where a server may go, and who holds what in Placement before, meanwhile and after."""

import pytest

from nova_sched.tests.stock_cloud.placement import child
from nova_sched.tests.stock_cloud.services import HOSTS, LASTING, MAGIC
from nova_sched.tests.stock_cloud.stubs import SECOND
from nova_sched.tests.stock_cloud.waiting import eventually

ANYWHERE = {'host': None, 'block_migration': 'auto'}  # for a live migration


@pytest.fixture
def settled(placement):
    """``settled(consumers)``: soon, these and no others have allocations."""
    return lambda expected: eventually(expected, placement.allocations)


@pytest.mark.brief
@pytest.mark.parametrize(
    'end, is_moved',
    [
        pytest.param('confirmResize', True, id='confirmed'),
        pytest.param('revertResize', False, id='reverted'),
    ],
)
@pytest.mark.parametrize('action', ['resize', 'migrate'])
def test_resize_and_cold_migration(servers, settled, action, end, is_moved):
    small, large = servers.flavor(), servers.flavor(vcpus=2, ram_mb=1024, disk_gb=2)
    (server,) = servers.boot(small)
    body = {'flavorRef': large.name} if action == 'resize' else None
    moved = servers.act(server.uuid, action, body, until='VERIFY_RESIZE')
    assert moved.host in {*HOSTS} - {server.host}
    after = large if action == 'resize' else small
    before = {server.host: small.resources}
    settled({server.uuid: {moved.host: after.resources}, servers.migration(server.uuid): before})
    ended = servers.act(server.uuid, end)
    assert ended.host == (moved.host if is_moved else server.host)
    settled({server.uuid: {moved.host: after.resources} if is_moved else before})


def test_a_cold_migration_to_a_host(servers, settled):
    flavor = servers.flavor()
    (server,) = servers.boot(flavor, host='cmp1')
    moved = servers.act(server.uuid, 'migrate', {'host': 'cmp3'}, until='VERIFY_RESIZE')
    assert moved.host == 'cmp3'
    servers.act(server.uuid, 'confirmResize')
    settled({server.uuid: {'cmp3': flavor.resources}})


@pytest.mark.parametrize('target', [None, 'cmp3'], ids=['any host', 'one host'])
def test_live_migration(servers, settled, target):
    flavor = servers.flavor()
    (server,) = servers.boot(flavor, host='cmp1')
    moved = servers.act(server.uuid, 'os-migrateLive', {**ANYWHERE, 'host': target})
    assert moved.host in ([target] if target else {*HOSTS} - {'cmp1'})
    settled({server.uuid: {moved.host: flavor.resources}})


def test_a_move_keeps_to_the_policy_of_the_group(servers, settled):
    flavor, group = servers.flavor(), {'group': servers.group('anti-affinity')}
    members = servers.boot(flavor, 4, hints=group)
    (free,) = {*HOSTS} - {member.host for member in members}
    assert servers.act(members[0].uuid, 'migrate', until='VERIFY_RESIZE').host == free
    servers.act(members[0].uuid, 'confirmResize')
    moved = servers.act(members[1].uuid, 'os-migrateLive', ANYWHERE)
    assert moved.host == members[0].host
    hosts = [free, moved.host, members[2].host, members[3].host]
    settled({one.uuid: {host: flavor.resources} for one, host in zip(members, hosts, strict=True)})


def test_a_move_with_resources_of_a_child_provider(servers, settled):
    flavor = servers.flavor(specs={f'resources:{MAGIC}': '4'})
    (server,) = servers.boot(flavor, host='cmp4')
    moved = servers.act(server.uuid, 'migrate', until='VERIFY_RESIZE')
    assert moved.host == 'cmp5'
    held = [{host: flavor.resources, child(host): {MAGIC: 4}} for host in ('cmp4', 'cmp5')]
    settled({server.uuid: held[1], servers.migration(server.uuid): held[0]})
    servers.act(server.uuid, 'confirmResize')
    settled({server.uuid: held[1]})


@pytest.mark.parametrize('target', [None, 'cmp3'], ids=['any host', 'one host'])
def test_evacuation(cloud, servers, hosts, settled, target):
    hosts.enable(LASTING)
    flavor = servers.flavor()
    (server,) = servers.boot(flavor, host=LASTING)
    cloud.kill_compute(LASTING)
    hosts.force_down(LASTING)
    moved = servers.act(server.uuid, 'evacuate', {'host': target} if target else {})
    assert moved.host in ([target] if target else HOSTS)
    held = {moved.host: flavor.resources}
    settled({server.uuid: {LASTING: flavor.resources, **held}})
    cloud.start_compute(LASTING)
    settled({server.uuid: held})
    # Nova refuses as long as the restarted host has evacuated servers to clean up.
    eventually(True, lambda: hosts.may_be_up(LASTING))
    (after,) = servers.boot(flavor, host=LASTING)
    settled({server.uuid: held, after.uuid: {LASTING: flavor.resources}})


@pytest.mark.brief
def test_rebuild_with_another_image(servers, settled):
    flavor = servers.flavor()
    (server,) = servers.boot(flavor)
    assert servers.act(server.uuid, 'rebuild', {'imageRef': SECOND}).host == server.host
    settled({server.uuid: {server.host: flavor.resources}})


@pytest.mark.parametrize(
    'body, allowed',
    [
        pytest.param(None, HOSTS, id='anywhere'),
        pytest.param({'host': 'cmp5'}, ['cmp5'], id='one host'),
        pytest.param({'availability_zone': 'zone-b'}, ['cmp2', 'cmp3'], id='zone'),
    ],
)
def test_shelve_and_unshelve(servers, hosts, settled, body, allowed):
    hosts.aggregate('cmp2', 'cmp3', zone='zone-b')
    flavor = servers.flavor()
    (server,) = servers.boot(flavor)
    servers.act(server.uuid, 'shelve', until='SHELVED_OFFLOADED')
    eventually(None, lambda: servers.get(server.uuid).host)
    settled({})
    back = servers.act(server.uuid, 'unshelve', body)
    assert back.host in allowed
    settled({server.uuid: {back.host: flavor.resources}})


@pytest.mark.brief
@pytest.mark.parametrize(
    'action, until',
    [
        pytest.param(None, 'ACTIVE', id='running'),
        pytest.param('migrate', 'VERIFY_RESIZE', id='migrated'),
        pytest.param('shelve', 'SHELVED_OFFLOADED', id='shelved'),
    ],
)
def test_delete(servers, settled, action, until):
    (server,) = servers.boot(servers.flavor())
    if action:
        servers.act(server.uuid, action, until=until)
    servers.delete([server.uuid])
    settled({})

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
"""The Python of the manual runs as it is printed there, with the names that the text describes."""

import pytest

from nova_sched.tests import manual
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, eventually, spec
from nova_sched.tests.functional.test_rpc_groups import PATHS, TEMPLATE, context
from nova_sched.tests.manual import (
    AGGREGATES,
    BOOT,
    CANDIDATES,
    MEMBERS,
    MOVE,
    REPORT,
    ROUTER,
    run,
)
from nova_sched.tests.options import settings

SERVERS = [uuid_of(f'server {number}') for number in range(3)]


@pytest.fixture
def cloud(daemon):
    """Two hosts."""
    daemon.add('a', 'b', instances=[])
    return daemon


@pytest.fixture
def built():
    return []


@pytest.fixture
def build(built):
    """A build that succeeds."""
    return lambda instance_uuid, selection: built.append((instance_uuid, selection.service_host))


def test_boot(cloud, build, built):
    run(
        BOOT,
        bus=cloud.bus,
        spec=spec(num_instances=3),
        instance_uuids=SERVERS,
        build=build,
    )
    assert [uuid for uuid, _ in built] == SERVERS
    assert all(cloud.claims.show(uuid) for uuid in SERVERS)


def test_move(cloud, build):
    (host,) = cloud.boot('server 0')
    cloud.stats.update_resource_stats(host, compute_node(host), [SERVERS[0]])
    names = run(
        MOVE,
        bus=cloud.bus,
        spec=spec(ignore_hosts=[host]),
        instance_uuid=SERVERS[0],
        start=build,
    )
    assert names['where'].service_host == ({'a', 'b'} - {host}).pop()
    assert cloud.hosts_of('server 0')[names['where'].service_host] == 'confirmed'


def test_candidates(cloud):
    names = run(
        CANDIDATES,
        bus=cloud.bus,
        spec=spec(),
        instance_uuids=SERVERS[:1],
    )
    assert len(names['waiting'][0]) == 2
    assert cloud.hosts_of('server 0') == {names['claim'].host: 'pending'}


def test_members_of_a_group(cloud, build, built):
    for rack in ('r1', 'r2', 'r3'):
        cloud.add(rack, vcpus=4, stats={'rack': rack})
    names = run(
        MEMBERS,
        bus=cloud.bus,
        template=TEMPLATE,
        context=context(),
        spec=spec(vcpus=2, project_id=context().project_id),
        instance_uuids=SERVERS,
        build=build,
    )
    planned = {one.path: one.host for one in names['group'].members}
    assert [host for _, host in built] == [planned[path] for path in PATHS]
    cloud.groups.delete(names['group'].uuid)


def test_report(cloud):
    node = compute_node('compute-1')
    tree = {node.uuid: {'inventories': {'CUSTOM_LICENSE': {'total': 2}}}}
    with settings({'default.transport_url': 'fake://'}):
        names = run(REPORT, node=node, tree=tree)
    assert names['answer']['node'] == node.uuid


def test_aggregates(cloud):
    cloud.add('compute-1')
    with settings({'default.transport_url': 'fake://'}):
        run(AGGREGATES)
    eventually(lambda: cloud.table('aggregates'))
    assert cloud.boot('server 0', availability_zone='north') == ['compute-1']


def test_all_of_it_is_run():
    """The router's is among the tests of queues."""
    examples = (AGGREGATES, BOOT, MOVE, CANDIDATES, MEMBERS, REPORT, ROUTER)
    examples = [manual.python(one) for one in examples]
    assert [
        one for one in manual.blocks() if one.language == 'python' and one not in examples
    ] == []

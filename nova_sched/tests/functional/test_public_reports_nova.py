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
"""Public bug reports about clouds of Nova and Placement, each tried here.

A number alone is of Launchpad: https://launchpad.net/bugs/NUMBER.
"""

import contextlib
import json

import pytest

from nova_sched import errors, objects
from nova_sched.cloud.stored_specs import StoredSpecs
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import served
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.functional.test_nova_source import ROOM, NovaCloud, boot, node
from nova_sched.tests.unit.db import nova_tables as nova


@pytest.fixture
def cloud(tmp_path):
    with served() as fake:
        made = NovaCloud(tmp_path, fake)
        yield made
        made.close()


def refused(scheduler, *names, **words):
    with pytest.raises(errors.NoValidHost) as told:
        boot(scheduler, *names, **words)
    return str(told.value)


def takes(scheduler, name, host, **words):
    """Whether the host takes the server, as soon as it does."""

    def is_there():
        with contextlib.suppress(errors.NoValidHost):
            return boot(scheduler, name, force_hosts=[host], **words) == [host]

    return eventually(is_there)


def device(cloud, host, name, traits=(), **totals):
    """A child provider of a host."""
    cloud.fake.add(uuid_of(name), root=node(host), **(totals or {'CUSTOM_CARD': 1}))
    cloud.fake.traits[uuid_of(name)] = list(traits)


# Placement.


def test_nova_1821824(cloud):
    """A trait that a flavor forbids."""
    cloud.fake.traits[node('cmp1')] = ['CUSTOM_SLOW']
    forbids = {'trait:CUSTOM_SLOW': 'forbidden'}
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', 'b', vcpus=2, extra_specs=forbids) == ['cmp2'] * 2
        refused(scheduler, 'c', vcpus=1, extra_specs=forbids)
        assert boot(scheduler, 'c', vcpus=1) == ['cmp1']


def test_placement_1771707(cloud):
    """A required trait is one of the providers that give something: that of a card that the
    server does not get says nothing."""
    device(cloud, 'cmp1', 'card', ['CUSTOM_FAST'])
    required = {'trait:CUSTOM_FAST': 'required'}
    with cloud.scheduler() as scheduler:
        refused(scheduler, 'a', vcpus=1, extra_specs=required)
        with_card = {**required, 'resources:CUSTOM_CARD': '1'}
        assert boot(scheduler, 'a', vcpus=1, extra_specs=with_card) == ['cmp1']


@pytest.mark.parametrize('policy, cards', [('none', 1), ('isolate', 2)])
def test_placement_story_2006068(cloud, policy, cards):
    """Two groups of a request may be served by one provider: the mapping names it for both."""
    for number in range(cards):
        device(cloud, 'cmp1', f'card {number}', CUSTOM_CARD=2)
    wanted = {
        'resources1:CUSTOM_CARD': '1',
        'resources2:CUSTOM_CARD': '1',
        'group_policy': policy,
    }
    with cloud.scheduler() as scheduler:
        asked = spec(vcpus=1, extra_specs=wanted)
        ((chosen, *_),) = scheduler.select_destinations(asked, [uuid_of('a')])
        told = json.loads(chosen.allocation_request)
        held = cloud.fake.allocated()[uuid_of('a')]
    assert len(held) == 1 + cards
    mapped = [told['mappings'][group] for group in ('1', '2')]
    assert {one for (one,) in mapped} == held.keys() - {node('cmp1')}
    assert sum(one['CUSTOM_CARD'] for uuid, one in held.items() if uuid != node('cmp1')) == 2


def test_placement_1705071(cloud):
    """A request for the disk of a sharing provider alone: no compute node gives anything, so that
    Nova has no host for it, and other requests go on."""
    share = uuid_of('share')
    cloud.fake.add(share, DISK_GB=30)
    for host in ('cmp1', 'cmp2'):
        cloud.fake.add(node(host), VCPU=4, MEMORY_MB=8192)
        cloud.fake.shares[node(host)] = [share]
    nothing = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0'}
    with cloud.scheduler() as scheduler:
        refused(scheduler, 'a', vcpus=1, root_gb=10, extra_specs=nothing)
        assert cloud.fake.allocated() == {}
        assert boot(scheduler, 'b', vcpus=1, root_gb=10)


def test_placement_2104040(cloud):
    """More is in use on a host than it has now: it gets no server, its servers can go, and a
    move from there is no new use of it."""
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=3, force_hosts=['cmp1']) == ['cmp1']
        cloud.fake.add(node('cmp1'), **{**ROOM, 'VCPU': 2})
        cloud.fake.generations[node('cmp1')] += 1
        cloud.service._nova.mirror.compare_soon()
        cloud.service._nova.mirror.poll_now()
        assert boot(scheduler, 'b', vcpus=1) == ['cmp2']
        refused(scheduler, 'c', vcpus=1, force_hosts=['cmp1'])
        # Nova holds the source by the migration while the server moves.
        cloud.fake.consumers[uuid_of('move')] = cloud.fake.consumers.pop(uuid_of('a'))
        assert boot(scheduler, 'a', vcpus=3, ignore_hosts=['cmp1']) == ['cmp2']
        assert cloud.fake.allocated()[uuid_of('a')].keys() == {node('cmp2')}


def test_placement_2070257(cloud):
    """Many like devices of a host: the choice is made in the time of a call, and other hosts are
    seen."""
    for host in ('cmp1', 'cmp2'):
        for number in range(12):
            device(cloud, host, f'{host} {number}')
    wanted = {'group_policy': 'isolate'}
    wanted |= {f'resources{number}:CUSTOM_CARD': '1' for number in range(1, 7)}
    with cloud.scheduler() as scheduler:
        found = boot(scheduler, *'abcd', vcpus=1, extra_specs=wanted)
        assert sorted(found) == ['cmp1', 'cmp1', 'cmp2', 'cmp2']
        refused(scheduler, 'e', vcpus=1, extra_specs=wanted)


def test_ironic_1771577(cloud):
    """A node that is being cleaned is reserved whole: it is not taken until it is free."""
    cloud.fake.add(node('cmp1'), CUSTOM_METAL=1)
    cloud.fake.add(node('cmp2'), **ROOM)
    cloud.fake.fields[node('cmp1')] = {'CUSTOM_METAL': {'reserved': 1}}
    names = 'resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB'
    metal = {**dict.fromkeys(names, '0'), 'resources:CUSTOM_METAL': '1'}
    with cloud.scheduler() as scheduler:
        refused(scheduler, 'a', vcpus=1, extra_specs=metal)
        cloud.fake.fields.clear()
        cloud.fake.generations[node('cmp1')] += 1
        cloud.service._nova.mirror.compare_soon()
        assert takes(scheduler, 'a', 'cmp1', vcpus=1, extra_specs=metal)
        refused(scheduler, 'b', vcpus=1, extra_specs=metal)


# Nova's databases.


def test_nova_1811726(cloud):
    """A compute service is deleted, and its provider stays in Placement: it gets no server."""
    cloud.fake.add(node('cmp1'), **{**ROOM, 'MEMORY_MB': 65536})
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a') == ['cmp1']
        for table in (nova.NODES, nova.SERVICES):
            cloud.change(table, 'cmp1', deleted=7)
        assert boot(scheduler, 'b', 'c', vcpus=1) == ['cmp2'] * 2
        refused(scheduler, 'd', vcpus=1, force_hosts=['cmp1'])


def test_nova_1839560(cloud):
    """The node of a host is deleted, which no other column tells, and comes back with its
    UUID."""
    cloud.fake.add(node('cmp1'), **{**ROOM, 'MEMORY_MB': 65536})
    with cloud.scheduler() as scheduler:
        cloud.change(nova.NODES, 'cmp1', deleted=3)
        assert boot(scheduler, 'a', vcpus=1) == ['cmp2']
        cloud.change(nova.NODES, 'cmp1', deleted=0, updated_at=nova.ago(-1))
        assert takes(scheduler, 'b', 'cmp1', vcpus=4)


def test_kube_63262(cloud):
    """https://github.com/kubernetes/kubernetes/issues/63262, 51313 and 102339: a host is deleted
    and comes back under its name with another node: nothing of the old one is left."""
    cloud.fake.add(node('cmp1'), **{**ROOM, 'MEMORY_MB': 65536})
    with cloud.scheduler() as scheduler:
        assert boot(scheduler, 'a', vcpus=4) == ['cmp1']
        for table in (nova.NODES, nova.SERVICES):
            cloud.change(table, 'cmp1', deleted=5)
        cloud.fake.consumers.clear()
        del cloud.fake.providers[node('cmp1')]
        again = uuid_of('another node')
        cloud.write('cell1', nova.SERVICES, nova.service('cmp1'))
        row = nova.node('cmp1', uuid=again, written_s=-1.0)
        cloud.write('cell1', nova.NODES, row)
        cloud.fake.add(again, **{**ROOM, 'VCPU': 6})
        assert takes(scheduler, 'b', 'cmp1', vcpus=6)
        eventually(lambda: cloud.claims().keys() == {(uuid_of('b'), again)})


def test_kube_94437(cloud):
    """https://github.com/kubernetes/kubernetes/issues/94437 and 56261: that a host is gone is
    told by nobody, and found by who reads its rows before a choice."""
    cloud.options['cluster.look_interval'] = 1000.0
    cloud.fake.add(node('cmp1'), **{**ROOM, 'MEMORY_MB': 65536})
    with cloud.scheduler() as scheduler:
        for table in (nova.NODES, nova.SERVICES):
            cloud.change(table, 'cmp1', deleted=1)
        assert boot(scheduler, 'a', 'b', vcpus=1) == ['cmp2'] * 2


def test_nova_1746561(cloud, tmp_path):
    """The database of a cell is away, and 1857139: the hosts of other cells take servers."""
    away = {
        'id': 3,
        'uuid': uuid_of('away'),
        'name': 'away',
        'transport_url': 'fake://',
        'database_connection': f'sqlite:///{tmp_path}/nowhere/nova.sqlite',
        'disabled': False,
    }
    cloud.write('api', nova.CELLS, away)
    cloud.write('api', nova.HOSTS, {'id': 9, 'host': 'far', 'cell_id': 3})
    with cloud.scheduler() as scheduler:
        assert sorted(boot(scheduler, 'a', 'b', vcpus=4)) == ['cmp1', 'cmp2']
        refused(scheduler, 'c', vcpus=1, force_hosts=['far'])


def test_nova_1797580(cloud):
    """What a stored request has of its first boot is not for a move: its destination, its
    ignored (1669054), forced (1561357) and retried hosts (1718512), and a deleted server group
    (1890244)."""
    server = uuid_of('a')
    group = objects.InstanceGroup(
        uuid=uuid_of('gone'), policy='anti-affinity', members=[server, uuid_of('b')],
        hosts=['cmp1', 'cmp2'],
    )  # fmt: skip
    stored = spec(
        vcpus=1,
        instance_uuid=server,
        force_hosts=['cmp1'],
        force_nodes=['cmp1'],
        ignore_hosts=['cmp2'],
        instance_group=group,
        requested_destination=objects.Destination(host='cmp1', node='cmp1'),
        retry=objects.SchedulerRetries(
            num_attempts=3,
            hosts=objects.ComputeNodeList(
                objects=[objects.ComputeNode(host='cmp2', hypervisor_hostname='cmp2')]
            ),
        ),
    )
    text = json.dumps(objects.to_primitive(stored))
    cloud.write('api', nova.REQUEST_SPECS, {'instance_uuid': server, 'spec': text})
    cloud.write('cell1', nova.INSTANCES, nova.instance(host='cmp1') | {'uuid': server})
    with cloud.scheduler() as scheduler:
        # The server is on cmp1, as its claim and Placement have it.
        assert boot(scheduler, 'a', vcpus=1, force_hosts=['cmp1']) == ['cmp1']
        asked = StoredSpecs(cloud.service._nova.api, cloud.service._nova.cells).spec(server)
        cloud.fake.consumers[uuid_of('move')] = cloud.fake.consumers.pop(server)
        asked.ignore_hosts = ['cmp1']
        ((chosen, *_),) = scheduler.select_destinations(asked, [server])
        assert chosen.service_host == 'cmp2'

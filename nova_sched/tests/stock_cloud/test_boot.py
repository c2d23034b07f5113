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
"""Boots: where a server may run, what it is allocated there, and builds that fail."""

import time
from collections import Counter

import pytest

from nova_sched.tests.stock_cloud.placement import child
from nova_sched.tests.stock_cloud.servers import REFUSAL, allocations
from nova_sched.tests.stock_cloud.services import FLAKY, HOSTS, MAGIC, NESTED
from nova_sched.tests.stock_cloud.waiting import eventually

WHOLE_MB = 7000  # two servers of this size do not fit on one host


def states(servers):
    return Counter(server.status for server in servers)


@pytest.mark.brief
@pytest.mark.parametrize(
    'words, allowed',
    [
        pytest.param({}, HOSTS, id='anywhere'),
        pytest.param({'count': 5}, HOSTS, id='five in one call'),
        pytest.param({'host': 'cmp2'}, ['cmp2'], id='host'),
        pytest.param({'hypervisor_hostname': 'cmp3'}, ['cmp3'], id='node'),
        pytest.param({'zone': 'nova:cmp4'}, ['cmp4'], id='forced host'),
        pytest.param({'zone': 'nova', 'count': 2}, HOSTS, id='default zone'),
    ],
)
def test_where(servers, placement, words, allowed):
    flavor = servers.flavor()
    booted = servers.boot(flavor, **words)
    assert states(booted) == {'ACTIVE': words.get('count', 1)}
    assert {server.host for server in booted} <= {*allowed}
    assert placement.allocations() == allocations(booted, flavor)


@pytest.mark.parametrize(
    'metadata, specs, words',
    [
        pytest.param({'zone': 'zone-a'}, {}, {'zone': 'zone-a'}, id='zone'),
        pytest.param(
            {'disk': 'ssd'},
            {'aggregate_instance_extra_specs:disk': 'ssd'},
            {},
            id='extra specs of an aggregate',
        ),
    ],
)
def test_in_an_aggregate(servers, hosts, placement, metadata, specs, words):
    hosts.aggregate('cmp1', 'cmp4', **metadata)
    flavor = servers.flavor(specs=specs)
    booted = servers.boot(flavor, 4, **words)
    assert states(booted) == {'ACTIVE': 4}
    assert {server.host for server in booted} <= {'cmp1', 'cmp4'}
    assert {server.zone for server in booted if 'zone' in words} <= {'zone-a'}
    assert placement.allocations() == allocations(booted, flavor)


def test_traits(servers, placement):
    placement.add_trait('cmp2', 'CUSTOM_FAST')
    wanted = servers.flavor(specs={'trait:CUSTOM_FAST': 'required'})
    assert [one.host for one in servers.boot(wanted, 2)] == ['cmp2', 'cmp2']
    unwanted = servers.flavor(specs={'trait:CUSTOM_FAST': 'forbidden'})
    found = servers.boot(unwanted, 4)
    assert states(found) == {'ACTIVE': 4}
    assert {one.host for one in found} <= {*HOSTS} - {'cmp2'}


@pytest.mark.parametrize(
    'specs, resources',
    [
        pytest.param({'resources:VCPU': '0'}, {'MEMORY_MB': 512, 'DISK_GB': 1}, id='a class less'),
        pytest.param(
            {'resources:MEMORY_MB': '64', 'resources:VCPU': '2'},
            {'VCPU': 2, 'MEMORY_MB': 64, 'DISK_GB': 1},
            id='other amounts',
        ),
        pytest.param(
            {'resources:VCPU': '0', 'resources:MEMORY_MB': '0'}, {'DISK_GB': 1}, id='one class'
        ),
    ],
)
def test_overrides(servers, placement, specs, resources):
    (server,) = servers.boot(servers.flavor(specs=specs))
    assert server.status == 'ACTIVE'
    assert placement.allocations() == {server.uuid: {server.host: resources}}


@pytest.mark.brief
def test_a_class_of_a_child_provider(servers, placement):
    flavor = servers.flavor(specs={f'resources:{MAGIC}': '4'})
    booted = servers.boot(flavor, 3)
    assert states(booted) == {'ACTIVE': 3}
    assert {server.host for server in booted} <= {*NESTED}
    assert placement.allocations() == {
        server.uuid: {server.host: flavor.resources, child(server.host): {MAGIC: 4}}
        for server in booted
    }


@pytest.mark.parametrize(
    'ram_mb, override_mb, fitting',
    [
        pytest.param(5000, '64', 3, id='more than by the flavor'),
        pytest.param(64, '5000', 1, id='fewer than by the flavor'),
    ],
)
def test_overrides_decide_how_many_fit(servers, placement, ram_mb, override_mb, fitting):
    """The sums in compute_nodes count the flavor; only Placement has the true ones."""
    flavor = servers.flavor(ram_mb=ram_mb, specs={'resources:MEMORY_MB': override_mb})
    booted = [servers.boot(flavor, host='cmp1')[0] for _ in range(3)]
    assert states(booted) == Counter({'ACTIVE': fitting, 'ERROR': 3 - fitting})
    assert set(placement.allocations()) == {one.uuid for one in booted if one.host}


@pytest.mark.brief
def test_several_are_booted_or_none(servers, placement):
    whole = servers.flavor(ram_mb=WHOLE_MB)
    refused = servers.boot(whole, len(HOSTS) + 1)
    assert states(refused) == {'ERROR': len(HOSTS) + 1}
    assert {server.fault.startswith(REFUSAL) for server in refused} == {True}
    assert placement.allocations() == {}


def test_a_full_cloud_takes_one_more_after_a_deletion(servers, placement):
    whole = servers.flavor(ram_mb=WHOLE_MB)
    booted = servers.boot(whole, len(HOSTS))
    assert {server.host for server in booted} == {*HOSTS}
    (refused,) = servers.boot(whole)
    assert (refused.status, refused.host) == ('ERROR', None)
    assert len(placement.allocations()) == len(HOSTS)
    servers.delete([booted[0].uuid])
    eventually(len(HOSTS) - 1, lambda: len(placement.allocations()))
    (last,) = servers.boot(whole)
    assert (last.status, last.host) == ('ACTIVE', booted[0].host)


def test_hints(servers):
    flavor = servers.flavor()
    first = servers.boot(flavor)[0]
    (there,) = servers.boot(flavor, hints={'same_host': [first.uuid]})
    (other,) = servers.boot(flavor, hints={'different_host': [first.uuid, there.uuid]})
    assert [there.host, other.host == first.host] == [first.host, False]
    both = {'same_host': [first.uuid], 'different_host': [there.uuid]}
    assert states(servers.boot(flavor, hints=both)) == {'ERROR': 1}


POOL = 'CUSTOM_POOL_GB'


def test_a_sharing_provider(servers, placement):
    with placement.sharing('pool', ['cmp1', 'cmp2'], **{POOL: 10}) as pool:
        flavor = servers.flavor(specs={f'resources:{POOL}': '4'})
        booted = servers.boot(flavor, 2)
        assert Counter(one.status for one in booted) == {'ACTIVE': 2}
        assert {one.host for one in booted} <= {'cmp1', 'cmp2'}
        assert placement.allocations() == {
            one.uuid: {one.host: flavor.resources, pool: {POOL: 4}} for one in booted
        }
        (refused,) = servers.boot(flavor)
        assert (refused.status, refused.host) == ('ERROR', None)
        servers.delete(one.uuid for one in [*booted, refused])
        eventually({}, placement.allocations)


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
    assert placement.allocations() == allocations(booted, flavor)
    assert len(cloud.tap.of('select_destinations')) == calls + 1


def test_there_is_no_alternate(servers, hosts, placement, flaky):
    hosts.disable(*HOSTS)
    (server,) = servers.boot(servers.flavor())
    assert (server.status, servers.tried(server.uuid)) == ('ERROR', {flaky})
    assert placement.allocations() == {}

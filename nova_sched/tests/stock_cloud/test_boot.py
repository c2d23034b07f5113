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
"""Boots: where a server may run, and what it is allocated there."""

from collections import Counter

import pytest

from nova_sched.tests.stock_cloud.placement import child
from nova_sched.tests.stock_cloud.servers import REFUSAL
from nova_sched.tests.stock_cloud.services import HOSTS, MAGIC, NESTED
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
    assert placement.allocations() == {
        server.uuid: {server.host: flavor.resources} for server in booted
    }


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
    assert placement.allocations() == {
        server.uuid: {server.host: flavor.resources} for server in booted
    }


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

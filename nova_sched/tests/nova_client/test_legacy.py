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
"""Callers of older releases: each cap of ``[upgrade_levels]scheduler``, and what Nova's client
then sends."""

import pytest
from nova import exception, objects
from nova.scheduler.rpcapi import SchedulerAPI

from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.settings import options

CAPS = ['4.0', '4.3', '4.4', '4.5', 'liberty', 'ocata', 'pike']
# Since 4.4 callers name their instances, and only what has a name can be claimed for.
CLAIMING = ['4.4', '4.5', 'pike']
IMPOSSIBLE = {'extra_specs': {'capabilities:cpu_info:vendor': 'Acme'}}


@pytest.fixture(params=CAPS)
def cap(request):
    return request.param


@pytest.fixture
def ask(daemon, context, cap):
    """Ask through Nova's client under the cap; returns the answer as it came."""
    with options('upgrade_levels', scheduler=cap):
        capped = SchedulerAPI()

    def ask(count=1, *, instance_uuids=None, **words):
        asked = instance_uuids or specs.uuids(count)
        return capped.select_destinations(context, specs.spec(context, asked, **words), asked)

    return ask


def test_the_answer_is_a_dict_for_each_instance(cloud, ask):
    nodes = cloud.add(3, vcpus=1)
    found = ask(3)
    assert sorted(found, key=lambda one: one['host']) == [
        {'host': node.host, 'nodename': node.hypervisor_hostname, 'limits': {}}
        for node in sorted(nodes, key=lambda node: node.host)
    ]


def test_who_names_instances_gets_claims(cloud, ask, cap):
    cloud.add()
    asked = specs.uuids(2)
    found = [one['host'] for one in ask(instance_uuids=asked)]
    assert cloud.placed(asked) == (found if cap in CLAIMING else [])


def test_a_refusal(cloud, ask):
    cloud.add(vcpus=1)
    with pytest.raises(exception.NoValidHost, match=r'^No valid host was found\. '):
        ask(2)


@pytest.mark.parametrize(
    'words',
    [
        pytest.param(lambda a, b, c: {'ignore_hosts': [a, c]}, id='ignore hosts'),
        pytest.param(lambda a, b, c: {'force_hosts': [b]}, id='force a host'),
        pytest.param(lambda a, b, c: {'force_nodes': [b]}, id='force a node'),
        pytest.param(
            lambda a, b, c: {'force_hosts': [b], 'flavor': IMPOSSIBLE}, id='force and skip filters'
        ),
        pytest.param(
            lambda a, b, c: {'requested_destination': specs.destination(host=b)},
            id='requested destination',
        ),
        pytest.param(
            lambda a, b, c: {
                'retry': {'num_attempts': 2, 'hosts': [[a, a], [c, c]]},
                'ignore_hosts': [a, c],
            },
            id='tried before',
        ),
        pytest.param(
            lambda a, b, c: {'image': {'hw_architecture': 'aarch64'}}, id='image properties'
        ),
    ],
)
def test_where(cloud, ask, words):
    """Every form says the same: the second of three hosts, the only one with ARM CPUs."""
    first, third = cloud.add(2)
    arm = objects.HVSpec(arch='aarch64', hv_type='kvm', vm_mode='hvm')
    second = cloud.add(supported_hv_specs=[arm])
    found = ask(2, **words(first.host, second.host, third.host))
    assert [one['host'] for one in found] == 2 * [second.host]


def test_zone(cloud, ask, scheduler, context, zone_of, eventually):
    _, there = cloud.add(2)
    scheduler.update_aggregates(context, [cloud.aggregate(there, availability_zone='legacy')])
    eventually('legacy', lambda: zone_of(there))
    assert [one['host'] for one in ask(3, zone='legacy')] == 3 * [there.host]


@pytest.mark.parametrize('hint, apart', [('same_host', False), ('different_host', True)])
def test_hints(cloud, ask, boot, hint, apart):
    nodes = cloud.add(2)
    (uuid,) = specs.uuids(1)
    with_it = boot(instance_uuids=[uuid])[0][0].service_host
    without = next(node.host for node in nodes if node.host != with_it)
    assert ask(hints={hint: [uuid]})[0]['host'] == (without if apart else with_it)


def test_a_group(cloud, ask, boot, context):
    first, second = specs.uuids(2)
    nodes = cloud.add(2)
    taken = boot(instance_uuids=[first])[0][0].service_host
    group = specs.group(context, 'anti-affinity', [first, second], hosts=[taken])
    found = ask(instance_uuids=[second], group=group)
    assert {taken, found[0]['host']} == {node.host for node in nodes}


def test_root_disk_on_a_volume(cloud, ask, cap):
    """The dicts of 4.0 have no word for it; there the flavor counts as it stands."""
    cloud.add(local_gb=10)
    if cap in ('4.0', 'liberty'):
        with pytest.raises(exception.NoValidHost):
            ask(flavor={'root_gb': 20}, is_bfv=True)
    else:
        assert len(ask(flavor={'root_gb': 20}, is_bfv=True)) == 1

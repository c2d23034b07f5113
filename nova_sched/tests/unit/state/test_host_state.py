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
"""One row under Nova's names."""

import json

import pytest

from nova_sched.state.host_state import ATTRIBUTES
from nova_sched.state.places import image_of
from nova_sched.tests.builders import NOW, aggregate, claim, cluster, hosts, uuid_of
from nova_sched.tests.reference import nine_hosts, nova_states
from nova_sched.tests.rows import each

A, B = uuid_of('a'), uuid_of('b')


def test_every_attribute_can_be_read():
    state = hosts(1).state(0)
    assert {name for name in ATTRIBUTES if not hasattr(state, name)} == set()
    with pytest.raises(AttributeError):
        _ = state.no_such_attribute
    with pytest.raises(AttributeError):
        _ = state._no_such_attribute


@each('row', range(9))
def test_it_is_what_nova_makes_of_the_same_node(row):
    nova, ours = nova_states()[row], nine_hosts().state(row)
    names = set(vars(nova)) - {'aggregates', 'host_ip', 'instances', 'metrics', 'service'}
    assert {name: getattr(ours, name) for name in names} == {
        name: getattr(nova, name) for name in names
    }
    assert ours.host_ip == str(nova.host_ip)
    assert [one.metadata for one in ours.aggregates] == [one.metadata for one in nova.aggregates]
    assert {uuid: image_of(one) for uuid, one in ours.instances.items()} == {
        uuid: image_of(one) for uuid, one in nova.instances.items()
    }
    assert [(one.name, one.value) for one in ours.metrics] == [
        (one.name, one.value) for one in nova.metrics
    ]
    assert ours.service['disabled'] == nova.service['disabled']


def test_numbers_are_plain():
    state = hosts(1, vcpus=4, vcpus_ratio=2.0, vcpus_used=3, memory_mb_reserved=512).state(0)
    assert [
        type(getattr(state, name))
        for name in ('vcpus_total', 'free_ram_mb', 'cpu_allocation_ratio')
    ] == [
        int,
        int,
        float,
    ]
    assert (state.vcpus_total, state.vcpus_used, state.cpu_allocation_ratio) == (4, 3, 2.0)
    assert state.free_ram_mb == state.total_usable_ram_mb - 512


def test_claims_count_as_soon_as_they_are_made():
    made = cluster(1, vcpus=4, disk_gb=10, disk_gb_used=2)
    made.add(claim(A, made.hosts.nodes[0].uuid, vcpus=3))
    state = made.hosts.state(0)
    assert (state.vcpus_used, state.num_instances, state.num_io_ops) == (3, 1, 1)
    assert (state.disk_mb_used, state.free_disk_mb) == (2048, 8192)
    assert set(state.instances) == {A}
    assert state.instances[A].uuid == A


def test_service():
    made = cluster(1, seen_s=NOW - 5)
    made.set_service('host-0', True, 'a fan is loud', False)
    assert dict(made.hosts.state(0).service) == {
        'host': 'host-0',
        'disabled': True,
        'disabled_reason': 'a fan is loud',
        'forced_down': False,
        'last_seen_up': NOW - 5,
    }


def test_aggregates_and_triples():
    seen = hosts(
        2, [aggregate(1, ['host-1'], a='b')], supported_instances=(('x86_64', 'kvm', 'hvm'),)
    )
    assert [one.metadata for one in seen.state(1).aggregates] == [{'a': 'b'}]
    assert seen.state(0).aggregates == []
    assert seen.state(0).supported_instances == [['x86_64', 'kvm', 'hvm']]


def test_metrics():
    metrics = [{'name': 'cpu.percent', 'value': 0.25, 'source': 'x'}]
    (one,) = hosts(1, metrics=json.dumps(metrics)).state(0).metrics
    assert (one.name, one.value, one.source) == ('cpu.percent', 25, 'x')
    assert hosts(1).state(0).metrics == []


def test_instances_tell_their_images():
    made = cluster(1, instances=frozenset([A, B]))
    made.hosts.places.learn(A, {'os_distro': 'ubuntu', 'hw_qemu_guest_agent': True})
    instances = made.hosts.state(0).instances
    assert instances[A].image_properties == {'os_distro': 'ubuntu', 'hw_qemu_guest_agent': 'True'}
    assert instances[B].image_properties == {}


def test_limits_are_this_view_s_own():
    seen = hosts(1)
    first, second = seen.state(0), seen.state(0)
    first.limits['vcpu'] = 4
    assert second.limits == {}


def test_it_prints_itself():
    assert repr(hosts(1).state(0)) == '(host-0, host-0) ram: 65536MB disk: 1024000MB'

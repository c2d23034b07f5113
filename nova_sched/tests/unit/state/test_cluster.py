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
"""Single steps of the cluster that deserve a name; the random walk is in test_cluster_machine."""

import dataclasses
import json

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, DISK_GB, MEMORY_MB, VCPU
from nova_sched.state.cluster import Cluster
from nova_sched.state.columns import ResourceColumns
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import claim, cluster, hosts, put, report, request, uuid_of
from nova_sched.tests.rows import table

A, B = map(uuid_of, ['a', 'b'])


def usage(made, row=0):
    """vCPUs used, free; instances, I/O operations of a row."""
    seen, cpus = made.hosts, made.hosts.resources[VCPU]
    return cpus.used[row], cpus.free[row], seen.num_instances[row], seen.num_io_ops[row]


@table(
    'asked, rows',
    {
        'two spellings': (['host-a'], [True, True, False]),
        'what is asked must be in lower case': (['HOST-A'], [False, False, False]),
        'one is unknown': (['host-b', 'host-c'], [False, False, True]),
    },
)
def test_names_without_case(asked, rows):
    seen = hosts(host=['Host-A', 'host-a', 'HOST-B'])
    assert seen.named_loosely(asked).tolist() == rows


def test_what_is_told_of_an_unknown_host_counts_when_its_node_comes():
    made = Cluster()
    made.tell('host-0', [A])
    assert made.told('host-0') == {A}
    put(made, report())
    assert made.hosts.count_instances([A]).tolist() == [1]


def test_an_empty_list_is_a_list():
    made = cluster(1)
    made.tell('host-0', [A])
    put(made, report(instances=frozenset()))
    assert made.told('host-0') == frozenset()
    assert made.hosts.count_instances([A]).tolist() == [0]


def test_hosts_with_settings_are_those_that_an_operator_has_set():
    made = cluster(3)
    made.set_service('host-0', True, 'broken', False)
    made.set_service('host-1', False, None, True)
    made.set_service('host-2', False, None, False)
    assert made.hosts_with_settings() == {'host-0', 'host-1'}
    made.set_service('host-0', False, None, False)
    assert made.hosts_with_settings() == {'host-1'}


# Consumptions.


def test_a_consumption_counts_until_its_release():
    made = cluster(1, vcpus=4)
    node = made.hosts.nodes[0]
    consumption = made.consume(
        node, request(instance_uuid=A, vcpus=3), lifetime_s=60, request_id='req'
    )
    assert consumption.claim is consumption.held is node.claims[A]
    assert (consumption.claim.request_id, consumption.before) == ('req', None)
    assert usage(made) == (3, 1, 1, 1)
    made.release(consumption)
    assert usage(made) == (0, 4, 0, 0)
    assert node.claims == {}


def test_what_does_not_fit_changes_nothing():
    made = cluster(1, vcpus=4, memory_mb=1000)
    node = made.hosts.nodes[0]
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match=r'VCPU: 5 asked.*; MEMORY_MB: 2000 asked'
    ):
        made.consume(node, request(instance_uuid=A, vcpus=5, memory_mb=2000))
    assert usage(made) == (0, 4, 0, 0)
    assert made.hosts.resources[MEMORY_MB].used[0] == 0


def test_the_same_instance_again_replaces_what_is_on_its_way():
    made = cluster(1, vcpus=4)
    node = made.hosts.nodes[0]
    first = made.consume(node, request(instance_uuid=A, vcpus=3))
    second = made.consume(node, request(instance_uuid=A, vcpus=4))
    assert usage(made) == (4, 0, 1, 1)
    assert (second.before, node.claims[A].resources[VCPU]) == (first.held, 4)
    made.release(second)
    assert usage(made) == (3, 1, 1, 1)


def test_a_resize_in_place_holds_the_larger_of_both():
    made = cluster(1, vcpus=8, memory_mb=4096)
    node = made.hosts.nodes[0]
    made.add(claim(A, node.uuid, vcpus=4, memory_mb=1024, state=CONFIRMED))
    consumption = made.consume(node, request(instance_uuid=A, vcpus=2, memory_mb=2048))
    assert (node.claims[A].resources[VCPU], node.claims[A].resources[MEMORY_MB]) == (4, 2048)
    assert usage(made) == (4, 4, 1, 0)
    made.release(consumption)
    assert node.claims[A].resources == {VCPU: 4, MEMORY_MB: 1024}
    assert usage(made) == (4, 4, 1, 0)


def test_a_consumption_that_fails_leaves_the_earlier_claim():
    made = cluster(1, vcpus=4)
    node = made.hosts.nodes[0]
    first = made.consume(node, request(instance_uuid=A, vcpus=3))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        made.consume(node, request(instance_uuid=A, vcpus=5))
    assert node.claims[A] is first.held
    assert usage(made) == (3, 1, 1, 1)


def test_a_report_keeps_no_claim_that_it_was_not_given():
    made = cluster(1, vcpus=8)
    node = made.hosts.nodes[0]
    kept, gone = claim(A, node.uuid, vcpus=2), claim(B, node.uuid, vcpus=3)
    made.add(kept)
    made.add(gone)
    made.put(report(vcpus=8), [kept], {VCPU: 1}, 1, generation=3)
    assert usage(made) == (3, 5, 2, 1)
    assert (node.claims, node.generation) == ({A: kept}, 3)
    assert made.hosts.count_instances([A, B]).tolist() == [1]


def test_claims_are_replaced_in_the_order_of_the_store():
    """A claim that stays counts as before; one that changed counts as it is now."""
    made = cluster(1, vcpus=16)
    node, third = made.hosts.nodes[0], uuid_of('c')
    pending, stays = claim(A, node.uuid, vcpus=2), claim(B, node.uuid, vcpus=3)
    made.add(pending)
    made.add(stays)
    assert usage(made) == (5, 11, 2, 2)
    now = [claim(third, node.uuid, vcpus=1), pending.confirmed(), stays]
    made.put(report(vcpus=16), now)
    assert usage(made) == (6, 10, 3, 2)
    assert list(node.claims.items()) == [(one.consumer_uuid, one) for one in now]
    made.put(report(vcpus=16), now)
    assert usage(made) == (6, 10, 3, 2)
    made.put(report(vcpus=16), [])
    assert usage(made) == (0, 16, 0, 0)
    assert made.hosts.count_instances([A, B, third]).tolist() == [0]


def test_usage_is_what_a_claim_is_judged_by():
    made = cluster(1, vcpus=4, vcpus_ratio=2.0, vcpus_reserved=1, disk_gb=None)
    node = made.hosts.nodes[0]
    made.add(claim(A, node.uuid, vcpus=2))
    usage = node.usage(VCPU)
    assert (usage.total, usage.reserved, usage.ratio, usage.used, usage.largest) == (
        4,
        1,
        2.0,
        2,
        4,
    )
    assert usage.available == 4
    assert node.usage(DISK_GB) is None


def named(made):
    """Names that the columns have, of classes, traits, classes of child providers and stats."""
    hosts = made.hosts
    traits = {trait for trait in hosts.traits.values if trait is not None}
    return {*hosts.resources}, traits, {*hosts.child_classes}, {*hosts.stat_names}


def odd_report(number, host='host-1'):
    """A report of a node that has one of each that no other node has."""
    node, name = uuid_of(f'node {host}'), f'CUSTOM_{number}'
    child = {'parent_provider_uuid': node, 'inventories': {f'{name}_CHILD': {'total': 1}}}
    one = report(host, traits=frozenset([name]), stats={name: '1'})
    providers = json.dumps({node: {}, uuid_of('child'): child})
    inventories = {**one.inventories, name: Inventory(4)}
    return dataclasses.replace(one, inventories=inventories, providers=providers)


def test_names_that_no_row_has_any_more_are_forgotten():
    made = cluster(3, traits=frozenset(['COMMON']))
    before = named(made)
    for number in range(5):
        put(made, odd_report(number))
        classes, traits, child_classes, stats = named(made)
        assert classes == before[0] | {f'CUSTOM_{number}'}
        assert traits == {'COMMON', f'CUSTOM_{number}'}
        assert (child_classes, stats) == ({f'CUSTOM_{number}_CHILD'}, {f'CUSTOM_{number}'})
        assert made.hosts.has_class(f'CUSTOM_{number}').tolist() == [False, True, False]
        assert made.hosts.has_trait(f'CUSTOM_{number}').tolist() == [False, True, False]
    assert len(made.hosts.traits.values) <= 3
    made.remove(uuid_of('node host-1'))
    assert named(made) == before


def test_nodes_that_have_the_same_names_share_them():
    first, second = cluster(2, stats={'CUSTOM_A': '1', 'CUSTOM_B': '2'})
    for name in ('classes', 'stat_names', 'child_classes'):
        assert getattr(first, name) is getattr(second, name), name
    assert first.stat_names == {'CUSTOM_A', 'CUSTOM_B'}


def test_a_class_whose_inventory_is_gone_stays_while_it_is_in_use():
    made = cluster(2)
    put(made, odd_report(0))
    (node,) = made.nodes_of('host-1')
    held = claim(A, node.uuid, state=CONFIRMED)
    held = dataclasses.replace(held, resources={'CUSTOM_0': 1})
    made.put(report('host-1'), [held])
    assert made.hosts.resources['CUSTOM_0'].used.tolist() == [0, 1]
    made.drop(held)
    made.put(report('host-1'))
    assert 'CUSTOM_0' not in made.hosts.resources


def test_a_report_touches_only_the_classes_of_its_row(monkeypatch):
    made, touched = cluster(2), []
    put(made, odd_report(0))
    put_row = ResourceColumns.put

    def noted(resource, row, inventory):
        touched.extend(name for name, one in made.hosts.resources.items() if one is resource)
        put_row(resource, row, inventory)

    monkeypatch.setattr(ResourceColumns, 'put', noted)
    put(made, report('host-0'))
    assert {*touched} == {VCPU, MEMORY_MB, DISK_GB}

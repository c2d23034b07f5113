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
"""What Nova's API and computes cast to every scheduler: aggregates, and which instances are
where."""

import pytest
from nova import exception, objects

from nova_sched.tests.nova_client import specs


@pytest.fixture
def near(look):
    """Host of an instance, by the hint same_host; None while it is not known."""

    def near(uuid):
        try:
            return look(hints={'same_host': [uuid]})
        except exception.NoValidHost:
            return None

    return near


@pytest.fixture
def state_of(cloud):
    """State of an instance's only claim; None without one."""
    return lambda uuid: next((claim['state'] for claim in cloud.claims(uuid)), None)


@pytest.fixture
def booted(boot):
    """UUID of a server that has just been placed, and its host."""

    def booted():
        (uuid,) = specs.uuids(1)
        return uuid, boot(instance_uuids=[uuid])[0][0].service_host

    return booted


def instance(context, uuid, host):
    """An instance as its compute tells of it."""
    return objects.Instance(
        context, uuid=uuid, host=host, node=host, project_id=context.project_id
    )


def instances(context, uuids, host):
    return objects.InstanceList(objects=[instance(context, uuid, host) for uuid in uuids])


@pytest.mark.parametrize(
    'form',
    [
        pytest.param(lambda one: one, id='one'),
        pytest.param(lambda one: [one], id='list'),
        pytest.param(lambda one: objects.AggregateList(objects=[one]), id='list object'),
    ],
)
def test_an_aggregate_makes_a_zone(cloud, scheduler, context, zone_of, eventually, form):
    inside, outside = cloud.add(2)
    scheduler.update_aggregates(context, form(cloud.aggregate(inside, availability_zone='east')))
    eventually('east', lambda: zone_of(inside))
    assert zone_of(outside) == 'nova'


def test_several_aggregates_in_one_cast(cloud, scheduler, context, zone_of, eventually):
    nodes = cloud.add(2)
    made = [
        cloud.aggregate(node, availability_zone=zone)
        for node, zone in zip(nodes, ['x', 'y'], strict=True)
    ]
    scheduler.update_aggregates(context, objects.AggregateList(objects=made))
    eventually(['x', 'y'], lambda: [zone_of(node) for node in nodes])


def test_an_aggregate_changes(cloud, scheduler, context, zone_of, eventually):
    old, new = cloud.add(2)
    aggregate = cloud.aggregate(old, availability_zone='before')
    scheduler.update_aggregates(context, [aggregate])
    eventually('before', lambda: zone_of(old))
    aggregate.hosts, aggregate.metadata = [new.host], {'availability_zone': 'after'}
    scheduler.update_aggregates(context, [aggregate])
    eventually(['nova', 'after'], lambda: [zone_of(old), zone_of(new)])


def test_an_aggregate_is_deleted(cloud, scheduler, context, zone_of, eventually):
    node = cloud.add()
    aggregate = cloud.aggregate(node, availability_zone='gone')
    scheduler.update_aggregates(context, [aggregate])
    eventually('gone', lambda: zone_of(node))
    scheduler.delete_aggregate(context, aggregate)
    eventually('nova', lambda: zone_of(node))


def test_an_aggregate_may_come_before_its_host_reports(
    cloud, scheduler, context, zone_of, eventually
):
    first = cloud.add()
    early, later = cloud.aggregate(first, availability_zone='early'), 'not-yet-there'
    early.hosts.append(later)
    scheduler.update_aggregates(context, [early])
    eventually('early', lambda: zone_of(first))
    assert zone_of(cloud.add(host=later)) == 'early'


def test_a_compute_tells_its_instances_when_it_starts(
    cloud, scheduler, context, near, look, eventually
):
    _, node, _ = cloud.add(3)
    there = specs.uuids(3)
    scheduler.update_instance_info(context, node.host, instances(context, there, node.host))
    for uuid in there:
        eventually(node.host, lambda uuid=uuid: near(uuid))
    apart = [look(hints={'different_host': [uuid]}) for uuid in there]
    assert node.host not in apart


def test_a_compute_tells_of_one_more_instance(cloud, scheduler, context, near, eventually):
    node, _ = cloud.add(2)
    first, second = specs.uuids(2)
    for uuid in (first, second):
        scheduler.update_instance_info(context, node.host, instances(context, [uuid], node.host))
        eventually(node.host, lambda uuid=uuid: near(uuid))
    assert near(first) == node.host


def test_an_instance_is_deleted(cloud, scheduler, context, near, eventually):
    node, _ = cloud.add(2)
    kept, deleted = there = specs.uuids(2)
    scheduler.update_instance_info(context, node.host, instances(context, there, node.host))
    eventually(node.host, lambda: near(deleted))
    scheduler.delete_instance_info(context, node.host, deleted)
    eventually(None, lambda: near(deleted))
    assert near(kept) == node.host


def test_a_sync_is_the_whole_truth(cloud, scheduler, context, near, eventually):
    node, _ = cloud.add(2)
    kept, lost, found = specs.uuids(3)
    scheduler.update_instance_info(context, node.host, instances(context, [kept, lost], node.host))
    eventually(node.host, lambda: near(lost))
    scheduler.sync_instance_info(context, node.host, [kept, found])
    eventually(None, lambda: near(lost))
    assert [near(kept), near(found)] == [node.host, node.host]


@pytest.mark.parametrize('cast', ['update_instance_info', 'sync_instance_info'])
def test_a_claim_is_confirmed_when_the_instance_runs(
    cloud, scheduler, context, booted, state_of, eventually, cast
):
    cloud.add()
    uuid, host = booted()
    assert state_of(uuid) == 'pending'
    told = instances(context, [uuid], host) if cast == 'update_instance_info' else [uuid]
    getattr(scheduler, cast)(context, host, told)
    eventually('confirmed', lambda: state_of(uuid))


@pytest.mark.parametrize('ending', ['delete_instance_info', 'sync_instance_info'])
def test_a_claim_ends_with_the_report_that_has_seen_it(
    cloud, scheduler, context, booted, boot, state_of, eventually, ending
):
    """A cast ends none: nothing says how old it is."""
    node = cloud.add(vcpus=1)
    uuid, host = booted()
    scheduler.update_instance_info(context, host, instances(context, [uuid], host))
    eventually('confirmed', lambda: state_of(uuid))
    with pytest.raises(exception.NoValidHost):
        boot()
    getattr(scheduler, ending)(context, host, uuid if ending == 'delete_instance_info' else [])
    assert cloud.report(node, instances=[])['claims'] == {uuid: 'confirmed'}
    assert cloud.report(node, instances=[])['claims'] == {}
    assert state_of(uuid) is None
    assert [found[0].service_host for found in boot()] == [host]


def test_a_sync_from_before_the_build_ends_no_claim(
    cloud, scheduler, context, booted, near, state_of, eventually
):
    cloud.add()
    waiting, host = booted()
    (other,) = specs.uuids(1)
    scheduler.sync_instance_info(context, host, [other])
    eventually(host, lambda: near(other))
    assert state_of(waiting) == 'pending'


def test_a_report_that_lists_instances_settles_claims(cloud, booted, state_of):
    node = cloud.add()
    uuid, _ = booted()
    assert cloud.report(node, instances=[])['claims'] == {uuid: 'pending'}
    assert cloud.report(node, instances=[uuid])['claims'] == {uuid: 'confirmed'}
    assert cloud.report(node, instances=[])['claims'] == {}
    assert state_of(uuid) is None


def test_a_report_takes_no_more_than_the_claims_that_explain_it(
    cloud, scheduler, context, booted, boot, state_of, eventually
):
    node = cloud.add(vcpus=3)
    uuid, host = booted()
    scheduler.update_instance_info(context, host, instances(context, [uuid], host))
    eventually('confirmed', lambda: state_of(uuid))
    node.vcpus_used, node.memory_mb_used, node.local_gb_used = 1, 512, 1
    cloud.report(node)  # its answer tells of the claim
    assert cloud.report(node)['foreign'] == {}
    boot(2)
    with pytest.raises(exception.NoValidHost):
        boot()

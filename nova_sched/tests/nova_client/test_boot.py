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
"""Servers are placed and claimed, with alternates, in the forms that a conductor of today
reads."""

import json

import oslo_messaging as messaging
import pytest
from nova import exception, objects, rpc
from nova.objects import base
from nova.scheduler import utils as conductor

from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.cloud import CELL, OTHER_CELL

FLAGS = 'return_objects, return_alternates'


def only(found):
    """The chosen host of the only instance, when no alternates came with it."""
    ((selection,),) = found
    return selection


def test_a_plain_boot(cloud, boot, context):
    node = cloud.add()
    (uuid,) = specs.uuids(1)
    selection = only(boot(instance_uuids=[uuid]))
    assert type(selection) is objects.Selection
    assert (selection.service_host, selection.nodename) == (node.host, node.hypervisor_hostname)
    assert (selection.compute_node_uuid, selection.cell_uuid) == (node.uuid, CELL)
    assert (selection.availability_zone, selection.limits.to_dict()) == ('nova', {})
    (claim,) = cloud.claims(uuid)
    assert (claim['host'], claim['compute_node_uuid']) == (node.host, node.uuid)
    assert (claim['project_id'], claim['user_id']) == (context.project_id, context.user_id)
    assert claim['state'] == 'pending'


def test_the_answer_needs_no_backport(cloud, context):
    """Nova's client sends an object of any other version to a conductor, and waits for it."""
    cloud.add()
    asked = specs.uuids(1)
    serializer = base.NovaObjectSerializer()
    args = {
        'spec_obj': serializer.serialize_entity(context, specs.spec(context, asked)),
        'instance_uuids': asked,
        'return_objects': True,
        'return_alternates': True,
    }
    client = rpc.get_client(messaging.Target(topic='scheduler', version='4.5'))
    travelled = only(client.call(context, 'select_destinations', **args))
    assert travelled['nova_object.name'] == 'Selection'
    assert travelled['nova_object.namespace'] == base.NovaObject.OBJ_PROJECT_NAMESPACE
    assert travelled['nova_object.version'] == objects.Selection.VERSION
    assert travelled['nova_object.data'].keys() == objects.Selection.fields.keys()


def test_a_conductor_reads_what_it_needs(cloud, boot):
    node = cloud.add()
    properties = {'retry': {'num_attempts': 1, 'hosts': []}}
    conductor.populate_filter_properties(properties, only(boot()))
    assert properties['retry']['hosts'] == [[node.host, node.hypervisor_hostname]]
    assert properties['limits'] == {}


@pytest.mark.parametrize(
    'words, resources',
    [
        pytest.param({}, {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}, id='plain'),
        pytest.param(
            {'flavor': {'root_gb': 5, 'ephemeral_gb': 3, 'swap': 1025}},
            {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 10},
            id='swap is rounded up',
        ),
        pytest.param(
            {'flavor': {'root_gb': 5000}, 'is_bfv': True},
            {'VCPU': 1, 'MEMORY_MB': 512},
            id='root disk is a volume',
        ),
        pytest.param(
            {'flavor': {'root_gb': 5000, 'ephemeral_gb': 2}, 'is_bfv': True},
            {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 2},
            id='root disk is a volume, another is not',
        ),
        pytest.param(
            {'flavor': {'extra_specs': {'resources:VCPU': '2', 'resources:MEMORY_MB': '1024'}}},
            {'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 1},
            id='replaced by extra specs',
        ),
    ],
)
def test_the_allocation_request_has_placements_form(cloud, boot, words, resources):
    node = cloud.add()
    (uuid,) = specs.uuids(1)
    selection = only(boot(instance_uuids=[uuid], **words))
    assert selection.allocation_request_version == '1.36'
    assert json.loads(selection.allocation_request) == {
        'allocations': {node.uuid: {'resources': resources}},
        'mappings': {'': [node.uuid]},
    }
    assert [claim['resources'] for claim in cloud.claims(uuid)] == [resources]


def test_without_a_volume_the_root_disk_counts(cloud, boot):
    cloud.add(local_gb=100)
    with pytest.raises(exception.NoValidHost):
        boot(flavor={'root_gb': 5000})


def test_ten_instances_in_one_request(cloud, boot):
    """Each has its own claim where its own answer says; together they fill the hosts to the last
    CPU."""
    nodes = cloud.add(5, vcpus=2)
    asked = specs.uuids(10)
    found = boot(instance_uuids=asked)
    chosen = [each[0].service_host for each in found]
    assert sorted(chosen) == sorted(2 * [node.host for node in nodes])
    assert cloud.placed(asked) == chosen
    with pytest.raises(exception.NoValidHost):
        boot()


def test_several_instances_are_placed_all_or_none(cloud, boot, hosts):
    node = cloud.add(vcpus=2)
    asked = specs.uuids(3)
    with pytest.raises(exception.NoValidHost):
        boot(instance_uuids=asked)
    assert cloud.placed(asked) == []
    assert hosts(2) == 2 * [node.host]


@pytest.mark.parametrize(
    'nodes, count, alternates',
    [
        pytest.param(1, 1, 0, id='no other host'),
        pytest.param(2, 1, 1, id='one other host'),
        pytest.param(5, 1, 2, id='as many as attempts are left'),
        pytest.param(5, 2, 2, id='for each of two instances'),
        pytest.param(5, 4, 1, id='few hosts are left'),
        pytest.param(3, 3, 0, id='every host is taken'),
    ],
)
def test_alternates(cloud, boot, nodes, count, alternates):
    cloud.add(nodes, vcpus=1)
    found = boot(count)
    chosen = {each[0].service_host for each in found}
    assert len(chosen) == count
    for _, *others in found:
        names = [other.service_host for other in others]
        assert len(set(names) - chosen) == len(names) == alternates


def test_alternates_are_of_the_same_cell(cloud, boot):
    cloud.add(3, cell=OTHER_CELL)
    near = cloud.add(2, memory_mb=65536)
    (found,) = boot()
    assert {one.service_host for one in found} == {node.host for node in near}
    assert {one.cell_uuid for one in found} == {CELL}


def test_an_alternate_comes_with_what_its_claim_needs(cloud, boot):
    cloud.add(2)
    (uuid,) = specs.uuids(1)
    ((chosen, other),) = boot(instance_uuids=[uuid])
    request = json.loads(other.allocation_request)
    assert request['allocations'].keys() == {other.compute_node_uuid}
    assert other.allocation_request_version == '1.36'
    assert cloud.placed([uuid]) == [chosen.service_host]


@pytest.mark.parametrize(
    FLAGS,
    [
        pytest.param(False, False, id='neither'),
        pytest.param(False, True, id='alternates without objects'),
    ],
)
def test_without_objects_the_answer_is_a_dict_for_each_instance(
    cloud, scheduler, context, return_objects, return_alternates
):
    nodes = cloud.add(2, vcpus=1)
    asked = specs.uuids(2)
    found = scheduler.select_destinations(
        context, specs.spec(context, asked), asked, return_objects, return_alternates
    )
    assert sorted(found, key=lambda one: one['host']) == sorted(
        (
            {'host': node.host, 'nodename': node.hypervisor_hostname, 'limits': {}}
            for node in nodes
        ),
        key=lambda one: one['host'],
    )
    assert cloud.placed(asked) == [one['host'] for one in found]


def test_objects_without_alternates(cloud, boot):
    cloud.add(3)
    assert [len(found) for found in boot(2, alternates=False)] == [1, 1]


def test_a_rebuild_is_only_checked(cloud, boot):
    """The instance stays where it is, on a host that is full of it; nothing is claimed."""
    node = cloud.add(vcpus=1)
    (uuid,) = specs.uuids(1)
    boot(instance_uuids=[uuid])
    before = cloud.claims(uuid)
    selection = only(
        boot(
            instance_uuids=[uuid],
            alternates=False,
            **specs.rebuild(node),
        )
    )
    assert (selection.service_host, selection.allocation_request) == (node.host, 'null')
    assert cloud.claims(uuid) == before


def test_a_rebuild_with_an_image_that_does_not_fit(cloud, boot):
    node = cloud.add()
    with pytest.raises(exception.NoValidHost):
        boot(
            image={'hw_architecture': 'aarch64'},
            **specs.rebuild(node),
        )

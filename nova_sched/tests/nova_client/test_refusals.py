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
"""Refusals reach Nova under its own class; nonsense is refused, and the daemon goes on."""

import math
import re

import oslo_messaging as messaging
import pytest
from nova import exception, objects, rpc
from nova.objects import base
from nova.scheduler.rpcapi import SchedulerAPI

from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.cloud import compute_node


@pytest.mark.parametrize(
    'nodes, flavor',
    [
        pytest.param(0, {}, id='no node'),
        pytest.param(1, {'vcpus': 9}, id='too many CPUs'),
        pytest.param(1, {'memory_mb': 16385}, id='too much memory'),
        pytest.param(1, {'root_gb': 101}, id='too much disk'),
        pytest.param(
            1, {'extra_specs': {'trait:HW_CPU_X86_AVX512F': 'required'}}, id='a trait is missing'
        ),
        pytest.param(
            1, {'extra_specs': {'resources:CUSTOM_GPU': '1'}}, id='a resource is missing'
        ),
        pytest.param(1, {'extra_specs': {'capabilities:cpu_info:arch': 's390x'}}, id='a filter'),
    ],
)
def test_no_valid_host_is_novas_own(cloud, boot, nodes, flavor):
    if nodes:
        cloud.add()
    with pytest.raises(exception.NoValidHost) as caught:
        boot(flavor=flavor)
    error = caught.value
    assert isinstance(error, exception.NovaException)
    assert error.kwargs['code'] == 500
    assert error.format_message() == f'No valid host was found. {error.kwargs["reason"]}'
    # The owner of the server reads it, as far as Nova keeps it.
    rule = '( [A-Za-z]+ removed the last hosts: they [^.0-9]+[.])?'
    whole = ' Operators find the details under req-[-0-9a-f]{36}[.]'
    words = f'There are not enough hosts available[.]{rule}{whole}'
    assert re.fullmatch(words, error.kwargs['reason']), error.kwargs['reason']
    assert len(error.format_message()) <= 255
    assert not re.search(r'Of \d+ hosts|No compute node', str(error))
    # oslo.messaging puts the traceback below, as it does for Nova's own scheduler.
    assert str(error).splitlines()[0] == error.format_message()


def duplicate(asked):
    asked[1] = asked[0]


def not_a_uuid(asked):
    asked[1] = 'i-0001'


@pytest.mark.parametrize('spoil', [duplicate, not_a_uuid])
def test_bad_instance_uuids(cloud, scheduler, context, hosts, spoil):
    node = cloud.add()
    asked = specs.uuids(2)
    request = specs.spec(context, asked)
    spoil(asked)
    with pytest.raises(messaging.RemoteError, match='instance_uuids') as caught:
        scheduler.select_destinations(context, request, asked, return_objects=True)
    assert caught.value.exc_type == 'InvalidRequest'
    assert cloud.claims(asked[0]) == []
    assert hosts() == [node.host]


def test_too_many_instances(cloud, scheduler, context, hosts):
    node = cloud.add(vcpus=1)
    asked = specs.uuids(10_000)
    with pytest.raises(messaging.RemoteError, match='10000 instances'):
        scheduler.select_destinations(
            context, specs.spec(context, asked), asked, return_objects=True
        )
    assert hosts() == [node.host]


def test_a_hint_of_5_mb(cloud, boot, hosts):
    node = cloud.add()
    with pytest.raises(messaging.RemoteError, match='scheduler_hints'):
        boot(hints={'query': ['x' * 5_000_000]})
    assert hosts() == [node.host]


def test_an_unknown_hint_is_nobodys_business(cloud, hosts):
    node = cloud.add()
    assert hosts(hints={'top_secret': ['whatever']}) == [node.host]


def without_flavor(request):
    """The same RequestSpec; its flavor was never set."""
    kept = [name for name in request.fields if name in request and name != 'flavor']
    return objects.RequestSpec(**{name: getattr(request, name) for name in kept})


@pytest.mark.parametrize(
    'spoil',
    [
        pytest.param(without_flavor, id='no flavor'),
        pytest.param(lambda request: request.flavor, id='another object'),
        pytest.param(lambda request: None, id='none'),
        pytest.param(lambda request: 'a server, please', id='text'),
        pytest.param(lambda request: [request], id='list'),
    ],
)
def test_what_is_no_request_spec(cloud, scheduler, context, hosts, spoil):
    node = cloud.add()
    asked = specs.uuids(1)
    request = spoil(specs.spec(context, asked))
    with pytest.raises(messaging.RemoteError) as caught:
        scheduler.select_destinations(context, request, asked, return_objects=True)
    assert caught.value.exc_type == 'InvalidRequest'
    assert cloud.claims(asked[0]) == []
    assert hosts() == [node.host]


@pytest.mark.parametrize(
    'damage, error',
    [
        pytest.param(
            {'nova_object.version': '2.0'}, 'IncompatibleObject', id='newer major version'
        ),
        pytest.param({'nova_object.name': 'Wish'}, 'InvalidRequest', id='unknown object'),
        pytest.param({'nova_object.data': 'nothing'}, 'MalformedObject', id='no data'),
    ],
)
def test_a_damaged_request_spec(cloud, context, hosts, damage, error):
    node = cloud.add()
    asked = specs.uuids(1)
    travels = base.NovaObjectSerializer().serialize_entity(context, specs.spec(context, asked))
    client = rpc.get_client(messaging.Target(topic='scheduler', version='4.5'))
    with pytest.raises(messaging.RemoteError) as caught:
        client.call(
            context, 'select_destinations', spec_obj=travels | damage, instance_uuids=asked
        )
    assert caught.value.exc_type == error
    assert hosts() == [node.host]


def test_a_newer_minor_version_is_read_as_far_as_it_is_known(cloud, context):
    node = cloud.add()
    asked = specs.uuids(1)
    travels = base.NovaObjectSerializer().serialize_entity(context, specs.spec(context, asked))
    travels['nova_object.version'] = '1.99'
    travels['nova_object.data']['mood'] = 'good'
    client = rpc.get_client(messaging.Target(topic='scheduler', version='4.5'))
    found = client.call(context, 'select_destinations', spec_obj=travels, instance_uuids=asked)
    assert [one['host'] for one in found] == [node.host]


@pytest.mark.parametrize(
    'version, method, error',
    [
        pytest.param('4.6', 'select_destinations', 'UnsupportedVersion', id='newer minor version'),
        pytest.param('5.0', 'select_destinations', 'UnsupportedVersion', id='newer major version'),
        pytest.param('4.5', 'run_instance', 'NoSuchMethod', id='unknown method'),
        pytest.param('4.5', '_infos', 'NoSuchMethod', id='private method'),
    ],
)
def test_what_is_not_served(daemon, context, version, method, error):
    client = SchedulerAPI().client.prepare(version=version, timeout=60)
    with pytest.raises(messaging.RemoteError) as caught:
        client.call(context, method)
    assert caught.value.exc_type == error


@pytest.mark.parametrize(
    'fields, names',
    [
        pytest.param({'memory_mb': -1}, 'memory_mb', id='negative total'),
        pytest.param({'cpu_allocation_ratio': math.nan}, 'cpu_allocation_ratio', id='no number'),
        pytest.param({'vcpus_used': -1}, 'vcpus_used', id='negative use'),
    ],
)
def test_a_report_that_cannot_be_true(cloud, boot, fields, names):
    node = compute_node(**fields)
    with pytest.raises(messaging.RemoteError, match=names) as caught:
        cloud.report(node)
    assert caught.value.exc_type in ('BadReport', 'MalformedObject')
    with pytest.raises(exception.NoValidHost):
        boot(force_hosts=[node.host])


def test_a_node_that_two_hosts_report(cloud, boot):
    node = cloud.add()
    thief = compute_node(uuid=node.uuid)
    with pytest.raises(messaging.RemoteError) as caught:
        cloud.report(thief)
    assert caught.value.exc_type == 'NodeOwned'
    assert boot()[0][0].service_host == node.host

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
"""The typed client: what it puts on the bus."""

import inspect
import socket

import oslo_messaging as messaging
import pytest

from nova_sched import errors, objects, rpc
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.endpoints import PlansEndpoint, RebalancesEndpoint
from nova_sched.rpc import client, endpoints
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import compute_node, spec

ONE = uuid_of('one')
CLIENTS = [
    client.SchedulerClient,
    client.StatsClient,
    client.ClaimsClient,
    client.CandidatesClient,
    client.ExplainClient,
    client.GroupsClient,
    client.RebalancesClient,
]


@pytest.fixture(scope='module')
def bus():
    made = rpc.transport(CONF, 'fake://')
    yield made
    made.cleanup()


def methods(cls):
    return {
        name: method
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith('_') and name not in vars(client.NamespaceClient)
    }


@pytest.mark.parametrize('cls', CLIENTS, ids=lambda cls: cls.__name__)
def test_every_method_is_one_of_the_endpoint_of_its_namespace(cls):
    every = [*endpoints.all_of(None), PlansEndpoint(None), RebalancesEndpoint(None)]
    served = {}
    for endpoint in every:
        if endpoint.target.namespace == cls.NAMESPACE:
            assert endpoint.target.version == getattr(cls, 'NEWEST', cls.VERSION)
            served |= {
                name: getattr(endpoint, name)
                for name in dir(endpoint)
                if getattr(getattr(endpoint, name), 'exposed', False)
            }
    assert set(methods(cls)) == set(served)
    for name, method in methods(cls).items():
        asked = set(inspect.signature(method).parameters) - {'self', 'context'}
        known = set(inspect.signature(served[name]).parameters) - {'context'}
        assert asked <= known


@pytest.mark.parametrize(
    'timeout_s, monitor_s, monitored',
    [
        pytest.param(1800, 60, 60, id='as a conductor'),
        pytest.param(10, 60, None, id='a short call needs no heartbeat'),
        pytest.param(10, None, None, id='none wanted'),
    ],
)
def test_timeouts(bus, timeout_s, monitor_s, monitored):
    made = client.SchedulerClient(bus, timeout_s, monitor_s)._client
    assert (made.timeout, made.call_monitor_timeout) == (timeout_s, monitored)


def test_a_bus_that_does_not_answer():
    """The time limit counts from when the message is sent, so the attempts are limited, too."""
    with socket.create_server(('127.0.0.1', 0)) as closed:
        port = closed.getsockname()[1]
    away = rpc.transport(CONF, f'rabbit://x:x@127.0.0.1:{port}/')
    try:
        with pytest.raises(errors.NoAnswer):
            client.GroupsClient(away, 3, attempts=1).list()
    finally:
        away.cleanup()


def test_no_answer(bus):
    with pytest.raises(errors.NoAnswer, match='select_destinations'):
        client.SchedulerClient(bus, timeout_s=0.1).select_destinations(spec(), [ONE])


def test_a_connection_that_breaks_as_it_is_opened(bus, monkeypatch):
    """oslo.messaging raises what the socket said."""

    def broken(*_, **__):
        raise ConnectionResetError(104, 'Connection reset by peer')

    made = client.SchedulerClient(bus)
    monkeypatch.setattr(made._client, 'call', broken)
    with pytest.raises(errors.NoAnswer, match='Connection reset'):
        made.select_destinations(spec(), [ONE])


class Echo:
    """Answers each call with its method and arguments, as they travelled."""

    def __init__(self, namespace, version):
        self.target = messaging.Target(namespace=namespace, version=version)

    def __getattr__(self, name):
        return lambda context, **arguments: [name, arguments, bool(context.get('request_id'))]


@pytest.fixture(scope='module')
def echo(bus):
    """Servers of these namespaces that send back what they got."""
    target = messaging.Target(exchange=rpc.EXCHANGE, topic=rpc.TOPIC, server='echo')
    answering = [Echo(cls.NAMESPACE, getattr(cls, 'NEWEST', cls.VERSION)) for cls in CLIENTS]
    server = messaging.get_rpc_server(bus, target, answering)
    server.start()
    yield bus
    server.stop()
    server.wait()


@pytest.mark.parametrize(
    'cls, method, arguments, sent',
    [
        pytest.param(
            client.SchedulerClient,
            'select_destinations',
            {'spec_obj': 1, 'instance_uuids': [ONE]},
            {
                'spec_obj': 1,
                'instance_uuids': [ONE],
                'return_objects': True,
                'return_alternates': True,
            },
            id='select_destinations',
        ),
        pytest.param(
            client.StatsClient,
            'update_resource_stats',
            {'name': 'a', 'stats': 1, 'instances': [ONE]},
            {
                'name': 'a',
                'stats': 1,
                'instances': [ONE],
                'inventories': None,
                'cell_uuid': None,
            },
            id='update_resource_stats',
        ),
        pytest.param(
            client.StatsClient,
            'update_resource_stats',
            {'name': 'a', 'stats': 1, 'instances': {ONE: {'VCPU': 2}}, 'boot': 1, 'sequence': 2},
            {
                'name': 'a',
                'stats': 1,
                'instances': {ONE: {'VCPU': 2}},
                'inventories': None,
                'cell_uuid': None,
                'boot': 1,
                'sequence': 2,
            },
            id='amounts of instances',
        ),
        pytest.param(
            client.ClaimsClient,
            'claim_alternate',
            {
                'spec_obj': 1,
                'instance_uuid': ONE,
                'failed_host': 'a',
                'host': 'b',
                'nodename': 'c',
            },
            {
                'spec_obj': 1,
                'instance_uuid': ONE,
                'failed_host': 'a',
                'host': 'b',
                'nodename': 'c',
            },
            id='claim_alternate',
        ),
        pytest.param(
            client.ClaimsClient,
            'abort_claim',
            {'instance_uuid': ONE},
            {'instance_uuid': ONE, 'host': None},
            id='abort_claim',
        ),
        pytest.param(
            client.CandidatesClient,
            'select_candidates',
            {'spec_obj': 1, 'count': 3},
            {'spec_obj': 1, 'instance_uuids': None, 'count': 3},
            id='select_candidates',
        ),
        pytest.param(
            client.CandidatesClient,
            'claim_candidate',
            {'uuid': ONE},
            {'uuid': ONE},
            id='claim_candidate',
        ),
        pytest.param(
            client.GroupsClient,
            'list',
            {'project_id': 'p', 'limit': 3},
            {'project_id': 'p', 'name': None, 'marker': None, 'limit': 3},
            id='list of groups',
        ),
        pytest.param(
            client.GroupsClient,
            'delete',
            {'uuid': ONE, 'generation': 3},
            {'uuid': ONE, 'generation': 3, 'dry_run': False, 'project_id': None},
            id='delete a group',
        ),
    ],
)
def test_what_is_sent(echo, cls, method, arguments, sent):
    answer = getattr(cls(echo, timeout_s=60), method)(**arguments)
    assert answer == [method, sent, True]


def test_objects_are_sent_as_primitives_and_come_back_as_objects(echo):
    _, arguments, _ = client.StatsClient(echo, timeout_s=60).call(
        None, 'x', node=compute_node('a')
    )
    assert isinstance(arguments['node'], objects.ComputeNode)
    assert arguments['node'].host == 'a'

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
"""What RabbitMQ and oslo.messaging tell of a server: its pings, and the consumers of a queue."""

import oslo_messaging as messaging
import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc import servers
from nova_sched.rpc.endpoints.scheduler import BaseApiEndpoint
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.options import settings


@pytest.mark.parametrize(
    'is_direct', [pytest.param(False, id='oslo'), pytest.param(True, id='direct')]
)
def test_a_ping_is_answered(rabbitmq, is_direct):
    bus = rpc.transport(CONF, rabbitmq.fresh())
    servers.server(bus, 'host', [BaseApiEndpoint()], is_direct=is_direct)  # registers the option
    with settings({'default.rpc_ping_enabled': True}):
        server = servers.server(bus, 'control-1', [BaseApiEndpoint()], is_direct=is_direct)
        server.start()
        target = messaging.Target(exchange=rpc.EXCHANGE, topic=rpc.TOPIC, server='control-1')
        client = messaging.get_rpc_client(bus, target, timeout=20)
        assert client.call({}, 'oslo_rpc_server_ping') == 'pong'
        server.stop()
        server.finish()
    bus.cleanup()


def counted(url):
    bus = rpc.transport(CONF, url)
    try:
        return rpc.consumers(bus)
    finally:
        bus.cleanup()


def test_consumers_of_the_queue(rabbitmq):
    url = rabbitmq.fresh()
    assert counted(url) == 0
    bus = rpc.transport(CONF, url)
    server = servers.server(bus, 'control-1', [BaseApiEndpoint()])
    server.start()
    eventually(lambda: counted(url) == 1)
    server.stop()
    server.finish()
    bus.cleanup()
    eventually(lambda: counted(url) == 0)


def test_another_bus():
    assert counted('fake://') is None


def test_a_broker_that_does_not_answer():
    with pytest.raises(errors.BrokerUnavailable):
        counted('rabbit://a:b@127.0.0.1:1/')

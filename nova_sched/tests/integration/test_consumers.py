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
"""The number of consumers of a queue, by RabbitMQ."""

import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc import servers
from nova_sched.rpc.endpoints.scheduler import BaseApiEndpoint
from nova_sched.tests.functional.harness import eventually


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


@pytest.mark.parametrize(
    'url, error',
    [pytest.param('rabbit://a:b@127.0.0.1:1/', errors.BrokerUnavailable, id='away')],
)
def test_a_broker_that_does_not_answer(url, error):
    with pytest.raises(error):
        counted(url)

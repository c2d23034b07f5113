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
"""An agent and a scheduler on a real broker, as processes."""

import signal
import uuid

import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc.agent import AgentClient
from nova_sched.rpc.client import ClaimsClient
from nova_sched.rpc.conductor import Conductor
from nova_sched.tests.fixtures.process import free_port
from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.functional.test_agent import asked, until
from nova_sched.tests.functional.test_agent_daemon import Daemon

INTERVAL = 'report_interval = 1'


@pytest.fixture
def link(rabbitmq):
    """A proxy before the broker: closed, it is for daemons as a broker that has ended."""
    with Proxy(rabbitmq.port, port=free_port()) as made:
        yield made


@pytest.fixture
def url(rabbitmq, link):
    return rabbitmq.fresh().replace(f':{rabbitmq.port}/', f':{link.port}/')


@pytest.fixture
def start(tmp_path, url):
    """Start a daemon on lines that come after the [agent] group of its configuration."""
    made = []

    def daemon(module, *lines):
        root = tmp_path / module
        root.mkdir()
        one = Daemon(root, url, module)
        made.append(one)
        one.configure(*lines)
        one.start()
        return one

    yield daemon
    for one in made:
        one.kill()


@pytest.fixture
def bus(url):
    CONF([], project='nova_sched', default_config_files=[], default_config_dirs=[])
    made = rpc.transport(CONF, url)
    yield made
    made.cleanup()
    CONF.reset()


def test_an_agent_outlives_its_broker(start, rabbitmq):
    scheduler = start('scheduler', '[claims]', 'store = memory')
    scheduler.says('Scheduling on host')
    agent = start('agent', INTERVAL)
    agent.says('Reporting node')
    rabbitmq.stop()
    agent.says('cannot be reported')
    rabbitmq.start()
    agent.says('The scheduler answers again')
    agent.tell(signal.SIGTERM)
    assert agent.status() == 0
    assert agent.log.count('cannot be reported') == agent.log.count('answers again') == 1


def test_an_agent_without_a_broker_can_be_ended(start, link):
    agent = start('agent', INTERVAL)
    agent.says('Reporting node')
    link.close()
    agent.says('cannot be reported')
    agent.tell(signal.SIGTERM)
    assert agent.status() == 0


def test_an_agent_that_finds_no_broker_says_so_and_starts_when_there_is_one(start, link):
    link.close()
    agent = start('agent', INTERVAL)
    agent.says(
        'Node cmp1 cannot be reported; trying until it can. The bus has not answered for 1.5 s'
    )
    link.restore()
    start('scheduler', '[claims]', 'store = memory').says('Scheduling on host')
    agent.says('The scheduler answers again')
    agent.tell(signal.SIGTERM)
    assert agent.status() == 0
    assert agent.log.count('cannot be reported') == 1


def test_a_server_is_built_confirmed_and_released(start, bus):
    start('scheduler', '[claims]', 'store = memory').says('Scheduling on host')
    start('agent', INTERVAL, 'cpu_allocation_ratio = 1').says('Reporting node')
    conductor, claims, agent = Conductor(bus), ClaimsClient(bus), AgentClient(bus, 'cmp1')
    spec, instance = asked(vcpus=1), str(uuid.uuid4())

    def placed():
        try:
            return conductor.boot(spec, [instance], lambda uuid, _: agent.build(spec, uuid))
        except errors.NoValidHost:
            return None

    until(placed)
    until(lambda: [claim.state for claim in claims.show(instance)] == ['confirmed'])
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        agent.build(asked(vcpus=9999), str(uuid.uuid4()))
    assert refused.value.shortages.startswith('VCPU: 9999 asked, the node has ')
    assert agent.destroy(instance)
    until(lambda: claims.show(instance) == [])

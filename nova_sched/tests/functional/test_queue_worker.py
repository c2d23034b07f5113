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
"""Agents that take jobs from queues, with a manager, a scheduler and a router: all of it in one
process."""

import contextlib
import json
import shlex
import sys
import uuid

import pytest

from nova_sched import errors
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.rpc.agent import AgentClient
from nova_sched.rpc.client import QueuesClient
from nova_sched.tests.functional.test_agent import Cloud, asked, conf, until

__all__ = ['conf']
FLAVOR = {'name': 'small', 'vcpus': 2, 'memory_mb': 16, 'root_gb': 0}
QUEUE = of_flavor('small')


class QueueCloud(Cloud):
    """The same with the queue model; nodes have eight CPUs each."""

    def __init__(self, conf, root):
        super().__init__(conf, root)
        self.broker = queue_service.broker(conf)
        self.queues = QueuesClient(self.bus, 60)
        self._stack = contextlib.ExitStack()
        self.scheduler()
        self._start(queue_service.QueueService(conf, self.bus))
        self.queues.flavor_create(FLAVOR)
        self.router = self._stack.enter_context(queue_service.Routing(conf, self.bus))

    def close(self):
        self._stack.close()
        super().close()

    def subscribers(self):
        found = self.broker.facts(QUEUE)
        return found.consumers if found else 0

    def start_agents(self, *hosts):
        agents = [self.agent(host) for host in hosts]
        until(lambda: self.subscribers() == len(hosts))
        return agents

    def place(self, spec=None):
        """UUID and host of a new server, which is built when this returns."""
        instance = str(uuid.uuid4())
        ((selection, *_),) = self.router.place(spec or asked(), [instance])
        return instance, selection.service_host


@pytest.fixture
def options(conf, tmp_path):
    """The queue model without quotas, its broker and database new."""
    conf.set_override('enabled', True, group='queues')
    conf.set_override('driver', 'none', group='quota')
    conf.set_override('store', 'sql', group='claims')
    conf.set_override('refresh_interval', 0.2, group='claims')
    conf.set_override('transport_url', 'fake://', group='queues')
    conf.set_override('fallback_after', 3, group='queues')
    queue_service.in_process.cache_clear()  # the queues of the last test
    return conf


@pytest.fixture
def cloud(options, tmp_path):
    made = QueueCloud(options, tmp_path)
    yield made
    made.close()


def test_a_server_is_built_by_the_node_that_took_its_job(cloud):
    cloud.start_agents('cmp1')
    instance, host = cloud.place()
    assert host == 'cmp1'
    assert cloud.states(instance) == [('cmp1', 'confirmed')]
    assert cloud.instances('cmp1') == [instance]
    cloud.router.delete(instance)
    assert (cloud.states(instance), cloud.instances('cmp1')) == ([], [])


def test_a_node_leaves_the_queue_when_it_is_full_and_comes_back(cloud):
    cloud.start_agents('cmp1')
    built = [cloud.place()[0] for _ in range(4)]
    until(lambda: cloud.subscribers() == 0)
    cloud.router.delete(built[0])
    until(lambda: cloud.subscribers() == 1)


def test_two_nodes_share_the_work(cloud):
    cloud.start_agents('cmp1', 'cmp2')
    instances = [str(uuid.uuid4()) for _ in range(8)]
    placed = cloud.router.place(asked(), instances)
    hosts = [found[0].service_host for found in placed]
    assert sorted(hosts) == ['cmp1'] * 4 + ['cmp2'] * 4
    until(lambda: cloud.subscribers() == 0)
    assert sorted(cloud.instances('cmp1') + cloud.instances('cmp2')) == sorted(instances)


def test_what_no_node_takes_in_time_is_refused_by_the_scheduler(cloud):
    cloud.start_agents('cmp1')
    for _ in range(4):
        cloud.place()
    with pytest.raises(errors.NoValidHost, match='no node has taken it'):
        cloud.place()


def test_what_no_queue_is_for_goes_to_the_node_that_the_scheduler_chose(cloud):
    cloud.start_agents('cmp1', 'cmp2')
    spec = asked()
    spec.ignore_hosts = ['cmp1']
    instance, host = cloud.place(spec)
    assert (host, cloud.states(instance)) == ('cmp2', [('cmp2', 'confirmed')])
    assert cloud.instances('cmp2') == [instance]


def test_a_new_flavor_is_followed_without_a_restart(cloud):
    cloud.start_agents('cmp1')
    cloud.queues.flavor_create(FLAVOR | {'name': 'large', 'vcpus': 4})
    until(lambda: (found := cloud.broker.facts(of_flavor('large'))) and found.consumers == 1)
    cloud.queues.flavor_delete('small')
    until(lambda: cloud.broker.facts(QUEUE) is None)


def test_a_server_is_resized_where_it_is_and_moved_elsewhere(cloud):
    cloud.queues.flavor_create(FLAVOR | {'name': 'large', 'vcpus': 4})
    cloud.start_agents('cmp1', 'cmp2')
    instance, source = cloud.place()
    ((selection, *_),) = [cloud.router.resize(asked(4), instance)]
    assert selection.service_host == source
    assert [claim.resources['VCPU'] for claim in cloud.claims.show(instance)] == [4]
    ((selection, *_),) = [cloud.router.migrate(asked(4), instance)]
    other = {'cmp1': 'cmp2', 'cmp2': 'cmp1'}[source]
    assert selection.service_host == other
    until(lambda: cloud.states(instance) == [(other, 'confirmed')])
    until(lambda: cloud.instances(source) == [])
    assert cloud.instances(other) == [instance]


def test_a_node_that_stops_leaves_its_queues_to_others(cloud):
    first, _ = cloud.start_agents('cmp1', 'cmp2')
    cloud.stop(first)
    assert cloud.subscribers() == 1
    assert cloud.place()[1] == 'cmp2'


def test_what_a_driver_cannot_build_another_node_does(cloud, options, tmp_path):
    script = tmp_path / 'build.py'
    script.write_text(
        'import json, sys\n'
        'host = json.load(sys.stdin)["host"]\n'
        'if (host, sys.argv[1]) == ("cmp1", "create"): sys.exit("no image")\n'
    )
    options.set_override('driver', 'exec', group='queues')
    options.set_override('exec_command', shlex.join([sys.executable, str(script)]), group='queues')
    cloud.start_agents('cmp1')
    with pytest.raises(errors.SchedError):
        cloud.place()
    cloud.agent('cmp2')
    until(lambda: cloud.subscribers() == 2)
    assert {cloud.place()[1] for _ in range(3)} == {'cmp2'}
    assert cloud.instances('cmp1') == []


def test_a_build_that_was_cut_off_is_done_by_the_next_agent(cloud, tmp_path):
    (agent,) = cloud.start_agents('cmp1')
    cloud.stop(agent)
    kept = tmp_path / 'cmp1' / 'instances.json'
    left = str(uuid.uuid4())
    size = {'VCPU': 2, 'MEMORY_MB': 16}
    kept.write_text(json.dumps({'instances': [{'uuid': left, 'resources': size, 'hidden': True}]}))
    cloud.agent('cmp1')
    until(lambda: cloud.subscribers() == 1)
    assert cloud.instances('cmp1') == []
    assert AgentClient(cloud.bus, 'cmp1').destroy(left) is False


def test_a_build_that_was_confirmed_just_before_the_end_stays(cloud, tmp_path):
    (agent,) = cloud.start_agents('cmp1')
    instance, _ = cloud.place()
    cloud.stop(agent)
    kept = tmp_path / 'cmp1' / 'instances.json'
    (left,) = json.loads(kept.read_text())['instances']
    kept.write_text(json.dumps({'instances': [left | {'hidden': True}]}))
    cloud.start_agents('cmp1')
    assert (cloud.states(instance), cloud.instances('cmp1')) == (
        [('cmp1', 'confirmed')],
        [instance],
    )

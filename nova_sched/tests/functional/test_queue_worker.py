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
"""Agents that take jobs from queues: flavors that come, drivers that fail, agents that stop."""

import json
import shlex
import sys

from nova_sched.conf import CONF
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.rpc.agent import AgentClient
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.queue_cloud import SMALL, refused
from nova_sched.tests.functional.test_agent import conf, until
from nova_sched.tests.functional.test_queues import cloud
from nova_sched.tests.options import settings

__all__ = ['cloud', 'conf']


def test_a_new_flavor_is_followed_without_a_restart(cloud):
    cloud.worker('a')
    cloud.queues.flavor_create(SMALL | {'name': 'medium', 'vcpus': 4})
    until(lambda: cloud.consumers().get('medium') == 1)
    cloud.queues.flavor_delete('small')
    assert queue_service.broker(CONF).facts(of_flavor('small')) is None


def test_a_node_that_stops_leaves_its_queues_to_others(cloud):
    first, _ = cloud.worker('a', 'b')
    cloud.stop(first)
    assert cloud.consumers()['small'] == 1
    assert cloud.place('server') == 'b'


def test_what_a_driver_cannot_build_another_node_does(cloud, tmp_path):
    script = tmp_path / 'build.py'
    script.write_text(
        'import json, sys\n'
        'host = json.load(sys.stdin)["host"]\n'
        'if (host, sys.argv[1]) == ("a", "create"): sys.exit("no image")\n'
    )
    command = shlex.join([sys.executable, str(script)])
    with settings({'queues.driver': 'exec', 'queues.exec_command': command}):
        cloud.worker('a')
        refused(cloud.place, 'server')
        cloud.worker('b')
    assert {cloud.place(f'server {number}') for number in range(3)} == {'b'}
    assert cloud.instances('a') == []


def test_a_build_that_was_cut_off_is_undone_by_the_next_agent(cloud, tmp_path):
    (agent,) = cloud.worker('a')
    cloud.stop(agent)
    size = {'VCPU': 2, 'MEMORY_MB': 16}
    left = {'uuid': uuid_of('server'), 'resources': size, 'hidden': True}
    (tmp_path / 'a' / 'instances.json').write_text(json.dumps({'instances': [left]}))
    cloud.worker('a')
    assert cloud.instances('a') == []
    assert AgentClient(cloud.bus, 'a').destroy(left['uuid']) is False


def test_a_build_that_was_confirmed_just_before_the_end_stays(cloud, tmp_path):
    (agent,) = cloud.worker('a')
    cloud.place('server')
    cloud.stop(agent)
    kept = tmp_path / 'a' / 'instances.json'
    (left,) = json.loads(kept.read_text())['instances']
    kept.write_text(json.dumps({'instances': [left | {'hidden': True}]}))
    cloud.worker('a')
    assert cloud.held('server') == [('a', 'confirmed', 2)]
    assert cloud.instances('a') == [uuid_of('server')]

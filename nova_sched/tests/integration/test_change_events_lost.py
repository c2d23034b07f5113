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
"""News among schedulers on a RabbitMQ that does not let them through, and what is left there at
the end."""

import pytest

from nova_sched.rpc.change_events import TOPIC
from nova_sched.tests.fixtures.rabbitmq import USER
from nova_sched.tests.functional.harness import compute_node, eventually
from nova_sched.tests.functional.test_change_events import two_daemons
from nova_sched.tests.functional.test_change_events_lost import *  # noqa: F403


@pytest.fixture
def bus_url(rabbitmq):
    """A virtual host of our own."""
    return rabbitmq.fresh()


def name_of(bus_url):
    return bus_url.rpartition('/')[2]


def queues(rabbitmq, bus_url):
    """Names of the queues about news."""
    found = rabbitmq.ask('GET', f'queues/{name_of(bus_url)}')
    return [queue['name'] for queue in found if queue['name'].startswith(TOPIC)]


def test_a_user_who_may_not_use_the_topic(rabbitmq, bus_url, tmp_path):
    """Both go on, and both hear as soon as they may."""
    some = f'^(?!{TOPIC}).*'
    rules = {'configure': some, 'write': some, 'read': some}
    rabbitmq.ask('PUT', f'permissions/{name_of(bus_url)}/{USER}', rules)
    with two_daemons(bus_url, tmp_path, refresh_s=0.1) as two:
        two.add('a', 'b')
        for number in range(4):
            two.one.boot(f'instance {number}')
        two.all_know(lambda cluster: sum(len(node.claims) for node in cluster) == 4)
        assert sum(daemon.figures.news_heard for daemon in two.both) == 0
        rabbitmq.ask(
            'PUT',
            f'permissions/{name_of(bus_url)}/{USER}',
            {'configure': '.*', 'write': '.*', 'read': '.*'},
        )

        def hears():
            two.one.stats.update_resource_stats(
                'a', compute_node('a', vcpus=next(numbers)), [], None, None
            )
            return all(daemon.figures.news_heard for daemon in two.both)

        numbers = iter(range(100, 100_000))
        eventually(hears)


def test_no_queue_of_one_process_is_left(rabbitmq, bus_url, tmp_path):
    with two_daemons(bus_url, tmp_path) as two:
        two.add('a')
        assert sum('fanout' in name for name in queues(rabbitmq, bus_url)) == 2
    assert [name for name in queues(rabbitmq, bus_url) if 'fanout' in name] == []

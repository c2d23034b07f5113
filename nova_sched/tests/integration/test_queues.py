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
"""The queue model from end to end on RabbitMQ: scheduler, manager, agents with workers, and a
router."""

import concurrent.futures
import contextlib

import pytest

from nova_sched import errors
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.queue_cloud import OPTIONS, QueueCloud, refused
from nova_sched.tests.functional.test_agent import conf, until
from nova_sched.tests.options import settings

__all__ = ['conf']


@pytest.fixture
def cloud(conf, rabbitmq, tmp_path, request):
    url = rabbitmq.fresh()
    after = {'queues.fallback_after': request.param} if hasattr(request, 'param') else {}
    with settings({**OPTIONS, 'queues.transport_url': url, **after}):
        made = QueueCloud(conf, tmp_path, url)
        yield made
        made.close()


def test_servers_come_and_go(cloud):
    cloud.worker('a', 'b')
    names = [f'server {number}' for number in range(8)]
    placed = cloud.router.place(cloud.spec(), [uuid_of(name) for name in names])
    assert sorted(found[0].service_host for found in placed) == ['a'] * 4 + ['b'] * 4
    assert (
        'no node has taken it from its queue within 2 s' in refused(cloud.place, 'too many').reason
    )
    with concurrent.futures.ThreadPoolExecutor() as callers:
        list(callers.map(lambda name: cloud.router.delete(uuid_of(name)), names))
    assert (cloud.used, cloud.instances('a'), cloud.instances('b')) == ({}, [], [])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    'cloud', [60], indirect=True
)  # a busy machine needs seconds to subscribe again
def test_a_broker_that_restarts(cloud, rabbitmq):
    """Every consumer subscribes again, and the jobs sent meanwhile are done."""
    cloud.worker('a', 'b')
    # A call that is lost on the bus is made again after a minute.
    with (
        settings({'queues.reply_timeout': 240}),
        concurrent.futures.ThreadPoolExecutor() as callers,
    ):
        before = cloud.place('before')
        rabbitmq.restart()
        after = [callers.submit(cloud.place, f'after {number}') for number in range(4)]
        hosts = [before, *(one.result() for one in after)]
    assert sorted({*hosts}) == ['a', 'b']
    assert cloud.used['servers'] == 5
    # A call before the agent has subscribed again is lost.
    for host in ('a', 'b'):
        until(lambda host=host: answers(cloud, host))
    assert len(cloud.instances('a')) + len(cloud.instances('b')) == 5


def answers(cloud, host):
    """Whether the agent answers a call."""
    with contextlib.suppress(errors.NoAnswer):
        cloud.instances(host)
        return True
    return False

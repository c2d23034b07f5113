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
"""Where the queues of a process are, by its configuration."""

import pytest

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.brokers.amqp import AmqpBroker
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.tests.options import settings
from nova_sched.tests.rows import table


@table(
    'url, kind',
    {
        'in the process': ('fake://', MemoryBroker),
        'RabbitMQ': ('rabbit://u:p@localhost:5672/queues', AmqpBroker),
    },
)
def test_where_the_queues_are(url, kind):
    with settings({'queues.transport_url': url}):
        assert type(queue_service.broker(CONF)) is kind


def test_all_parts_of_a_process_have_the_same_queues():
    with settings({'queues.transport_url': 'fake://'}):
        one, other = queue_service.broker(CONF), queue_service.broker(CONF)
        one.declare(['flavor.x'])
        queue_service.close_broker(one)
        assert other.publish('flavor.x', b'')


def test_a_broker_of_no_known_kind():
    with settings({'queues.transport_url': 'strange://'}), pytest.raises(errors.BadConfig):
        queue_service.broker(CONF)

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
"""The broker that is a RabbitMQ, as far as it needs none; the rest is tested on a real one."""

import pytest

from nova_sched import errors
from nova_sched.queues.brokers import FALLBACK
from nova_sched.queues.brokers.amqp import AmqpBroker
from nova_sched.tests.fixtures import process


@pytest.fixture
def nowhere():
    made = AmqpBroker(f'rabbit://guest:secret@{process.LOOPBACK}:{process.free_port()}/')
    yield made
    made.close()


def test_a_bad_url_is_refused():
    with pytest.raises(errors.BadConfig):
        AmqpBroker('http://mq')


def test_nothing_is_connected_before_it_must_be(nowhere):
    nowhere.declare([])
    with pytest.raises(ValueError, match=FALLBACK):
        nowhere.drop(FALLBACK)


@pytest.mark.parametrize(
    'call',
    [
        pytest.param(lambda broker: broker.declare(['flavor.tiny']), id='declare'),
        pytest.param(lambda broker: broker.drop('flavor.tiny'), id='drop'),
        pytest.param(lambda broker: broker.facts('flavor.tiny'), id='facts'),
        pytest.param(lambda broker: broker.publish('flavor.tiny', b''), id='publish'),
        pytest.param(lambda broker: broker.consumer(print, 'nobody'), id='consumer'),
    ],
)
def test_a_broker_that_is_away_is_told(nowhere, call):
    with pytest.raises(errors.BrokerUnavailable) as told:
        call(nowhere)
    assert 'secret' not in str(told.value)


def test_after_the_end_nothing_is_sent(nowhere):
    nowhere.close()
    with pytest.raises(errors.BrokerUnavailable, match='closed'):
        nowhere.publish('flavor.tiny', b'')

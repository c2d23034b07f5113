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
"""One queue is read in order; what cannot be done now waits, what can never be done is dropped."""

import threading

import pytest

from nova_sched import errors
from nova_sched.extensions.queues.brokers import RESULTS, Delivery
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.extensions.queues.manager import QueueReader
from nova_sched.tests.functional.harness import eventually


@pytest.fixture
def queues():
    made = MemoryBroker()
    yield made
    made.close()


class FailingTake:
    """Takes deliveries, after it has raised the ``coming`` errors."""

    def __init__(self, *coming):
        self.coming, self.done = list(coming), []

    def take(self, delivery):
        if self.coming and (error := self.coming.pop(0)):
            raise error
        self.done.append(delivery.body)


def test_in_order_and_acknowledged(queues):
    work = FailingTake()
    reader = QueueReader(queues, RESULTS, work.take)
    reader.start()
    bodies = [str(number).encode() for number in range(100)]
    for body in bodies:
        queues.publish(RESULTS, body)
    eventually(lambda: work.done == bodies)
    reader.stop()
    assert queues.facts(RESULTS).ready == 0
    assert (reader.taken, reader.spoilt) == (100, 0)


@pytest.mark.parametrize(
    'error',
    [
        errors.StoreUnavailable('x'),
        errors.StoreBusy('x'),
        errors.StoreFull('x'),
        errors.BrokerUnavailable('x'),
        errors.NoAnswer('x', 'y'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_away_is_waited_for(queues, error):
    work = FailingTake(error, error)
    reader = QueueReader(queues, RESULTS, work.take)
    assert reader.take(Delivery(RESULTS, b'x'))
    assert (work.done, reader.taken, reader.spoilt) == ([b'x'], 1, 0)


@pytest.mark.parametrize(
    'error', [errors.MalformedObject('x', 'y'), KeyError('x'), errors.NotFound('x')]
)
def test_an_unreadable_message_is_counted_and_dropped(queues, error, caplog):
    work = FailingTake(error)
    reader = QueueReader(queues, RESULTS, work.take)
    assert reader.take(Delivery(RESULTS, b'x'))
    assert (work.done, reader.taken, reader.spoilt) == ([], 0, 1)
    assert 'dropped' in caplog.text


def test_the_end_gives_back_what_waits_for_something(queues):
    met = threading.Event()

    def take(delivery):
        met.set()
        raise errors.StoreUnavailable('x')

    reader = QueueReader(queues, RESULTS, take)
    reader.start()
    for body in (b'1', b'2'):
        queues.publish(RESULTS, body)
    met.wait(60)
    reader.stop()
    assert queues.facts(RESULTS).ready == 2


def test_an_end_before_the_start(queues):
    queues.publish(RESULTS, b'1')
    QueueReader(queues, RESULTS, FailingTake().take).stop()
    assert queues.facts(RESULTS).ready == 1

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
"""The simulated broker counts what a real one would get to do."""

import pytest

from nova_sched.sim.models.cloud import CountedBroker
from nova_sched.sim.replay import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def broker(clock):
    made = CountedBroker(
        clock, lambda seconds, call: clock.at(clock() + seconds, call), 30.0, 0.001
    )
    made.declare(['flavor.small', 'host.one'])
    return made


def run(clock, seconds=1.0):
    for call in clock.move(clock() + seconds):
        call()


def test_a_message_is_published_delivered_and_acknowledged(broker, clock):
    taken = []
    consumer = broker.consumer(taken.append, 'one')
    consumer.follow({'flavor.small': 3})
    broker.publish('flavor.small', b'job')
    run(clock)
    consumer.ack(taken[0])
    assert broker.count == {'consume': 1, 'publish': 1, 'deliver': 1, 'ack': 1}
    assert broker.kinds == {'flavor': 1}


@pytest.mark.parametrize(
    'changes, counted',
    [
        pytest.param([{'flavor.small': 1}], {'consume': 1}, id='it begins'),
        pytest.param([{'flavor.small': 1, 'host.one': 2}], {'consume': 2}, id='two begin'),
        pytest.param(
            [{'host.one': 1}, {'host.one': None}], {'consume': 1, 'cancel': 1}, id='it ends'
        ),
        pytest.param(
            [{'flavor.small': 1}, {'flavor.small': 2}],
            {'consume': 2, 'cancel': 1},
            id='another priority is both',
        ),
        pytest.param([{'flavor.small': None}], {}, id='what was never there'),
    ],
)
def test_subscriptions_are_counted_as_commands(broker, changes, counted):
    consumer = broker.consumer(lambda delivery: None, 'one')
    for change in changes:
        consumer.follow(change)
    assert broker.count == counted


def test_who_puts_back_publishes_again(broker, clock):
    taken = []
    consumer = broker.consumer(taken.append, 'one')
    consumer.follow({'flavor.small': 0})
    broker.publish('flavor.small', b'job')
    run(clock)
    consumer.put_back(taken[0], 'host.one')
    assert (broker.count['publish'], broker.count['ack']) == (2, 1)
    assert broker.kinds == {'flavor': 1, 'host': 1}

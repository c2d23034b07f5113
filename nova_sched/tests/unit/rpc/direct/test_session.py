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
"""Acknowledgements and confirms of a connection."""

import collections
import types

import amqp
import pytest

from nova_sched.rpc.direct.session import BrokerSession


class Channel:
    def __init__(self):
        self.events = collections.defaultdict(set)
        self.acks, self.rejected = [], []

    def basic_ack(self, tag, multiple=False):
        self.acks.append((tag, multiple))

    def basic_reject(self, tag, requeue):
        self.rejected.append((tag, requeue))

    def send_method(self, *_):
        pass

    confirm_select = basic_qos = send_method

    def tell(self, event, *words):
        for callback in self.events[event]:
            callback(*words)


@pytest.fixture
def channel():
    return Channel()


@pytest.fixture
def session(channel):
    sock = types.SimpleNamespace(fileno=lambda: 7)
    transport = types.SimpleNamespace(sock=sock)
    connection = types.SimpleNamespace(
        sock=sock, transport=transport, heartbeat=0, channel=lambda: channel
    )
    return BrokerSession(connection, [], 8)


def deliver(session, *tags):
    for tag in tags:
        message = amqp.Message(b'x')
        message.delivery_info = {'delivery_tag': tag}
        session._take(message)


def test_a_batch_is_acknowledged_at_once(session, channel):
    deliver(session, 1, 2, 3)
    for tag in (3, 1, 2):
        session.settle(tag)
    session.acknowledge()
    assert (channel.acks, session.unacknowledged) == ([(3, True)], 0)


def test_what_is_not_settled_stays(session, channel):
    deliver(session, 1, 2, 3, 4)
    for tag in (1, 2, 4):
        session.settle(tag)
    session.acknowledge()
    assert (channel.acks, session.unacknowledged) == ([(2, True), (4, False)], 1)
    session.settle(3)
    session.acknowledge()
    assert channel.acks[2:] == [(3, True)]


def test_nothing_is_acknowledged_twice(session, channel):
    deliver(session, 1)
    for _ in range(2):
        session.settle(1)
        session.acknowledge()
    assert channel.acks == [(1, True)]


def test_a_rejected_message_is_not_acknowledged(session, channel):
    deliver(session, 1, 2)
    session.reject(1)
    session.settle(1)
    session.settle(2)
    session.acknowledge()
    assert (channel.rejected, channel.acks) == ([(1, False)], [(2, True)])


def test_confirms(session, channel):
    for owner in 'abcd':
        session.send('q', amqp.Message(owner.encode()), owner)
    channel.tell('basic_ack', 2, True)
    assert (session.confirmed, session.unconfirmed) == (['a', 'b'], ['c', 'd'])
    channel.tell('basic_ack', 4, False)
    channel.tell('basic_nack', 3, False)
    assert (session.confirmed, session.refused) == (['a', 'b', 'd'], ['c'])
    channel.tell('basic_ack', 4, False)
    assert session.unconfirmed == []


def test_a_returned_message_is_not_confirmed(session, channel):
    for owner in 'ab':
        session.send('q', amqp.Message(owner.encode()), owner)
    channel.tell('basic_return', None, '', 'q', amqp.Message(b'b'))
    channel.tell('basic_ack', 2, True)
    assert (session.confirmed, session.returned) == (['a'], ['b'])

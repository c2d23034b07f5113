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
"""The thread that keeps a connection to RabbitMQ open."""

import collections
import logging
import math
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from amqp.exceptions import AccessRefused, ConnectionForced

from nova_sched import errors
from nova_sched.rpc import rabbit
from nova_sched.tests.functional.harness import PATIENCE_S, eventually


class Connection:
    """One without a broker: a frame is a byte, and an empty read its end."""

    heartbeat, connected, transport = 0, True, None

    def __init__(self):
        self.sock, self.far = socket.socketpair()
        self.frames = 0

    def blocking_read(self, _timeout):
        if not self.sock.recv(1):
            raise ConnectionResetError('the far end has closed')
        self.frames += 1

    def heartbeat_tick(self, _rate):
        pass

    def close(self):
        self.far.close()

    def collect(self):
        self.sock.close()


class User:
    """Does its orders. ``said`` is what it was told, ``refusals`` and ``failures`` what it raises
    at the next opening or work."""

    def __init__(self):
        self.connections, self.orders, self.said = [], collections.deque(), []
        self.unavailable, self.refusals, self.failures = [], [], []
        self.is_ending = False
        self.thread = rabbit.BusThread(self, self.connect, 'It', rabbit.Pauses(0.01, 0.01, 0.02))

    def connect(self):
        if self.unavailable:
            raise self.unavailable.pop()
        self.connections.append(Connection())
        return self.connections[-1]

    def do(self, work):
        """In the thread; returns when it is done."""
        done = threading.Event()
        self.orders.append(lambda: (work(), done.set()))
        self.thread.rouse()
        assert done.wait(PATIENCE_S)

    def open(self, connection):
        if self.refusals:
            raise self.refusals.pop()
        return rabbit.Session(connection)

    def work(self):
        if self.failures:
            raise self.failures.pop()
        while self.orders:
            self.orders.popleft()()

    def due_s(self):
        return math.inf

    def lost(self, session, error):
        self.said.append((session and session.connection, str(error)))

    def is_over(self):
        return self.is_ending

    def ended(self):
        self.said.append('ended')

    def stop(self):
        self.is_ending = True
        self.thread.rouse()
        self.thread.join(PATIENCE_S)


@pytest.fixture
def user():
    made = User()
    yield made
    made.stop()


def test_frames_are_read_and_orders_done_until_the_end(user):
    user.thread.start()
    user.do(lambda: None)
    (connection,) = user.connections
    connection.far.send(b'...')
    eventually(lambda: connection.frames == 3)
    user.stop()
    assert user.said == ['ended']
    user.thread.rouse()  # too late, and no error


def test_a_lost_connection_is_replaced(user, caplog):
    user.thread.start()
    user.do(lambda: None)
    user.connections[0].far.close()
    eventually(lambda: len(user.connections) == 2)
    assert user.said == [(user.connections[0], 'the far end has closed')]
    assert 'It has lost its connection to the broker: the far end has closed' in caplog.text
    user.connections[1].far.send(b'.')
    eventually(lambda: user.connections[1].frames)


@pytest.mark.parametrize(
    'trouble, lost, said',
    [
        pytest.param(
            {'unavailable': [errors.BrokerUnavailable('a'), errors.BrokerRefused('b')]},
            [],
            'It cannot connect to the broker: a. Trying again',
            id='no connection',
        ),
        pytest.param(
            {'refusals': [AccessRefused('no')]},
            [(None, 'no')],
            'It cannot connect to the broker',
            id='an opening that is refused',
        ),
        pytest.param(
            {'refusals': [ValueError('odd')]},
            [],
            'It failed, and connects again',
            id='a fault of the opening',
        ),
    ],
)
def test_it_connects_until_that_succeeds(user, caplog, trouble, lost, said):
    vars(user).update(trouble)
    with caplog.at_level(logging.INFO):
        user.thread.start()
        eventually(lambda: user.thread.session)
    assert said in caplog.text
    assert 'It is connected to the broker' in caplog.text
    assert [(told[0], 'no' if 'no' in told[1] else told[1]) for told in user.said] == lost


@pytest.mark.parametrize(
    'failure',
    [
        pytest.param(ConnectionForced('shut down'), id='of the connection'),
        pytest.param(ValueError('odd'), id='of its own'),
    ],
)
def test_a_failure_at_work_costs_the_connection_alone(user, failure):
    user.thread.start()
    user.do(lambda: None)
    user.failures.append(failure)
    user.do(lambda: None)
    eventually(lambda: len(user.connections) == 2 and user.thread.session)
    assert user.said == [(user.connections[0], str(failure))]


def test_a_failure_while_it_closes_ends_nothing(user, caplog):
    """Messages come until the broker has answered."""
    user.thread.start()
    user.do(lambda: None)
    (connection,) = user.connections
    close = connection.close

    def closing():
        close()
        raise ValueError('odd message')

    connection.close = closing
    user.failures.append(ConnectionForced('shut down'))
    user.do(lambda: None)
    eventually(lambda: len(user.connections) == 2 and user.thread.session)
    assert 'A message failed while its connection was closed' in caplog.text
    assert connection.sock.fileno() == -1
    user.connections[1].close = closing
    user.stop()
    assert user.said[1:] == ['ended']


def test_a_session_that_ends_soon_is_not_opened_again_at_once(user, monkeypatch):
    monkeypatch.setattr(rabbit.random, 'uniform', lambda _least, most: most)
    user.thread = rabbit.BusThread(user, user.connect, 'It', rabbit.Pauses(100.0, 50.0, 200.0))
    user.thread.start()
    user.do(lambda: None)
    begin_s = time.monotonic()
    user.do(lambda: user.thread.lose(ConnectionForced('shut down')))
    assert user.thread._connect_at_s >= begin_s + 100


def test_without_a_start_it_may_be_opened_and_closed(user):
    user.thread.open()
    user.thread.close()
    assert user.connections[0].far.fileno() == -1


def test_a_rouse_is_never_lost(monkeypatch):
    """Work may come at each moment: before the thread clears what roused it, and after that."""
    late = collections.deque()

    class Hear(SimpleNamespace):
        def __init__(self, inner):
            super().__init__(
                inner=inner, fileno=inner.fileno, close=inner.close, setblocking=inner.setblocking
            )

        def recv(self, count):
            self.come()
            found = self.inner.recv(count)
            self.come()
            return found

        def come(self):
            if late:
                late.popleft()()

    pair = socket.socketpair
    ends = [lambda: (lambda hear, wake: (Hear(hear), wake))(*pair())]
    monkeypatch.setattr(rabbit.socket, 'socketpair', lambda: ends.pop()() if ends else pair())
    user, done = User(), []
    user.thread.start()

    def another():
        user.orders.append(lambda: done.append(1))
        user.thread.rouse()

    for wanted in range(1, 41):
        late.append(another)
        user.do(lambda: None)
        eventually(lambda wanted=wanted: len(done) >= wanted)
    user.stop()

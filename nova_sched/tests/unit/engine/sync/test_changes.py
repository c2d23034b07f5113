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
"""Tests of the publisher: what it gathers, what it drops, and how it lives and ends."""

import threading

import pytest

from nova_sched import errors
from nova_sched.engine.sync.changes import MOST, ChangeEvent, ChangePublisher, Commit, together
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.unit.engine.test_scheduler import wait_for

A, B, NODE = uuid_of('instance A'), uuid_of('instance B'), uuid_of('node')


def commit(consumer=A, before=1, claims=1):
    return Commit(
        {NODE: (before, before + 1)}, (consumer,), (claim(consumer, NODE, uuid=consumer),) * claims
    )


class Bus:
    """Takes news, unless it is ``broken``."""

    def __init__(self, broken=None):
        self.sent = []
        self.broken = broken

    def send(self, news):
        if self.broken:
            raise self.broken
        self.sent.append(news)


def publisher(bus, **words):
    return ChangePublisher(bus.send, clock=lambda: NOW, **words)


def test_what_comes_together_is_one_message():
    bus = Bus()
    made = publisher(bus)
    made.tell([commit(A)])
    made.tell([commit(B, 2)], {NODE: 7})
    made.tell(looks={'other': None})
    made.tell(tables=True)
    made.flush()
    assert bus.sent == [
        ChangeEvent(NOW, (commit(A), commit(B, 2)), {NODE: 7, 'other': None}, True)
    ]
    assert (made.figures.news_told, made.figures.news_dropped) == (1, 0)


def test_the_time_is_that_of_the_first():
    changes = [ChangeEvent(2.0, looks={NODE: 3}), ChangeEvent(1.0, looks={NODE: 4})]
    assert together(changes) == ChangeEvent(1.0, (), {NODE: 4}, False)


def test_nothing_is_no_message():
    bus = Bus()
    publisher(bus).flush()
    assert bus.sent == []


@pytest.mark.parametrize(
    'claims, count, messages',
    [
        pytest.param(0, MOST, [MOST], id='as many as one message has'),
        pytest.param(0, MOST + 1, [MOST, 1], id='one more'),
        pytest.param(MOST, 2, [1, 1], id='each more than one message has'),
    ],
)
def test_a_message_has_an_end(claims, count, messages):
    bus = Bus()
    made = publisher(bus)
    for _ in range(count):
        made.tell([commit(claims=claims)])
    made.flush()
    assert [len(news.commits) for news in bus.sent] == messages


@pytest.mark.parametrize(
    'made',
    [
        pytest.param(ChangePublisher(), id='without a bus'),
        pytest.param(ChangePublisher(Bus().send, alone=lambda: True), id='alone'),
    ],
)
def test_no_other_scheduler_to_tell(made):
    assert not made.is_heard
    made.tell(tables=True)
    made.flush()
    assert (made.figures.news_told, made.figures.news_dropped) == (0, 0)


def test_too_much_is_dropped_and_counted():
    bus = Bus()
    made = publisher(bus, waiting=2)
    for _ in range(5):
        made.tell(tables=True)
    made.flush()
    assert (len(bus.sent), made.figures.news_dropped) == (1, 3)
    made.tell(tables=True)
    made.flush()
    assert (len(bus.sent), made.figures.news_dropped) == (2, 3)


def test_a_bus_that_is_away_is_said_once_each_time(caplog):
    bus = Bus(errors.NoAnswer('changed', 'it is away'))
    made = publisher(bus)
    for broken in (bus.broken, bus.broken, None, bus.broken):
        bus.broken = broken
        made.tell(tables=True)
        made.tell([commit()])
        made.flush()
    assert caplog.text.count('other schedulers read the changes from the database') == 2
    assert (made.figures.news_told, made.figures.news_dropped) == (1, 6)


def test_what_cannot_be_sent_is_dropped(caplog):
    bus = Bus(OverflowError('too long'))
    made = publisher(bus)
    made.tell(tables=True)
    made.flush()
    bus.broken = None
    made.tell([commit()])
    made.flush()
    assert '1 changes cannot be sent' in caplog.text
    assert (len(bus.sent), made.figures.news_dropped) == (1, 1)


class TestThread:
    def names(self):
        return [thread.name for thread in threading.enumerate()]

    def test_it_tells_and_the_last_ones_too(self):
        bus = Bus()
        made = publisher(bus)
        made.start()
        made.tell([commit(A)])
        wait_for(lambda: bus.sent)
        made.tell([commit(B)])
        made.stop()
        assert [one.consumers for news in bus.sent for one in news.commits] == [(A,), (B,)]
        assert 'nova-sched-news' not in self.names()

    def test_without_a_bus_there_is_no_thread(self):
        made = ChangePublisher()
        made.start()
        assert 'nova-sched-news' not in self.names()
        made.stop()

    def test_it_ends_without_a_start(self):
        bus = Bus()
        publisher(bus).stop()
        assert bus.sent == []

    def test_a_bus_that_does_not_return_is_left_alone(self):
        released = threading.Event()
        made = ChangePublisher(lambda news: released.wait(10))
        made.start()
        made.tell(tables=True)
        made.stop(timeout_s=0.05)
        released.set()
        wait_for(lambda: 'nova-sched-news' not in self.names())

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
"""Subscriptions: what a consumer is told when what is wanted changes."""

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.extensions.queues.node.subscriptions import NONE, Subscriptions
from nova_sched.tests.rows import each_afresh

ABC = ('a', 'b', 'c')


class Consumer:
    """Remembers what it was told, and what it follows now; away it does part of what is asked, or
    nothing."""

    def __init__(self):
        self.told, self.now, self.is_away = [], {}, False

    def follow(self, wanted):
        self.told.append(dict(wanted))
        self.now |= dict(list(wanted.items())[:1]) if self.is_away else wanted
        self.now = {name: priority for name, priority in self.now.items() if priority is not None}
        if self.is_away:
            raise errors.BrokerUnavailable('away')


@pytest.fixture
def consumer():
    return Consumer()


@pytest.fixture
def made(consumer):
    """A subscription that follows a and b."""
    found = Subscriptions(consumer, 'own', 10)
    found.follow(ABC, wanted(3, 0, NONE))
    consumer.told.clear()
    return found


def wanted(*priorities):
    return np.array(priorities, np.int16)


def test_its_own_queue_comes_first(consumer):
    assert Subscriptions(consumer, 'own', 10).follow(ABC, wanted(3, 0, NONE)) == 3
    assert [list(told.items()) for told in consumer.told] == [[('own', 10), ('a', 3), ('b', 0)]]


@each_afresh(
    'priorities, told',
    {
        'nothing new': ((3, 0, NONE), []),
        'one more': ((3, 0, 5), [{'c': 5}]),
        'one less': ((NONE, 0, NONE), [{'a': None}]),
        'another priority': ((4, 0, NONE), [{'a': 4}]),
        'all others': ((NONE, NONE, 0), [{'a': None, 'b': None, 'c': 0}]),
    },
)
def test_only_differences_are_told(made, consumer, priorities, told):
    assert made.follow(ABC, wanted(*priorities)) == sum(map(len, told))
    assert consumer.told == told
    assert len(made) == sum(priority != NONE for priority in priorities)


def test_a_priority_is_a_number_that_any_broker_can_send(made, consumer):
    made.follow(ABC, wanted(4, 0, NONE))
    assert type(consumer.now['a']) is int


@each_afresh(
    'names, priorities, told',
    {
        'another order': (('b', 'a'), (0, 3), []),
        'one for another': (('b', 'd'), (0, 7), [{'a': None, 'd': 7}]),
        'none left': ((), (), [{'a': None, 'b': None}]),
        'one before all': (('x', *ABC), (NONE, 3, 1, NONE), [{'b': 1}]),
    },
)
def test_another_catalogue_is_told_by_differences_too(made, consumer, names, priorities, told):
    made.follow(names, wanted(*priorities))
    assert consumer.told == told


@pytest.mark.parametrize(
    'priorities', [(NONE, NONE, NONE), (3, 0, NONE), (5, 5, 5), (NONE, 0, 4)], ids=str
)
@pytest.mark.parametrize('names', [ABC, ('c', 'b', 'a'), ('a', 'x', 'y')], ids=str)
def test_what_the_broker_may_not_have_heard_is_told_again(made, consumer, names, priorities):
    consumer.is_away = True
    with pytest.raises(errors.BrokerUnavailable):
        made.follow(ABC, wanted(1, NONE, 2))
    consumer.is_away = False
    made.follow(names, wanted(*priorities))
    follows = {
        name: priority
        for name, priority in zip(names, priorities, strict=True)
        if priority != NONE
    }
    assert consumer.now == {'own': 10} | follows


def test_the_own_queue_is_told_again_too(consumer):
    made = Subscriptions(consumer, 'own', 10)
    consumer.is_away = True
    with pytest.raises(errors.BrokerUnavailable):
        made.follow((), wanted())
    consumer.is_away, consumer.now = False, {}
    made.follow((), wanted())
    assert consumer.now == {'own': 10}


def test_at_the_end_nothing_is_followed(made, consumer):
    made.follow(('b', 'd'), wanted(0, 7))
    assert made.end() == 3
    assert (consumer.now, len(made), made.end()) == ({}, 0, 0)

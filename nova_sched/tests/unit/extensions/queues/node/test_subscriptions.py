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


def test_without_a_catalogue_it_has_its_own_queue(consumer):
    made = Subscriptions(consumer, 'own', 10)
    assert (made.follow((), wanted()), len(made)) == (1, 0)
    assert consumer.now == {'own': 10}


@pytest.mark.parametrize(
    'priorities, told',
    [
        pytest.param((3, 0, NONE), [], id='nothing new'),
        pytest.param((3, 0, 5), [{'c': 5}], id='one more'),
        pytest.param((NONE, 0, NONE), [{'a': None}], id='one less'),
        pytest.param((4, 0, NONE), [{'a': 4}], id='another priority'),
        pytest.param((NONE, NONE, 0), [{'a': None, 'b': None, 'c': 0}], id='all others'),
    ],
)
def test_only_differences_are_told(made, consumer, priorities, told):
    assert made.follow(ABC, wanted(*priorities)) == sum(map(len, told))
    assert consumer.told == told
    assert len(made) == sum(priority != NONE for priority in priorities)


def test_a_priority_is_a_number_that_any_broker_can_send(made, consumer):
    made.follow(ABC, wanted(4, 0, NONE))
    assert type(consumer.now['a']) is int


@pytest.mark.parametrize(
    'names, priorities, told',
    [
        pytest.param(('b', 'a'), (0, 3), [], id='another order'),
        pytest.param(('b', 'd'), (0, 7), [{'a': None, 'd': 7}], id='one for another'),
        pytest.param((), (), [{'a': None, 'b': None}], id='none left'),
        pytest.param(('x', *ABC), (NONE, 3, 1, NONE), [{'b': 1}], id='one before all'),
    ],
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

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
"""Aggregates: what a host's metadata say, and who is in which, against a plain dict."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.state.aggregates import Aggregates, OwnAggregates, number
from nova_sched.state.host_aggregate import split, values, zones
from nova_sched.tests.builders import aggregate
from nova_sched.tests.rows import table


@table(
    'text, parts',
    {
        'one': ('a', {'a'}),
        'blanks and repeats': (' a , b,a', {'a', 'b'}),
        'nothing is one empty part': ('', {''}),
    },
)
def test_split(text, parts):
    assert split(text) == parts


@table(
    'texts, named',
    {
        'no aggregate': ([], set()),
        'one': (['a'], {'a'}),
        'union': (['a', 'b, c'], {'a', 'b', 'c'}),
    },
)
def test_zones(texts, named):
    made = [aggregate(at, ['h'], availability_zone=text) for at, text in enumerate(texts)]
    assert zones([*made, aggregate(9, ['h'], ssd='true')]) == named


def test_values():
    made = [
        aggregate(1, ['h'], tier='a, b'),
        aggregate(2, ['h'], tier='b'),
        aggregate(3, ['h'], other='c'),
    ]
    assert values(made, 'tier') == {'a', 'b'}
    assert values(made, 'none') == set()
    assert values([aggregate(1, ['h'], tier='')], 'tier') == {''}


@table(
    'texts, convert, value',
    {
        'no value': ([], int, 50),
        'one': (['8'], int, 8),
        'the smallest, blanks are fine': (['8', '9', ' 7 '], int, 7),
        '8.5 is no int': (['8.5'], int, 50),
        '8.5 is a float': (['8.5'], float, 8.5),
        'one that is not a number spoils all': (['1', 'abc'], int, 50),
        'empty': ([''], int, 50),
        'not a number': (['nan', '1'], float, 50),
        'no end': (['-inf'], float, 50),
        'more digits than a float has room for': (['9' * 400], int, 50),
    },
)
def test_number(texts, convert, value):
    made = [aggregate(at, ['h'], most=text) for at, text in enumerate(texts)]
    assert number([*made, aggregate(9, ['h'], other='1')], 'most', 50, convert) == value


names = st.sampled_from(['h0', 'h1', 'h2', 'h3'])
metadata = st.dictionaries(
    st.sampled_from(['availability_zone', 'most']), st.sampled_from(['1', '2', 'a, b'])
)
steps = st.lists(
    st.tuples(st.integers(1, 4), st.none() | st.tuples(st.frozensets(names), metadata))
)


@given(steps)
def test_aggregates_come_change_and_go(steps):
    made, model = Aggregates(), {}
    slots = {host: made.slot(host) for host in ('h0', 'h1', 'h2', 'h3')}
    for at, what in steps:
        one = None if what is None else aggregate(at, what[0], **what[1])
        before = model.pop(at, None)
        if one is not None:
            model[at] = one
        touched = made.replace(at, one)
        assert touched == (before.hosts if before else frozenset()) | (
            one.hosts if one else frozenset()
        )
        for host in touched:
            old, slots[host] = slots[host], made.slot(host)
            made.sets.drop(old)
    rows = np.array(list(slots.values()))
    of = {host: [one for _, one in sorted(model.items()) if host in one.hosts] for host in slots}
    assert {host: list(made.of(host)) for host in slots} == of
    assert sorted(one.id for one in made) == sorted(model)
    assert made.map(rows, len, int).tolist() == [len(found) for found in of.values()]
    assert np.broadcast_to(made.numbers(rows, 'most', 7.0, float), 4).tolist() == [
        number(found, 'most', 7.0, float) for found in of.values()
    ]
    assert {zone for zone in ('1', '2', 'a', 'b') if made.has_zone(zone)} == zones(model.values())
    assert made.keys == {key for one in model.values() for key in one.metadata}
    distinct = made.distinct(rows)
    assert sorted(map(repr, distinct)) == sorted({repr(found) for found in of.values()})


def test_one_host_answers_for_its_own_aggregates():
    own = OwnAggregates([aggregate(1, ['h'], a='1'), aggregate(2, ['h'], a='2', b='3')])
    assert own.keys == {'a', 'b'}
    assert own.map(np.zeros(1, dtype=int), len, int).tolist() == [2]


def test_a_key_without_a_value_costs_no_column():
    made = Aggregates()
    made.replace(1, aggregate(1, ['h'], other='1'))
    assert made.numbers(np.array([made.slot('h')]), 'most', 7.0, float) == 7.0


def test_changed_metadata_of_the_same_hosts_count_at_once():
    made = Aggregates()
    made.replace(1, aggregate(1, ['h'], most='1'))
    rows = np.array([made.slot('h')])
    assert made.numbers(rows, 'most', 7.0, float).tolist() == [1.0]
    made.replace(1, aggregate(1, ['h'], most='2'))
    assert made.numbers(rows, 'most', 7.0, float).tolist() == [2.0]


def test_the_same_key_in_two_kinds_of_numbers():
    made = Aggregates()
    made.replace(1, aggregate(1, ['h'], most='2.5'))
    rows = np.array([made.slot('h')])
    assert made.numbers(rows, 'most', 7, float).tolist() == [2.5]
    assert made.numbers(rows, 'most', 7, int).tolist() == [7]

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
"""Attributes of hosts by any name, one by one and by columns."""

import types

import numpy as np
import pytest

from nova_sched import objects
from nova_sched.state.host_state import (
    ATTRIBUTES,
    OF_OTHERS,
    attribute,
    capability,
    fact,
    has_capability,
)
from nova_sched.state.one_host import OneHost
from nova_sched.state.vocab import Unfinished
from nova_sched.tests.builders import host, hosts
from nova_sched.tests.rows import each, table

THING = types.SimpleNamespace(
    a=1, null=None, _private=2, method=len, stats={'null': 'stat', 's': '3', '_t': 'x'}
)


@table(
    'name, value, has',
    {
        'attribute': ('a', 1, True),
        'null: the stat': ('null', 'stat', True),
        'stat': ('s', '3', True),
        'a method is no fact': ('method', None, False),
        'private': ('_private', None, False),
        'of Python': ('__class__', None, False),
        'a stat may be called as it likes': ('_t', 'x', True),
        'missing': ('missing', None, False),
        'no name': ('', None, False),
    },
)
def test_attribute(name, value, has):
    assert attribute(THING, name) == capability(THING, name) == value
    assert has_capability(THING, name) is has


@each('name', sorted(OF_OTHERS))
def test_no_capability(name):
    thing = types.SimpleNamespace(**{name: 1, 'stats': {}})
    assert (attribute(thing, name), capability(thing, name)) == (1, None)
    assert not has_capability(thing, name)
    thing.stats[name] = 'stat'
    assert capability(thing, name) == 'stat'
    assert has_capability(thing, name)


@each('thing', [None, 7, 'text', [], types.SimpleNamespace(stats=None)], ids=repr)
def test_things_without_facts(thing):
    assert attribute(thing, 'missing') is None
    assert not has_capability(thing, 'missing')


def test_an_unset_field_is_no_attribute():
    node = objects.ComputeNode(host='h')
    assert (attribute(node, 'host'), attribute(node, 'vcpus')) == ('h', None)


@each('name', sorted(ATTRIBUTES | {'boost', 'missing'}))
def test_columns_say_what_host_states_say(name):
    seen = hosts(
        hypervisor_type=[None, 'QEMU', 'ironic', 'ironic'],
        hypervisor_version=[2001000, None, None, 0],
        cpu_info=['{}', None, '', ''],
        vcpus=[1, 2, 2, 2],
        stats=[
            {'boost': 'yes'},
            {'cpu_info': 'stat', 'hypervisor_version': '7'},
            {'hypervisor_type': 'stat'},
            {'boost': None, 'hypervisor_version': '7'},
        ],
    )
    states = [seen.state(row) for row in range(len(seen))]
    assert seen.has_capability(name).tolist() == [has_capability(state, name) for state in states]
    values = [capability(state, name) for state in states]
    asked = []
    found = seen.map_capability(
        name, 'question', lambda value: asked.append(value) or str(value) == str(values[1])
    )
    assert found.dtype == bool
    assert found.tolist() == [
        value is not None and str(value) == str(values[1]) for value in values
    ]
    assert None not in asked


def test_a_column_is_judged_once_for_each_value():
    columns = {'vcpus': [1, 2], 'hypervisor_version': [3, 4], 'cpu_info': ['{}', None]}
    seen, asked = hosts(1000, **{name: both * 500 for name, both in columns.items()}), []

    def judge(value):
        asked.append(value)
        return value in (2, 4, '{}')

    for name in ('vcpus_total', 'hypervisor_version', 'cpu_info', 'cpu_info'):
        assert seen.map_capability(name, name, judge).sum() == 500
    assert asked == [1, 2, 3, 4, '{}']
    assert np.all(seen.has_capability('cpu_info'))


@each(
    'given',
    [
        pytest.param(
            {'stats': [{'x': str(row)} for row in range(200)]}, id='what each row reports'
        ),
        pytest.param({'cpu_info': [f'{{"x": {row}}}' for row in range(200)]}, id='texts'),
    ],
)
def test_a_capability_is_judged_in_pieces(given):
    """What was judged before a pause is not judged again."""
    (name,) = given
    seen, asked = hosts(200, **given), []
    seen.pause = lambda: True

    def judge(value):
        asked.append(value)
        return True

    pauses = 0
    while True:
        try:
            met = seen.map_capability(name, 'question', judge)
            break
        except Unfinished:
            pauses += 1
    assert met.all()
    assert len(asked) == 200
    assert pauses > 10


def test_a_capability_that_no_host_has():
    assert not hosts(3).has_capability('missing').any()
    assert hosts(3).map_capability('missing', 'question', pytest.fail).tolist() == [False] * 3
    assert not host().stats


@each('name', sorted(ATTRIBUTES - {'limits'} | {'boost', 'missing', '_hosts', '__class__', ''}))
def test_values_are_those_of_host_states(name):
    seen = hosts(
        hypervisor_type=[None, 'QEMU', 'QEMU'],
        vcpus=[1, 2, 2],
        stats=[{'boost': 'x'}, {}, {'vcpus_total': 'y'}],
    )
    found, places = seen.values(name)
    alone = [OneHost(seen.state(row)).values(name) for row in range(3)]
    assert [str(found[place]) for place in places] == [str(one) for (one,), _ in alone]
    assert [place.tolist() for _, place in alone] == [[0]] * 3
    assert [str(one) for (one,), _ in alone] == [
        str(fact(seen.state(row), name)) for row in range(3)
    ]
    if name == 'vcpus_total':
        assert found == [1, 2]


def test_a_plug_in_may_ask_for_any_attribute():
    made = hosts(stats=[{'rack': '1'}, {'host': 'no'}])
    assert made.has_attribute('aggregates').tolist() == [True, True]
    assert made.has_attribute('rack').tolist() == [True, False]
    assert made.map_attribute('host', lambda name: name == 'host-0').tolist() == [True, False]
    assert made.map_attribute('rack', lambda rack: rack == '1').tolist() == [True, False]
    assert made.map_attribute('nothing', lambda value: True).tolist() == [False, False]
    one = OneHost(host(stats={'rack': '1'}))
    assert [one.has_attribute(name)[0] for name in ('aggregates', 'rack', 'nothing')] == [1, 1, 0]
    assert one.map_attribute('host', lambda name: name == 'host-0').all()
    assert not one.map_attribute('nothing', lambda value: True).any()

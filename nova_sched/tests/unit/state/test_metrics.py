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
"""What nodes measure of themselves: the text of a report, and the columns."""

import json
import types

import numpy as np

from nova_sched.state.metrics import NO_VALUE, read, values
from nova_sched.tests.builders import cluster, hosts, put, report, uuid_of
from nova_sched.tests.rows import table


@table(
    'name, stored, value',
    {
        'a percentage is whole': ('cpu.percent', 0.25, 25),
        'another': ('cpu.user.percent', 0.5, 50),
        'and cut off, as in Nova': ('cpu.percent', 0.29, 28),
        'no percentage': ('cpu.frequency', 2400, 2400),
        'whole as well': ('cpu.frequency', 2400.9, 2400),
        'of our own name': ('power.percent', 0.5, 0),
        'null': ('cpu.percent', None, None),
        'text': ('cpu.frequency', '2400', None),
        'a truth': ('cpu.frequency', True, None),
        'no end': ('cpu.frequency', float('inf'), None),
        'not a number': ('cpu.percent', float('nan'), None),
        'too large': ('cpu.percent', 1e300, None),
    },
)
def test_read(name, stored, value):
    (one,) = read(json.dumps([{'name': name, 'value': stored, 'source': 'x'}]))
    assert (one.name, one.value, one.source) == (name, value, 'x')
    assert values([one]) == {name: NO_VALUE if value is None else value}


@table(
    'text, names',
    {
        'null': (None, []),
        'no text': ('', []),
        'no JSON': ('no JSON', []),
        'too deep': ('[' * 100_000, []),
        'no list': ('{"name": "a"}', []),
        'things without a name': ('[1, {}, {"name": 2}, {"name": "a"}]', ['a']),
        'a value for each cell': ('[{"name": "a", "numa_membw_values": {"0": 1}}]', ['a']),
    },
)
def test_texts(text, names):
    found = read(text)
    assert [one.name for one in found] == names
    assert values(found) == dict.fromkeys(names, NO_VALUE)


def test_values_of_objects():
    metrics = [
        types.SimpleNamespace(name='cpu.percent', value=23),
        types.SimpleNamespace(name='numa.membw.current', numa_membw_values={'0': 1}),
        types.SimpleNamespace(name='cpu.percent', value=24),
    ]
    assert values(metrics) == {'cpu.percent': 24, 'numa.membw.current': NO_VALUE}
    assert values(None) == {}
    assert values([types.SimpleNamespace(name='a')]) == {'a': NO_VALUE}


def text(**found):
    return json.dumps([{'name': name, 'value': value} for name, value in found.items()])


def numbers(seen, name):
    return [None if np.isnan(value) else value for value in seen.metric(name).tolist()]


def test_a_column():
    seen = hosts(metrics=[text(a=1), None, text(a=3, b=None)])
    assert seen.metric('a').dtype == float
    assert (numbers(seen, 'a'), numbers(seen, 'b')) == ([1, None, 3], [None, None, NO_VALUE])
    assert numbers(seen, 'c') == [None] * 3
    assert numbers(hosts(0), 'a') == []


def test_a_column_that_is_there_follows_the_reports():
    made = cluster(0)
    seen = made.hosts
    assert numbers(seen, 'a') == []
    for number in range(200):
        put(made, report(f'host-{number}', metrics=text(a=number)))
    assert numbers(seen, 'a') == list(range(200))
    put(made, report('host-7', metrics=text(b=1)))
    put(made, report('host-8', metrics=None))
    assert (numbers(seen, 'a')[5:10], numbers(seen, 'b')[5:10]) == (
        [5, 6, None, None, 9],
        [None, None, 1, None, None],
    )
    made.remove(uuid_of('node host-3'))
    assert [node.host for node in seen.nodes][3] == 'host-199'
    assert (numbers(seen, 'a')[3], len(seen.metric('a'))) == (199, 199)
    put(made, report('host-3', metrics=None))
    assert numbers(seen, 'a')[-1] is None

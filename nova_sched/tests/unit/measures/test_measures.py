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
"""Measures: what they count, and what of it another process reads."""

import json

import pytest

from nova_sched.measures import MAX_SERIES, OTHER, Counter, Gauge, Histogram, Measures
from nova_sched.tests.rows import each


def test_a_counter_counts_by_labels():
    made = Counter('jobs', 'Jobs.', ('state',))
    made.add('done')
    made.add('done', by=2)
    made.add('failed')
    assert made.plain() == [(('done',), 3), (('failed',), 1)]


def test_further_labels_count_together():
    made = Counter('jobs', 'Jobs.', ('state',))
    for number in range(MAX_SERIES + 5):
        made.add(f'state {number}')
    made.add('state 0')
    assert len(made.values) == MAX_SERIES + 1
    assert (made.values[OTHER,], made.values['state 0',]) == (5, 2)


def test_a_gauge_that_is_replaced_forgets_other_labels():
    made = Gauge('hosts', 'Hosts.', ('state',))
    made.set(3, 'up')
    made.replace({('down',): 2})
    assert made.plain() == [(('down',), 2)]
    made.replace({(str(number),): 1 for number in range(MAX_SERIES + 5)})
    assert len(made.values) == MAX_SERIES


@each(
    'value, counts',
    [
        pytest.param(0.5, [1, 0, 0, 0.5], id='below the first bound'),
        pytest.param(1.0, [1, 0, 0, 1.0], id='at a bound'),
        pytest.param(1.5, [0, 1, 0, 1.5], id='between bounds'),
        pytest.param(9.0, [0, 0, 1, 9.0], id='above the last'),
    ],
)
def test_a_histogram(value, counts):
    made = Histogram('seconds', 'Time.', bounds=(1.0, 2.0))
    made.observe(value)
    assert made.plain() == [((), counts)]


def test_what_another_process_reads_does_not_change_later():
    made = Histogram('seconds', 'Time.', bounds=(1.0,))
    made.observe(0.5)
    plain = made.plain()
    made.observe(0.5)
    assert plain == [((), [1, 0, 0.5])]


def test_all_measures_as_json():
    jobs, hosts = Counter('jobs', 'Jobs.', ('state',)), Gauge('hosts', 'Hosts.')
    made = Measures([jobs, hosts])
    jobs.add('done')
    made.follow('hosts', lambda: hosts.set(7))
    plain = json.loads(json.dumps(made.plain()))
    assert plain['values'] == {'jobs': [[['done'], 1]], 'hosts': [[[], 7]]}
    assert plain['failed'] == 0


def test_a_source_that_fails_leaves_the_others():
    hosts = Gauge('hosts', 'Hosts.')
    made = Measures([hosts])
    made.follow('broken', lambda: 1 / 0)
    made.follow('hosts', lambda: hosts.set(7))
    plain = made.plain()
    assert plain['failed'] == 1
    assert hosts.values == {(): 7}


def test_a_source_that_is_forgotten():
    hosts = Gauge('hosts', 'Hosts.')
    made = Measures([hosts])
    made.follow('hosts', lambda: hosts.set(7))
    made.forget('hosts')
    made.forget('hosts')
    assert made.plain()['values'] == {}

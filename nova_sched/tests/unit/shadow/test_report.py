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
"""The report on the comparisons of some time."""

import pytest

from nova_sched.shadow.comparison import OUTCOMES
from nova_sched.shadow.report import EXAMPLES, summed

T1, T2 = '2026-01-01T00:00:00.000+00:00', '2026-01-02T00:00:00.000+00:00'


def line(outcome='same', request_id='req-1', took_ms=1.0, time=T1, servers=None, **more):
    servers = [{'outcome': outcome}] if servers is None else servers
    known = {'time': time, 'request_id': request_id, 'outcome': outcome, 'took_ms': took_ms}
    return {**known, 'servers': servers, **more}


def test_nothing():
    assert summed([]) == {
        'first': None,
        'last': None,
        'calls': 0,
        'servers': 0,
        **dict.fromkeys(OUTCOMES, 0),
        'partial': 0,
        'p50_ms': None,
        'p99_ms': None,
        'max_ms': None,
        'rules': [],
        'missed': {},
        'hosts_left_out': {},
    }


def test_calls_by_their_outcome():
    found = summed([line(one) for one in ('same', 'same', 'passed', 'shadow_refused')])
    assert {name: found[name] for name in OUTCOMES if found[name]} == {
        'same': 2,
        'passed': 1,
        'shadow_refused': 1,
    }


def test_times():
    found = summed([line(took_ms=float(number), time=T2) for number in range(101)])
    assert [found[name] for name in ('p50_ms', 'p99_ms', 'max_ms')] == [50.0, 99.0, 100.0]
    assert (found['first'], found['last'], found['calls']) == (T2, T2, 101)


def test_rules_by_how_often_they_make_a_difference():
    ram, cores = {'outcome': 'passed', 'weigher': 'RAMWeigher'}, {'filter': 'CoreFilter'}
    lines = [line('filtered', 'req-0', servers=[ram, cores])]
    lines += [line('passed', f'req-{number}', servers=[ram, ram]) for number in range(1, 5)]
    assert summed(lines)['rules'] == [
        {
            'kind': 'weigher',
            'rule': 'RAMWeigher',
            'servers': 9,
            'requests': [f'req-{number}' for number in range(EXAMPLES)],
        },
        {'kind': 'filter', 'rule': 'CoreFilter', 'servers': 1, 'requests': ['req-0']},
    ]


@pytest.mark.parametrize(
    'lines, name, found',
    [
        pytest.param([line(unreadable=['Cell x']), line()], 'partial', 1, id='partial'),
        pytest.param(
            [
                {'time': T1, 'missed': {'lost': 2}, 'hosts_left_out': {'a': 'x'}},
                {'time': T2, 'missed': {'lost': 1, 'overflows': 1}, 'hosts_left_out': {'b': 'y'}},
            ],
            'missed',
            {'lost': 3, 'overflows': 1},
            id='missed',
        ),
        pytest.param(
            [
                {'time': T1, 'missed': {}, 'hosts_left_out': {'a': 'x'}},
                line(),
                {'time': T2, 'missed': {}, 'hosts_left_out': {'b': 'y'}},
            ],
            'hosts_left_out',
            {'b': 'y'},
            id='left out',
        ),
        pytest.param([line(servers=[{}, {}])], 'servers', 2, id='servers'),
    ],
)
def test_a_figure(lines, name, found):
    assert summed(lines)[name] == found

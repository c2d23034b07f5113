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
"""The file of comparisons, and the report on some time of it."""

import pytest

from nova_sched.extensions.shadow.comparison import OUTCOMES
from nova_sched.extensions.shadow.journal import MAX_EXAMPLES, MIB, NAME, Journal, lines, summed

T1, T2, T3 = (f'2026-01-0{day}T00:00:00.000+00:00' for day in (1, 2, 3))


def numbers(folder, since=''):
    return [line['number'] for line in lines(folder, since)]


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path, file_size=1, files=3)
    yield made
    made.close()


def test_lines_are_read_as_they_were_written(tmp_path, journal):
    for number, time in enumerate((T1, T2, T3)):
        journal.write({'time': time, 'number': number})
    assert numbers(tmp_path) == [0, 1, 2]
    assert numbers(tmp_path, T2) == [1, 2]


def test_a_few_files_are_kept(tmp_path, journal):
    for number in range(10):
        journal.write({'time': T1, 'number': number, 'text': 'x' * (MIB // 2 - 1000)})
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, f'{NAME}.1', f'{NAME}.2']
    assert all(path.stat().st_size <= MIB for path in tmp_path.iterdir())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert numbers(tmp_path) == [4, 5, 6, 7, 8, 9]


def test_it_goes_on_after_a_restart(tmp_path, journal):
    journal.write({'time': T1, 'number': 0})
    journal.close()
    again = Journal(tmp_path)
    again.write({'time': T1, 'number': 1})
    again.close()
    assert numbers(tmp_path) == [0, 1]


def test_lines_that_cannot_be_read_are_skipped(tmp_path, journal):
    assert numbers(tmp_path / 'none') == []
    journal.write({'time': T1, 'number': 0})
    with (tmp_path / NAME).open('a', encoding='latin-1') as file:
        file.write('{"time": "2026\n[1]\n\n\xff\n')
    journal.write({'time': T1, 'number': 1})
    assert numbers(tmp_path) == [0, 1]


def test_a_write_that_fails_raises(tmp_path, journal):
    for number in (1, 2):
        (tmp_path / f'{NAME}.{number}').mkdir()
        (tmp_path / f'{NAME}.{number}' / 'file').touch()
    half = {'time': T1, 'text': 'x' * (MIB // 2)}
    journal.write(half)
    with pytest.raises(OSError, match=NAME):
        journal.write(half)


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / 'none')


# The report.


def line(outcome='same', request_id='req-1', took_ms=1.0, time=T1, servers=None, **more):
    servers = [{'outcome': outcome}] if servers is None else servers
    known = {'time': time, 'request_id': request_id, 'outcome': outcome, 'took_ms': took_ms}
    return {**known, 'servers': servers, **more}


def test_a_report_on_nothing():
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


def test_the_report():
    ram, cores = {'outcome': 'passed', 'weigher': 'RAMWeigher'}, {'filter': 'CoreFilter'}
    journal = [
        {'time': T1, 'missed': {'lost': 2}, 'hosts_left_out': {'a': 'x'}},
        line('filtered', 'req-0', 0.0, T2, [ram, cores], unreadable=['Cell x']),
        *(
            line('passed', f'req-{number}', float(number), T2, [ram, ram])
            for number in range(1, 5)
        ),
        *(line(took_ms=number, time=T2) for number in range(5, 100)),
        line('shadow_refused', took_ms=100.0, time=T2),
        {'time': T3, 'missed': {'lost': 1, 'overflows': 1}, 'hosts_left_out': {'b': 'y'}},
    ]
    outcomes = {'same': 95, 'passed': 4, 'filtered': 1, 'shadow_refused': 1}
    assert summed(journal) == {
        'first': T1,
        'last': T3,
        'calls': 101,
        'servers': 106,
        **dict.fromkeys(OUTCOMES, 0),
        **outcomes,
        'partial': 1,
        'p50_ms': 50.0,
        'p99_ms': 99.0,
        'max_ms': 100.0,
        'rules': [
            {
                'kind': 'weigher',
                'rule': 'RAMWeigher',
                'servers': 9,
                'requests': [f'req-{number}' for number in range(MAX_EXAMPLES)],
            },
            {'kind': 'filter', 'rule': 'CoreFilter', 'servers': 1, 'requests': ['req-0']},
        ],
        'missed': {'lost': 3, 'overflows': 1},
        'hosts_left_out': {'b': 'y'},
    }

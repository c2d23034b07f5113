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
"""How rows, amounts and times are printed."""

import pytest

from nova_sched.cmd.manage import tables

NOW = 1_800_000_000.0
MOMENT = '2027-01-15T08:00:00+00:00'


@pytest.mark.parametrize(
    'seconds, text',
    [
        pytest.param(0, '0 s', id='nothing'),
        pytest.param(119.9, '119 s', id='up to two minutes in seconds'),
        pytest.param(120, '2 min', id='two minutes'),
        pytest.param(7199, '119 min', id='up to two hours in minutes'),
        pytest.param(7200, '2 h', id='two hours'),
        pytest.param(2 * 86400 - 1, '47 h', id='up to two days in hours'),
        pytest.param(90 * 86400, '90 d', id='days have no end'),
    ],
)
def test_a_span_is_written_in_its_largest_unit(seconds, text):
    assert tables.span(seconds) == text


@pytest.mark.parametrize(
    'seconds, text',
    [
        pytest.param(None, None, id='none'),
        pytest.param(NOW, MOMENT, id='whole'),
        pytest.param(NOW + 0.9, MOMENT, id='parts of a second are left out'),
    ],
)
def test_a_moment_is_iso_8601_in_utc(seconds, text):
    assert tables.moment(seconds) == text


@pytest.mark.parametrize(
    'when, now_s, age, until',
    [
        pytest.param(MOMENT, NOW + 5, '5 s ago', 'overdue', id='past'),
        pytest.param(
            MOMENT, NOW - 300, '0 s ago', 'in 5 min', id='to come, or a clock that runs ahead'
        ),
        pytest.param(None, NOW, 'never', 'never', id='none'),
    ],
)
def test_a_moment_seen_from_now(when, now_s, age, until):
    assert (tables.age(when, now_s), tables.until(when, now_s)) == (age, until)


def test_amounts_stand_in_the_usual_order():
    given = {'CUSTOM_B': 4, 'DISK_GB': 3, 'MEMORY_MB': 2, 'CUSTOM_A': 5, 'VCPU': 1}
    assert tables.amounts(given) == '1 VCPU, 2 MEMORY_MB, 3 DISK_GB, 5 CUSTOM_A, 4 CUSTOM_B'


@pytest.mark.parametrize('value, text', [(0, '0 hosts'), (1, '1 host'), (2, '2 hosts')])
def test_a_count_has_its_plural(value, text):
    assert tables.count(value, 'host') == text


LINE = '+------+------+'
COLUMNS = {'Name': lambda row: row['name'], 'Size': lambda row: row['size']}


def test_a_table_puts_numbers_to_the_right():
    text = tables.table(COLUMNS, [{'name': 'a', 'size': 5}, {'name': 'bcdef', 'size': 12345}])
    assert text.splitlines()[1:-1] == [
        '| Name  |  Size |',
        '+-------+-------+',
        '| a     |     5 |',
        '| bcdef | 12345 |',
    ]

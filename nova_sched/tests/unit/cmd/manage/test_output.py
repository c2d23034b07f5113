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
"""What a verb prints: the formats of its result, its columns and their order, tables and texts."""

import argparse
import csv
import io
import json

import pytest
import yaml

from nova_sched import errors
from nova_sched.cmd.manage import output, tables
from nova_sched.tests.rows import each

ROWS = [
    {'host': 'node-10', 'used': 5, 'zone': 'ä, "b"', 'more': {'a': [1]}},
    {'host': 'node-9', 'used': None, 'zone': None, 'more': {}},
]
COLUMNS = {'Host': lambda row: row['host'], 'In use': lambda row: f'{row["used"]} of 8'}


@pytest.fixture
def shown(capsys):
    """``shown('--format', 'csv', found=..., columns=..., text=...)``: the printed text."""

    def run(*words, found=ROWS, columns=None, text=None):
        parser = argparse.ArgumentParser()
        output.add_arguments(parser)
        output.show(parser.parse_args(words), found, columns, text)
        return capsys.readouterr().out

    return run


def cells(text):
    lines = [line.split('|')[1:-1] for line in text.splitlines() if line.startswith('|')]
    return [[cell.strip() for cell in line] for line in lines]


def test_json_and_yaml_hold_the_rows_as_they_are(shown):
    assert json.loads(shown('--format', 'json', columns=COLUMNS)) == ROWS
    assert yaml.safe_load(shown('--format', 'yaml', columns=COLUMNS)) == ROWS


def test_csv_has_a_heading_and_a_line_for_each_row(shown):
    assert list(csv.DictReader(io.StringIO(shown('--format', 'csv')))) == [
        {'host': 'node-10', 'used': '5', 'zone': 'ä, "b"', 'more': '{"a": [1]}'},
        {'host': 'node-9', 'used': '', 'zone': '', 'more': '{}'},
    ]


def test_values_have_a_line_for_each_row_or_for_each_value_of_one(shown):
    words = ('--format', 'value', '--column', 'host', '--column', 'used')
    assert shown(*words) == 'node-10 5\nnode-9 null\n'
    assert shown(*words, found=ROWS[0]) == 'node-10\n5\n'


@pytest.mark.parametrize('format_', ['csv', 'value', 'json', 'yaml'])
def test_a_list_of_nothing(shown, format_):
    wanted = {'json': '[]\n', 'yaml': '[]\n'}.get(format_, '')
    assert shown('--format', format_, found=[]) == wanted


def test_a_table_has_columns_by_heading_or_key(shown):
    assert cells(shown(columns=COLUMNS)) == [
        ['Host', 'In use'],
        ['node-10', '5 of 8'],
        ['node-9', 'None of 8'],
    ]
    chosen = shown('--column', 'in use', '--column', 'zone', '--column', 'more', columns=COLUMNS)
    assert cells(chosen) == [
        ['in use', 'zone', 'more'],
        ['5 of 8', 'ä, "b"', '{"a": [1]}'],
        ['None of 8', '-', '{}'],
    ]


def test_a_text_is_for_people_only(shown):
    assert shown(found=ROWS[0], text=lambda row: f'It is {row["host"]}.') == 'It is node-10.\n'
    assert cells(shown('--column', 'host', found=ROWS[0], text=lambda row: 'x'))[1] == ['node-10']
    assert json.loads(shown('--format', 'json', found=ROWS[0], text=lambda row: 'x')) == ROWS[0]


ODD = 'shop\n| forged |\x1b[2J\u202e'
SHOWN = r'shop\n| forged |\x1b[2J\u202e'


@pytest.mark.parametrize('many', [True, False])
@pytest.mark.parametrize('format_', ['table', 'text', 'value', 'csv', 'yaml', 'json'])
def test_texts_of_tenants_reach_no_terminal(shown, format_, many):
    row = {'name': ODD, 'more': {ODD: [ODD]}}
    given = {'found': [row, row] if many else row, 'columns': {'Name': lambda row: row['name']}}
    if format_ == 'text':
        said = shown(**given, text=lambda found: json.dumps(found, ensure_ascii=False))
    else:
        said = shown('--format', format_, **given)
    assert said.replace('\n', '').isprintable()
    if format_ in ('table', 'text') or (format_ == 'value' and many):
        assert SHOWN in said.replace('\\\\', '\\')
        assert not any(line.startswith('| forged') for line in said.splitlines())
    if format_ in ('yaml', 'json'):
        assert yaml.safe_load(said) == given['found']


def test_what_a_page_adds_is_visible_too(shown):
    assert shown(found={}, text=lambda _: 'a\nb\x1b[2J') == 'a\nb\\x1b[2J\n'


def test_a_complaint_reaches_no_terminal(capsys):
    output.complain('refused:\n\x1b[2J')
    assert capsys.readouterr().err == 'refused:\n\\x1b[2J\n'


def test_a_spreadsheet_computes_nothing(shown):
    kept = ['a=b', '-', '-1', '+1.5', '', 'ä', "'x"]
    quoted = ['=1+1', '@SUM(A1)', '+cmd|x', '-cmd|x', '\t=1', '-1+2', '=']
    said = shown('--format', 'csv', found=[{'name': name} for name in [*kept, *quoted]])
    found = [row['name'] for row in csv.DictReader(io.StringIO(said))]
    assert found == [*kept, *(f"'{name}" for name in quoted)]


@pytest.mark.parametrize(
    'order, hosts',
    [
        pytest.param('host', ['node-9', 'node-10'], id='numbers in texts'),
        pytest.param('Host:desc', ['node-10', 'node-9'], id='descending'),
        pytest.param('used:asc', ['node-9', 'node-10'], id='nothing is first'),
        pytest.param('more', ['node-10', 'node-9'], id='mappings'),
    ],
)
def test_order(shown, order, hosts):
    words = ('--sort', order, '--format', 'value', '--column', 'host')
    assert shown(*words, columns=COLUMNS).split() == hosts


@pytest.mark.parametrize(
    'words, why',
    [
        pytest.param(['--column', 'hots'], 'no column hots; did you mean host', id='column'),
        pytest.param(
            ['--sort', 'size'], 'no column size; there are Host, In use, host, more', id='order'
        ),
        pytest.param(['--sort', 'host:up'], 'up is not a direction', id='direction'),
        pytest.param(
            ['--format', 'json', '--column', 'In use'], 'no column In use', id='heading in JSON'
        ),
    ],
)
def test_a_column_that_does_not_exist(shown, words, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        shown(*words, columns=COLUMNS)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize('no_color', ['', '1'])
def test_a_terminal_shows_states_in_colours(monkeypatch, no_color):
    monkeypatch.setattr('sys.stdout', Terminal())
    monkeypatch.setenv('NO_COLOR', no_color)
    table = tables.coloured('| up | forced down | supper |\nERROR x\n  down')
    green, red = '\033[32mup\033[0m', '\033[31mforced down\033[0m'
    plain = '| up | forced down | supper |\nERROR x\n  down'
    coloured = f'| {green} | {red} | supper |\n\033[31mERROR\033[0m x\n  down'
    assert table == (plain if no_color else coloured)


def test_a_table_is_as_wide_as_the_terminal(monkeypatch):
    columns = {name: lambda row, name=name: row[name] for name in ('a', 'b')}
    row = {'a': 'word ' * 20, 'b': 'text ' * 20}
    assert max(map(len, tables.table(columns, [row]).splitlines())) > 200
    monkeypatch.setattr('sys.stdout', Terminal())
    monkeypatch.setenv('COLUMNS', '60')
    assert max(map(len, tables.table(columns, [row]).splitlines())) <= 60
    assert max(map(len, tables.fill('word ' * 50, 'start ').splitlines())) <= 60


# How rows, amounts and times are printed.


NOW = 1_800_000_000.0
MOMENT = '2027-01-15T08:00:00+00:00'


@each(
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


@each(
    'seconds, text',
    [
        pytest.param(None, None, id='none'),
        pytest.param(NOW, MOMENT, id='whole'),
        pytest.param(NOW + 0.9, MOMENT, id='parts of a second are left out'),
    ],
)
def test_a_moment_is_iso_8601_in_utc(seconds, text):
    assert tables.moment(seconds) == text


@each(
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


@each('value, text', [(0, '0 hosts'), (1, '1 host'), (2, '2 hosts')])
def test_a_count_has_its_plural(value, text):
    assert tables.count(value, 'host') == text


LINE = '+------+------+'
SIZES = {'Name': lambda row: row['name'], 'Size': lambda row: row['size']}


def test_a_table_puts_numbers_to_the_right():
    text = tables.table(SIZES, [{'name': 'a', 'size': 5}, {'name': 'bcdef', 'size': 12345}])
    assert text.splitlines()[1:-1] == [
        '| Name  |  Size |',
        '+-------+-------+',
        '| a     |     5 |',
        '| bcdef | 12345 |',
    ]

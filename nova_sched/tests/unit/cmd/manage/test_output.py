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
from nova_sched.tests.unit.cmd.manage.test_commands import cells

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


def test_formats_for_scripts(shown):
    assert json.loads(shown('--format', 'json', columns=COLUMNS)) == ROWS
    assert yaml.safe_load(shown('--format', 'yaml', columns=COLUMNS)) == ROWS
    assert list(csv.DictReader(io.StringIO(shown('--format', 'csv')))) == [
        {'host': 'node-10', 'used': '5', 'zone': 'ä, "b"', 'more': '{"a": [1]}'},
        {'host': 'node-9', 'used': '', 'zone': '', 'more': '{}'},
    ]
    words = ('--format', 'value', '--column', 'host', '--column', 'used')
    assert shown(*words) == 'node-10 5\nnode-9 null\n'
    assert shown(*words, found=ROWS[0]) == 'node-10\n5\n'
    for format_, nothing in (('csv', ''), ('value', ''), ('json', '[]\n'), ('yaml', '[]\n')):
        assert shown('--format', format_, found=[]) == nothing


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


@each(
    'order, hosts',
    [
        ('host', ['node-9', 'node-10']),  # numbers in texts
        ('Host:desc', ['node-10', 'node-9']),
        ('used:asc', ['node-9', 'node-10']),  # nothing is first
        ('more', ['node-10', 'node-9']),
    ],
)
def test_order(shown, order, hosts):
    words = ('--sort', order, '--format', 'value', '--column', 'host')
    assert shown(*words, columns=COLUMNS).split() == hosts


@each(
    'words, why',
    [
        ('--column hots', 'no column hots; did you mean host'),
        ('--sort size', 'no column size; there are Host, In use, host, more'),
        ('--sort host:up', 'up is not a direction'),
        ('--format json --column Zone', 'no column Zone'),  # headings are for people
    ],
)
def test_a_column_that_does_not_exist(shown, words, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        shown(*words.split(), columns=COLUMNS)


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
        (0, '0 s'),
        (119.9, '119 s'),
        (120, '2 min'),
        (7199, '119 min'),
        (7200, '2 h'),
        (2 * 86400 - 1, '47 h'),
        (90 * 86400, '90 d'),
    ],
)
def test_a_span_is_written_in_its_largest_unit(seconds, text):
    assert tables.span(seconds) == text


def test_a_moment_is_iso_8601_in_utc():
    """Parts of a second are left out."""
    assert [tables.moment(at_s) for at_s in (None, NOW, NOW + 0.9)] == [None, MOMENT, MOMENT]


@each(
    'when, now_s, age, until',
    [
        (MOMENT, NOW + 5, '5 s ago', 'overdue'),
        (MOMENT, NOW - 300, '0 s ago', 'in 5 min'),  # to come, or of a clock that is ahead
        (None, NOW, 'never', 'never'),
    ],
)
def test_a_moment_seen_from_now(when, now_s, age, until):
    assert (tables.age(when, now_s), tables.until(when, now_s)) == (age, until)


def test_amounts_stand_in_the_usual_order():
    given = {'CUSTOM_B': 4, 'DISK_GB': 3, 'MEMORY_MB': 2, 'CUSTOM_A': 5, 'VCPU': 1}
    assert tables.amounts(given) == '1 VCPU, 2 MEMORY_MB, 3 DISK_GB, 5 CUSTOM_A, 4 CUSTOM_B'


def test_a_count_has_its_plural():
    assert [tables.count(value, 'host') for value in range(3)] == ['0 hosts', '1 host', '2 hosts']


SIZES = {'Name': lambda row: row['name'], 'Size': lambda row: row['size']}


def test_a_table_puts_numbers_to_the_right():
    text = tables.table(SIZES, [{'name': 'a', 'size': 5}, {'name': 'bcdef', 'size': 12345}])
    assert text.splitlines()[1:-1] == [
        '| Name  |  Size |',
        '+-------+-------+',
        '| a     |     5 |',
        '| bcdef | 12345 |',
    ]

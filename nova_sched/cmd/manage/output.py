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
"""The output of a verb in the format that was asked for: tables and text for people; JSON, YAML,
CSV or plain values for scripts."""

import csv
import io
import json
import os
import re
import sys

from nova_sched import errors, words
from nova_sched.cmd.manage import tables
from nova_sched.words import suggestion

FORMULA = re.compile(r'[=@\t]|[+-](?![\d.]+\Z|\Z)')
TABLE, JSON, YAML, CSV, VALUE = FORMATS = ('table', 'json', 'yaml', 'csv', 'value')


def add_arguments(parser):
    """The options of every verb."""
    parser.add_argument(
        '--format',
        choices=FORMATS,
        default=TABLE,
        help='a table or text for people (default); for scripts JSON, YAML, CSV, or the values '
        'alone, a line for each row',
    )
    parser.add_argument(
        '--column',
        metavar='NAME',
        action='append',
        default=[],
        help='show only this key, or in a table this column; may be repeated',
    )
    parser.add_argument(
        '--sort',
        metavar='NAME',
        help='sort rows by this key, or in a table by this column; NAME:desc is from high to low',
    )


def show(args, result, columns=None, text=None):
    """Print the result of a verb: ``result`` is a row, or a list of rows, each a mapping of plain
    values by key.

    For people it is printed as a table with these columns, each a function of a row by its
    heading, or as the ``text`` that is a function of ``result``. Raises InvalidRequest for the
    name of a column that does not exist.
    """
    if args.sort and isinstance(result, list):
        result = _sorted(result, args.sort, columns or {})
    if args.format == TABLE:
        result, columns = _visible(result), columns or {}
        rows = result if isinstance(result, list) else [result]
        if args.column:
            columns = {
                name: lambda row, name=name, known=columns: _cell(row, name, known)
                for name in args.column
            }
            page = tables.table(columns, rows)
        else:
            page = tables.table(columns, rows) if text is None else text(result)
        _print(args, tables.coloured(words.visible(page, '\n')))
        return
    rows = result if isinstance(result, list) else [result]
    if args.column:
        rows = [{name: _value(row, name, {}) for name in args.column} for row in rows]
    _print(args, WRITERS[args.format](rows if isinstance(result, list) else rows[0]))


def complain(text):
    """Print why a verb does not do what it is asked to."""
    print(words.visible(str(text), '\n'), file=sys.stderr)


def _visible(value):
    """A plain value whose texts are each one line without invisible characters: they may be of
    tenants."""
    if isinstance(value, str):
        return words.visible(value)
    if isinstance(value, dict):
        return {_visible(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


def _cell(row, name, columns):
    value = _value(row, name, columns)
    return _plain(value) if isinstance(value, dict | list) else '-' if value is None else value


def _value(row, name, columns):
    """The cell below a heading, in any case; else the value of a key."""
    for heading, cell in columns.items():
        if heading.lower() == name.lower():
            return cell(row)
    if name not in row:
        names = sorted({*row, *columns})
        advice = suggestion(name, names) or f'; there are {", ".join(names)}'
        why = f'there is no column {name}{advice}'
        raise errors.InvalidRequest('--column or --sort', why)
    return row[name]


def _sorted(rows, order, columns):
    name, _, direction = order.partition(':')
    if direction not in ('', 'asc', 'desc'):
        raise errors.InvalidRequest('--sort', f'{direction} is not a direction: give asc or desc')
    return sorted(
        rows, key=lambda row: _natural(_value(row, name, columns)), reverse=direction == 'desc'
    )


def _natural(value):
    """The order of people: nothing, numbers, then texts with their numbers by value."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return (1, value)
    # Text and digits by turns; of two numbers without leading zeros the longer one is larger.
    parts = re.split('0*([0-9]+)', _plain(value))
    return (2, [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)])


def _plain(value):
    """A value in one line: texts and numbers as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_json(result):
    return json.dumps(result, indent=2)


def _as_yaml(result):
    import yaml  # late: most commands need it not

    text = yaml.safe_dump(result, sort_keys=False, allow_unicode=True).rstrip('\n')
    if words.visible(text, '\n') != text:  # it escapes control characters, but not all that hide
        text = yaml.safe_dump(result, sort_keys=False).rstrip('\n')
    return text


def _as_csv(result):
    rows = result if isinstance(result, list) else [result]
    lines = io.StringIO()
    if rows:
        writer = csv.DictWriter(lines, list(rows[0]), lineterminator='\n', extrasaction='ignore')
        writer.writeheader()
        writer.writerows(
            {name: '' if value is None else _csv_cell(value) for name, value in row.items()}
            for row in rows
        )
    return lines.getvalue().rstrip('\n')


def _csv_cell(value):
    """A value that is safe in a terminal, and in a spreadsheet, which computes what looks like a
    formula."""
    text = words.visible(_plain(value), '\n\t')
    return f"'{text}" if isinstance(value, str) and FORMULA.match(text) else text


def _as_values(result):
    """A line for each row; a single row has a line for each of its values."""
    if isinstance(result, list):
        return '\n'.join(
            ' '.join(words.visible(_plain(item)) for item in row.values()) for row in result
        )
    return '\n'.join(words.visible(_plain(item), '\n\t') for item in result.values())


WRITERS = {JSON: _as_json, YAML: _as_yaml, CSV: _as_csv, VALUE: _as_values}


def _print(args, text):
    """Print, unless the reader has closed the pipe, as `head` does: that ends a watch."""
    if hasattr(args, 'sign'):
        args.sign.end()
    try:
        print(text, end='\n' if text else '', flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if getattr(args, 'watch', None) is not None:
            raise SystemExit(0) from None

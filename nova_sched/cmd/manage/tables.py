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
"""Texts for people: rows as a table, paragraphs, amounts and times."""

import datetime
import os
import re
import shutil
import sys
import textwrap

import prettytable


def table(columns, rows):
    """A table of rows. ``columns`` maps each heading to a function of a row; numbers are aligned
    to the right."""
    pretty = prettytable.PrettyTable(list(columns), align='l')
    if width := terminal_width():
        pretty.max_table_width = width - 1  # PrettyTable rounds: a table may be wider by one
    for row in rows:
        pretty.add_row([cell(row) for cell in columns.values()])
    for place, heading in enumerate(columns):
        if pretty.rows and all(isinstance(row[place], int) for row in pretty.rows):
            pretty.align[heading] = 'r'
    return pretty.get_string()


WIDTH = 110  # of a page, unless the terminal is narrower

RED, GREEN, YELLOW = '31', '32', '33'
COLOURS = {
    'up': GREEN,
    'alive': GREEN,
    'healthy': GREEN,
    'confirmed': GREEN,
    'done': GREEN,
    'passes': GREEN,
    'down': RED,
    'forced down': RED,
    'failed': RED,
    'FAILED': RED,
    'refuses': RED,
    'fails': RED,
    'ERROR': RED,
    'disabled': YELLOW,
    'silent': YELLOW,
    'pending': YELLOW,
    'planned': YELLOW,
    'queued': YELLOW,
    'WARNING': YELLOW,
}
# A word that begins a cell of a table, or a line.
COLOURED = re.compile(rf'(?m)(^|\| )({"|".join(COLOURS)})\b')


def terminal_width():
    """The width of the terminal in columns; None if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text):
    """The text with its words for states in colours, where a terminal shows them; unless the
    environment has NO_COLOR."""
    if not sys.stdout.isatty() or os.environ.get('NO_COLOR'):
        return text
    return COLOURED.sub(lambda at: f'{at[1]}\033[{COLOURS[at[2]]}m{at[2]}\033[0m', text)


def fill(text, start=''):
    """A paragraph that begins with ``start``, each line below its first word."""
    width = min(WIDTH, terminal_width() or WIDTH)
    return textwrap.fill(text, width, initial_indent=start, subsequent_indent=' ' * len(start))


def place(row):
    """The host, and its node if that has another name, as with bare metal."""
    return row['host'] if row['host'] == row['node'] else f'{row["host"]} / {row["node"]}'


def moment(seconds):
    """Seconds since the epoch as ISO 8601 in UTC; None stays None."""
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec='seconds')


def span(seconds):
    """A length of time in its largest whole unit: `5 s`, `3 min`, `2 h`, `9 d`."""
    for unit, size in (('d', 86400), ('h', 3600), ('min', 60)):
        if seconds >= 2 * size:
            return f'{int(seconds // size)} {unit}'
    return f'{int(seconds)} s'


def age(when, now_s):
    """How long ago a moment was, as `5 s ago`; `never` for None."""
    return 'never' if when is None else f'{span(max(0, now_s - _seconds(when)))} ago'


def until(when, now_s):
    """How far away a moment is, as `in 5 s`; `never` for None."""
    if when is None:
        return 'never'
    left_s = _seconds(when) - now_s
    return f'in {span(left_s)}' if left_s > 0 else 'overdue'


def _seconds(when):
    return datetime.datetime.fromisoformat(when).timestamp()


def number(value):
    """A ratio without trailing zeros: `4`, `1.5`."""
    return f'{value:g}'


def count(value, word):
    """A number of things: `1 host`, `2 hosts`."""
    return f'{value} {word}{"" if value == 1 else "s"}'


def service(settings):
    """An operator's settings of a host, as `disabled, forced down (why)`; `unknown` if only Nova
    knows them."""
    if settings['disabled'] is None:
        return 'unknown'
    word = 'disabled' if settings['disabled'] else 'enabled'
    word += ', forced down' if settings['forced_down'] else ''
    return word + (f' ({settings["disabled_reason"]})' if settings['disabled_reason'] else '')


def amounts(resources):
    """Amounts by resource class, as `1 VCPU, 512 MEMORY_MB`."""
    return ', '.join(
        f'{amount} {name}' for name, amount in sorted(resources.items(), key=_usual_order)
    )


def _usual_order(item):
    usual = ('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB')
    return (usual.index(item[0]) if item[0] in usual else len(usual), item[0])

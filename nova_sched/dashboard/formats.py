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

"""How values are written on the pages: moments, lengths of time, amounts."""

import datetime

UNITS = (('d', 86400), ('h', 3600), ('min', 60))


def moment(seconds):
    """Seconds since the epoch as `2026-11-25 19:15:30 UTC`."""
    if seconds is None:
        return 'never'
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.strftime('%Y-%m-%d %H:%M:%S UTC')


def span(seconds):
    """A length of time in its largest whole unit: `5 s`, `3 min`, `2 h`, `9 d`."""
    for unit, size in UNITS:
        if seconds >= 2 * size:
            return f'{int(seconds // size)} {unit}'
    return f'{int(seconds)} s'


def age(seconds, now_s):
    """How long ago a moment was: both by the clock of the database."""
    return 'never' if seconds is None else f'{span(max(0, now_s - seconds))} ago'


def number(value):
    """A number with at most four digits that count, and thousands apart; `-` for None."""
    if value is None:
        return '-'
    if float(value).is_integer():
        return f'{int(value):,}'.replace(',', ' ')
    return f'{value:.4g}'


def count(value, word):
    """`1 host`, `2 hosts`."""
    return f'{number(value)} {word}{"" if value == 1 else "s"}'


def short(uuid):
    """The first part of a UUID or of a request id."""
    text = uuid or '-'
    return f'{text[:12]}…' if len(text) > 13 else text


def amounts(resources):
    """Amounts by resource class."""
    return ', '.join(f'{number(amount)} {name}' for name, amount in sorted(resources.items()))


FILTERS = {
    'moment': moment,
    'span': span,
    'age': age,
    'number': number,
    'counted': count,
    'short': short,
    'amounts': amounts,
}

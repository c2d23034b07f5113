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
"""The condition of an extra spec on a host's value: the operator grammar.

The first word is the operator, the words after it are its arguments:

    =  >=  ==  !=  <=              compared as numbers; `=` means at least
    s==  s!=  s<  s<=  s>  s>=     compared as text
    <in>                           the value contains the word
    <all-in>                       the value contains every word
    <or> a <or> b                  the value is one of the words

A text that starts with none of these must be equal to the value, including blanks.
"""

import operator
from collections.abc import Callable

from nova_sched import errors

NUMBERS = {
    '=': operator.ge,
    '>=': operator.ge,
    '==': operator.eq,
    '!=': operator.ne,
    '<=': operator.le,
}
TEXTS: dict[str, Callable[[str, str], bool]] = {
    's==': operator.eq,
    's!=': operator.ne,
    's<': operator.lt,
    's<=': operator.le,
    's>': operator.gt,
    's>=': operator.ge,
    '<in>': operator.contains,
}
ALL, ANY = '<all-in>', '<or>'
OPERATORS = frozenset([*NUMBERS, *TEXTS, ALL, ANY])


def matches(value, text, key):
    """Return whether a host's value (text, or None for no value) meets the condition ``text`` of
    the extra spec ``key``.

    A value that is not a number never meets a numeric condition. Raises InvalidRequest for an
    extra spec that cannot be compared with any value.
    """
    word, *words = text.split() or ['']
    if word not in OPERATORS:
        return value == text
    if value is None:
        return False
    if word == ANY:
        if not words:
            raise errors.InvalidRequest(f'extra spec {key}', f'no word follows {ANY}')
        return value in words[::2]
    if not words:
        return False
    if word == ALL:
        return all(part in value for part in words)
    if word in TEXTS:
        return TEXTS[word](value, words[0])
    return _compare(NUMBERS[word], value, words[0], key)


def _compare(relation, value, word, key):
    try:
        number = float(word)
    except ValueError:
        raise errors.InvalidRequest(f'extra spec {key}', f'{word} is not a number') from None
    try:
        return relation(float(value), number)
    except ValueError:
        return False

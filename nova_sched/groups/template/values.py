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
"""A value of a template: its data, its position, and the errors about it."""

import dataclasses
import datetime
import math
import time
from collections.abc import Mapping
from typing import Any

from nova_sched import errors, words

SIZE = 2**20  # characters of a template; Heat's limit is half of this
DEPTH = 50  # values inside of values
COUNT = 100_000  # values of one template
MAX_PATH = 255  # characters; the values below such a path have the same one
ROOT = 'template'
MAX_ERROR = 500  # characters of an error


class Allowance:
    """The time for one template: from its text to requests for hosts, in the thread that makes
    this.

    A text within all size limits may still require a lot of work. Only the thread's CPU time
    counts, so that a busy machine refuses no template.
    """

    def __init__(self, seconds: float = 2.0):
        self._seconds = seconds
        self._end_s = time.thread_time() + seconds

    def check(
        self, where: str = 'template', line: int | None = None, column: int | None = None
    ) -> None:
        """Raise TemplateError when the time is used up."""
        if time.thread_time() > self._end_s:
            why = f'it takes longer than {self._seconds:g} s to read; ask for less'
            raise errors.TemplateError(where, line, column, why)


class Extent:
    """What has been read of one template: ``values``, and ``characters`` of text.

    It is counted before anything is made, and as if each alias were written out: a short text can
    describe billions of values.
    """

    __slots__ = ('characters', 'values')

    def __init__(self):
        self.values = self.characters = 0

    def add(self, at, values=1, characters=0):
        """Count more of them; raises TemplateError at the value if they are too many."""
        self.values += values
        self.characters += characters
        if self.values > COUNT:
            raise at.wrong(f'there are more than {COUNT} values')
        if self.characters > SIZE:
            raise at.wrong(f'its texts have more than {SIZE} characters')


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The result of get_resource: a resource of the template, by name."""

    name: str


class Value:
    """Null, boolean, number, text, Reference, list of Values, or mapping from text to Value.

    The value is in ``data``. ``where`` is its path; ``line`` and ``column`` count from 1 and are
    None if the value was not read from text. ``keys``: positions of the keys of a mapping.
    ``literal``: it is never a function, even if it is a mapping that looks like one.
    """

    __slots__ = ('column', 'data', 'keys', 'line', 'literal', 'where')

    def __init__(self, data, where, line=None, column=None, keys=None, literal=False):
        self.data = data
        self.where = where
        self.line = line
        self.column = column
        self.keys = keys
        self.literal = literal

    def wrong(self, why):
        """Return the error to raise about this value."""
        return errors.TemplateError(self.where, self.line, self.column, shortened(why))

    def wrong_key(self, key, why):
        """Return the error to raise about a key of this mapping."""
        line, column = (self.keys or {}).get(key, (self.line, self.column))
        return errors.TemplateError(inside(self.where, key), line, column, shortened(why))

    def holding(self, data):
        """Return other data at the same position, computed from this value."""
        return Value(data, self.where, self.line, self.column, literal=True)

    @property
    def kind(self):
        """The type of the value, for messages."""
        return next(word for kind, word in KINDS if isinstance(self.data, kind))


class Omitted(Value):
    """An absent value: it is omitted from the list or mapping that contains it."""

    __slots__ = ()

    def __init__(self, at):
        super().__init__(None, at.where, at.line, at.column, literal=True)


KINDS = (
    (type(None), 'null'),
    (bool, 'a boolean'),
    ((int, float), 'a number'),
    (str, 'text'),
    (Reference, 'a reference to a resource'),
    (list, 'a list'),
    (dict, 'a mapping'),
)


def inside(where, key):
    """Return the path of the value under ``key`` at the path ``where``; shortens a long key.

    Each value holds its path, so a long one does not grow.
    """
    if len(where) > MAX_PATH:
        return where
    step = str(key)[:64]
    return step if where == ROOT else f'{where}.{step}'


def shortened(why):
    """Return the text, shortened if it is long."""
    return why if len(why) <= MAX_ERROR else f'{why[:MAX_ERROR]}...'


def check_depth(value, depth):
    """Raise TemplateError for a value that lies too deep in others."""
    if depth > DEPTH:
        raise value.wrong(f'values nest more than {DEPTH} deep')


def text_fault(text):
    """Return why a text cannot be stored or sent, or None."""
    if '\0' in text:
        return 'has a NUL character'
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return 'has half of a surrogate pair, which is not a character'
    return None


def number_fault(plain):
    """Return why a number cannot be stored or sent, or None; any other value has no such fault."""
    if isinstance(plain, float) and not math.isfinite(plain):
        return 'is not finite'
    if isinstance(plain, int) and not -words.MAX_WHOLE <= plain <= words.MAX_WHOLE:
        return 'has more than 64 bits'
    return None


def from_plain(
    plain: Any, where: str = ROOT, at: Value | None = None, literal: bool = False
) -> Value:
    """Return values from JSON data, all at the line and column of ``at``. Raises TemplateError."""
    return _Plain(at, literal).value(plain, where, 0)


class _Plain:
    """One pass over plain data; a list that occurs in many places counts in each."""

    def __init__(self, at: Value | None, literal: bool):
        self._line: int | None = at.line if at else None
        self._column: int | None = at.column if at else None
        self._literal = literal
        self._extent = Extent()

    def value(self, plain, where, depth):
        value = Value(None, where, self._line, self._column, literal=self._literal)
        self._extent.add(value)
        check_depth(value, depth)
        if isinstance(plain, Mapping):
            for key in plain:
                if not isinstance(key, str) or text_fault(key):
                    raise value.wrong(f'the key {key!r} is not text')
                self._extent.add(value, 0, len(key))
            value.data = {
                key: self.value(item, inside(where, key), depth + 1) for key, item in plain.items()
            }
        elif isinstance(plain, list | tuple):
            value.data = [
                self.value(item, inside(where, i), depth + 1) for i, item in enumerate(plain)
            ]
        elif isinstance(plain, str):
            self._extent.add(value, 0, len(plain))
            if fault := text_fault(plain):
                raise value.wrong(f'the text {fault}')
            value.data = str(plain)
        elif isinstance(plain, datetime.date):  # a YAML reader converted it from text
            value.data = plain.isoformat()
        elif plain is not None and not isinstance(plain, bool | int | float | Reference):
            raise value.wrong(f'a {type(plain).__name__} is nothing that a template can hold')
        elif fault := number_fault(plain):
            raise value.wrong(f'the number {fault}')
        else:
            value.data = plain
        return value


def to_plain(value: Value) -> Any:
    """Return the data as from JSON."""
    if isinstance(value.data, dict):
        return {key: to_plain(item) for key, item in value.data.items()}
    if isinstance(value.data, list):
        return [to_plain(item) for item in value.data]
    return value.data

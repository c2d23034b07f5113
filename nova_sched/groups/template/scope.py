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
"""Evaluates values at one position of a template, and reads values of an expected type."""

import re
from collections.abc import Collection
from typing import Any

from nova_sched import words
from nova_sched.groups.template.functions import FUNCTIONS, REFUSED
from nova_sched.groups.template.values import (
    DEPTH,
    Allowance,
    Omitted,
    Reference,
    Value,
    text_fault,
    to_plain,
)
from nova_sched.words import suggestion

MAX_STEPS = 300_000  # of work per template; a member takes some tens
MAX_AMOUNT = 2**31 - 1  # Nova's limit for amounts in flavors
_WHOLE = re.compile(r'\s*[+-]?[0-9]{1,18}\s*')


class WorkBudget:
    """The work that one reading has done: a short text must not occupy a scheduler for long."""

    def __init__(self, allowance=None):
        self.depth = 0
        self._allowance = allowance or Allowance()
        self._left = MAX_STEPS

    def spend(self, steps, at):
        self._allowance.check(at.where, at.line, at.column)
        self._left -= steps
        if self._left < 0:
            raise at.wrong('the template asks for too much work')

    def enter(self, at):
        """Enter one level; the caller must restore ``depth``."""
        self.depth += 1
        self.spend(1, at)
        if self.depth > DEPTH:
            raise at.wrong(f'functions and values nest more than {DEPTH} deep, or in a circle')


class Scope:
    """The context in which values are read.

    ``template`` has parameters, conditions, attributes; indexes are added to these. ``indexes``
    are pairs of a variable (or None) and its replacement; the innermost is last.
    """

    def __init__(self, template, work, indexes=()):
        self.template = template
        self.work = work
        self.indexes = indexes
        self.used_index = False

    def within(self, variable, index):
        """Return the scope of one member of a group that repeats its definition."""
        return Scope(self.template, self.work, (*self.indexes, (variable, index)))

    # results of functions

    def head(self, value: Value) -> Value:
        """Return the value with its function evaluated, if it is one; nested values are not
        evaluated."""
        data = value.data
        if isinstance(data, str):
            for variable, index in self.indexes:
                if variable and variable in value.data:
                    self.used_index = True
                    self.work.spend(len(value.data) // 100, value)
                    value = value.holding(value.data.replace(variable, index))
            return value
        if value.literal or not isinstance(data, dict) or len(data) != 1:
            return value
        ((name, argument),) = data.items()
        if name in REFUSED or name.startswith('Fn::'):
            raise value.wrong_key(
                name, f'the function {name} is not supported in what placement reads'
            )
        if name not in FUNCTIONS:
            return value
        self.work.enter(value)
        try:
            return self.head(FUNCTIONS[name](self, value, argument))
        finally:
            self.work.depth -= 1

    def plain(self, value: Value) -> Any:
        """Return the value with all its contents evaluated, as from JSON."""
        value = self.head(value)
        data = value.data
        if isinstance(data, Reference):
            raise value.wrong(f'the ID of {data.name} is not known before it is created')
        if not isinstance(data, list | dict):
            return data
        if value.literal and not self.indexes:
            self.work.spend(1, value)
            return to_plain(value)
        self.work.enter(value)
        try:
            if isinstance(data, list):
                return [self.plain(item) for item in self.items(value)]
            heads = ((key, self.head(item)) for key, item in data.items())
            return {key: self.plain(item) for key, item in heads if not isinstance(item, Omitted)}
        finally:
            self.work.depth -= 1

    # readers of expected values

    def get(self, mapping: Value, key: str) -> Value | None:
        """Return the evaluated value of the key; None if it is missing or null."""
        value = mapping.data.get(key)
        if value is None:
            return None
        value = self.head(value)
        return None if value.data is None else value

    def get_nonempty(self, mapping: Value, key: str) -> Value | None:
        """Return the same; None also for an empty text, which is unset in Heat and Nova."""
        value = self.get(mapping, key)
        return None if value is None or value.data == '' else value

    def require(self, mapping: Value, key: str) -> Value:
        value = self.get(mapping, key)
        if value is None:
            raise mapping.wrong(f'{key} is missing')
        return value

    def mapping(self, value: Value, keys: Collection[str] | None = None) -> Value:
        """Return a mapping that has no keys other than these."""
        value = self.head(value)
        if not isinstance(value.data, dict):
            raise value.wrong(f'a mapping is wanted, not {value.kind}')
        self.work.spend(1 + len(value.data), value)
        for key in value.data:
            if keys is not None and key not in keys:
                raise value.wrong_key(key, f'{key} is not known here{suggestion(key, keys)}')
        return value

    def items(self, value: Value) -> list[Value]:
        """Return the items of a list, each with its function evaluated."""
        value = self.head(value)
        if not isinstance(value.data, list):
            raise value.wrong(f'a list is wanted, not {value.kind}')
        self.work.spend(1 + len(value.data), value)
        heads = (self.head(item) for item in value.data)
        return [item for item in heads if not isinstance(item, Omitted)]

    def text(self, value: Value, least: int = 1, most: int = 255) -> str:
        """Return text. A whole number counts as its digits.

        A boolean is refused, because YAML makes one of ``no``.
        """
        value = self.head(value)
        data = value.data
        if isinstance(data, int) and not isinstance(data, bool):
            data = str(data)
        if not isinstance(data, str):
            hint = '; put it in quotes' if isinstance(data, bool | float) else ''
            raise value.wrong(f'text is wanted, not {value.kind}{hint}')
        if not least <= len(data) <= most:
            raise value.wrong(
                f'text of {least} to {most} characters is wanted, not of {len(data)}'
            )
        if fault := text_fault(data):
            raise value.wrong(f'the text {fault}')
        return data

    def name(self, value: Value) -> str:
        """Return the text of a name: one line of visible characters."""
        name = self.text(value)
        if not words.is_name(name):
            raise value.wrong(f'the name {words.visible(name)} has invisible characters')
        return name

    def word(self, value: Value, known: Collection[str]) -> str:
        """Return one of these words."""
        text = self.text(value)
        if text not in known:
            raise self.head(value).wrong(
                f'{text} is not one of {", ".join(known)}{suggestion(text, known)}'
            )
        return text

    def integer(self, value: Value, least: int = 0, most: int = MAX_AMOUNT) -> int:
        value = self.head(value)
        number = value.data
        if isinstance(number, str) and _WHOLE.fullmatch(number):
            number = int(number)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            raise value.wrong(f'a whole number is wanted, not {_shown(value)}')
        if not least <= number <= most:
            raise value.wrong(f'{number} is not within {least} and {most}')
        return number

    def number(self, value: Value) -> int | float:
        value = self.head(value)
        if isinstance(value.data, float):
            return value.data
        return self.integer(value, -(2**63), 2**63)

    def boolean(self, value: Value) -> bool:
        value = self.head(value)
        words = {'true': True, 'false': False}
        if isinstance(value.data, bool):
            return value.data
        if isinstance(value.data, str) and value.data.lower() in words:
            return words[value.data.lower()]
        raise value.wrong(f'true or false is wanted, not {_shown(value)}')


class Literal(Scope):
    """A context without functions: a mapping that looks like a function stays a mapping."""

    def __init__(self, work):
        super().__init__(None, work)

    def head(self, value):
        return value


def _shown(value):
    is_kind = value.data is None or isinstance(value.data, bool | list | dict)
    return value.kind if is_kind else repr(value.data)[:50]

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
"""The parameters of a template: the declared ones, and their values."""

import functools
import json
import operator
import re
import time
from collections.abc import Mapping

import regex

from nova_sched import errors
from nova_sched.groups.template import values
from nova_sched.groups.template.values import number_fault, to_plain
from nova_sched.words import suggestion

MATCHES_S = 0.2  # for all patterns of one template, because a pattern can take very long to match
MAX_PATTERN = 255
KINDS = {
    'length': ('string', 'comma_delimited_list', 'json'),
    'range': ('number',),
    'modulo': ('number',),
    'allowed_values': ('string', 'number', 'boolean', 'comma_delimited_list'),
    'allowed_pattern': ('string', 'comma_delimited_list'),
    'custom_constraint': ('string', 'number', 'json', 'comma_delimited_list', 'boolean'),
}


class MatchBudget:
    """The time left for matching patterns, in seconds."""

    def __init__(self):
        self._left_s = MATCHES_S

    def matches(self, pattern, text):
        """Return whether the whole text matches; raises TimeoutError."""
        start = time.monotonic()
        try:
            if self._left_s <= 0:
                raise TimeoutError
            return pattern.fullmatch(text, timeout=self._left_s) is not None
        finally:
            self._left_s -= time.monotonic() - start


class Constraint:
    """One constraint of a parameter of type ``type``. Raises TemplateError for an invalid one."""

    def __init__(self, scope, value, type_, budget):
        value = scope.mapping(value, (*KINDS, 'description'))
        kinds = [key for key in value.data if key != 'description']
        if len(kinds) != 1:
            raise value.wrong(f'a constraint is one of {", ".join(KINDS)}')
        (self.kind,) = kinds
        if type_ not in KINDS[self.kind]:
            raise value.wrong_key(
                self.kind, f'{self.kind} is for {", ".join(KINDS[self.kind])}, not {type_}'
            )
        described = scope.get(value, 'description')
        self._words = described and scope.text(described, 0, 10_000)
        self._budget = budget
        make = getattr(self, f'_{self.kind}', None)
        self._check = make(scope, value.data[self.kind], type_) if make else lambda _plain: None

    def check(self, plain, at):
        """Raise TemplateError at the value if it does not satisfy this constraint."""
        try:
            why = self._check(plain)
        except (TimeoutError, MemoryError):
            why = 'takes too long to compare with the allowed pattern'
        if why:
            shown = json.dumps(plain)
            shown = shown if len(shown) <= 60 else f'{shown[:60]}...'
            raise at.wrong(f'{shown} {why}' + (f' ({self._words})' if self._words else ''))

    @staticmethod
    def _bounds(scope, value, read):
        value = scope.mapping(value, ('min', 'max'))
        bounds = {key: read(item) for key, item in value.data.items()}
        if not bounds:
            raise value.wrong('min or max is missing')
        if len(bounds) == 2 and bounds['min'] > bounds['max']:
            raise value.wrong('min is above max')
        return bounds

    def _length(self, scope, value, _type):
        bounds = self._bounds(scope, value, scope.integer)
        return lambda plain: _outside(len(plain), bounds, 'has the length')

    def _range(self, scope, value, _type):
        bounds = self._bounds(scope, value, scope.number)
        return lambda plain: _outside(plain, bounds, 'is')

    def _modulo(self, scope, value, _type):
        value = scope.mapping(value, ('step', 'offset'))
        step, offset = (
            scope.integer(scope.require(value, key), -(2**31)) for key in ('step', 'offset')
        )
        if not step or abs(offset) >= abs(step):
            raise value.wrong('the step is not 0, and the offset less than it')
        return lambda plain: (
            None if plain % step == offset % step else f'is not {offset} modulo {step}'
        )

    def _allowed_values(self, scope, value, type_):
        allowed = [to_plain(item) for item in scope.items(value)]
        if type_ in ('string', 'comma_delimited_list'):
            allowed = [item if isinstance(item, str) else json.dumps(item) for item in allowed]
        words = ', '.join(map(json.dumps, allowed))
        return _each(functools.partial(operator.contains, allowed), f'is not one of {words}')

    def _allowed_pattern(self, scope, value, _type):
        text = scope.text(value, 0, MAX_PATTERN)
        try:
            pattern = regex.compile(text)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            raise value.wrong(f'no pattern: {error}') from None
        return _each(functools.partial(self._budget.matches, pattern), f'does not match {text}')


def _outside(number, bounds, words):
    low, high = bounds.get('min'), bounds.get('max')
    if low is not None and number < low:
        return f'{words} {number}, below {low}' if words != 'is' else f'is below {low}'
    if high is not None and number > high:
        return f'{words} {number}, above {high}' if words != 'is' else f'is above {high}'
    return None


def _each(holds, why):
    """Return a check of a value, or of every item of a list."""

    def check(plain):
        return (
            None
            if all(holds(item) for item in (plain if isinstance(plain, list) else [plain]))
            else why
        )

    return check


FIELDS = ('type', 'label', 'description', 'default', 'hidden', 'constraints', 'immutable', 'tags')
OF_HEAT = ('OS::stack_id', 'OS::stack_name', 'OS::project_id')
TRUE = frozenset(['t', 'true', 'on', 'y', 'yes', '1'])
FALSE = frozenset(['f', 'false', 'off', 'n', 'no', '0'])
_NUMBER = re.compile(r'\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*')


class Parameters:
    """Values by name. A parameter without a value is an error only when it is read.

    So a template can be read without, for example, the name of a key that placement does not need.
    """

    def __init__(self, scope, declared, given, warnings):
        """``declared``: the mapping, or None; ``given``: plain values by name. Raises
        TemplateError."""
        self._declared = declared.data if declared else {}
        self._values = {}
        given = {} if given is None else given
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            why = 'a mapping from names to values is wanted'
            raise errors.TemplateError('parameters', None, None, why)
        for name in given:
            if name not in self._declared:
                why = f'the template has no such parameter{suggestion(name, self._declared)}'
                raise errors.TemplateError(f'parameters.{name}', None, None, why)
        budget = MatchBudget()
        for name, value in self._declared.items():
            self._declare(scope, name, value, given, budget, warnings)

    def _declare(self, scope, name, value, given, budget, warnings):
        fields = scope.mapping(value, FIELDS)
        type_ = scope.word(scope.require(fields, 'type'), TYPES)
        listed = scope.get(fields, 'constraints')
        constraints = (
            [Constraint(scope, constraint, type_, budget) for constraint in scope.items(listed)]
            if listed
            else []
        )
        if any(constraint.kind == 'custom_constraint' for constraint in constraints):
            warnings.append(
                f'parameters.{name}: a custom constraint is for Heat, and not checked here'
            )
        default = fields.data.get('default')
        sources = []
        if default is not None and default.data is not None:
            sources.append((default, values.to_plain(default)))
        if given.get(name) is not None:
            where = f'parameters.{name}'
            sources.append((value, values.to_plain(values.from_plain(given[name], where, value))))
        for at, plain in sources:
            self._values[name] = TYPES[type_](at, plain)
            for constraint in constraints:
                constraint.check(self._values[name], at)

    def value(self, name, at):
        """Return the plain value; raises TemplateError at the value that refers to it."""
        if name in OF_HEAT:
            raise at.wrong(f'{name} is known to Heat alone')
        if name not in self._declared:
            raise at.wrong(f'there is no parameter {name}{suggestion(name, self._declared)}')
        if name not in self._values:
            raise at.wrong(f'the parameter {name} has no value and no default')
        return self._values[name]


def _string(at, plain):
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise at.wrong('a parameter of type string is text; put it in quotes')
    return str(plain)


def _number(at, plain):
    if isinstance(plain, str) and len(plain) <= 100 and _NUMBER.fullmatch(plain):
        plain = float(plain) if re.search('[.eE]', plain) else int(plain)
    if isinstance(plain, bool) or not isinstance(plain, int | float) or number_fault(plain):
        raise at.wrong('a parameter of type number is a finite number of at most 64 bits')
    return plain


def _json(at, plain):
    if isinstance(plain, str):
        try:
            plain = json.loads(plain)
        except (ValueError, RecursionError) as error:
            raise at.wrong(f'no JSON: {error}') from None
        plain = values.to_plain(values.from_plain(plain, at.where, at))
    if not isinstance(plain, list | dict):
        raise at.wrong('a parameter of type json is a mapping or a list')
    return plain


def _comma_delimited_list(at, plain):
    if isinstance(plain, str):
        return [part.strip() for part in plain.split(',')] if plain else []
    if not isinstance(plain, list):
        raise at.wrong('a parameter of type comma_delimited_list is a list, or text with commas')
    return [_string(at, item) for item in plain]


def _boolean(at, plain):
    word = str(plain).strip().lower() if isinstance(plain, str | int) else ''
    if word not in TRUE | FALSE:
        raise at.wrong('a parameter of type boolean is true or false')
    return word in TRUE


TYPES = {
    'string': _string,
    'number': _number,
    'json': _json,
    'comma_delimited_list': _comma_delimited_list,
    'boolean': _boolean,
}

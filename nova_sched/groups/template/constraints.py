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
"""The constraints on the value of a parameter."""

import functools
import json
import operator
import time

import regex

from nova_sched.groups.template.values import to_plain

PATIENCE_S = 0.2  # for all patterns of one template, because a pattern can take very long to match
LONGEST_PATTERN = 255
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
        self._left_s = PATIENCE_S

    def matches(self, pattern, text):
        """Returns whether the whole text matches; raises TimeoutError."""
        start = time.monotonic()
        try:
            if self._left_s <= 0:
                raise TimeoutError
            return pattern.fullmatch(text, timeout=self._left_s) is not None
        finally:
            self._left_s -= time.monotonic() - start


class Constraint:
    """One constraint of a parameter of type ``type``. Raises TemplateError for an invalid one."""

    def __init__(self, scope, value, type_, patience):
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
        self._patience = patience
        make = getattr(self, f'_{self.kind}', None)
        self._check = make(scope, value.data[self.kind], type_) if make else lambda _plain: None

    def check(self, plain, at):
        """Raises TemplateError at the value if it does not satisfy this constraint."""
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
            allowed = [one if isinstance(one, str) else json.dumps(one) for one in allowed]
        words = ', '.join(map(json.dumps, allowed))
        return _each(functools.partial(operator.contains, allowed), f'is none of {words}')

    def _allowed_pattern(self, scope, value, _type):
        text = scope.text(value, 0, LONGEST_PATTERN)
        try:
            pattern = regex.compile(text)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            raise value.wrong(f'no pattern: {error}') from None
        return _each(functools.partial(self._patience.matches, pattern), f'does not match {text}')


def _outside(number, bounds, words):
    low, high = bounds.get('min'), bounds.get('max')
    if low is not None and number < low:
        return f'{words} {number}, below {low}' if words != 'is' else f'is below {low}'
    if high is not None and number > high:
        return f'{words} {number}, above {high}' if words != 'is' else f'is above {high}'
    return None


def _each(holds, why):
    """Returns a check of a value, or of every item of a list."""

    def check(plain):
        return (
            None
            if all(holds(one) for one in (plain if isinstance(plain, list) else [plain]))
            else why
        )

    return check

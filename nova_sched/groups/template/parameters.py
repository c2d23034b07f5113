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

import json
import math
import re
from collections.abc import Mapping

from nova_sched import errors
from nova_sched.groups.template import values
from nova_sched.groups.template.constraints import Constraint, MatchBudget
from nova_sched.groups.template.scope import meant

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
        given = _given(given)
        for name in given:
            if name not in self._declared:
                why = f'the template has no such parameter{meant(name, self._declared)}'
                raise errors.TemplateError(f'parameters.{name}', None, None, why)
        patience = MatchBudget()
        for name, value in self._declared.items():
            self._declare(scope, name, value, given, patience, warnings)

    def _declare(self, scope, name, value, given, patience, warnings):
        fields = scope.mapping(value, FIELDS)
        type_ = scope.word(scope.require(fields, 'type'), TYPES)
        listed = scope.get(fields, 'constraints')
        constraints = (
            [Constraint(scope, one, type_, patience) for one in scope.items(listed)]
            if listed
            else []
        )
        if any(one.kind == 'custom_constraint' for one in constraints):
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
        """Returns the plain value; raises TemplateError at the value that refers to it."""
        if name in OF_HEAT:
            raise at.wrong(f'{name} is known to Heat alone')
        if name not in self._declared:
            raise at.wrong(f'there is no parameter {name}{meant(name, self._declared)}')
        if name not in self._values:
            raise at.wrong(f'the parameter {name} has no value and no default')
        return self._values[name]


def _given(given):
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise errors.TemplateError(
            'parameters', None, None, 'a mapping from names to values is wanted'
        )
    return given


def _string(at, plain):
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise at.wrong('a parameter of type string is text; put it in quotes')
    return str(plain)


def _number(at, plain):
    if isinstance(plain, str) and len(plain) <= 100 and _NUMBER.fullmatch(plain):
        plain = float(plain) if re.search('[.eE]', plain) else int(plain)
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not math.isfinite(plain):
        raise at.wrong('a parameter of type number is a finite number')
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

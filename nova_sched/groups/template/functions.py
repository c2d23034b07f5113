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
"""The functions of the language; each converts the mapping that calls it to a value.

A function takes the scope, the call (the mapping of one key) and its argument, which is not
evaluated yet. So ``if`` never evaluates the branch that it does not choose.
"""

import itertools
import json
import math
from collections.abc import Iterable

from nova_sched.groups.template.values import Omitted, Reference, Value, from_plain

# Functions of Heat that need data which placement does not have, or that are not supported.
REFUSED = frozenset(
    'Ref contains digest filter get_file list_concat list_concat_unique make_url map_merge '
    'map_replace resource_facade str_replace_strict str_replace_vstrict str_split yaql'.split()
)
MAX_TEXT = 65_536  # maximum number of characters of a function's result
MAX_PAIRS = 100  # maximum number of texts that one function replaces
MAX_COPIES = 10_000  # maximum number of copies of its template by one repeat


def _get_param(scope, call, argument):
    name, *path = _path(scope, argument, 1)
    value = scope.template.parameters.value(name, argument)
    return _made(scope, call, _descend(value, path, argument, f'the parameter {name}'))


def _get_resource(scope, call, argument):
    name = scope.text(argument)
    if not scope.template.is_known(name, argument):
        return Omitted(call)
    return call.holding(Reference(name))


def _get_attr(scope, call, argument):
    name, attribute, *path = _path(scope, argument, 2)
    if not scope.template.is_known(name, argument):
        return Omitted(call)
    value = scope.template.attribute(name, attribute, argument)
    return _made(scope, call, _descend(value, path, argument, f'{attribute} of {name}'))


def _list_join(scope, call, argument):
    parts = scope.items(argument)
    if len(parts) < 2:
        raise call.wrong('list_join takes a delimiter and a list or more')
    delimiter = scope.text(parts[0], least=0)
    items: list[str] = []
    for part in parts[1:]:
        plain = scope.plain(part)
        if plain and not isinstance(plain, list):
            raise part.wrong('a list is wanted')
        items += map(_as_text, plain or ())  # null and an empty text are an empty list, as in Heat
    length = sum(map(len, items)) + len(delimiter) * (len(items) - 1)
    return _text(scope, call, length, lambda: delimiter.join(items))


def _str_replace(scope, call, argument):
    fields = scope.mapping(argument, ('template', 'params'))
    text = scope.text(scope.require(fields, 'template'), 0, MAX_TEXT)
    params = scope.plain(scope.require(fields, 'params'))
    if not isinstance(params, dict):
        raise fields.wrong('params is a mapping from texts to their replacements')
    pieces = _pieces(scope, call, text, {key: _as_text(value) for key, value in params.items()})
    return _text(scope, call, sum(map(len, pieces)), lambda: ''.join(pieces))


def _repeat(scope, call, argument):
    fields = scope.mapping(argument, ('for_each', 'template', 'permutations'))
    each = scope.mapping(scope.require(fields, 'for_each'))
    permutations = scope.get(fields, 'permutations')
    permutations = permutations is None or scope.boolean(permutations)
    lists = [_repeated(scope, values, permutations) for values in each.data.values()]
    known = [values for values in lists if values is not None]
    if not permutations and len({len(values) for values in known}) > 1:
        raise each.wrong('without permutations the lists are of one length')
    copies = 0  # null is of any length, and makes none
    rounds: Iterable = ()
    if known and len(known) == len(lists):
        if permutations:
            copies, rounds = math.prod(map(len, lists)), itertools.product(*lists)
        else:
            copies, rounds = len(lists[0]), zip(*lists, strict=True)
    if not lists or copies > MAX_COPIES:
        raise each.wrong(
            f'{copies} copies; 1 list or more, and up to {MAX_COPIES} copies, are possible'
        )
    if 'template' not in fields.data:
        raise fields.wrong('template is missing')
    template = fields.data['template']
    chosen = (dict(zip(each.data, values, strict=True)) for values in rounds)
    copied = [_substituted(scope, template, replacements) for replacements in chosen]
    return Value(copied, call.where, call.line, call.column)


def _repeated(scope, values, permutations):
    """Return what to repeat for: the items of a list, the keys of a mapping (which have no order,
    and so nothing to pair them with); None for null."""
    values = scope.head(values)
    if values.data is None:
        return None
    if permutations and isinstance(values.data, dict):
        return [values.holding(key) for key in scope.mapping(values).data]
    return scope.items(values)


def _if(scope, call, argument):
    parts = argument.data
    if not isinstance(parts, list) or not 2 <= len(parts) <= 3:
        raise call.wrong('if takes a condition, a value, and perhaps another value')
    if condition(scope, parts[0]):
        return parts[1]
    return parts[2] if len(parts) == 3 else Omitted(call)


def _equals(scope, call, argument):
    parts = scope.items(argument)
    if len(parts) != 2:
        raise call.wrong('equals takes two values')
    left, right = (scope.plain(part) for part in parts)
    return call.holding(left == right and isinstance(left, bool) == isinstance(right, bool))


def _not(scope, call, argument):
    return call.holding(not condition(scope, argument))


def _and(scope, call, argument):
    return call.holding(all(condition(scope, part) for part in _conditions(call, argument)))


def _or(scope, call, argument):
    return call.holding(any(condition(scope, part) for part in _conditions(call, argument)))


FUNCTIONS = {
    'get_param': _get_param,
    'get_resource': _get_resource,
    'get_attr': _get_attr,
    'list_join': _list_join,
    'str_replace': _str_replace,
    'repeat': _repeat,
    'if': _if,
    'equals': _equals,
    'not': _not,
    'and': _and,
    'or': _or,
}


def condition(scope, value):
    """Return whether a condition is true: a named one, a boolean, or a function that yields
    one."""
    if isinstance(value.data, str):
        return scope.template.conditions.holds(value)
    answer = scope.head(value)
    if not isinstance(answer.data, bool):
        raise answer.wrong(
            f'a condition is a name, true, false, or a function of such, not {answer.kind}'
        )
    return answer.data


def _conditions(call, argument):
    if not isinstance(argument.data, list) or len(argument.data) < 2:
        raise call.wrong('two conditions or more are wanted')
    return argument.data


def _path(scope, argument, least):
    """Return ``name`` or ``[name, key, ...]``, as strings and numbers."""
    head = scope.head(argument)
    items = scope.items(head) if isinstance(head.data, list) else [head]
    parts = [scope.text(item) for item in items]
    if len(parts) < least:
        raise argument.wrong(f'a list of {least} or more is wanted')
    return parts


def _descend(value, path, at, what):
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif (
            isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value)
        ):
            value = value[int(key)]
        else:
            raise at.wrong(f'{what} has no {key}')
    return value


def _made(scope, call, plain):
    """Return a function's result as values at the position of the call."""
    if not isinstance(plain, list | dict):
        return call.holding(plain)
    value = from_plain(plain, call.where, call, literal=True)
    scope.work.spend(_size(plain), call)
    return value


def _size(plain):
    if isinstance(plain, list | dict):
        return 1 + sum(map(_size, plain.values() if isinstance(plain, dict) else plain))
    return 1


def _as_text(plain):
    if isinstance(plain, str):
        return plain
    if plain is None:
        return ''
    return json.dumps(plain, sort_keys=True) if isinstance(plain, list | dict) else str(plain)


def _text(scope, call, length, make):
    if length > MAX_TEXT:
        raise call.wrong(f'the text would have {length} characters; {MAX_TEXT} are possible')
    scope.work.spend(1 + length // 100, call)
    return call.holding(make())


def _pieces(scope, at, text, replacements):
    """Return the text in pieces with all keys replaced, the longest first.

    Inserted text is not searched again.
    """
    if len(replacements) > MAX_PAIRS:
        raise at.wrong(f'{len(replacements)} texts to replace; {MAX_PAIRS} are possible')
    scope.work.spend(1 + len(replacements) * (1 + len(text) // 200), at)
    pieces = [(text, False)]
    for old in sorted(replacements, key=len, reverse=True):
        if not old:
            raise at.wrong('an empty text cannot be replaced')
        pieces = [new for piece in pieces for new in _split(*piece, old, replacements[old])]
    return [piece for piece, _done in pieces]


def _split(piece, done, old, new):
    if done or old not in piece:
        return [(piece, done)]
    parts = [(part, False) for part in piece.split(old)]
    return [fragment for part in parts for fragment in ((new, True), part)][1:]


def _substituted(scope, value, replacements):
    """Return a copy of the template of a repeat.

    A text that consists only of a variable becomes the variable's value.
    """
    scope.work.enter(value)
    try:
        data = value.data
        if isinstance(data, str):
            return (
                replacements[data]
                if data in replacements
                else _in_text(scope, value, data, replacements)
            )
        if isinstance(data, list):
            data = [_substituted(scope, item, replacements) for item in data]
        elif isinstance(data, dict):
            data = {
                _in_text(scope, value, key, replacements).data: _substituted(
                    scope, item, replacements
                )
                for key, item in data.items()
            }
        return Value(data, value.where, value.line, value.column, value.keys, value.literal)
    finally:
        scope.work.depth -= 1


def _in_text(scope, value, text, replacements):
    occurring = {
        key: replacement for key, replacement in replacements.items() if key and key in text
    }
    if not occurring:
        return value if text is value.data else value.holding(text)
    texts = {key: _as_text(scope.plain(replacement)) for key, replacement in occurring.items()}
    pieces = _pieces(scope, value, text, texts)
    return _text(scope, value, sum(map(len, pieces)), lambda: ''.join(pieces))

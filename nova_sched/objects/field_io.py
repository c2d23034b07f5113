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

"""Reads the value of a field from its primitive, and writes it to its primitive.

``reading(field)`` and ``writing(field)`` are called once for each field, when its class is
registered. Their results do the work of oslo's ``from_primitive``, ``coerce`` and ``to_primitive``
in one step: a RequestSpec and its Selections cross the wire for every decision.
"""

import copy
import datetime
import re
from typing import Any, NamedTuple

from oslo_utils import strutils
from oslo_versionedobjects import fields as ovo

from nova_sched import words
from nova_sched.objects import fields

# Placeholder for a value to leave out: an object whose name is not known here.
UNKNOWN = object()

_UTC = datetime.UTC
_JSON_NAMES = {
    dict: 'an object',
    list: 'a list',
    str: 'a string',
    bool: 'a boolean',
    type(None): 'null',
}


class Unreadable(Exception):
    """A value that cannot be read; ``path`` grows from the value outwards."""

    def __init__(self, why, path=''):
        super().__init__(why)
        self.why = why
        self.path = path

    def inside(self, step):
        """Adds the field or element ``step`` that holds the value to the path."""
        self.path = step + self.path
        return self


# Exceptions that reading a value can raise.
REFUSALS = (Unreadable, TypeError, ValueError, OverflowError)


def unreadable(refusal):
    """Returns one of the ``REFUSALS`` as Unreadable, with a short message."""
    return refusal if isinstance(refusal, Unreadable) else Unreadable(str(refusal)[:200])


class Reading(NamedTuple):
    """Reads one value: unchanged if it is exactly of type ``exact``, else with ``read``."""

    exact: type
    read: Any
    nullable: bool


class _NoType:
    """A type that no value has: every value is read with ``read``."""


def _wanted(what, value):
    """Returns the error for a value of another type; values are not shown, for they may be secret
    or huge."""
    type_name = _JSON_NAMES.get(type(value), f'a {type(value).__name__}')
    return Unreadable(f'{what} is required, not {type_name}')


def _read_string(value):
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    raise _wanted('a string', value)


def _read_integer(value):
    if type(value) is int and -words.MAX_WHOLE <= value <= words.MAX_WHOLE:
        return value
    return words.whole(value, -words.MAX_WHOLE)


def _read_boolean(value):
    if value in (0, 1) and isinstance(value, int):
        return bool(value)
    raise _wanted('a boolean', value)


def _read_flexible_boolean(value):
    if isinstance(value, (str, int)):
        return strutils.bool_from_string(value)
    raise _wanted('a boolean', value)


def _read_datetime(value):
    if not isinstance(value, str):
        raise _wanted('a date and time', value)
    return words.moment(value)


_is_uuid = re.compile(ovo.UUID.PATTERN).fullmatch


def _read_uuid(value):
    if isinstance(value, str) and _is_uuid(value):
        return value
    raise Unreadable('a UUID is required')


def _text(kind):
    """Reads text that the field type itself validates."""

    def read(value):
        if not isinstance(value, str):
            raise _wanted('a string', value)
        return kind.coerce(None, '', value)

    return read


def _word(kind):
    """Reads a word of an enumeration."""
    known = frozenset(kind.valid_values)

    def read(value):
        if not isinstance(value, str):
            raise _wanted('a word', value)
        return value if value in known else kind.coerce(None, '', value)

    return read


def _any_word(kind):
    """Reads a word of an enumeration, and also words that only a newer version defines."""

    def read(value):
        if not isinstance(value, str):
            raise _wanted('a word', value)
        return kind.canonical(value)

    return read


def _items(values, element):
    """Returns the elements, read one by one; unknown objects are left out."""
    exact, read, nullable = element
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise _wanted('a list', values)
    items = []
    for index, value in enumerate(values):
        if type(value) is exact or (value is None and nullable):
            items.append(value)
            continue
        item = _read_inside(read, value, f'[{index}]')
        if item is not UNKNOWN:
            items.append(item)
    return items


def _pairs(values, element):
    exact, read, nullable = element
    if not isinstance(values, dict):
        raise _wanted('an object', values)
    pairs = {}
    for key, value in values.items():
        if type(key) is not str:
            raise _wanted('a string as key', key)
        if type(value) is exact or (value is None and nullable):
            pairs[key] = value
        else:
            pairs[key] = _read_inside(read, value, f'[{key[:64]}]')
    return pairs


def _read_inside(read, value, step):
    try:
        return read(value)
    except REFUSALS as bad:
        raise unreadable(bad).inside(step) from None


# The types of values: the type that is used unchanged, and the reader of all other values.
_PLAIN = {
    ovo.String: (str, _read_string),
    ovo.SensitiveString: (str, _read_string),
    ovo.Integer: (_NoType, _read_integer),  # each is read: not every one has 64 bits
    ovo.Float: (float, words.finite),
    ovo.Boolean: (bool, _read_boolean),
    ovo.FlexibleBoolean: (bool, _read_flexible_boolean),
    ovo.DateTime: (_NoType, _read_datetime),
    fields.UUID: (_NoType, _read_uuid),
}


def reading(field, read_object, newer=False) -> Reading:
    """Returns the Reading of a field (or of an element of a list, set or dict).

    ``read_object(primitive, field type)`` reads a nested object. With ``newer`` the words of
    enumerations are not checked: the sender has a later version with more words.
    """
    kind, nullable = field._type, field.nullable
    if type(kind) in _PLAIN:
        exact, read = _PLAIN[type(kind)]
    else:
        exact, read = _NoType, _reader(kind, read_object, newer)
    if not nullable and field.default is not ovo.UnspecifiedDefault:
        read = _with_default(read, field.default)
    return Reading(exact, read, nullable)


def _reader(kind, read_object, newer):
    if isinstance(kind, ovo.Object):
        return lambda value: read_object(value, kind)
    if isinstance(kind, fields.Words):
        return _any_word(kind) if newer else _word(kind)
    if not isinstance(kind, ovo.CompoundFieldType):
        return _text(kind)
    element = reading(kind._element_type, read_object, newer)
    if isinstance(kind, ovo.Dict):
        return lambda value: _pairs(value, element)
    if isinstance(kind, ovo.Set):
        return lambda value: set(_items(value, element))
    return lambda value: _items(value, element)


def _with_default(read, default):
    return lambda value: copy.deepcopy(default) if value is None else read(value)


def writing(field, write_object):
    """Returns a function of (value, version manifest) that writes a field, or None if values are
    written unchanged.

    ``write_object(object, version manifest)`` writes a nested object.
    """
    kind = field._type
    if isinstance(kind, ovo.Object):
        return write_object
    if isinstance(kind, ovo.DateTime):
        return _write_datetime
    if isinstance(kind, ovo.IPAddress):
        return lambda value, _manifest: str(value)
    if not isinstance(kind, ovo.CompoundFieldType):
        return None
    return _compound_writer(kind, writing(kind._element_type, write_object))


def _compound_writer(kind, write):
    if isinstance(kind, ovo.Dict):
        if write is None:
            return lambda value, _manifest: dict(value)
        return lambda value, manifest: {key: write(item, manifest) for key, item in value.items()}
    if isinstance(kind, ovo.Set):
        return lambda value, _manifest: sorted(value)
    if write is None:
        return lambda value, _manifest: list(value)
    return lambda value, manifest: [write(item, manifest) for item in value]


def _write_datetime(value, _manifest):
    """Returns whole seconds in UTC: 2026-01-01T12:00:00Z."""
    return value.astimezone(_UTC).isoformat()[:19] + 'Z'

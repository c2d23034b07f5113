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

"""Reads objects from their primitives, messages and JSON texts, and writes them.

Tolerant of other versions: any minor version of the known major one is read as far as it is known,
and becomes an object of the current version, so that it is written again with all that it says.
Unknown keys and nested objects of unknown names are ignored. Strict about malformed data: an
invalid value is refused, with its path.

``reading(field)`` and ``writing(field)`` are called once for each field, when its class is
registered. Their results do the work of oslo's ``from_primitive``, ``coerce`` and ``to_primitive``
in one step: a RequestSpec and its Selections cross the wire for every decision.
"""

import copy
import datetime
import functools
import logging
import re
from typing import Any, NamedTuple

from oslo_utils import strutils
from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields as ovo

from nova_sched import errors, words
from nova_sched.objects import fields

LOG = logging.getLogger(__name__)

SERIAL_NAMESPACE = 'nova_object'
NAME = 'nova_object.name'
NAMESPACE = 'nova_object.namespace'
VERSION = 'nova_object.version'
DATA = 'nova_object.data'
CHANGES = 'nova_object.changes'

NOVA, NOVA_SCHED = 'nova', 'nova_sched'

# Every class by its object name; filled as the classes are registered.
CLASSES = {}

# Values.

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
        """Add the field or element ``step`` that holds the value to the path."""
        self.path = step + self.path
        return self


# Exceptions that reading a value can raise.
REFUSALS = (Unreadable, TypeError, ValueError, OverflowError)


def unreadable(refusal):
    """Return one of the ``REFUSALS`` as Unreadable, with a short message."""
    return refusal if isinstance(refusal, Unreadable) else Unreadable(str(refusal)[:200])


class Reading(NamedTuple):
    """How to read one value: unchanged if it is exactly of type ``exact``, else with ``read``."""

    exact: type
    read: Any
    nullable: bool


class _NoType:
    """A type that no value has: every value is read with ``read``."""


def _wanted(what, value):
    """Return the error for a value of another type; values are not shown, for they may be secret
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
    """Read text that the field type itself validates."""

    def read(value):
        if not isinstance(value, str):
            raise _wanted('a string', value)
        return kind.coerce(None, '', value)

    return read


def _word(kind, newer):
    """Read a word of an enumeration; of a ``newer`` sender also words that only it knows."""
    known = frozenset(kind.valid_values)
    read_other = kind.canonical if newer else functools.partial(kind.coerce, None, '')

    def read(value):
        if not isinstance(value, str):
            raise _wanted('a word', value)
        return value if value in known else read_other(value)

    return read


def _items(values, element):
    """Return the elements, read one by one; unknown objects are left out."""
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
    ovo.Integer: (_NoType, _read_integer),  # each is read: not every one has 64 bits
    ovo.Float: (float, words.finite),
    ovo.Boolean: (bool, _read_boolean),
    ovo.FlexibleBoolean: (bool, _read_flexible_boolean),
    ovo.DateTime: (_NoType, _read_datetime),
    fields.UUID: (_NoType, _read_uuid),
}


def reading(field, newer=False) -> Reading:
    """Return the Reading of a field (or of an element of a list, set or dict).

    With ``newer`` the words of enumerations are not checked: the sender has a later version with
    more words.
    """
    kind, nullable = field._type, field.nullable
    if type(kind) in _PLAIN:
        exact, read = _PLAIN[type(kind)]
    else:
        exact, read = _NoType, _reader(kind, newer)
    if not nullable and field.default is not ovo.UnspecifiedDefault:
        read = _with_default(read, field.default)
    return Reading(exact, read, nullable)


def _reader(kind, newer):
    if isinstance(kind, ovo.Object):
        return lambda value: read_nested(value, kind)
    if isinstance(kind, fields.Words):
        return _word(kind, newer)
    if not isinstance(kind, ovo.CompoundFieldType):
        return _text(kind)
    element = reading(kind._element_type, newer)
    if isinstance(kind, ovo.Dict):
        return lambda value: _pairs(value, element)
    if isinstance(kind, ovo.Set):
        return lambda value: set(_items(value, element))
    return lambda value: _items(value, element)


def _with_default(read, default):
    return lambda value: copy.deepcopy(default) if value is None else read(value)


def writing(field):
    """Return a function that writes a value of the field, or None if values are written
    unchanged."""
    kind = field._type
    if isinstance(kind, ovo.Object):
        return lambda value: value.obj_to_primitive()
    if isinstance(kind, ovo.DateTime):
        return _write_datetime
    if isinstance(kind, ovo.IPAddress):
        return str
    if not isinstance(kind, ovo.CompoundFieldType):
        return None
    write = writing(kind._element_type)
    if isinstance(kind, ovo.Dict):
        if write is None:
            return dict
        return lambda value: {key: write(item) for key, item in value.items()}
    if isinstance(kind, ovo.Set):
        return sorted
    if write is None:
        return list
    return lambda value: [write(item) for item in value]


def _write_datetime(value):
    """Return whole seconds in UTC: 2026-01-01T12:00:00Z."""
    return value.astimezone(_UTC).isoformat()[:19] + 'Z'


# Objects.


def is_primitive(value):
    """Return whether a dict represents an object."""
    return NAME in value or DATA in value


def primitive(name, data):
    """Return the primitive of an object of the current version, with all set fields marked as
    changed."""
    cls = CLASSES[name]
    return {
        NAME: name,
        NAMESPACE: cls.OBJ_PROJECT_NAMESPACE,
        VERSION: cls.VERSION,
        DATA: data,
        CHANGES: list(data),
    }


def read(value, root='object'):
    """Return the object of a primitive, or the primitive itself if its object name is unknown.

    Raises MalformedObject with the path of the invalid value, starting with the object's name
    (``root`` if it has none), and IncompatibleObject for another major version.
    """
    try:
        result = read_object(value)
    except Unreadable as bad:
        raise errors.MalformedObject(f'{_name(value, root)}{bad.path}', bad.why) from None
    except RecursionError:
        raise errors.MalformedObject(_name(value, root), 'nested too deeply') from None
    return value if result is UNKNOWN else result


def _name(value, root):
    name = value.get(NAME) if isinstance(value, dict) else None
    return name[:64] if isinstance(name, str) else root


def read_object(value):
    """Return the object of a primitive, or UNKNOWN. Raises Unreadable."""
    try:
        name, namespace, version, data = value[NAME], value[NAMESPACE], value[VERSION], value[DATA]
        cls = CLASSES.get(name)
    except (KeyError, TypeError):
        raise Unreadable(_what_is_wrong(value)) from None
    if type(data) is not dict or not isinstance(name, str):
        raise Unreadable(_what_is_wrong(value))
    if cls is None or namespace != cls.OBJ_PROJECT_NAMESPACE:
        if cls is None and namespace in (NOVA, NOVA_SCHED):
            LOG.debug('Unknown object name %.64s; the object is ignored', name)
            return UNKNOWN
        raise Unreadable(f'namespace {str(namespace)[:64]!r} is not known for this object')
    if version == cls.VERSION:
        return _fill(cls, cls.wire_fields, data, value.get(CHANGES, ()))
    version, newer = _known_version(cls, str(version))
    known = cls.wire_fields_newer if newer else cls.wire_fields
    result = _fill(cls, known, data, value.get(CHANGES, ()))
    if not newer and version != cls.VERSION:
        result.obj_complete_older()
    return result


def read_nested(value, kind):
    """Return the object of a primitive in a field of the Object type ``kind``, or UNKNOWN."""
    result = value if isinstance(value, ovo_base.VersionedObject) else read_object(value)
    if result is UNKNOWN or result.obj_name() == kind._obj_name:
        return result
    raise Unreadable(f'an object {kind._obj_name} is required, not {result.obj_name()}')


def _fill(cls, known, data, changes):
    """Return a new object with the known fields of ``data``."""
    obj = cls.__new__(cls)
    state = obj.__dict__
    state['_context'] = None
    for attribute, make in cls.wire_start:
        state[attribute] = make()
    name = None
    try:
        for name, value in data.items():
            if name not in known:
                continue
            attribute, exact, read_value, nullable = known[name]
            if type(value) is exact or (value is None and nullable):
                state[attribute] = value
                continue
            value = read_value(value)
            if value is not UNKNOWN:
                state[attribute] = value
    except REFUSALS as bad:
        raise unreadable(bad).inside(f'.{name}') from None
    try:
        state['_changed_fields'] = {change for change in changes or () if change in known}
    except TypeError:
        raise Unreadable(f'{CHANGES} is not a list of names') from None
    return obj


@functools.lru_cache(maxsize=1024)
def _known_version(cls, version):
    """Return the version to read an object as, without its micro part, and whether it is newer
    than the version here."""
    match = re.fullmatch(r'([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,9})*', version)
    if match is None:
        raise Unreadable(f'{VERSION} is not a version')
    major, minor = int(match[1]), int(match[2])
    own_major, own_minor = (int(part) for part in cls.VERSION.split('.'))
    if major != own_major:
        raise errors.IncompatibleObject(cls.obj_name(), version[:64], cls.VERSION)
    return f'{major}.{minor}', minor > own_minor


def _what_is_wrong(value):
    if not isinstance(value, dict):
        return 'an object is required'
    missing = [key for key in (NAME, NAMESPACE, VERSION, DATA) if key not in value]
    if missing:
        return f'{", ".join(missing)} missing'
    return f'{DATA} is not an object' if isinstance(value[NAME], str) else f'{NAME} is not a name'


def from_primitive(primitive):
    """Return the value with every object primitive in it converted to its object.

    Dicts, lists and tuples are searched; a set becomes a list. Primitives of an unknown object
    name stay unchanged. Raises MalformedObject or IncompatibleObject.
    """
    try:
        return _read_value(primitive)
    except RecursionError:
        raise errors.MalformedObject('message', 'nested too deeply') from None


def _read_value(primitive):
    if isinstance(primitive, dict):
        if is_primitive(primitive):
            return read(primitive)
        return {key: _read_value(value) for key, value in primitive.items()}
    if isinstance(primitive, (list, set, frozenset)):
        return [_read_value(value) for value in primitive]
    if isinstance(primitive, tuple):
        return tuple(_read_value(value) for value in primitive)
    return primitive


class Primitives(list):
    """A list that contains no object, only primitives: ``to_primitive`` returns it as it is."""


def to_primitive(value):
    """Return the value with every object in it converted to its primitive."""
    if isinstance(value, ovo_base.VersionedObject):
        return value.obj_to_primitive()
    if isinstance(value, Primitives):
        return value
    if isinstance(value, dict):
        return {key: to_primitive(item) for key, item in value.items()}
    if isinstance(value, (list, set, frozenset)):
        return [to_primitive(item) for item in value]
    if isinstance(value, tuple):
        return tuple(to_primitive(item) for item in value)
    return value

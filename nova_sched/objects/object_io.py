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
"""

import functools
import json
import logging
import re

from oslo_versionedobjects import base as ovo_base

from nova_sched import errors
from nova_sched.objects import field_io
from nova_sched.objects.field_io import UNKNOWN, Unreadable

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


def is_primitive(value):
    """Returns whether a dict represents an object."""
    return NAME in value or DATA in value


def primitive(name, data):
    """Returns the primitive of an object of the current version, with all set fields marked as
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
    """Returns the object of a primitive, or the primitive itself if its object name is unknown.

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
    """Returns the object of a primitive, or UNKNOWN. Raises Unreadable."""
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
    """Returns the object of a primitive in a field of the Object type ``kind``, or UNKNOWN."""
    result = value if isinstance(value, ovo_base.VersionedObject) else read_object(value)
    if result is UNKNOWN or result.obj_name() == kind._obj_name:
        return result
    if kind._subclasses and any(
        parent.__name__ == kind._obj_name for parent in type(result).__mro__
    ):
        return result
    raise Unreadable(f'an object {kind._obj_name} is required, not {result.obj_name()}')


def _fill(cls, known, data, changes):
    """Returns a new object with the known fields of ``data``."""
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
    except field_io.REFUSALS as bad:
        raise field_io.unreadable(bad).inside(f'.{name}') from None
    try:
        state['_changed_fields'] = {change for change in changes or () if change in known}
    except TypeError:
        raise Unreadable(f'{CHANGES} is not a list of names') from None
    return obj


@functools.lru_cache(maxsize=1024)
def _known_version(cls, version):
    """Returns the version to read an object as, without its micro part, and whether it is newer
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
    """Returns the value with every object primitive in it converted to its object.

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


def to_primitive(value, version=None):
    """Returns the value with every object in it converted to its primitive, in ``version`` if
    given.

    Raises IncompatibleObject for an unknown version.
    """
    if isinstance(value, ovo_base.VersionedObject):
        return value.obj_to_primitive(target_version=version)
    if isinstance(value, Primitives):
        return value
    if isinstance(value, dict):
        return {key: to_primitive(item, version) for key, item in value.items()}
    if isinstance(value, (list, set, frozenset)):
        return [to_primitive(item, version) for item in value]
    if isinstance(value, tuple):
        return tuple(to_primitive(item, version) for item in value)
    return value


def load_json(text, where):
    """Returns the plain value of a JSON text. Raises MalformedObject with the path ``where``."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise errors.MalformedObject(where, 'it is not JSON text') from None


def read_json(text, cls):
    """Returns the object of class ``cls`` in a JSON text. Raises MalformedObject or
    IncompatibleObject."""
    name = cls.obj_name()
    result = read(load_json(text, name), root=name)
    if not isinstance(result, cls):
        raise errors.MalformedObject(name, 'the text holds another object')
    return result


def write_json(value):
    """Returns the JSON text of an object."""
    return json.dumps(value.obj_to_primitive())

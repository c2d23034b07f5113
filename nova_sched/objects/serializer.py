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

"""Converts between messages and objects: finds the objects in nested plain containers."""

from oslo_versionedobjects import base as ovo_base

from nova_sched import errors
from nova_sched.objects import object_io


def from_primitive(primitive):
    """Returns the value with every object primitive in it converted to its object.

    Dicts, lists and tuples are searched; a set becomes a list. Primitives of an unknown object
    name stay unchanged. Raises MalformedObject or IncompatibleObject.
    """
    try:
        return _read(primitive)
    except RecursionError:
        raise errors.MalformedObject('message', 'nested too deeply') from None


def _read(primitive):
    if isinstance(primitive, dict):
        if object_io.is_primitive(primitive):
            return object_io.read(primitive)
        return {key: _read(value) for key, value in primitive.items()}
    if isinstance(primitive, (list, set, frozenset)):
        return [_read(value) for value in primitive]
    if isinstance(primitive, tuple):
        return tuple(_read(value) for value in primitive)
    return primitive


def to_primitive(value, version=None):
    """Returns the value with every object in it converted to its primitive, in ``version`` if
    given.

    Raises IncompatibleObject for an unknown version.
    """
    if isinstance(value, ovo_base.VersionedObject):
        return value.obj_to_primitive(target_version=version)
    if isinstance(value, dict):
        return {key: to_primitive(item, version) for key, item in value.items()}
    if isinstance(value, (list, set, frozenset)):
        return [to_primitive(item, version) for item in value]
    if isinstance(value, tuple):
        return tuple(to_primitive(item, version) for item in value)
    return value

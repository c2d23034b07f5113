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

"""Base classes of the versioned objects, and the registry of all of them."""

import copy
import functools
import operator

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields as ovo_fields

from nova_sched import errors
from nova_sched.objects import fields, object_io


def register(cls):
    """Class decorator: make properties of the fields, and register the class for reading.

    The registry of oslo.versionedobjects is not used, so that Nova's objects can exist in the same
    process.
    """
    ovo_base.VersionedObjectRegistry.objectify(cls)
    for name, field in cls.fields.items():
        setattr(cls, name, _field_property(name, field))
    cls.wire_fields = _wire_fields(cls, newer=False)
    cls.wire_fields_newer = _wire_fields(cls, newer=True)
    cls.wire_writers = tuple(
        (name, f'_obj_{name}', object_io.writing(field)) for name, field in cls.fields.items()
    )
    cls.object_attributes = tuple(
        (name, f'_obj_{name}')
        for name, field in cls.fields.items()
        if isinstance(field, fields.ObjectField)
    )
    object_io.CLASSES[cls.obj_name()] = cls
    return cls


def _field_property(name, field):
    """Return a property that keeps its value in ``_obj_<name>``, as oslo.versionedobjects
    expects.

    Reading an unset field calls ``__getattr__``, as any AttributeError of a property does.
    """
    attribute = f'_obj_{name}'

    def write(self, value):
        value = field.coerce(self, name, value)
        if field.read_only and attribute in self.__dict__:
            if self.__dict__[attribute] != value:
                raise ovo_exception.ReadOnlyFieldError(field=name)
            return
        self._changed_fields.add(name)
        self.__dict__[attribute] = value

    def unset(self):
        del self.__dict__[attribute]

    return property(operator.attrgetter(attribute), write, unset)


def _wire_fields(cls, newer):
    """Return for each field the attribute that holds it, and its reader."""
    return {
        name: (f'_obj_{name}', *object_io.reading(field, newer))
        for name, field in cls.fields.items()
    }


class NovaObject(ovo_base.VersionedObject):
    """An object with Nova's names and versions.

    ``name in obj`` returns whether a field is set. Unset is not null: reading an unset field
    raises an error.
    """

    OBJ_SERIAL_NAMESPACE = object_io.SERIAL_NAMESPACE
    OBJ_PROJECT_NAMESPACE = object_io.NOVA

    # Attributes that an object read from the wire starts with, and the factories of their values.
    wire_start: tuple = ()

    def __getattr__(self, name):
        if name in type(self).fields:
            return self.obj_load_attr(name)
        raise AttributeError(f'{type(self).__name__} has no attribute {name}')

    def __contains__(self, name):
        return f'_obj_{name}' in self.__dict__

    def set_fields(self):
        """Return the set fields with their values; fast even for classes with many fields."""
        return {key[5:]: value for key, value in self.__dict__.items() if key.startswith('_obj_')}

    def __deepcopy__(self, memo):
        clone = memo[id(self)] = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            clone.__dict__[name] = value if name == '_context' else copy.deepcopy(value, memo)
        return clone

    def obj_load_attr(self, attrname):
        """Return the value of an unset field if the class has a rule for it; the field stays
        unset."""
        raise errors.FieldNotSet(f'{self.obj_name()}.{attrname}', 'it is not set')

    def obj_attr_is_set(self, attrname):
        if attrname not in self.fields and attrname not in self.obj_extra_fields:
            raise AttributeError(f'{self.obj_name()} has no attribute {attrname}')
        return f'_obj_{attrname}' in self.__dict__

    def obj_what_changed(self):
        changed = set(self._changed_fields)
        for name, attribute in self.object_attributes:
            value = self.__dict__.get(attribute)
            if value is not None and value.obj_what_changed():
                changed.add(name)
        return changed

    @classmethod
    def obj_from_primitive(cls, primitive, context=None):
        result = object_io.read(primitive)
        if not isinstance(result, NovaObject):
            raise errors.MalformedObject('object', 'its name is not known')
        result._context = context
        return result

    def obj_to_primitive(self):
        """Return the primitive, of the current version."""
        state = self.__dict__
        data = {}
        for name, attribute, write in self.wire_writers:
            if attribute in state:
                value = state[attribute]
                data[name] = value if write is None or value is None else write(value)
        written = {
            object_io.NAME: self.obj_name(),
            object_io.NAMESPACE: self.OBJ_PROJECT_NAMESPACE,
            object_io.VERSION: self.VERSION,
            object_io.DATA: data,
        }
        changed = self.obj_what_changed()
        if changed:
            changed = [name for name in data if name in changed]
        if changed:
            written[object_io.CHANGES] = changed
        return written

    def obj_complete_older(self):
        """Make an object that was read as an older version one of the current version."""


class NovaSchedObject(NovaObject):
    """An object that only this project defines."""

    OBJ_PROJECT_NAMESPACE = object_io.NOVA_SCHED


class EphemeralObject(NovaObject):
    """An object that is never stored separately: fields with a default have it from the start."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.wire_start = tuple(
            (f'_obj_{name}', functools.partial(copy.copy, field.default))
            for name, field in cls.fields.items()
            if field.default is not ovo_fields.UnspecifiedDefault
        )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.obj_set_defaults()


class NovaList(ovo_base.ObjectListBase, NovaObject):
    """A list of objects, in the single field ``objects``."""

    wire_start = (('_obj_objects', list),)


class PersistentMixin:
    """The fields of every record of a database that keeps deleted rows."""

    fields = {
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
        'deleted_at': fields.DateTimeField(nullable=True),
        'deleted': fields.BooleanField(default=False),
    }


class DictCompat(ovo_base.VersionedObjectDictCompat):
    """Also reads fields as keys of a dict."""

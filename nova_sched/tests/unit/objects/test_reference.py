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

"""Our classes have the names, versions and fields of Nova's, field by field."""

import pytest
from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields as ovo_fields

from nova_sched import objects
from nova_sched.objects import base, object_io
from nova_sched.tests.rows import each
from nova_sched.tests.unit.objects import reference

FACTS = reference.facts()
OBJECTS = FACTS['objects']
OURS = {
    name: cls for name, cls in object_io.CLASSES.items() if cls.OBJ_PROJECT_NAMESPACE == 'nova'
}
FIELDS = [
    pytest.param(name, field, id=f'{name}.{field}')
    for name, cls in OURS.items()
    for field in cls.fields
]
# Objects of which only the fields that are read here have a definition.
READ_IN_PART = {'Instance', 'Service'}


def described(kind, nullable=False):
    """A field type in the words of the reference, down to the elements."""
    found = {'type': type(kind).__name__}
    if isinstance(kind, ovo_fields.CompoundFieldType):
        element = kind._element_type
        found['element'] = described(element._type, element.nullable)
    if isinstance(kind, ovo_fields.Object):
        found['object'] = kind._obj_name
        if kind._subclasses:
            found['subclasses'] = True
    if isinstance(kind, ovo_fields.Enum):
        found['valid_values'] = sorted(kind.valid_values)
    if isinstance(kind, ovo_fields.DateTime):
        found['tzinfo_aware'] = kind.tzinfo_aware
    return found | ({'nullable': True} if nullable else {})


def plain(default):
    return sorted(default) if isinstance(default, set) else default


@each('name, field', FIELDS)
def test_a_field_is_as_in_nova(name, field):
    known = dict(OBJECTS[name]['fields'][field])
    for inside_nova in ('base', 'field_class'):
        known.pop(inside_nova, None)
    ours = OURS[name].fields[field]
    has_default = ours.default is not ovo_fields.UnspecifiedDefault
    found = described(ours._type) | {
        'nullable': ours.nullable,
        'read_only': ours.read_only,
        'has_default': has_default,
    }
    assert found | ({'default': plain(ours.default)} if has_default else {}) == known


@each('name', OURS)
def test_an_object_is_as_in_nova(name):
    known, cls = OBJECTS[name], OURS[name]
    assert getattr(objects, name) is cls
    assert cls.obj_name() == name
    assert known['version'] == cls.VERSION
    assert FACTS['_about']['project_namespace'] == cls.OBJ_PROJECT_NAMESPACE
    assert FACTS['_about']['serial_namespace'] == cls.OBJ_SERIAL_NAMESPACE
    assert issubclass(cls, ovo_base.ObjectListBase) == known['is_list']
    assert issubclass(cls, base.EphemeralObject) == known['ephemeral_defaults_set_on_init']
    if name in READ_IN_PART:
        assert set(cls.fields) < set(known['fields'])
        return
    assert set(cls.fields) == set(known['fields'])
    assert issubclass(cls, base.PersistentMixin) == known['persistent_mixin']
    assert issubclass(cls, base.DictCompat) == known['dict_compat']


def test_oslos_registry_is_left_to_others():
    known = ovo_base.VersionedObjectRegistry.obj_classes()
    assert not any(
        cls in object_io.CLASSES.values() for classes in known.values() for cls in classes
    )

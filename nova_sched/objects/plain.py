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

"""Converts plain dicts of an object's fields into the primitive of that object."""

from nova_sched.objects import fields, object_io


def lift(name, value):
    """Returns the primitive of object ``name``; an object or a primitive is returned unchanged.

    Unknown keys are left out.
    """
    if not isinstance(value, dict) or object_io.is_primitive(value):
        return value
    known = object_io.CLASSES[name].fields
    return object_io.primitive(
        name, {key: _lift_field(known[key], item) for key, item in value.items() if key in known}
    )


def _lift_field(field, value):
    if isinstance(field, fields.ObjectField):
        return lift(field.objname, value)
    if isinstance(field, fields.ListOfObjectsField) and isinstance(value, list):
        return [lift(field.objname, item) for item in value]
    return value

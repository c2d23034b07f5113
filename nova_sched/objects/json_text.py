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

"""Objects that travel inside other objects as JSON text."""

import json

from nova_sched import errors
from nova_sched.objects import object_io


def load(text, where):
    """Returns the plain value of a JSON text. Raises MalformedObject with the path ``where``."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise errors.MalformedObject(where, 'it is not JSON text') from None


def read(text, cls):
    """Returns the object of class ``cls`` in a JSON text. Raises MalformedObject or
    IncompatibleObject."""
    name = cls.obj_name()
    found = object_io.read(load(text, name), root=name)
    if not isinstance(found, cls):
        raise errors.MalformedObject(name, 'the text holds another object')
    return found


def write(value):
    """Returns the JSON text of an object."""
    return json.dumps(value.obj_to_primitive())

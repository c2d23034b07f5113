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

"""The recorded data that objects are held against, and what its lists leave open."""

import json
from pathlib import Path

from nova_sched.objects import fields, object_io

FOLDER = Path(__file__).resolve().parents[2] / 'data' / 'reference'
SETS = fields.SetOfIntegersField, fields.SetOfStringsField
WIRE = sorted(path.name for path in (FOLDER / 'wire').glob('*.json'))


def facts():
    """What is known of Nova's objects."""
    return json.loads((FOLDER / 'objects.json').read_text())


def wire(name):
    """One recorded file."""
    return json.loads((FOLDER / 'wire' / name).read_text())


def argument(name, key='spec_obj'):
    """One argument of a recorded call."""
    return wire(name)['message']['args'][key]


def comparable(value):
    """The same with what was a set in order: the changes of an object, and its fields that are
    sets."""
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: comparable(item) for key, item in value.items()}
    if object_io.NAME in value:
        known = getattr(object_io.CLASSES.get(value[object_io.NAME]), 'fields', {})
        for name, item in value[object_io.DATA].items():
            if item and isinstance(known.get(name), SETS):
                value[object_io.DATA][name] = sorted(item)
        if object_io.CHANGES in value:
            value[object_io.CHANGES] = sorted(value[object_io.CHANGES])
    return value

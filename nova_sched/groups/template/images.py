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
"""Images, by name or ID or defined where they are used."""

import uuid

from nova_sched.groups.definition import Image
from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Value, from_plain

FIELDS = ('id', 'name', 'properties', 'disk_format')


class Images:
    """The images that a template may name: plain mappings by name or ID."""

    def __init__(self, scope, catalogue, warnings):
        self._scope = scope
        self._catalogue = catalogue or {}
        self._warnings = warnings
        self._known = {}

    def image(self, scope: Scope, value: Value) -> Image:
        """Returns the image of a server. An undefined image has no properties, which adds a
        warning."""
        value = scope.head(value)
        if isinstance(value.data, dict):
            return _read(scope, value)
        name = scope.text(value)
        if name not in self._known:
            self._known[name] = self._named(name)
        return self._known[name]

    def _named(self, name):
        is_id = _is_uuid(name)
        if name in self._catalogue:
            described = from_plain(self._catalogue[name], f'images.{name}', literal=True)
            return _read(self._scope, described, 'id' if is_id else 'name', name)
        self._warnings.append(
            f'image {name} is not described; it is placed as one without properties'
        )
        return Image(id=name) if is_id else Image(name=name)


def _read(scope, value, key=None, called=None):
    value = scope.mapping(value, FIELDS)
    texts = {key: called} if key else {}
    for field in ('id', 'name', 'disk_format'):
        if (found := scope.get(value, field)) is not None:
            texts[field] = scope.text(found)
    properties = {}
    if (found := scope.get(value, 'properties')) is not None:
        for name, item in scope.mapping(found).data.items():
            properties[name] = scope.plain(item)
            if isinstance(properties[name], dict):
                raise item.wrong(
                    'a property of an image is text, a number or a boolean, not a mapping'
                )
    return Image(**texts, properties=properties)


def _is_uuid(text):
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False

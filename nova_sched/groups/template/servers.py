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
"""The properties of a server that placement reads: size, image, zone, hints, and boot volume."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_sched.groups.definition import Flavor, Image, Member
from nova_sched.groups.template.scope import Scope, meant
from nova_sched.groups.template.types import SERVER_GROUP
from nova_sched.groups.template.values import Reference, Value

READ = (
    'name',
    'flavor',
    'image',
    'availability_zone',
    'scheduler_hints',
    'block_device_mapping',
    'block_device_mapping_v2',
)
OF_HEAT = frozenset(
    'admin_pass admin_user config_drive deployment_swift_data diskConfig flavor_update_policy '
    'image_update_policy key_name metadata networks personality reservation_id security_groups '
    'software_config_transport tags user_data user_data_format user_data_update_policy'.split()
)
SECOND_PHASE = (
    'top_group',
    'member',
    'replan',
    'replace',
)  # the hints by which a server identifies its member


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A Member without its path; ``server_groups``: names of resources that its hints refer to."""

    flavor: Flavor
    image: Image | None
    availability_zone: str | None
    hints: Mapping[str, Any]
    boots_from_volume: bool
    server_groups: tuple[str, ...]

    def member(self, path):
        return Member(
            path,
            self.flavor,
            self.image,
            self.availability_zone,
            self.hints,
            self.boots_from_volume,
        )


class Servers:
    """Reads the properties of servers."""

    def __init__(self, flavors, images, template, warnings):
        self._flavors = flavors
        self._images = images
        self._template = template
        self._warnings = warnings

    def server(self, scope: Scope, properties: Value) -> Server:
        """Reads a server; ignores properties that placement does not need.

        Raises TemplateError for properties that it cannot read.
        """
        properties = scope.mapping(properties)
        self._unknown(properties)
        flavor = self._flavors.flavor(scope, scope.require(properties, 'flavor'))
        image = scope.get(properties, 'image')
        zone = scope.get(properties, 'availability_zone')
        hints, server_groups = self._hints(scope, scope.get(properties, 'scheduler_hints'))
        volume = boot_volume(scope, properties, image)
        if image is None and volume is not None:
            image = scope.get(volume, 'image') or scope.get(volume, 'image_id')
        return Server(
            flavor=flavor,
            image=None if image is None else self._images.image(scope, image),
            availability_zone=None if zone is None else _zone(scope, zone),
            hints=hints,
            boots_from_volume=volume is not None,
            server_groups=server_groups,
        )

    def _unknown(self, properties):
        for key in properties.data:
            if key not in READ and key not in OF_HEAT:
                if hint := meant(key, READ):
                    raise properties.wrong_key(key, f'{key} is no property of a server{hint}')
                self._warnings.append(
                    f'{properties.where}.{key}: no known property of a server; not read'
                )

    def _hints(self, scope, value):
        if value is None:
            return {}, ()
        hints = {}
        groups = ()
        for key, item in scope.mapping(value).data.items():
            if key in SECOND_PHASE:
                continue
            item = scope.head(item)
            if key == 'group' and (groups := self._server_groups(scope, item)):
                continue
            if item.data is not None:
                hints[key] = scope.plain(item)
        return hints, groups

    def _server_groups(self, scope, value):
        """Returns the server groups of the template in the hint ``group``; none if it is a
        UUID."""
        named = scope.items(value) if isinstance(value.data, list) else [value]
        groups = tuple(item.data.name for item in named if isinstance(item.data, Reference))
        for item in named:
            name = item.data.name if isinstance(item.data, Reference) else item.data
            if isinstance(item.data, Reference) and self._template.type_of(name) != SERVER_GROUP:
                raise item.wrong(f'{name} is no {SERVER_GROUP}')
            if isinstance(item.data, str) and self._template.type_of(name) == SERVER_GROUP:
                raise item.wrong(
                    f'the server group {name} of this template is meant by get_resource'
                )
        if groups and len(groups) != len(named):
            raise value.wrong(
                'server groups of the template cannot be combined with other server groups'
            )
        return groups


def _zone(scope, value):
    zone = scope.text(value)
    if ':' in zone:
        raise value.wrong(f'{zone} names a host; a planned member goes where the plan says')
    return zone


def boot_volume(scope, properties, image):
    """Returns the block device that the server boots from, if that is a volume; else None."""
    if image is None and (devices := _devices(scope, properties, 'block_device_mapping')):
        return devices[0]
    for device in _devices(scope, properties, 'block_device_mapping_v2'):
        index = scope.get(device, 'boot_index')
        first = index is not None and scope.integer(index, -1) == 0
        if _is_volume(scope, device) and (first or (index is None and image is None)):
            return device
    return None


def _devices(scope, properties, key):
    listed = scope.get(properties, key)
    return [] if listed is None else [scope.mapping(item) for item in scope.items(listed)]


def _is_volume(scope, device):
    """The volume's source may be unknown until it is created; it is enough that there is one."""
    sources = ('volume_id', 'snapshot_id', 'image', 'image_id')
    return any(_is_given(scope, device.data[key]) for key in sources if key in device.data)


def _is_given(scope, value):
    if isinstance(value.data, dict) and [*value.data] in (['get_resource'], ['get_attr']):
        return True
    return scope.head(value).data is not None

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
"""Servers, the flavors and images that they ask for, and the catalogs with these."""

import functools
import os
import uuid
from collections.abc import Mapping
from typing import Any

from nova_sched import errors, words
from nova_sched.groups.definition import Image, Member, MemberFlavor
from nova_sched.groups.template import source
from nova_sched.groups.template.resources import SERVER_GROUP_TYPE
from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Reference, Value, from_plain
from nova_sched.words import suggestion

# Name in a template -> name in a flavor. Some fields may also have the names that nova_sched's
# objects use.
COUNTS = {
    'vcpus': 'vcpus',
    'ram': 'memory_mb',
    'memory_mb': 'memory_mb',
    'disk': 'root_gb',
    'root_gb': 'root_gb',
    'ephemeral': 'ephemeral_gb',
    'ephemeral_gb': 'ephemeral_gb',
    'swap': 'swap',
}
LEAST = {'vcpus': 1, 'memory_mb': 1}
MAX_SPEC = 255  # characters of an extra spec's name and of its text, as Nova's API has it
FLAVOR_FIELDS = (*COUNTS, 'name', 'extra_specs')


class Catalogue:
    """What a template may name: plain mappings by name, each read when first used.

    ``read(scope, value, name)`` returns what a mapping describes; without a name, one of the
    template itself. ``unknown(value, name, given)`` returns what has no description, or raises.
    """

    def __init__(self, where, given, literal, read, unknown):
        if given is not None and (
            not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given)
        ):
            raise errors.TemplateError(where, None, None, 'a mapping from names is wanted')
        self._where, self._given, self._literal = where, given or {}, literal
        self._read, self._unknown = read, unknown
        self._known = {}

    def get(self, scope: Scope, value: Value) -> Any:
        """Return what a server asks for. Raises TemplateError."""
        value = scope.head(value)
        if isinstance(value.data, dict):
            return self._read(scope, value, None)
        name = scope.name(value)
        if (named := self.named(name)) is None:
            named = self._known[name] = self._unknown(value, name, self._given)
        return named

    def named(self, name: str | None) -> Any:
        """Return what a name stands for; None if it is not known. Raises TemplateError."""
        if name not in self._known and name in self._given:
            described = from_plain(self._given[name], f'{self._where}.{name}', literal=True)
            self._known[name] = self._read(self._literal, described, name)
        return self._known.get(name)


def _read_flavor(scope, value, name):
    value = scope.mapping(value, FLAVOR_FIELDS)
    counts = {}
    for key, field in COUNTS.items():
        if (amount := scope.get_nonempty(value, key)) is not None:
            if field in counts:
                raise value.wrong_key(key, f'{key} sets the same property as another key')
            counts[field] = scope.integer(amount, LEAST.get(field, 0))
    for field, key in (('vcpus', 'vcpus'), ('memory_mb', 'ram')):
        if field not in counts:
            raise value.wrong(f'{key} is missing')
    named, specs = scope.get(value, 'name'), scope.get(value, 'extra_specs')
    return MemberFlavor(
        **counts,
        name=name if named is None else scope.name(named),
        extra_specs={} if specs is None else _specs(scope, specs),
    )


def flavors_of(literal, sent, catalogue, is_operator):
    """Return the Catalogue of the flavors that servers ask for: those of the template and those
    ``sent`` along, then those of the ``catalogue`` of the cloud.

    Unless the caller ``is_operator``, the first two have extra specs that are for operators only
    as far as the flavor of the same name has them in the catalogue.
    """
    known = Catalogue('flavors', catalogue, literal, _read_flavor, None)
    read = _read_flavor if is_operator else functools.partial(_read_permitted_flavor, known)
    return Catalogue(
        'flavors', sent, literal, read, functools.partial(_flavor_not_sent, known, catalogue or {})
    )


def _read_permitted_flavor(known, scope, value, name):
    flavor = _read_flavor(scope, value, name)
    same = known.named(flavor.name)
    own = {} if same is None else same.extra_specs
    for key, text in flavor.extra_specs.items():
        if own.get(key) != text and (why := words.why_of_operators(key)):
            specs = scope.mapping(scope.get(scope.mapping(value), 'extra_specs'))
            raise specs.wrong_key(key, why)
    return flavor


def _flavor_not_sent(known, catalogue, value, name, sent):
    flavor = known.named(name)
    if flavor is None:
        hint = suggestion(name, [*sent, *catalogue])
        raise value.wrong(f'there is no flavor {name} here{hint}')
    return flavor


def _specs(scope, value):
    """Return the extra specs as strings, as Nova stores them: numbers and booleans are
    converted."""
    specs = {}
    for key, item in _permitted(scope, value, words.EXTRA_SPEC):
        if len(key) > MAX_SPEC:
            raise value.wrong_key(
                key, f'the name of an extra spec has at most {MAX_SPEC} characters'
            )
        plain = scope.plain(item)
        if isinstance(plain, list | dict | None):
            raise item.wrong(f'an extra spec is text, not {scope.head(item).kind}')
        specs[key] = str(plain).lower() if isinstance(plain, bool) else str(plain)
        if len(specs[key]) > MAX_SPEC:
            raise item.wrong(f'an extra spec has at most {MAX_SPEC} characters')
    return specs


OPTION = '[groups] flavors'


def flavors_of_file(path):
    """Return the flavors by name, as a template would define them.

    The file is read again when it changes. Without a path there are no flavors. Raises BadConfig.
    """
    if not path:
        return {}
    try:
        about = os.stat(path)
        return _parsed(path, about.st_mtime_ns, about.st_size, about.st_ino)
    except (OSError, ValueError) as error:
        raise errors.BadConfig(OPTION, f'{path} cannot be read: {error}') from None


@functools.lru_cache(maxsize=4)
def _parsed(path, *_version):
    try:
        with open(path, encoding='utf-8') as file:
            document = source.plain(file.read())
    except errors.TemplateError as error:
        raise errors.BadConfig(OPTION, f'{path}: {error.fault}') from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(
        isinstance(entry, dict) for entry in document.values()
    ):
        raise errors.BadConfig(OPTION, f'{path} is not a mapping from names to flavors')
    return document


IMAGE_FIELDS = ('id', 'name', 'properties', 'disk_format')


def _read_image(scope, value, name):
    value = scope.mapping(value, IMAGE_FIELDS)
    texts = _called(name) if name else {}
    for field in ('id', 'name', 'disk_format'):
        if (text := scope.get(value, field)) is not None:
            texts[field] = scope.name(text)
    properties = {}
    if (listed := scope.get(value, 'properties')) is not None:
        for name, item in _permitted(scope, listed, words.IMAGE_PROPERTY):
            properties[name] = scope.plain(item)
            if isinstance(properties[name], dict):
                raise item.wrong(
                    'a property of an image is text, a number or a boolean, not a mapping'
                )
    return Image(**texts, properties=properties)


def _permitted(scope, value, kind):
    """Yield the names of a mapping with their Values. Raises TemplateError for a name that is for
    internal use."""
    mapping = scope.mapping(value)
    for name, item in mapping.data.items():
        if why := words.why_internal(kind, name):
            raise mapping.wrong_key(name, why)
        yield name, item


def _unknown_image(warnings, _value, name, _given):
    warnings.append(f'image {name} is not described; it is placed as one without properties')
    return Image(**_called(name))


def _called(name):
    """Return the field of an image that its name in the template is."""
    try:
        uuid.UUID(name)
    except ValueError:
        return {'name': name}
    return {'id': name}


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


class Servers:
    """Reads the properties of servers. ``flavors`` is a Catalogue; ``images`` are plain mappings
    by name, or None. An undefined image has no properties, which adds a warning."""

    def __init__(self, literal, flavors, images, template, warnings):
        self._flavors = flavors
        unknown = functools.partial(_unknown_image, warnings)
        self._images = Catalogue('images', images, literal, _read_image, unknown)
        self._template = template
        self._warnings = warnings

    def server(self, scope: Scope, properties: Value) -> tuple[Member, tuple[str, ...]]:
        """Return a Member without its path, and the names of the resources that are its server
        groups.

        Ignores properties that placement does not need.
        Raises TemplateError for properties that it cannot read.
        """
        properties = scope.mapping(properties)
        for key in properties.data:
            if key not in READ and key not in OF_HEAT:
                scope.work.spend(10, properties)
                if hint := suggestion(key, READ):
                    raise properties.wrong_key(key, f'{key} is not a property of a server{hint}')
                self._warnings.append(
                    f'{properties.where}.{key}: no known property of a server; not read'
                )
        flavor = self._flavors.get(scope, scope.require(properties, 'flavor'))
        image = scope.get_nonempty(properties, 'image')
        zone = scope.get_nonempty(properties, 'availability_zone')
        hints, server_groups = self._hints(scope, scope.get(properties, 'scheduler_hints'))
        volume = boot_volume(scope, properties, image)
        if image is None and volume is not None:
            image = scope.get(volume, 'image') or scope.get(volume, 'image_id')
        image = None if image is None else self._images.get(scope, image)
        zone_name = None
        if zone is not None:
            zone_name = scope.name(zone)
            if ':' in zone_name:
                raise zone.wrong(
                    f'{zone_name} names a host; a planned member goes where the plan says'
                )
        member = Member(
            path='',
            flavor=flavor,
            image=image,
            availability_zone=zone_name,
            hints=hints,
            boots_from_volume=volume is not None,
        )
        return member, server_groups

    def _hints(self, scope, value):
        if value is None:
            return {}, ()
        hints = {}
        groups = ()
        for key, item in _permitted(scope, value, words.HINT):
            if key in SECOND_PHASE:
                continue
            item = scope.head(item)
            if key == 'group' and (groups := self._server_groups(scope, item)):
                continue
            if item.data is not None:
                hints[key] = scope.plain(item)
        return hints, groups

    def _server_groups(self, scope, value):
        """Return the server groups of the template in the hint ``group``; none if it is a UUID."""
        named = scope.items(value) if isinstance(value.data, list) else [value]
        groups = tuple(item.data.name for item in named if isinstance(item.data, Reference))
        for item in named:
            name = item.data.name if isinstance(item.data, Reference) else item.data
            if (
                isinstance(item.data, Reference)
                and self._template.type_of(name) != SERVER_GROUP_TYPE
            ):
                raise item.wrong(f'{name} is not an {SERVER_GROUP_TYPE}')
            if isinstance(item.data, str) and self._template.type_of(name) == SERVER_GROUP_TYPE:
                raise item.wrong(
                    f'the server group {name} of this template is meant by get_resource'
                )
        if groups and len(groups) != len(named):
            raise value.wrong(
                'server groups of the template cannot be combined with other server groups'
            )
        return groups


def boot_volume(scope, properties, image):
    """Return the block device that the server boots from, if that is a volume; else None."""
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
    return any(
        (isinstance(value.data, dict) and [*value.data] in (['get_resource'], ['get_attr']))
        or scope.head(value).data is not None
        for value in (device.data[key] for key in sources if key in device.data)
    )

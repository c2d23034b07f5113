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
"""Reads the servers that take hints from a placement group.

The result is a template in the scheduler's template language.
"""

from collections.abc import Mapping

from heat.engine import function, node_data, stk_defn
from heat.engine.plugins.top_group_contents import Contents, telling, wrong

VERSION = '2018-08-31'
HINTS = 'hints'
TOP_GROUP, MEMBER, REPLACE = OWN = 'top_group', 'member', 'replace'
UNNAMED = 'the-group-to-be'  # placeholder for the UUID until it exists
PLAIN = ('flavor', 'image', 'availability_zone')
DEVICES = ('block_device_mapping', 'block_device_mapping_v2')
SOURCES = ('volume_id', 'snapshot_id', 'image', 'image_id')
PLACE_OF_DEVICE = ('device_name', 'boot_index')


class StackReader:
    """One reading of a stack, for the placement group that is a resource of it.

    ``existing``: resources of the stack in their current state, by name. ``indices``: those of
    members of scaling groups, by the group's name, if they differ from the template. ``strict``:
    the servers' descriptions must be known; otherwise unknown values are left out.
    """

    def __init__(self, top_group, existing=None, indices=None, strict=True):
        stack = top_group.stack
        self._top_group = top_group
        self._uuid = top_group.resource_id or UNNAMED
        self._strict = strict
        # A copy, in which the group's attributes have values before the group exists.
        self.defn = stack.defn.clone_with_new_template(stack.t, stack.identifier())
        self.name = top_group.name
        self.existing = existing or {}
        self.indices = indices or {}
        self.flavors: set[str] = set()
        self.images: set[str] = set()
        # The path of each member follows from the groups alone. The hints need the path. The
        # parameters of nested stacks and the set of members need the hints.
        self._tell({})
        self.paths = Contents(self, self.defn, stack).paths()
        self._tell(hints(self.paths, self._uuid))
        resources = Contents(self, self.defn, stack).resources()
        self.template = {'heat_template_version': VERSION, 'resources': resources}

    def _tell(self, known):
        """Make ``known`` the result of get_attr for ``hints`` of the group, anywhere in the
        stack."""
        attributes = {
            attribute: selected(known, _path(attribute)) if _path(attribute)[0] == HINTS else None
            for attribute in self._top_group.referenced_attrs(self.defn, in_outputs=False)
        }
        group = self._top_group
        data = node_data.NodeData(
            group.id, group.name, group.uuid, self._uuid, attributes, group.CREATE, group.COMPLETE
        )
        stk_defn.update_resource_data(self.defn, group.name, data)

    def takes_hints(self, definition):
        """Return whether a resource of the stack itself mentions the group's hints."""
        return any(_path(attribute)[0] == HINTS for attribute in definition.dep_attrs(self.name))

    def server(self, data, path, contents):
        """Return the properties of a server that placement reads, from its ``data``; None if it
        is not a member."""
        given = function.resolve(data.get('scheduler_hints'))
        if not isinstance(given, Mapping) or given.get(TOP_GROUP) != self._uuid:
            return None
        if given.get(MEMBER) != path:
            raise wrong(f'The server {path} has the hints of {given.get(MEMBER)}.')
        read = {}
        for key in PLAIN:
            if data.get(key) is None:
                continue
            value = function.resolve(data[key])
            if value is not None:
                read[key] = value
            elif self._strict:
                raise wrong(
                    f'The {key} of {path} comes from a resource that is created after {self.name}.'
                )
        if self._strict and 'flavor' not in read:
            raise wrong(f'The flavor of {path} is not known.')
        for key in DEVICES:
            if devices := [_device(device) for device in data.get(key) or ()]:
                read[key] = devices
        others = {key: value for key, value in given.items() if key not in OWN}
        if others.get('group') is not None:
            others['group'] = contents.server_group(others['group'])
        if others:
            read['scheduler_hints'] = others
        if 'flavor' in read:
            self.flavors.add(str(read['flavor']))
        images = [read.get('image')]
        for key in DEVICES:
            for device in read.get(key, ()):
                images += [device.get('image'), device.get('image_id')]
        self.images.update(str(image) for image in images if image)
        return read


def _device(device):
    """Return the source and purpose of a block device; a placeholder stands for its volume."""
    read = {}
    for key in (*SOURCES, *PLACE_OF_DEVICE):
        value = device.get(key)
        resolved = function.resolve(value)
        if (
            resolved is None
            and value is not None
            and any(True for _ in function.dependencies(value))
        ):
            resolved = 'not created yet'
        if resolved is not None:
            read[key] = resolved
    return read


def hints(paths, uuid):
    """Return the scheduler hints of each member, from the tree of paths.

    A server that Heat replaces exists until its replacement does. Until then both are the member.
    """
    if isinstance(paths, str):
        return {TOP_GROUP: uuid, MEMBER: paths, REPLACE: 'true'}
    return {name: hints(inner, uuid) for name, inner in paths.items()}


def selected(tree, path):
    """Return the value in a tree of hints at ``hints`` and the names after it; None if there is
    none."""
    for name in path[1:]:
        tree = tree.get(str(name)) if isinstance(tree, Mapping) else None
    return tree


def needed(top_group):
    """Return the names of the resources that describe the servers, without those that wait for
    the group."""
    stack = top_group.stack
    definitions = {
        name: stack.defn.resource_definition(name) for name in stack.defn.enabled_rsrc_names()
    }
    waiting = {top_group.name}
    while more := {
        name
        for name, definition in definitions.items()
        if name not in waiting and not waiting.isdisjoint(definition.required_resource_names())
    }:
        waiting |= more
    names = set()
    for name, definition in definitions.items():
        if any(_path(attribute)[0] == HINTS for attribute in definition.dep_attrs(top_group.name)):
            said = telling(stack.env, name, definition, [*PLAIN, 'scheduler_hints'])
            names.update(proxy.name for proxy in function.dependencies(said))
    return names - waiting


def _path(attribute):
    return (attribute,) if isinstance(attribute, str) else attribute

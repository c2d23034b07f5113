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
"""The place of each member: groups within groups, down to servers, by path.

A top-level resource that no group lists has its name as its path. An item that a group lists or
contains has the group's path, a slash and its name. An item that a group repeats has the group's
path, a slash and a number from 0.
"""

import dataclasses

from nova_sched.groups.definition import Member
from nova_sched.groups.template.resources import (
    DEFINITION,
    GROUP_TYPE,
    PLACED,
    REPEATING,
    RESOURCE_GROUP_TYPE,
    SCALING_GROUP_TYPE,
    SERVER_TYPE,
    Item,
    checked_name,
    item,
)
from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Reference, Value

RESOURCE_GROUP = (
    'count',
    'index_var',
    'resource_def',
    'removal_policies',
    'removal_policies_mode',
)
SCALING_GROUP = (
    'resource',
    'min_size',
    'max_size',
    'desired_capacity',
    'cooldown',
    'rolling_updates',
)
INDEX = '%index%'


def repeated(resource: Item, scope: Scope, most: int) -> tuple[tuple[str, ...], Value, str | None]:
    """Return the names of the members of a repeating group, at most ``most``; their definition;
    and the variable that the name replaces in it, or None. Raises TemplateError."""
    is_indexed = resource.type != SCALING_GROUP_TYPE
    if resource.type == RESOURCE_GROUP_TYPE:
        properties = scope.mapping(resource.properties, RESOURCE_GROUP)
        counted = scope.get(properties, 'count')
        count = 1 if counted is None else _count(scope, counted, most)
        removed: set[str] = set()  # as in {removal_policies: [{resource_list: ['1']}]}
        listed = scope.get(properties, 'removal_policies')
        for policy in [] if listed is None else scope.items(listed):
            named = scope.get(scope.mapping(policy, ('resource_list',)), 'resource_list')
            if named is not None:
                removed.update(scope.text(name) for name in scope.items(named))
        # As Heat names them: the first numbers that are not removed.
        numbers = map(str, range(count + len(removed)))
        names = tuple(name for name in numbers if name not in removed)[:count]
    else:
        keys = (*SCALING_GROUP, 'index_var') if is_indexed else SCALING_GROUP
        properties = scope.mapping(resource.properties, keys)
        smallest, largest = (scope.require(properties, key) for key in ('min_size', 'max_size'))
        low, high = scope.integer(smallest), scope.integer(largest)
        if low > high:
            raise smallest.wrong(f'min_size {low} is above max_size {high}')
        counted = scope.get(properties, 'desired_capacity') or smallest
        count = _count(scope, counted, most)
        if not low <= count <= high:
            raise counted.wrong(f'{count} is not within {low} and {high}')
        names = tuple(map(str, range(count)))
    definition, variable = scope.require(properties, REPEATING[resource.type]), None
    if is_indexed:
        named = scope.get(properties, 'index_var')
        variable = INDEX if named is None else scope.text(named, least=3)
    return names, definition, variable


def _count(scope, value, most):
    count = scope.integer(value)
    if count > most:
        raise value.wrong(f'{count} members; a group may have {most}')
    return count


LEVELS = 20  # groups within groups
PATH = 255  # characters
GROUP = ('members', 'policies', 'relations', 'overlay')
INLINE = ('name', *DEFINITION, *GROUP)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PlacedGroup:
    """A group at its place: ``properties`` as read in ``scope``, and the paths of its members."""

    path: str
    properties: Value
    scope: Scope
    members: tuple[str, ...]


class MemberTree:
    """Builds ``members`` and ``groups`` by path from the resources of a template."""

    def __init__(self, resources, servers, scope, max_members):
        self._resources = resources
        self._servers = servers
        self._scope = scope
        self._most = max_members
        self._most_groups = 4 * max_members + LEVELS
        self._described = {}
        self._parents = {}  # name of a resource -> (group that lists it, where)
        self._entries = {}
        self.members: dict[str, Member] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.placed: list[
            PlacedGroup
        ] = []  # groups that may have policies, from the outer to the inner
        self.overlays: list[tuple[str, Item]] = []
        self.of: dict[str, tuple[str, ...]] = {}  # name of a resource -> paths of its members
        self._path_of: dict[str, str] = {}
        self.server_groups: dict[str, list[str]] = {}

    def grow(self):
        """Place all resources. Raises TemplateError."""
        present = self._resources.present()
        for name, resource in present:
            if _is_overlay(resource, self._scope):
                self.overlays.append((name, resource))
            elif resource.type == GROUP_TYPE:
                self._claim(resource, name)
        for name, _ in present:
            if name not in self._parents and self.is_placed(name):
                self._place_resource(name, name)
        for name, (group, at) in self._parents.items():
            if name not in self.of:
                chain = [name]
                while group not in chain:
                    chain.append(group)
                    group, _ = self._parents[group]
                circle = [*chain[chain.index(group) :], group]
                raise at.wrong(f'groups in a circle: {" in ".join(circle)}')

    def below(self, path):
        """Return the members at a path, or None. The path may begin with the name of any
        resource."""
        first, slash, rest = path.partition('/')
        path = self._path_of.get(first, first) + slash + rest
        return (path,) if path in self.members else self.groups.get(path)

    def is_placed(self, name):
        """Return whether the resource is a member, or a group that has a place."""
        resource = self._resources[name]
        return self._holds_servers(resource, self._scope) and not _is_overlay(
            resource, self._scope
        )

    def _claim(self, resource, group):
        """Record which resources the group lists, at any depth."""
        for entry in self._listed(resource.properties, self._scope):
            if isinstance(entry.data, dict):
                inner = self._inline(entry, self._scope)
                if inner.type == GROUP_TYPE:
                    self._claim(inner, group)
                continue
            name = self._named(entry)
            if not self._resources.is_known(name, entry):
                continue
            if name in self._parents:
                first, _ = self._parents[name]
                raise entry.wrong(
                    f'{name} is a member of {first} already; it has one place (see overlay)'
                )
            self._parents[name] = (group, entry)

    def _named(self, entry):
        """Return the resource that an entry of members names. It must be one that can be a
        member."""
        name = entry.data.name if isinstance(entry.data, Reference) else self._scope.text(entry)
        self._resources.is_known(name, entry)
        if not self.is_placed(name):
            kind = self._resources.type_of(name)
            raise entry.wrong(f'{name} ({kind}) is neither a server nor a group with a place')
        return name

    def _listed(self, properties, scope):
        """Return the listed members of a group that will exist, read once if no index can change
        them."""
        if not scope.indexes and properties in self._entries:
            return self._entries[properties]
        entries = scope.items(scope.require(scope.mapping(properties, GROUP), 'members'))
        if not scope.indexes:
            self._entries[properties] = entries
        return entries

    # placing

    def _place_resource(self, name, path):
        self._path_of[name] = path
        self.of[name] = self._place(self._resources[name], path, self._scope)
        return self.of[name]

    def _place(self, resource, path, scope):
        """Return the paths of the members that ``resource`` adds at this path."""
        if path in self.members or path in self.groups:
            raise resource.at.wrong(f'there is a member or a group {path} already')
        if len(path) > PATH or path.count('/') >= LEVELS:
            raise resource.at.wrong(
                f'the path {path[:50]}... is longer than {PATH}, or {LEVELS} groups deep'
            )
        if resource.type == SERVER_TYPE:
            return self._place_server(resource, path, scope)
        if len(self.groups) >= self._most_groups:
            raise resource.at.wrong(f'more than {self._most_groups} groups')
        self.groups[path] = ()
        if resource.type == GROUP_TYPE:
            members = self._place_group(resource, path, scope)
        else:
            members = self._place_repeated(resource, path, scope)
        self.groups[path] = members
        return members

    def _place_server(self, resource, path, scope):
        """Members of a group share a server that does not use an index."""
        if len(self.members) >= self._most:
            raise resource.at.wrong(f'more than {self._most} members')
        described = self._described.get(resource.properties)
        if described is None:
            if 'external_id' in resource.at.data:
                raise resource.at.wrong_key(
                    'external_id', 'the server exists already; it cannot be planned'
                )
            scope.used_index = False
            described = self._servers.server(scope, resource.properties)
            if not scope.used_index:
                self._described[resource.properties] = described
        member, server_groups = described
        self.members[path] = dataclasses.replace(member, path=path)
        for group in server_groups:
            self.server_groups.setdefault(group, []).append(path)
        return (path,)

    def _place_group(self, resource, path, scope):
        if _is_overlay(resource, scope):
            raise resource.at.wrong('only a separate resource can be an overlay')
        place = len(self.placed)
        members = []
        for entry in self._listed(resource.properties, scope):
            if isinstance(entry.data, dict):
                inner = self._inline(entry, scope)
                name = checked_name(scope.text(scope.require(entry, 'name')), entry)
                members += self._place(inner, f'{path}/{name}', scope)
            elif scope.indexes:
                raise entry.wrong('a repeated group cannot list a resource, which has one place')
            else:
                name = self._named(entry)
                if self._resources.is_known(name, entry):
                    members += self._place_resource(name, f'{path}/{name}')
        self.placed.insert(place, PlacedGroup(path, resource.properties, scope, tuple(members)))
        return tuple(members)

    def _inline(self, entry, scope):
        """Return an inline member: a server, or a group with or without its type."""
        entry = scope.mapping(entry, INLINE)
        scope.require(entry, 'name')
        if 'type' in entry.data:
            inner = item(scope, scope.mapping(entry, ('name', *DEFINITION)), ('name', *DEFINITION))
        else:
            own = {key: value for key, value in entry.data.items() if key in GROUP}
            properties = Value(own, entry.where, entry.line, entry.column, entry.keys)
            inner = Item(GROUP_TYPE, properties, entry)
        if not self._holds_servers(inner, scope):
            raise entry.wrong(f'{inner.type} is neither a server nor a group of servers')
        return inner

    def _place_repeated(self, resource, path, scope):
        names, definition, variable = repeated(resource, scope, self._most)
        inner = item(scope, definition, DEFINITION)
        members = []
        for name in names:
            members += self._place(inner, f'{path}/{name}', scope.within(variable, name))
        return tuple(members)

    def _holds_servers(self, resource, scope):
        """Return whether it is a server or a group of such, judged by its type."""
        while resource.type in REPEATING:
            properties = scope.mapping(resource.properties)
            resource = item(scope, scope.require(properties, REPEATING[resource.type]), DEFINITION)
        return resource.type in PLACED


def _is_overlay(resource, scope):
    if resource.type != GROUP_TYPE:
        return False
    overlay = scope.get(scope.mapping(resource.properties, GROUP), 'overlay')
    return overlay is not None and scope.boolean(overlay)

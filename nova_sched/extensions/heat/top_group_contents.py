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
"""The resources of one stack, including nested ones, as placement sees them."""

import copy
from collections.abc import Mapping

from heat.common import exception
from heat.engine import function, resource, rsrc_defn
from heat.engine.hot import functions
from heat.engine.plugins import top_group_types
from heat.engine.resources import template_resource
from heat.engine.resources.openstack.heat import autoscaling_group, resource_group
from heat.engine.resources.openstack.nova import server, server_group
from heat.scaling import template


def wrong(message):
    """Return the error to raise for a stack whose servers cannot be planned as one group."""
    return exception.StackValidationFailed(message=message)


# The names are those of the scheduler's template language.
SERVER, SERVER_GROUP = 'OS::Nova::Server', 'OS::Nova::ServerGroup'
RESOURCE_GROUP, SCALING_GROUP = 'OS::Heat::ResourceGroup', 'OS::NovaSched::AutoScalingGroup'
GROUP, RELATION = 'OS::NovaSched::Group', 'OS::NovaSched::Relation'
NESTED, DEAF = 'nested stack', 'OS::Heat::AutoScalingGroup'
CLASSES = (
    (server.Server, SERVER),
    (server_group.ServerGroup, SERVER_GROUP),
    (resource_group.ResourceGroup, RESOURCE_GROUP),
    (top_group_types.AutoScalingGroup, SCALING_GROUP),
    (autoscaling_group.AutoScalingResourceGroup, DEAF),
    (top_group_types.GroupDeclaration, GROUP),
    (top_group_types.RelationDeclaration, RELATION),
    (template_resource.TemplateResource, NESTED),
)
HOLDING = (SERVER, RESOURCE_GROUP, SCALING_GROUP, NESTED, DEAF)
PLACED = (*HOLDING, GROUP)
REPEATED = {RESOURCE_GROUP: 'resource_def', SCALING_GROUP: 'resource', DEAF: 'resource'}


def kind_of(env, resource_type, name=None):
    """Return the kind of a resource of this type; None if it does not matter for placement."""
    class_ = env.get_class_to_instantiate(resource_type, name)
    return next((kind for base, kind in CLASSES if issubclass(class_, base)), None)


def properties_of(definition):
    """Return the properties as the template has them, without resolving functions."""
    return definition.properties({}).data


def telling(env, name, definition, properties):
    """Return the part of a resource's properties that describes its servers; ``properties``: a
    server's."""
    said = properties_of(definition)
    kind = kind_of(env, definition.resource_type, name)
    if kind == SERVER:
        return {key: said.get(key) for key in properties}
    repeated = said.get(REPEATED.get(kind))
    inner = repeated.get('properties') if isinstance(repeated, Mapping) else None
    if isinstance(inner, Mapping) and kind_of(env, repeated['type']) == SERVER:
        return {**said, REPEATED[kind]: {key: inner.get(key) for key in properties}}
    return said


class Repeats:
    """``type`` and ``properties`` of the repeated resource, in which ``variable`` stands for one
    of ``indices``.

    ``one`` is the resource that repeats, ``known`` its current state, if it exists. ``indices``
    are given if they differ from those of the stack's template.
    """

    def __init__(self, group, known=None, indices=None):
        self._one = group
        if isinstance(group, top_group_types.AutoScalingGroup):
            definition = group.properties[group.RESOURCE]
            self.variable = top_group_types.INDEX
            self.indices = indices or [str(index) for index in (known or group).indices_to_be()]
        else:
            definition = group.get_resource_def()
            self.variable = group.properties[group.INDEX_VAR]
            removed = _removed(known or group)
            names = (str(number) for number in range(group.get_size() + len(removed)))
            self.indices = [name for name in names if name not in removed][: group.get_size()]
        self.type = definition['type']
        self.properties = definition.get('properties') or {}
        self._metadata = definition.get('metadata')

    def of_servers(self, properties):
        """Return the properties of a ResourceGroup of servers with these properties, in the
        scheduler's template language."""
        taken = {int(index) for index in self.indices}
        gaps = [str(index) for index in range(max(taken, default=0)) if index not in taken]
        return {
            'count': len(self.indices),
            'index_var': self.variable,
            'resource_def': {'type': SERVER, 'properties': properties},
            **({'removal_policies': [{'resource_list': gaps}]} if gaps else {}),
        }

    def stack(self, names):
        """Return a nested stack of these members, parsed as for a preview."""
        members = [
            (
                name,
                rsrc_defn.ResourceDefinition(name, self.type, self._named(name), self._metadata),
            )
            for name in names
        ]
        title = f'{self._one.stack.name}-{self._one.name}'
        stack = self._one._parse_nested_stack(
            title, template.make_template(members), self._one.child_params()
        )
        stack.preview_resources()
        return stack

    def _named(self, name):
        return top_group_types.substituted(copy.deepcopy(self.properties), self.variable, name)


def _removed(group: resource_group.ResourceGroup):
    """Return the names that a ResourceGroup has used up, including those of its next update."""
    removed = set(group.get_attribute(group.REMOVED_RSRC_LIST))
    more = {*group._get_new_skiplist_entries(group.properties, removed)}
    if group.properties[group.REMOVAL_POLICIES_MODE] == group.REMOVAL_POLICY_UPDATE:
        return more
    return removed | more


SIDES = ('between', 'from', 'to')


class Contents:
    """The resources of a stack whose members have paths that begin with ``prefix``.

    The stack of the placement group has neither prefix nor ``outer``, and its member lists use
    names. Other stacks are nested in ``outer`` and have been parsed for a preview. Their members
    are described in place. ``called``: the names of resources in paths, where they differ from
    the resource names.
    """

    def __init__(self, reader, defn, stack, prefix='', outer=None, called=None):
        self._reader = reader
        self._stack = stack
        self._prefix = prefix
        self._outer = outer
        self._called = called or {}
        # Of nested stacks: resources that are not in a group.
        self._lifted = {} if outer is None else outer._lifted
        self._definitions = {
            name: defn.resource_definition(name) for name in sorted(defn.enabled_rsrc_names())
        }
        self._kinds = {
            name: kind_of(stack.env, definition.resource_type, name)
            for name, definition in self._definitions.items()
        }
        self._by_reference = {defn[name].FnGetRefId(): name for name in self._definitions}
        self._objects = {}
        self._nested = {}
        self._entries = {}
        # name of a member -> path of the groups that list it
        self._parents = {}
        for name, kind in self._kinds.items():
            if kind == GROUP and not self._is_overlay(name):
                self._note_parents(self._said(name)['members'], (name,))

    def paths(self):
        """Return the path of each server by the name of its resource; a resource with several
        servers has a tree of such mappings.

        For repeated resources, the index variable stands for the index.
        """
        paths = {}
        for name in filter(self._may_have_members, self._definitions):
            if self._kinds[name] == SERVER:
                paths[name] = self._path(name)
            elif self._kinds[name] == NESTED:
                paths[name] = self._within(name).paths()
            else:
                repeats = self._repeats(name)
                if self._repeats_servers(repeats):
                    paths[name] = f'{self._path(name)}/{repeats.variable}'
                else:
                    member = self._within(name, repeats.stack(['0']), {'0': repeats.variable})
                    paths[name] = member.paths()['0']
        return paths

    def resources(self):
        """Return all resources of the group, as the resources of a template."""
        entries = {name: self._entry(name) for name in self._definitions}
        return {
            **{name: resource for name, resource in entries.items() if resource is not None},
            **self._lifted,
        }

    def described(self):
        """Return the same as members of a group that describes them itself."""
        entries = {name: self._entry(name) for name in self._definitions}
        return [
            {'name': name, **resource}
            for name, resource in entries.items()
            if resource is not None and name not in self._parents and self._kinds[name] in PLACED
        ]

    def server_group(self, reference):
        """Return the group of a hint that refers to a server group of this or an outer stack;
        otherwise the hint unchanged."""
        if isinstance(reference, list):
            return [self.server_group(part) for part in reference]
        name = self._by_reference.get(reference)
        if self._kinds.get(name) == SERVER_GROUP:
            said = self._symbolic(properties_of(self._definitions[name]))
            properties = {key: said[key] for key in ('policies', 'rules') if said.get(key)}
            self._lifted[self._lifted_name(name)] = {
                'type': SERVER_GROUP,
                'properties': properties,
            }
            return {'get_resource': self._lifted_name(name)}
        return reference if self._outer is None else self._outer.server_group(reference)

    # paths

    def _may_have_members(self, name):
        kind = self._kinds[name]
        if kind not in HOLDING:
            return False
        # A nested stack gets hints as a parameter, and its resources do not mention the group.
        if self._outer is None and not self._reader.takes_hints(self._definitions[name]):
            return False
        if kind == DEAF or (kind == SCALING_GROUP and self._outer is not None):
            where = '' if self._outer is None else ' of the stack that the placement group is in'
            raise wrong(
                f'{self._path(name)} cannot be scaled with its group; '
                f'use an {SCALING_GROUP}{where}.'
            )
        return True

    def _path(self, name, below=()):
        if name in below:
            raise wrong(f'The group {name} is a member of itself.')
        above, *between = self._parents.get(name, (None,))
        outside = self._prefix if above is None else self._path(above, (*below, name))
        return '/'.join([*filter(None, [outside]), *between, self._called.get(name, name)])

    def _note_parents(self, members, above):
        for member in members:
            if 'members' in member:
                self._note_parents(member['members'], (*above, member.get('name')))
            elif (name := member['get_resource']) in self._parents:
                raise wrong(f'{name} is a member of both {self._parents[name][0]} and {above[0]}.')
            else:
                self._parents[name] = above

    # descriptions

    def _entry(self, name):
        """Return the resource in the scheduler's template language; None if the group does not
        include it."""
        if name not in self._entries:
            self._entries[name] = None  # for a nested request: a resource does not contain itself
            kind = self._kinds[name]
            if kind == GROUP:
                self._entries[name] = self._group(name)
            elif kind == RELATION:
                self._entries[name] = self._relation(name)
            elif self._may_have_members(name):
                self._entries[name] = self._holder(name, kind)
        return self._entries[name]

    def _holder(self, name, kind):
        if kind == NESTED:
            return _group_of(self._within(name).described())
        if kind == SERVER:
            read = self._reader.server(
                properties_of(self._definitions[name]), self._path(name), self
            )
            return read and {'type': SERVER, 'properties': read}
        repeats = self._repeats(name)
        if not self._repeats_servers(repeats):
            return _group_of(self._within(name, repeats.stack(repeats.indices)).described())
        read = self._reader.server(
            repeats.properties, f'{self._path(name)}/{repeats.variable}', self
        )
        return read and {
            'type': RESOURCE_GROUP,
            'properties': repeats.of_servers(read),
        }

    def _group(self, name):
        said = self._said(name)
        if not self._are_ours(_names(said['members']), name):
            return None
        group = {'type': GROUP, 'properties': said}
        if self._outer is None:
            return group
        if self._is_overlay(name):
            self._lifted[self._lifted_name(name)] = group
            said['members'] = self._elsewhere(said['members'])
            return None
        said['members'] = self._members(said['members'])
        if said.get('relations'):
            said['relations'] = [
                self._sides(relation, self._elsewhere) for relation in said['relations']
            ]
        return group

    def _members(self, members):
        """Return the members of a group in a nested stack, with all known data about them."""
        return [
            {**member, 'members': self._members(member['members'])}
            if 'members' in member
            else {'name': member['get_resource'], **self._entry(member['get_resource'])}
            for member in members
        ]

    def _relation(self, name):
        said = self._sides(
            self._symbolic(properties_of(self._definitions[name])), self._references
        )
        if not self._are_ours(_names([said[key] for key in SIDES if key in said]), name):
            return None
        if self._outer is None:
            return {'type': RELATION, 'properties': said}
        said = self._sides(said, self._elsewhere)
        self._lifted[self._lifted_name(name)] = {'type': RELATION, 'properties': said}
        return None

    def _are_ours(self, names, owner):
        """Return whether the resources belong to the group: all of them, or none."""
        known = [name for name in names if name in self._definitions]
        ours = [name for name in known if self._is_ours(name)]
        if ours and len(ours) < len(known):
            stranger = next(name for name in known if name not in ours)
            raise wrong(f'{owner} names {stranger}, which has no hints of {self._reader.name}.')
        return bool(ours)

    def _is_ours(self, name):
        if self._kinds[name] == GROUP and self._is_overlay(name):
            return any(
                self._is_ours(member)
                for member in _names(self._said(name)['members'])
                if member != name
            )
        return self._entry(name) is not None

    # properties of a declaration

    def _said(self, name):
        """Return the properties of a group, with its members as mappings."""
        said = self._symbolic(properties_of(self._definitions[name]))
        said['members'] = self._references(said.get('members') or [])
        if said.get('relations'):
            said['relations'] = [
                self._sides(relation, self._references) for relation in said['relations']
            ]
        for member in said['members']:
            if not isinstance(member, dict) or not {'get_resource', 'members'} & {*member}:
                raise wrong(f'{name} has a member that is not a resource of the stack: {member}.')
        return said

    def _is_overlay(self, name):
        return (
            str(function.resolve(properties_of(self._definitions[name]).get('overlay'))).lower()
            == 'true'
        )

    def _symbolic(self, value):
        """Return the value with its functions resolved, except get_resource."""
        if isinstance(value, functions.GetResource):
            return {'get_resource': function.resolve(value.args)}
        if isinstance(value, function.Function):
            return function.resolve(value)
        if isinstance(value, dict):
            return {key: self._symbolic(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._symbolic(item) for item in value]
        return value

    def _references(self, value):
        """Return members or sides, with get_resource for each resource of the stack."""
        if isinstance(value, list):
            return [self._references(item) for item in value]
        if isinstance(value, dict) and 'members' in value:
            return {**value, 'members': self._references(value['members'])}
        if isinstance(value, str) and value in self._by_reference:
            return {'get_resource': self._by_reference[value]}
        return value

    def _elsewhere(self, value):
        """Return members or sides of this nested stack, with their names as seen from outside."""
        if isinstance(value, list):
            return [self._elsewhere(item) for item in value]
        if isinstance(value, dict) and (name := value.get('get_resource')):
            lifted = self._kinds.get(name) == GROUP and self._is_overlay(name)
            return {'get_resource': self._lifted_name(name)} if lifted else self._path(name)
        return value

    @staticmethod
    def _sides(relation, change):
        return {key: change(value) if key in SIDES else value for key, value in relation.items()}

    def _lifted_name(self, name):
        return '.'.join([*filter(None, [self._prefix.replace('/', '.')]), name])

    # contents of a resource

    def _object(self, name):
        """Return the resource itself; for a nested stack, the one that was previewed with it."""
        if self._outer is not None:
            return self._stack[name]
        if name not in self._objects:
            self._objects[name] = resource.Resource(name, self._definitions[name], self._stack)
            if self._kinds[name] == NESTED:
                self._objects[name].preview()
        return self._objects[name]

    def _within(self, name, stack=None, called=None):
        """Return the contents of the stack in a resource."""
        stack = stack or self._object(name).nested()
        self._nested[name] = stack  # keeps a reference: it must not be freed while it is read
        return Contents(self._reader, stack.defn, stack, self._path(name), self, called)

    def _repeats(self, name):
        known = self._reader.existing.get(name) if self._outer is None else None
        return Repeats(self._object(name), known, self._reader.indices.get(name))

    def _repeats_servers(self, repeats):
        return kind_of(self._stack.env, repeats.type) == SERVER


def _group_of(members):
    return {'type': GROUP, 'properties': {'members': members}}


def _names(value):
    """Return the names of the resources in members or sides, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, dict):
        if 'get_resource' in value:
            yield value['get_resource']
        yield from _names(value.get('members', []))

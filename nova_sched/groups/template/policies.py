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
"""The constraints on members in a template: policies, relations, and Nova's server groups."""

from nova_sched.groups import definition
from nova_sched.groups.template.resources import RELATION_TYPE, SERVER_GROUP_TYPE
from nova_sched.groups.template.values import Reference

OF_KIND = {  # properties that a policy may have in addition to its level
    definition.AFFINITY: (),
    definition.ANTI_AFFINITY: ('max_per_domain',),
    definition.SPREAD: ('min_domains', 'max_skew'),
    definition.EXCLUSIVE: (),
}
POLICY = ('type', 'level', 'required', 'weight', 'max_per_domain', 'min_domains', 'max_skew')
RELATION = ('type', 'level', 'required', 'weight', 'between', 'from', 'to')
SERVER_GROUP = ('name', 'policies', 'rules')
OF_NOVA = {  # policy of a server group -> kind, weight
    'affinity': (definition.AFFINITY, None),
    'anti-affinity': (definition.ANTI_AFFINITY, None),
    'soft-affinity': (definition.AFFINITY, 1.0),
    'soft-anti-affinity': (definition.ANTI_AFFINITY, 1.0),
}
ANTI_AFFINITY = 'anti-affinity'  # Heat's default
HEAVIEST = 1_000_000


class Policies:
    """Collects the policies of a complete tree."""

    def __init__(self, tree, resources, scope, levels, most, warnings):
        self._tree = tree
        self._resources = resources
        self._scope = scope
        self._levels = levels
        self._most = most
        self._warnings = warnings
        self._policies = {}

    def all(self):
        """Return policies in the order of groups, overlays, server groups, relations.

        Raises TemplateError.
        """
        for group in self._tree.placed:
            self._of_group(group.path, group.properties, group.scope, group.members)
        for name, resource in self._tree.overlays:
            # Relations may name an overlay, too.
            entries = self._scope.items(self._scope.require(resource.properties, 'members'))
            self._tree.of[name] = self._union(entries, self._scope, '')
            self._of_group(name, resource.properties, self._scope, self._tree.of[name])
        for name, resource in self._resources.present():
            if resource.type == SERVER_GROUP_TYPE:
                self._server_group(name, resource)
        for name, resource in self._resources.present():
            if resource.type == RELATION_TYPE:
                self._relation(name, resource.properties, self._scope, '')
        return tuple(self._policies.values())

    def _of_group(self, path, properties, scope, members):
        properties = scope.mapping(properties)
        listed = scope.get(properties, 'policies')
        for value in [] if listed is None else scope.items(listed):
            self._policy(path, value, scope, members)
        listed = scope.get(properties, 'relations')
        for number, value in enumerate([] if listed is None else scope.items(listed)):
            self._relation(f'{path} relation {number}', value, scope, path)

    def _policy(self, path, value, scope, members):
        value = scope.mapping(value, POLICY)
        kind = scope.word(scope.require(value, 'type'), OF_KIND)
        more = {}
        for key in POLICY[4:]:
            if (number := scope.get(value, key)) is not None:
                if key not in OF_KIND[kind]:
                    raise value.wrong_key(key, f'{key} is nothing that {kind} asks for')
                more[key] = scope.integer(number, 0 if key == 'max_skew' else 1)
        if kind == definition.SPREAD and not more:
            raise value.wrong('min_domains or max_skew is missing')
        limits = {
            'most': more.get('max_per_domain', 1),
            'min_domains': more.get('min_domains', 1),
            'max_skew': more.get('max_skew'),
        }
        self._add(
            path, kind, self._level(scope, value), _weight(scope, value), members, value, **limits
        )

    def _level(self, scope, value):
        return scope.word(scope.require(value, 'level'), self._levels)

    def _add(self, owner, kind, level, weight, a, at, b=(), **more):
        name = f'{owner}: {kind} at {level}' + ('' if weight is None else ', preferred')
        if name in self._policies:
            raise at.wrong(f'{name} is asked for twice')
        if len(self._policies) >= self._most:
            raise at.wrong(f'more than {self._most} policies')
        policy = definition.GroupPolicy(name, kind, level, tuple(a), tuple(b), weight, **more)
        if policy.a:
            self._policies[name] = policy

    # Nova's

    def _server_group(self, name, resource):
        properties = self._scope.mapping(resource.properties, SERVER_GROUP)
        listed = self._scope.get(properties, 'policies')
        policy = ANTI_AFFINITY
        if listed is not None:
            named = self._scope.items(listed)
            if len(named) != 1:
                raise properties.wrong_key('policies', 'a server group has one policy')
            policy = self._scope.word(named[0], OF_NOVA)
        kind, weight = OF_NOVA[policy]
        most, rules = 1, self._scope.get(properties, 'rules')
        if rules is not None:
            rules = self._scope.mapping(rules, ('max_server_per_host',))
            per_host = self._scope.get(rules, 'max_server_per_host')
            if per_host is not None:
                if kind != definition.ANTI_AFFINITY or weight is not None:
                    raise rules.wrong('max_server_per_host is for anti-affinity')
                most = self._scope.integer(per_host, 1)
        members = self._tree.server_groups.get(name, ())
        if not members:
            self._warnings.append(
                f'resources.{name}: no member has this server group in its hints'
            )
        self._add(name, kind, 'host', weight, members, resource.at, most=most)

    # relations

    def _relation(self, owner, value, scope, path):
        """``path``: the group of the relation. Relations and their group name members in the same
        way."""
        value = scope.mapping(value, RELATION)
        kind = scope.word(scope.require(value, 'type'), sorted(definition.RELATIONS))
        a, b = (self._union(side, scope, path) for side in _sides(scope, value))
        level, weight = self._level(scope, value), _weight(scope, value)
        if both := sorted({*a} & {*b}):
            raise value.wrong(f'{both[0]} is on both sides')
        if kind == definition.NEAR and a and not b:
            self._warnings.append(
                f'{value.where}: there is nothing to be near to, so it asks for nothing'
            )
        if b:
            self._add(owner, kind, level, weight, a, value, b)

    def _union(self, entries, scope, path):
        members = {}
        for entry in entries:
            named = self._named(entry, scope, path)
            scope.work.spend(len(named) // 50, entry)
            members.update(dict.fromkeys(named))
        return tuple(members)

    def _named(self, entry, scope, path):
        """Return members by the name of a resource or by a path, which may begin at the group
        ``path``."""
        tree = self._tree
        name = entry.data.name if isinstance(entry.data, Reference) else scope.text(entry)
        if path and not isinstance(entry.data, Reference):
            inner = tree.below(f'{path}/{name}')
            if inner is not None:
                return inner
        first = name.partition('/')[0]
        if self._resources.type_of(first) and not self._resources.is_known(first, entry):
            return ()
        if '/' in name:
            members = tree.below(name)
            if members is None:
                raise entry.wrong(f'there is no member and no group {name}')
            return members
        if not self._resources.is_known(name, entry) or name not in tree.of:
            raise entry.wrong(f'{name} is neither a member nor a group of members')
        return tree.of[name]


def _sides(scope, value):
    """Return the two sides of a relation, each a list of entries."""
    between = scope.get(value, 'between')
    if between is None:
        sides = [scope.require(value, key) for key in ('from', 'to')]
    elif 'from' in value.data or 'to' in value.data:
        raise value.wrong('between, or from and to, but not both')
    else:
        sides = scope.items(between)
        if len(sides) != 2:
            raise between.wrong(f'a relation is between 2, not {len(sides)}')
    return [scope.items(side) if isinstance(side.data, list) else [side] for side in sides]


def _weight(scope, value):
    """Return None for a required policy, else the cost of each breach."""
    required, weight = scope.get(value, 'required'), scope.get(value, 'weight')
    if weight is None:
        return None if required is None or scope.boolean(required) else 1.0
    if required is not None and scope.boolean(required):
        raise value.wrong_key('weight', 'a required policy has no weight')
    number = scope.number(weight)
    if not 0 < number <= HEAVIEST:
        raise weight.wrong(f'a weight is above 0 and at most {HEAVIEST}')
    return float(number)

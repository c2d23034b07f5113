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
"""The resource types besides TopGroup: groups of servers, relations, and scaling with an index.

The stack's placement group reads the declarations from the template; they have no effect of
their own.
"""

import json
import re
import uuid

from heat.engine import constraints, properties, resource, rsrc_defn
from heat.engine import stack as stacks
from heat.engine.resources.openstack.heat import autoscaling_group

Schema = properties.Schema
LEVEL = Schema(
    Schema.STRING,
    'Level of the topology: host, rack, room, zone, or a level that the operator defines.',
    required=True,
)
REQUIRED = Schema(Schema.BOOLEAN, 'Whether it must be kept; true unless there is a weight.')
WEIGHT = Schema(Schema.NUMBER, 'Cost of each violation; makes the policy preferred.')
POLICY = {
    'type': Schema(
        Schema.STRING,
        'What is asked of the members.',
        required=True,
        constraints=[
            constraints.AllowedValues(['affinity', 'anti-affinity', 'spread', 'exclusive'])
        ],
    ),
    'level': LEVEL,
    'required': REQUIRED,
    'weight': WEIGHT,
    'max_per_domain': Schema(
        Schema.INTEGER, 'Of anti-affinity: members that one domain may hold.'
    ),
    'min_domains': Schema(Schema.INTEGER, 'Of spread: domains to use.'),
    'max_skew': Schema(
        Schema.INTEGER, 'Of spread: difference between the fullest and the emptiest domain.'
    ),
}
RELATION_TYPES = constraints.AllowedValues(['near', 'apart'])


class Declaration(resource.Resource):
    """A declaration whose creation has no effect.

    The stack's placement group reads it from the template.
    """

    # A resource that mentions a group need not wait until the group's servers exist.
    strict_dependency = False

    def handle_create(self):
        self.resource_id_set(str(uuid.uuid4()))

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        """Does nothing: the placement group has already read the new declaration."""

    def needs_replace_failed(self):
        return self.resource_id is None


class GroupDeclaration(Declaration):
    """Servers of this stack, or groups of them, and the policies for their hosts."""

    properties_schema = {
        'members': Schema(
            Schema.LIST,
            'Resources of this stack, by get_resource or by name: servers, resource groups, '
            'scaling groups, nested stacks, other groups. A mapping with a name and members is a '
            'group inside this one.',
            required=True,
            update_allowed=True,
        ),
        'policies': Schema(
            Schema.LIST,
            'Policies of the members.',
            schema=Schema(Schema.MAP, schema=POLICY),
            update_allowed=True,
        ),
        'relations': Schema(Schema.LIST, 'Relations between members.', update_allowed=True),
        'overlay': Schema(
            Schema.BOOLEAN,
            'Whether it only adds policies to members whose place is in other groups.',
            update_allowed=True,
        ),
    }


class RelationDeclaration(Declaration):
    """A placement constraint between the hosts of two sets of members."""

    properties_schema = {
        'type': Schema(
            Schema.STRING,
            'near or apart.',
            required=True,
            constraints=[RELATION_TYPES],
            update_allowed=True,
        ),
        'level': Schema(Schema.STRING, LEVEL.description, required=True, update_allowed=True),
        'required': Schema(Schema.BOOLEAN, REQUIRED.description, update_allowed=True),
        'weight': Schema(Schema.NUMBER, WEIGHT.description, update_allowed=True),
        'between': Schema(
            Schema.ANY, 'The two sides, where order does not matter.', update_allowed=True
        ),
        'from': Schema(Schema.ANY, 'The side that is to be near, or apart.', update_allowed=True),
        'to': Schema(
            Schema.ANY, 'The side that it is to be near to, or apart from.', update_allowed=True
        ),
    }


INDEX = '%index%'
INDICES = 'indices'


class AutoScalingGroup(autoscaling_group.AutoScalingResourceGroup):
    """An OS::Heat::AutoScalingGroup in whose resource ``%index%`` stands for the number of a
    member.

    A member gets the lowest free number when it is created, and keeps it. When the group grows,
    the stack's placement group is updated first: the new members get places, or are not created.
    """

    def indices(self):
        """Return the number of each member by its name, from 0."""
        return json.loads(self.data().get(INDICES) or '{}')

    def indices_to_be(self):
        """Return all numbers during an update of the stack's template: of remaining, removed and
        new members."""
        taken = set(self.indices().values())
        size = self.properties[self.DESIRED_CAPACITY] or (
            len(taken) if taken else self.properties[self.MIN_SIZE]
        )
        size = self._get_new_capacity(len(taken), size)
        return sorted(taken | set(_free(taken, size - len(taken))))

    def _get_resource_definition(self):
        definition = super()._get_resource_definition()
        return RepeatedDefinition(
            definition.name, definition.resource_type, definition._properties, definition._metadata
        )

    def _create_template(self, *args, **kwargs):
        template = super()._create_template(*args, **kwargs)
        members, had = template.t.get(template.RESOURCES, {}), self.indices()
        kept = {name: had[name] for name in members if name in had}
        fresh = [name for name in members if name not in had]
        self._given = kept | dict(zip(fresh, _free({*had.values()}, len(fresh)), strict=True))
        for name, index in self._given.items():
            members[name] = substituted(members[name], INDEX, str(index))
        return template

    def create_with_template(self, *args, **kwargs):
        self.data_set(INDICES, json.dumps(self._given))
        return super().create_with_template(*args, **kwargs)

    def update_with_template(self, *args, **kwargs):
        self._tell({**self.indices(), **self._given})
        self.data_set(INDICES, json.dumps(self._given))
        return super().update_with_template(*args, **kwargs)

    def resize(self, capacity):
        super().resize(capacity)
        self._tell(self.indices())

    def _tell(self, indices):
        """Pass the new member indices to the placement groups of the stack."""
        stack = stacks.Stack.load(self.context, self.stack.id)
        for member in stack.resources.values():
            if hasattr(member, 'follow'):
                member.follow(self.name, [str(index) for index in sorted(indices.values())])


class RepeatedDefinition(rsrc_defn.ResourceDefinition):
    """The definition of all members. It equals one with a number, so that a rolling update does
    not touch that member."""

    def __eq__(self, other):
        return _alike(self.render_hot(), other.render_hot())

    def __ne__(self, other):
        return not self == other

    __hash__ = rsrc_defn.ResourceDefinition.__hash__


def substituted(value, variable, index):
    """Return the value with the index in place of the variable."""
    if isinstance(value, str):
        return value.replace(variable, index)
    if isinstance(value, dict):
        return {key: substituted(item, variable, index) for key, item in value.items()}
    if isinstance(value, list):
        return [substituted(item, variable, index) for item in value]
    return value


def _alike(pattern, value):
    if isinstance(pattern, str) and isinstance(value, str):
        return re.fullmatch(r'\d+'.join(map(re.escape, pattern.split(INDEX))), value) is not None
    if isinstance(pattern, dict) and isinstance(value, dict):
        return pattern.keys() == value.keys() and all(
            _alike(pattern[key], value[key]) for key in pattern
        )
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(_alike, pattern, value))
    return pattern == value


def _free(taken, count):
    """Return the lowest free numbers."""
    return [number for number in range(len(taken) + max(count, 0)) if number not in taken][
        : max(count, 0)
    ]

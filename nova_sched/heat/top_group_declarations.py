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
"""Resources that only declare something: groups of servers with their policies, and relations
between them."""

import uuid

from heat.engine import constraints, properties, resource

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
    """A declaration without an effect of its creation; the stack's top group reads it from the
    template."""

    # A resource that mentions a group need not wait until the group's servers exist.
    strict_dependency = False

    def handle_create(self):
        self.resource_id_set(str(uuid.uuid4()))

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        """Does nothing: the top group has already read the new declaration."""

    def needs_replace_failed(self):
        return self.resource_id is None


class Group(Declaration):
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


class Relation(Declaration):
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

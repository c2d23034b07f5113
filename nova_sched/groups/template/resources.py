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
"""The types of resources, the resources of a template by name, and its conditions."""

import dataclasses
import re
from collections.abc import Collection

from nova_sched.groups.template.functions import condition
from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Value
from nova_sched.words import suggestion

FIELDS = (
    'type',
    'properties',
    'condition',
    'metadata',
    'depends_on',
    'update_policy',
    'deletion_policy',
    'external_id',
    'description',
)
# Of a member of a group that repeats its definition.
DEFINITION = ('type', 'properties', 'metadata')
NAME = 255  # characters

SERVER_TYPE = 'OS::Nova::Server'
SERVER_GROUP_TYPE = 'OS::Nova::ServerGroup'
RESOURCE_GROUP_TYPE = 'OS::Heat::ResourceGroup'
SCALING_GROUP_TYPE = 'OS::Heat::AutoScalingGroup'
INDEXED_SCALING_GROUP_TYPE = (
    'OS::NovaSched::AutoScalingGroup'  # a group with an index, like a ResourceGroup
)
GROUP_TYPE = 'OS::NovaSched::Group'
RELATION_TYPE = 'OS::NovaSched::Relation'
REPEATING = {  # type -> the property with the repeated definition
    RESOURCE_GROUP_TYPE: 'resource_def',
    SCALING_GROUP_TYPE: 'resource',
    INDEXED_SCALING_GROUP_TYPE: 'resource',
}
READ_TYPES = (SERVER_TYPE, SERVER_GROUP_TYPE, *REPEATING, GROUP_TYPE, RELATION_TYPE)
PLACED = (SERVER_TYPE, *REPEATING, GROUP_TYPE)

# All types of these namespaces are known, so that a misspelled type does not omit a server.
_CLOSED = {
    'OS::Nova::': 'Flavor FloatingIP FloatingIPAssociation HostAggregate KeyPair Quota'.split(),
    'OS::NovaSched::': ['TopGroup'],  # the resource with which a stack registers its group
    'OS::Heat::': (
        'AccessPolicy CloudConfig Delay DeployedServer HARestarter InstanceGroup '
        'MultipartMime None RandomString ResourceChain ScalingPolicy SoftwareComponent '
        'SoftwareConfig SoftwareDeployment SoftwareDeploymentGroup SoftwareDeployments Stack '
        'StructuredConfig StructuredDeployment StructuredDeploymentGroup '
        'StructuredDeployments SwiftSignal SwiftSignalHandle TestResource '
        'UpdateWaitConditionHandle Value WaitCondition WaitConditionHandle'
    ).split(),
}
# They create servers that are not visible to the group.
UNSEEN = frozenset(
    'AWS::AutoScaling::AutoScalingGroup AWS::CloudFormation::Stack AWS::EC2::Instance '
    'OS::Heat::InstanceGroup OS::Heat::ResourceChain OS::Heat::Stack OS::Magnum::Cluster '
    'OS::Sahara::Cluster OS::Senlin::Cluster OS::Trove::Cluster OS::Trove::Instance'.split()
)
_TYPE = re.compile(r'\w+(::[\w.]+)+')
_NESTED = re.compile(r'(?i)(file|https?)://.*|.*\.(ya?ml|template|json)')


def known_type(scope: Scope, value: Value) -> str:
    """Return the type of a resource; raises TemplateError for an invalid one."""
    name = scope.text(value)
    if name in READ_TYPES:
        return name
    if _NESTED.fullmatch(name):
        raise value.wrong(
            f'{name} is another template; its resources cannot be placed together with this'
        )
    if not _TYPE.fullmatch(name):
        raise value.wrong(f'{name} is not a type of resource{suggestion(name, READ_TYPES)}')
    for space, names in _CLOSED.items():
        if name.lower().startswith(space.lower()) and name not in [
            space + suffix for suffix in names
        ]:
            raise value.wrong(f'there is no type {name}{suggestion(name, READ_TYPES)}')
    if name.lower() in [read_type.lower() for read_type in READ_TYPES]:
        raise value.wrong(f'there is no type {name}{suggestion(name, READ_TYPES)}')
    return name


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A resource, or a nested item in the form of one: its type and properties.

    ``at``: its position.
    """

    type: str
    properties: Value
    at: Value


def item(scope: Scope, value: Value, fields: Collection[str]) -> Item:
    """Return an item that has a type and optional properties. Raises TemplateError."""
    value = scope.mapping(value, fields)
    kind = known_type(scope, scope.require(value, 'type'))
    properties = value.data.get('properties')
    if properties is None or properties.data is None:
        properties = Value({}, f'{value.where}.properties', value.line, value.column)
    return Item(kind, properties, value)


def checked_name(name: str, at: Value, key: str | None = None) -> str:
    """Return a name that can be part of a path; raises TemplateError for an invalid one."""
    why = None
    if not 1 <= len(name) <= NAME:
        why = f'a name has 1 to {NAME} characters'
    elif '/' in name or not name.isprintable() or ' ' in name:
        why = f'the name {name!r} has a slash, a blank or a control character'
    if why:
        raise at.wrong(why) if key is None else at.wrong_key(key, why)
    return name


class Resources:
    """Items by name, with their conditions. ``declared``: the mapping, or None."""

    def __init__(self, scope, literal, declared):
        self._scope = scope
        self._declared = declared.data if declared else {}
        self._items = {}
        self._present = {}
        for name, value in self._declared.items():
            checked_name(name, declared, name)
            self._items[name] = item(literal, value, FIELDS)

    def is_known(self, name, at):
        """Return whether the resource will exist: False if its condition is false.

        Raises TemplateError.
        """
        if name not in self._items:
            raise at.wrong(f'there is no resource {name}{suggestion(name, self._items)}')
        if name not in self._present:
            held = self._declared[name].data.get('condition')
            self._present[name] = held is None or condition(self._scope, held)
        return self._present[name]

    def type_of(self, name):
        """Return the type of a resource; None for an unknown name."""
        return self._items[name].type if name in self._items else None

    def __getitem__(self, name: str) -> Item:
        return self._items[name]

    def present(self):
        """Yield (name, Item) for the resources that will exist."""
        return [
            (name, resource)
            for name, resource in self._items.items()
            if self.is_known(name, resource.at)
        ]


class Conditions:
    """Evaluates a condition when first asked for. ``declared``: the mapping, or None."""

    def __init__(self, scope, declared):
        self._scope = scope
        self._declared = declared.data if declared else {}
        self._known = {}

    def holds(self, value):
        """Return whether the condition that the value names is true."""
        name = value.data
        if name not in self._known:
            if name not in self._declared:
                raise value.wrong(f'there is no condition {name}')
            self._scope.work.enter(self._declared[name])
            self._known[name] = condition(self._scope, self._declared[name])
            self._scope.work.depth -= 1
        return self._known[name]

    def check(self):
        """Evaluate all conditions, so that errors in unused ones are reported too."""
        for name, value in self._declared.items():
            self.holds(value.holding(name))

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
"""Groups that repeat one definition: the number of members, and their names."""

import dataclasses

from nova_sched.groups.template import types
from nova_sched.groups.template.resources import Item
from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Value

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


@dataclasses.dataclass(frozen=True, slots=True)
class Repeated:
    """``names`` of members; in ``definition`` the name replaces ``variable``, if that is not
    None."""

    names: tuple[str, ...]
    definition: Value
    variable: str | None


def repeated(one: Item, scope: Scope, most: int) -> Repeated:
    """Returns the members of a repeating group, at most ``most``. Raises TemplateError."""
    if one.type == types.RESOURCE_GROUP:
        return _resource_group(one, scope, most)
    return _scaling_group(one, scope, most)


def _resource_group(one, scope, most):
    properties = scope.mapping(one.properties, RESOURCE_GROUP)
    counted = scope.get(properties, 'count')
    count = 1 if counted is None else _count(scope, counted, most)
    return Repeated(
        names=_names(count, _removed(scope, properties)),
        definition=scope.require(properties, 'resource_def'),
        variable=_variable(scope, properties),
    )


def _scaling_group(one, scope, most):
    indexed = one.type == types.INDEXED_SCALING_GROUP
    properties = scope.mapping(
        one.properties, (*SCALING_GROUP, 'index_var') if indexed else SCALING_GROUP
    )
    smallest, largest = (scope.require(properties, key) for key in ('min_size', 'max_size'))
    low, high = scope.integer(smallest), scope.integer(largest)
    if low > high:
        raise smallest.wrong(f'min_size {low} is above max_size {high}')
    counted = scope.get(properties, 'desired_capacity') or smallest
    count = _count(scope, counted, most)
    if not low <= count <= high:
        raise counted.wrong(f'{count} is not within {low} and {high}')
    return Repeated(
        names=_names(count, ()),
        definition=scope.require(properties, 'resource'),
        variable=_variable(scope, properties) if indexed else None,
    )


def _variable(scope, properties):
    variable = scope.get(properties, 'index_var')
    return INDEX if variable is None else scope.text(variable, least=3)


def _count(scope, value, most):
    count = scope.integer(value)
    if count > most:
        raise value.wrong(f'{count} members; a group may have {most}')
    return count


def _names(count, removed):
    """Returns the first ``count`` numbers from 0 that are not removed, with the names that Heat
    gives."""
    numbers = (str(number) for number in range(count + len(removed)))
    return tuple(name for name in numbers if name not in removed)[:count]


def _removed(scope, properties):
    """Returns names of members to remove, regardless of the count.

    The form is ``removal_policies: [{resource_list: ['1']}]``.
    """
    names: set[str] = set()
    listed = scope.get(properties, 'removal_policies')
    for policy in [] if listed is None else scope.items(listed):
        named = scope.get(scope.mapping(policy, ('resource_list',)), 'resource_list')
        names.update(scope.text(item) for item in ([] if named is None else scope.items(named)))
    return names

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
"""The members that a ResourceGroup or an AutoScalingGroup repeats, and their indices."""

import copy

from heat.engine import rsrc_defn
from heat.engine.plugins import top_group_scaling
from heat.engine.resources.openstack.heat import resource_group
from heat.scaling import template


class Repeats:
    """``type`` and ``properties`` of the repeated resource, in which ``variable`` stands for one
    of ``indices``.

    ``one`` is the resource that repeats, ``known`` its current state, if it exists. ``indices``
    are given if they differ from those of the stack's template.
    """

    def __init__(self, one, known=None, indices=None):
        self._one = one
        if isinstance(one, top_group_scaling.AutoScalingGroup):
            definition = one.properties[one.RESOURCE]
            self.variable = top_group_scaling.INDEX
            self.indices = indices or [str(index) for index in (known or one).indices_to_be()]
        else:
            definition = one.get_resource_def()
            self.variable = one.properties[one.INDEX_VAR]
            removed = _removed(known or one)
            names = (str(number) for number in range(one.get_size() + len(removed)))
            self.indices = [name for name in names if name not in removed][: one.get_size()]
        self.type = definition['type']
        self.properties = definition.get('properties') or {}
        self._metadata = definition.get('metadata')

    def of_servers(self, kind, properties):
        """Returns the properties of a ResourceGroup of such servers, in the scheduler's template
        language."""
        taken = {int(index) for index in self.indices}
        gaps = [str(index) for index in range(max(taken, default=0)) if index not in taken]
        return {
            'count': len(self.indices),
            'index_var': self.variable,
            'resource_def': {'type': kind, 'properties': properties},
            **({'removal_policies': [{'resource_list': gaps}]} if gaps else {}),
        }

    def stack(self, names):
        """Returns a nested stack of these members, parsed as for a preview."""
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
        return top_group_scaling.substituted(copy.deepcopy(self.properties), self.variable, name)


def _removed(group: resource_group.ResourceGroup):
    """Returns the names that a ResourceGroup has used up, including those of its next update."""
    removed = set(group.get_attribute(group.REMOVED_RSRC_LIST))
    more = {*group._get_new_skiplist_entries(group.properties, removed)}
    if group.properties[group.REMOVAL_POLICIES_MODE] == group.REMOVAL_POLICY_UPDATE:
        return more
    return removed | more

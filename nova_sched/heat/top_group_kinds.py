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
"""The meaning of a stack's resources for placement, regardless of their type names in the
environment."""

from collections.abc import Mapping

from heat.engine.plugins import top_group_declarations, top_group_scaling
from heat.engine.resources import template_resource
from heat.engine.resources.openstack.heat import autoscaling_group, resource_group
from heat.engine.resources.openstack.nova import server, server_group

# The names are those of the scheduler's template language.
SERVER, SERVER_GROUP = 'OS::Nova::Server', 'OS::Nova::ServerGroup'
RESOURCE_GROUP, SCALING_GROUP = 'OS::Heat::ResourceGroup', 'OS::NovaSched::AutoScalingGroup'
GROUP, RELATION = 'OS::NovaSched::Group', 'OS::NovaSched::Relation'
NESTED, DEAF = 'nested stack', 'OS::Heat::AutoScalingGroup'
CLASSES = (
    (server.Server, SERVER),
    (server_group.ServerGroup, SERVER_GROUP),
    (resource_group.ResourceGroup, RESOURCE_GROUP),
    (top_group_scaling.AutoScalingGroup, SCALING_GROUP),
    (autoscaling_group.AutoScalingResourceGroup, DEAF),
    (top_group_declarations.Group, GROUP),
    (top_group_declarations.Relation, RELATION),
    (template_resource.TemplateResource, NESTED),
)
HOLDING = (SERVER, RESOURCE_GROUP, SCALING_GROUP, NESTED, DEAF)
PLACED = (*HOLDING, GROUP)
REPEATED = {RESOURCE_GROUP: 'resource_def', SCALING_GROUP: 'resource', DEAF: 'resource'}


def of(env, resource_type, name=None):
    """Returns the kind of a resource of this type; None if it does not matter for placement."""
    found = env.get_class_to_instantiate(resource_type, name)
    return next((kind for base, kind in CLASSES if issubclass(found, base)), None)


def data(definition):
    """Returns the properties as the template has them, without resolving functions."""
    return definition.properties({}).data


def telling(env, name, definition, properties):
    """Returns the part of a resource's properties that describes its servers; ``properties``: a
    server's."""
    said = data(definition)
    kind = of(env, definition.resource_type, name)
    if kind == SERVER:
        return {key: said.get(key) for key in properties}
    repeated = said.get(REPEATED.get(kind))
    inner = repeated.get('properties') if isinstance(repeated, Mapping) else None
    if isinstance(inner, Mapping) and of(env, repeated['type']) == SERVER:
        return {**said, REPEATED[kind]: {key: inner.get(key) for key in properties}}
    return said

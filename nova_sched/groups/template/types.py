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
"""The types of resources: those that placement reads, those for Heat, and invalid ones."""

import re

from nova_sched.groups.template.scope import Scope
from nova_sched.groups.template.values import Value
from nova_sched.suggestion import suggestion

SERVER = 'OS::Nova::Server'
SERVER_GROUP = 'OS::Nova::ServerGroup'
RESOURCE_GROUP = 'OS::Heat::ResourceGroup'
SCALING_GROUP = 'OS::Heat::AutoScalingGroup'
INDEXED_SCALING_GROUP = (
    'OS::NovaSched::AutoScalingGroup'  # a group with an index, like a ResourceGroup
)
GROUP = 'OS::NovaSched::Group'
RELATION = 'OS::NovaSched::Relation'
REPEATING = {  # type -> the property with the repeated definition
    RESOURCE_GROUP: 'resource_def',
    SCALING_GROUP: 'resource',
    INDEXED_SCALING_GROUP: 'resource',
}
READ = (SERVER, SERVER_GROUP, *REPEATING, GROUP, RELATION)
PLACED = (SERVER, *REPEATING, GROUP)

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


def known(scope: Scope, value: Value) -> str:
    """Returns the type of a resource; raises TemplateError for an invalid one."""
    name = scope.text(value)
    if name in READ:
        return name
    if _NESTED.fullmatch(name):
        raise value.wrong(
            f'{name} is another template; its resources cannot be placed together with this'
        )
    if not _TYPE.fullmatch(name):
        raise value.wrong(f'{name} is no type of a resource{suggestion(name, READ)}')
    for space, names in _CLOSED.items():
        if name.lower().startswith(space.lower()) and name not in [space + one for one in names]:
            raise value.wrong(f'there is no type {name}{suggestion(name, READ)}')
    if name.lower() in [one.lower() for one in READ]:
        raise value.wrong(f'there is no type {name}{suggestion(name, READ)}')
    return name

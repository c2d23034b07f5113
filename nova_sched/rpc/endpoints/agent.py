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
"""The namespace `agent` 1.1: calls to a compute node about its instances."""

import oslo_messaging as messaging

from nova_sched.rpc import translate, words
from nova_sched.rpc.failures import expected


class Agent:
    target = messaging.Target(namespace='agent', version='1.1')

    def __init__(self, agent, hear=lambda: None):
        self._agent, self._hear = agent, hear

    @expected
    def build(self, context, spec_obj, instance_uuid, finished=True):
        """Take an instance, after another check of its claim. Raises ComputeResourcesUnavailable.

        ``finished`` False if its build goes on until ``finish`` is called.
        """
        (request,) = translate.requests(translate.spec(spec_obj), [instance_uuid])
        self._agent.build(request, bool(finished))

    @expected
    def finish(self, context, instance_uuid):
        """The build of an instance has succeeded. Raises NotFound."""
        self._agent.finish(words.uuid(instance_uuid, 'instance_uuid'))

    @expected
    def resize(self, context, spec_obj, instance_uuid):
        """Take an instance that moves here with another size, or resize an instance in place.

        Both sizes are held until the resize is confirmed or reverted. Raises
        ComputeResourcesUnavailable.
        """
        (request,) = translate.requests(translate.spec(spec_obj), [instance_uuid])
        self._agent.resize(request)

    @expected
    def confirm_resize(self, context, instance_uuid):
        """The instance stays here in its new size. Raises NotFound."""
        self._agent.confirm_resize(words.uuid(instance_uuid, 'instance_uuid'))

    @expected
    def revert_resize(self, context, instance_uuid):
        """The instance has its old size again, or goes back to its source host. Raises
        NotFound."""
        self._agent.revert_resize(words.uuid(instance_uuid, 'instance_uuid'))

    @expected
    def destroy(self, context, instance_uuid):
        """The instance is gone. Returns whether it was here."""
        return self._agent.destroy(words.uuid(instance_uuid, 'instance_uuid'))

    @expected
    def instances(self, context):
        """The instances of the node, as mappings: uuid, resources by class, vm_state, project_id,
        os_type.

        Also their hardware allocations: parts (cells and devices as JSON text, or null), devices
        (PCI addresses); while a resize is open, also move or resizing (both sizes as JSON text),
        and new_devices.
        """
        return self._agent.instances()

    @expected
    def catalogue_changed(self, context, version):
        """The catalogue of queues, or its facts about hosts, have changed. A cast to all agents,
        since 1.1."""
        self._hear()

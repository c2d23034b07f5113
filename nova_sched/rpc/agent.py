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

"""The RPC of a compute node's agent: the namespace `agent` 1.1 on a topic with one server for each
host, its client, and the agent's own client of the scheduler."""

import oslo_messaging as messaging

from nova_sched import words
from nova_sched.rpc import servers, translate
from nova_sched.rpc.client import NamespaceClient, StatsClient
from nova_sched.rpc.messages import expected

TOPIC = 'nova_sched_agent'
TIMEOUT_S = 60  # an agent answers from memory: a longer silence means that it is not running


class AgentEndpoint:
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


def server(bus, host, agent, hear=lambda: None):
    """An RPC server for the agent of one host; ``hear()`` is called when the catalogue has
    changed."""
    return servers.server(bus, host, [AgentEndpoint(agent, hear)], TOPIC)


class AgentClient(NamespaceClient):
    """The agent of one host."""

    NAMESPACE = 'agent'

    def __init__(self, bus, host, timeout_s=TIMEOUT_S):
        super().__init__(bus, timeout_s, monitor_s=None)
        self._client = self._client.prepare(topic=TOPIC, server=host)

    def build(self, spec_obj, instance_uuid, finished=True, context=None):
        """Pass an instance to the host that it was claimed for. Raises
        ComputeResourcesUnavailable.

        ``finished`` False: the build goes on until ``finish`` is called.
        """
        self.call(
            context, 'build', spec_obj=spec_obj, instance_uuid=instance_uuid, finished=finished
        )

    def finish(self, instance_uuid, context=None):
        """Raises NotFound."""
        self.call(context, 'finish', instance_uuid=instance_uuid)

    def resize(self, spec_obj, instance_uuid, context=None):
        """Pass an instance with a new size to the host: one that moves there, or one that resizes
        in place.

        Raises ComputeResourcesUnavailable.
        """
        self.call(context, 'resize', spec_obj=spec_obj, instance_uuid=instance_uuid)

    def confirm_resize(self, instance_uuid, context=None):
        """Raises NotFound."""
        self.call(context, 'confirm_resize', instance_uuid=instance_uuid)

    def revert_resize(self, instance_uuid, context=None):
        """Raises NotFound."""
        self.call(context, 'revert_resize', instance_uuid=instance_uuid)

    def destroy(self, instance_uuid, context=None):
        """Returns whether the instance was there."""
        return self.call(context, 'destroy', instance_uuid=instance_uuid)

    def instances(self, context=None):
        """Mappings: uuid, resources by class, vm_state, project_id, os_type, and the hardware
        allocation."""
        return self.call(context, 'instances')


class ReportClient(StatsClient):
    """A StatsClient that does not wait for a bus that does not answer: its caller logs that, and
    tries again later."""

    def __init__(self, bus, timeout_s):
        super().__init__(bus, timeout_s, monitor_s=None, attempts=1)

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
"""The typed client of a compute node's agent, and the agent's own client of the scheduler."""

from nova_sched.rpc.agent_server import TOPIC
from nova_sched.rpc.client import Client, StatsClient

TIMEOUT_S = 60  # an agent answers from memory: a longer silence means that it is not running


class AgentClient(Client):
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
        super().__init__(bus, timeout_s, monitor_s=None)
        self._client = self._client.prepare(retry=0)

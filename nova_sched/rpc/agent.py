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

"""The RPC of a compute node's agent: the namespace `agent` 1.2 on a topic with one server for each
host, its client, and the agent's own client of the scheduler.

Since 1.2, ``claim`` is the name of the claim that a call is about, as the claims of a scheduler
have it. The instance keeps the name with which it came or was resized. A call that names another
one is late or repeated, and changes nothing. Without ``claim``, a call means whatever is there.
"""

import oslo_messaging as messaging

from nova_sched import words
from nova_sched.rpc import servers, translate
from nova_sched.rpc.client import NamespaceClient, StatsClient
from nova_sched.rpc.messages import expected

TOPIC = 'nova_sched_agent'
TIMEOUT_S = 60  # an agent answers from memory: a longer silence means that it is not running


class AgentEndpoint:
    target = messaging.Target(namespace='agent', version='1.2')

    def __init__(self, agent, hear=lambda: None):
        self._agent, self._hear = agent, hear

    @expected
    def build(self, context, spec_obj, instance_uuid, finished=True, claim=None):
        """Take an instance, after another check of its claim. Raises ComputeResourcesUnavailable.

        ``finished`` False if its build goes on until ``finish`` is called.
        """
        (request,) = translate.requests(translate.spec(spec_obj), [instance_uuid])
        self._agent.build(request, bool(finished), _name(claim))

    @expected
    def finish(self, context, instance_uuid):
        """The build of an instance has succeeded. Raises NotFound."""
        self._agent.finish(words.uuid(instance_uuid, 'instance_uuid'))

    @expected
    def resize(self, context, spec_obj, instance_uuid, claim=None):
        """Take an instance that moves here with another size, or resize an instance in place.

        Both sizes are held until the resize is confirmed or reverted. Raises
        ComputeResourcesUnavailable.
        """
        (request,) = translate.requests(translate.spec(spec_obj), [instance_uuid])
        self._agent.resize(request, _name(claim))

    @expected
    def confirm_resize(self, context, instance_uuid, claim=None):
        """The instance stays here in its new size. Raises NotFound."""
        self._agent.confirm_resize(words.uuid(instance_uuid, 'instance_uuid'), _name(claim))

    @expected
    def revert_resize(self, context, instance_uuid, claim=None):
        """The instance has its old size again, or goes back to its source host. Raises
        NotFound."""
        self._agent.revert_resize(words.uuid(instance_uuid, 'instance_uuid'), _name(claim))

    @expected
    def destroy(self, context, instance_uuid, claim=None):
        """The instance is gone. Returns whether it was here, by this claim."""
        return self._agent.destroy(words.uuid(instance_uuid, 'instance_uuid'), _name(claim))

    @expected
    def instances(self, context):
        """The instances of the node, as mappings: uuid, resources by class, vm_state, project_id,
        os_type, claim_uuid.

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


def _name(claim):
    return None if claim is None else words.uuid(claim, 'claim')


def server(bus, host, agent, hear=lambda: None):
    """An RPC server for the agent of one host; ``hear()`` is called when the catalogue has
    changed."""
    return servers.server(bus, host, [AgentEndpoint(agent, hear)], TOPIC)


class AgentClient(NamespaceClient):
    """The agent of one host.

    ``claim`` is the ``name`` of the ClaimInfo that a call is about; an agent of an older release
    does not know it.
    """

    NAMESPACE = 'agent'
    NEWEST = '1.2'  # with the name of the claim

    def __init__(self, bus, host, timeout_s=TIMEOUT_S):
        super().__init__(bus, timeout_s, monitor_s=None)
        self._client = self._client.prepare(topic=TOPIC, server=host)

    def build(self, spec_obj, instance_uuid, finished=True, context=None, claim=None):
        """Pass an instance to the host that it was claimed for. Raises
        ComputeResourcesUnavailable.

        ``finished`` False: the build goes on until ``finish`` is called.
        """
        self.call(
            context,
            'build',
            spec_obj=spec_obj,
            instance_uuid=instance_uuid,
            finished=finished,
            **self._named(claim),
        )

    def finish(self, instance_uuid, context=None):
        """Raise NotFound."""
        self.call(context, 'finish', instance_uuid=instance_uuid)

    def resize(self, spec_obj, instance_uuid, context=None, claim=None):
        """Pass an instance with a new size to the host: one that moves there, or one that resizes
        in place.

        Raises ComputeResourcesUnavailable.
        """
        self.call(
            context,
            'resize',
            spec_obj=spec_obj,
            instance_uuid=instance_uuid,
            **self._named(claim),
        )

    def confirm_resize(self, instance_uuid, context=None, claim=None):
        """Raise NotFound."""
        self.call(context, 'confirm_resize', instance_uuid=instance_uuid, **self._named(claim))

    def revert_resize(self, instance_uuid, context=None, claim=None):
        """Raise NotFound."""
        self.call(context, 'revert_resize', instance_uuid=instance_uuid, **self._named(claim))

    def destroy(self, instance_uuid, context=None, claim=None):
        """Return whether the instance was there, by this claim."""
        named = self._named(claim)
        return self.call(context, 'destroy', instance_uuid=instance_uuid, **named)

    def instances(self, context=None):
        """Mappings: uuid, resources by class, vm_state, project_id, os_type, and the hardware
        allocation."""
        return self.call(context, 'instances')

    def _named(self, claim):
        return {} if claim is None else {'claim': claim, 'rpc_version': self.NEWEST}


class ReportClient(StatsClient):
    """A StatsClient that does not wait for a bus that does not answer: its caller logs that, and
    tries again later."""

    def __init__(self, bus, timeout_s):
        super().__init__(bus, timeout_s, monitor_s=None, attempts=1)

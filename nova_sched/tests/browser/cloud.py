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

"""A simulated cloud of hosts in racks, with load, refusals, a group and queues; and its API, which
serves the dashboard on the loopback."""

import contextlib
import threading
import uuid

from oslo_context.context import RequestContext

from nova_sched import errors, objects, rpc, service
from nova_sched.cmd import api
from nova_sched.conf import CONF
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.simulator import conductor
from nova_sched.extensions.simulator.machines import Plan, machines
from nova_sched.extensions.simulator.simulated_hosts import CallPool, SimulatedHosts
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc.client import GroupsClient, QueuesClient, SchedulerClient
from nova_sched.rpc.translate import requests as read_requests
from nova_sched.tests.options import settings
from nova_sched.tests.unit.hardware.builders import cell, host

SIZES = ((2, 4096), (4, 8192), (8, 32768), (16, 65536))
FILTERS = [
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'PciPassthroughFilter',
]
TEMPLATE = """heat_template_version: 2021-04-16
resources:
  web:
    type: OS::NovaSched::Group
    properties:
      members: [{get_resource: a}, {get_resource: b}, {get_resource: c}]
      policies: [{type: anti-affinity, level: rack}]
  a: {type: OS::Nova::Server, properties: {flavor: {vcpus: 2, ram: 4096, disk: 0}}}
  b: {type: OS::Nova::Server, properties: {flavor: {vcpus: 2, ram: 4096, disk: 0}}}
  c: {type: OS::Nova::Server, properties: {flavor: {vcpus: 2, ram: 4096, disk: 0}}}
"""
# Together in one rack, and each in a rack of its own.
REFUSED = TEMPLATE.replace('policies: [', 'policies: [{type: affinity, level: rack}, ')


class Cloud:
    """A scheduler, a manager of queues and simulated nodes in this process, and the dashboard at
    ``url``. The first node, ``rich``, has NUMA cells and PCI devices."""

    def __init__(self, folder, nodes=1000, racks=8):
        self._folder = folder
        self._plan = Plan(nodes=nodes, zones=3, racks=racks, failing=0)
        self.url = self.hosts = self.rich = None

    @contextlib.contextmanager
    def running(self):
        where = {
            'default.service_down_time': 3600,
            'database.connection': f'sqlite:///{self._folder}/cloud.sqlite',
            'queues.transport_url': 'fake://',
            'claims.refresh_interval': 0.2,
            'filter_scheduler.enabled_filters': FILTERS,
            'explain.sample': 1.0,
            'api.auth_strategy': 'noauth',
            'api.port': 0,
            'api.shutdown_timeout': 1,
        }
        with contextlib.ExitStack() as stack:
            stack.enter_context(settings(where))
            bus = rpc.transport(CONF, 'fake://')
            stack.callback(bus.cleanup)
            # The transport has registered the option.
            stack.enter_context(settings({'default.transport_url': 'fake://'}))
            for made in (service.SchedulerService(CONF, bus), _queues(bus)):
                stack.callback(made.stop)
                made.start()
            pool = stack.enter_context(CallPool(8))
            nodes = machines(self._plan)
            self.rich = _enriched(nodes[0])
            self.hosts = SimulatedHosts(nodes, bus, pool)
            self.hosts.join()
            self._scheduler, self._groups = SchedulerClient(bus), GroupsClient(bus)
            QueuesClient(bus).flavor_create(
                {'name': 'm1.small', 'vcpus': 2, 'memory_mb': 4096, 'root_gb': 20}
            )
            served = api.server(CONF, api.everything(CONF, bus))
            thread = threading.Thread(target=served.serve, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(served.stop)
            self.url = f'http://127.0.0.1:{served.bind_addr[1]}/dashboard'
            yield self

    def load(self, requests=60, each=20):
        """Build servers of several sizes in all zones."""
        for number in range(requests):
            vcpus, memory = SIZES[number % len(SIZES)]
            self.boot(TraceFlavor(f'm1.{vcpus}', vcpus, memory), each, f'zone-{number % 3 + 1}')
        self.hosts.report()

    def boot(self, flavor, count=1, zone=None, project='red'):
        """Ask for servers, and build them. Returns the request id. A refusal is kept as any
        other."""
        servers = [str(uuid.uuid4()) for _ in range(count)]
        asked = conductor.spec(flavor, servers, zone)
        asked.project_id = project
        context = RequestContext(overwrite=False, project_id=project)
        try:
            found = self._scheduler.select_destinations(asked, servers, context=context)
        except errors.NoValidHost:
            return context.request_id
        for request, (chosen, *_) in zip(read_requests(asked, servers), found, strict=True):
            self.hosts.build(request, chosen)
        return context.request_id

    def refuse(self, project='red'):
        """A request that no host can take. Returns its id."""
        return self.boot(TraceFlavor('m1.giant', 256, 4096), project=project)

    def attach(self, count=2):
        """Ask for a server with virtual functions, which only the node ``rich`` has. Returns the
        request id."""
        servers, context = [str(uuid.uuid4())], RequestContext(overwrite=False)
        asked = conductor.spec(TraceFlavor('m1.vf', 1, 1024), servers)
        asked.pci_requests.requests = [
            objects.InstancePCIRequest(
                count=count, spec=[{'dev_type': 'type-VF'}], alias_name='vf', request_id=None
            )
        ]
        self._scheduler.select_destinations(asked, servers, context=context)
        return context.request_id

    def group(self, project='red'):
        """A planned group."""
        context = RequestContext(overwrite=False, project_id=project, user_id='ann')
        return self._groups.create(TEMPLATE, name='shop', context=context)


def _enriched(node):
    """A node with two NUMA cells, a network card and two other devices near the second."""
    stats = node._stats
    halves = (range(32), range(32, 64))
    cells = [cell(row, [], cpus, memory_mb=66 * 1024) for row, cpus in enumerate(halves)]
    stats.numa_topology = host(*cells).to_json()
    near = {'parent_ifname': 'ens1f0', 'physical_network': 'datacentre'}
    stats.pci_device_pools = objects.PciDevicePoolList(
        objects=[
            _pool('8086', '1572', 0, 1, dev_type='type-PF', **near),
            _pool('8086', '154c', 0, 16, dev_type='type-VF', **near),
            _pool('10de', '20b0', 1, 2, dev_type='type-PCI'),
        ]
    )
    return node.host


def _pool(vendor, product, numa_node, count, **tags):
    return objects.PciDevicePool(
        vendor_id=vendor, product_id=product, numa_node=numa_node, count=count, tags=tags
    )


def _queues(bus):
    queue_service.in_process.cache_clear()
    return queue_service.QueueService(CONF, bus)

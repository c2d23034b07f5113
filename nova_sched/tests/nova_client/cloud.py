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
"""A small cloud as the scheduler is told of it: compute nodes that report, and aggregates."""

import itertools
import json

import oslo_messaging as messaging
from nova import objects, rpc
from nova.objects import base
from nova.scheduler.rpcapi import SchedulerAPI
from oslo_utils import uuidutils

from nova_sched.tests.nova_client.machines import frequency

CELL, OTHER_CELL = (f'00000000-0000-0000-0000-00000000ce1{n}' for n in (1, 2))
NUMBERS = itertools.count(1)  # of hosts and aggregates: no test sees another one's


class Cloud:
    """The compute nodes and aggregates of one test; ``close`` takes them away again."""

    def __init__(self, context):
        self.context = context
        self.nodes = []
        self._told = {}  # node UUID -> its generation in the last answer
        self.aggregates = []
        self._scheduler = SchedulerAPI()
        # Computes report as Nova's objects in Nova's serialisation; claims are read as they
        # travel.
        self._stats = _client('stats', base.NovaObjectSerializer())
        self._claims = _client('claims')

    def add(self, count=1, *, cell=CELL, host=None, traits=(), **fields):
        """New compute nodes that have reported, alike but for their names; ``fields`` are
        ComputeNode's."""
        made = [compute_node(host, **fields) for _ in range(count)]
        for node in made:
            self.report(node, cell=cell, traits=traits)
        self.nodes += made
        return made if count > 1 else made[0]

    def report(self, node, *, cell=CELL, instances=None, traits=()):
        """What the scheduler accepted of this node's report; with traits it tells dedicated CPUs
        as well."""
        root = {'inventories': {'PCPU': {'total': node.vcpus}}, 'traits': list(traits)}
        answer = self._stats.call(
            self.context,
            'update_resource_stats',
            name=node.host,
            stats=node,
            instances=instances,
            inventories={node.uuid: root} if traits else None,
            cell_uuid=cell,
            seen=self._told.get(node.uuid, 0),
        )
        self._told[node.uuid] = answer['generation']
        return answer

    def switch(self, host, *, disabled):
        """An operator switches a compute service off or on."""
        service = objects.Service(host=host, disabled=disabled)
        self._stats.call(self.context, 'update_service', name=host, service=service)

    def aggregate(self, *nodes, **metadata):
        """A new aggregate of the nodes' hosts, not yet announced."""
        number = next(NUMBERS)
        made = objects.Aggregate(
            self.context,
            id=number,
            uuid=uuidutils.generate_uuid(),
            name=f'aggregate {number}',
            hosts=[node.host for node in nodes],
            metadata=metadata,
        )
        self.aggregates.append(made)
        return made

    def claims(self, instance_uuid):
        """The instance's claims, each a dict."""
        found = self._claims.call(self.context, 'show', instance_uuid=instance_uuid)
        return [claim['nova_object.data'] for claim in found]

    def placed(self, instance_uuids):
        """Host of each instance's only claim."""
        return [claim['host'] for uuid in instance_uuids for claim in self.claims(uuid)]

    def end(self, instance_uuid):
        """The instance's claims end, confirmed or not."""
        for claim in self.claims(instance_uuid):
            named = {'claim': claim['uuid'], 'confirmed': True}
            self._claims.call(self.context, 'abort_claim', instance_uuid=instance_uuid, **named)

    def close(self):
        for aggregate in self.aggregates:
            self._scheduler.delete_aggregate(self.context, aggregate)
        for node in self.nodes:
            self._stats.call(
                self.context,
                'remove_node',
                name=node.host,
                nodename=node.hypervisor_hostname,
                generation=self.report(node)['generation'],
            )


def _client(namespace, serializer=None):
    target = messaging.Target(topic='scheduler', namespace=namespace, version='1.0')
    return rpc.get_client(target, serializer=serializer)


def compute_node(host=None, **fields):
    """A ComputeNode as a libvirt host with 8 CPUs, 16 GiB and 100 GB reports it; nothing runs
    there."""
    name = f'cmp-{next(NUMBERS)}'
    facts = {
        'uuid': uuidutils.generate_uuid(),
        'host': host or name,
        'hypervisor_hostname': name,
        'vcpus': 8,
        'memory_mb': 16384,
        'local_gb': 100,
        'vcpus_used': 0,
        'memory_mb_used': 0,
        'local_gb_used': 0,
        'cpu_allocation_ratio': 1.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002001,
        'cpu_info': json.dumps({'arch': 'x86_64', 'vendor': 'Intel', 'features': ['avx2', 'vmx']}),
        'disk_available_least': None,
        'metrics': frequency(2000),
        'stats': {'num_instances': '0', 'io_workload': '0', 'failed_builds': '0'},
        'host_ip': '192.0.2.51',
        'numa_topology': None,
        'supported_hv_specs': [objects.HVSpec(arch='x86_64', hv_type='kvm', vm_mode='hvm')],
        'pci_device_pools': objects.PciDevicePoolList(objects=[]),
        'mapped': 1,
    } | fields
    free_disk_gb = facts['local_gb'] - facts['local_gb_used']
    return objects.ComputeNode(
        free_ram_mb=facts['memory_mb'] - facts['memory_mb_used'],
        free_disk_gb=free_disk_gb,
        current_workload=0,
        running_vms=int(facts['stats'].get('num_instances', 0)),
        **facts,
    )

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

"""NUMA topologies, virtual CPUs and PCI devices, of hosts and of guests."""

import json

from nova_sched import errors
from nova_sched.objects import base, fields, object_io


@base.register
class NUMAPagesTopology(base.NovaObject):
    """Memory pages of one size (KiB) in one cell: counts."""

    VERSION = '1.1'

    fields = {
        'size_kb': fields.IntegerField(),
        'total': fields.IntegerField(),
        'used': fields.IntegerField(default=0),
        'reserved': fields.IntegerField(default=0),
    }


@base.register
class NUMACell(base.NovaObject):
    """One host cell: CPUs by id, memory in MiB."""

    VERSION = '1.5'

    fields = {
        'id': fields.IntegerField(read_only=True),
        'cpuset': fields.SetOfIntegersField(),
        'pcpuset': fields.SetOfIntegersField(),
        'memory': fields.IntegerField(),
        'cpu_usage': fields.IntegerField(default=0),
        'memory_usage': fields.IntegerField(default=0),
        'pinned_cpus': fields.SetOfIntegersField(),
        'siblings': fields.ListOfSetsOfIntegersField(),
        'mempages': fields.ListOfObjectsField('NUMAPagesTopology'),
        'network_metadata': fields.ObjectField('NetworkMetadata'),
        'socket': fields.IntegerField(nullable=True),
    }


@base.register
class NUMATopology(base.NovaObject):
    """The NUMA cells of a host."""

    VERSION = '1.2'

    fields = {
        'cells': fields.ListOfObjectsField('NUMACell'),
    }

    @classmethod
    def from_json(cls, text):
        """Return the topology that a ComputeNode carries as text. Raises MalformedObject or
        IncompatibleObject."""
        try:
            primitive = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise errors.MalformedObject('NUMATopology', 'it is not JSON text') from None
        topology = object_io.read(primitive, root='NUMATopology')
        if not isinstance(topology, cls):
            raise errors.MalformedObject('NUMATopology', 'the text holds another object')
        return topology


@base.register
class NUMATopologyLimits(base.NovaObject):
    """The allocation ratios of a host's NUMA cells."""

    VERSION = '1.1'

    fields = {
        'cpu_allocation_ratio': fields.FloatField(),
        'ram_allocation_ratio': fields.FloatField(),
        'network_metadata': fields.ObjectField('NetworkMetadata'),
    }


@base.register
class VirtCPUTopology(base.NovaObject):
    """Sockets, cores and threads of a guest."""

    VERSION = '1.0'

    fields = {
        'sockets': fields.IntegerField(nullable=True, default=1),
        'cores': fields.IntegerField(nullable=True, default=1),
        'threads': fields.IntegerField(nullable=True, default=1),
    }


@base.register
class InstanceNUMACell(base.EphemeralObject, base.DictCompat):
    """One guest cell: memory in MiB, page size in KiB."""

    VERSION = '1.6'

    # CPU ids are integers here, and strings on the wire.
    cpu_pinning = fields.DictProxyField('cpu_pinning_raw')

    fields = {
        'id': fields.IntegerField(),
        'cpuset': fields.SetOfIntegersField(),
        'pcpuset': fields.SetOfIntegersField(),
        'cpuset_reserved': fields.SetOfIntegersField(nullable=True, default=None),
        'memory': fields.IntegerField(),
        'pagesize': fields.IntegerField(nullable=True, default=None),
        'cpu_topology': fields.ObjectField('VirtCPUTopology', nullable=True),
        'cpu_pinning_raw': fields.DictOfIntegersField(nullable=True, default=None),
        'cpu_policy': fields.CPUAllocationPolicyField(nullable=True, default=None),
        'cpu_thread_policy': fields.CPUThreadAllocationPolicyField(nullable=True, default=None),
    }

    def obj_complete_older(self):
        """Convert versions before 1.5, in which ``cpuset`` held the pinned CPUs of a dedicated
        cell.

        Nova stored cells of 1.6 as older ones (https://launchpad.net/bugs/2097360): a cell that
        names its pinned CPUs is left as it is.
        """
        if 'cpuset' not in self or ('pcpuset' in self and self.pcpuset):
            return
        pinned = self.cpu_policy == 'dedicated'
        self.pcpuset = self.cpuset if pinned else set()
        if pinned:
            self.cpuset = set()


@base.register
class InstanceNUMATopology(base.NovaObject, base.DictCompat):
    """The guest cells of an instance."""

    VERSION = '1.3'

    fields = {
        'id': fields.IntegerField(),
        'instance_uuid': fields.UUIDField(),
        'cells': fields.ListOfObjectsField('InstanceNUMACell'),
        'emulator_threads_policy': fields.CPUEmulatorThreadsPolicyField(nullable=True),
    }

    def __len__(self):
        return len(self.cells)


@base.register
class PciDevicePool(base.NovaObject):
    """A count of equal free devices."""

    VERSION = '1.1'

    fields = {
        'product_id': fields.StringField(),
        'vendor_id': fields.StringField(),
        'numa_node': fields.IntegerField(nullable=True),
        'tags': fields.DictOfNullableStringsField(),
        'count': fields.IntegerField(),
    }


@base.register
class PciDevicePoolList(base.NovaList):
    """The pools of free devices of one node."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('PciDevicePool'),
    }


@base.register
class InstancePCIRequest(base.NovaObject):
    """A count of devices that match one of the specs."""

    VERSION = '1.4'

    fields = {
        'count': fields.IntegerField(),
        'spec': fields.ListOfDictOfNullableStringsField(),
        'alias_name': fields.StringField(nullable=True),
        'is_new': fields.BooleanField(default=False),
        'request_id': fields.UUIDField(nullable=True),
        'requester_id': fields.StringField(nullable=True),
        'numa_policy': fields.PCINUMAAffinityPolicyField(nullable=True),
    }


@base.register
class InstancePCIRequests(base.NovaObject):
    """The PCI requests of one instance."""

    VERSION = '1.1'

    fields = {
        'instance_uuid': fields.UUIDField(),
        'requests': fields.ListOfObjectsField('InstancePCIRequest'),
    }

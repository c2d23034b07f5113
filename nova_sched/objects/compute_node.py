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

"""Compute nodes: their resources and usage, services, aggregates, cells and instances."""

from nova_sched.objects import base, fields
from nova_sched.objects.claiming import ComputeNodeUsage


@base.register
class HVSpec(base.NovaObject):
    """One supported triple of architecture, hypervisor type and guest mode."""

    VERSION = '1.2'

    fields = {
        'arch': fields.ArchitectureField(),
        'hv_type': fields.HVTypeField(),
        'vm_mode': fields.VMModeField(),
    }

    def to_list(self):
        return [self.arch, self.hv_type, self.vm_mode]


# Measurements that are reported as whole numbers up to 100, and stored as fractions of 1.
PERCENTAGES = frozenset(
    {
        'cpu.user.percent',
        'cpu.kernel.percent',
        'cpu.idle.percent',
        'cpu.iowait.percent',
        'cpu.percent',
    }
)


@base.register
class ComputeNode(ComputeNodeUsage, base.PersistentMixin, base.NovaObject):
    """One compute node: memory in MiB, disk in GiB, whole CPUs."""

    VERSION = '1.19'

    fields = {
        'id': fields.IntegerField(read_only=True),
        'uuid': fields.UUIDField(read_only=True),
        'service_id': fields.IntegerField(nullable=True),
        'host': fields.StringField(nullable=True),
        'vcpus': fields.IntegerField(),
        'memory_mb': fields.IntegerField(),
        'local_gb': fields.IntegerField(),
        'vcpus_used': fields.IntegerField(),
        'memory_mb_used': fields.IntegerField(),
        'local_gb_used': fields.IntegerField(),
        'hypervisor_type': fields.StringField(),
        'hypervisor_version': fields.IntegerField(),
        'hypervisor_hostname': fields.StringField(nullable=True),
        'free_ram_mb': fields.IntegerField(nullable=True),
        'free_disk_gb': fields.IntegerField(nullable=True),
        'current_workload': fields.IntegerField(nullable=True),
        'running_vms': fields.IntegerField(nullable=True),
        'cpu_info': fields.StringField(nullable=True),
        'disk_available_least': fields.IntegerField(nullable=True),
        'metrics': fields.StringField(nullable=True),
        'stats': fields.DictOfNullableStringsField(nullable=True),
        'host_ip': fields.IPAddressField(nullable=True),
        'numa_topology': fields.StringField(nullable=True),
        'supported_hv_specs': fields.ListOfObjectsField('HVSpec'),
        'pci_device_pools': fields.ObjectField('PciDevicePoolList', nullable=True),
        'cpu_allocation_ratio': fields.FloatField(),
        'ram_allocation_ratio': fields.FloatField(),
        'disk_allocation_ratio': fields.FloatField(),
        'mapped': fields.IntegerField(),
    }


@base.register
class ComputeNodeList(base.NovaList):
    """Compute nodes."""

    VERSION = '1.17'

    fields = {
        'objects': fields.ListOfObjectsField('ComputeNode'),
    }


@base.register
class Service(base.NovaObject):
    """The state of one compute service. Nova's other fields are not read."""

    VERSION = '1.22'

    fields = {
        'host': fields.StringField(nullable=True),
        'binary': fields.StringField(nullable=True),
        'disabled': fields.BooleanField(),
        'disabled_reason': fields.StringField(nullable=True),
        'last_seen_up': fields.DateTimeField(nullable=True),
        'forced_down': fields.BooleanField(),
    }


@base.register
class Aggregate(base.PersistentMixin, base.NovaObject):
    """A named set of hosts; its metadata steers filters and weighers."""

    VERSION = '1.3'

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'name': fields.StringField(),
        'hosts': fields.ListOfStringsField(nullable=True),
        'metadata': fields.DictOfStringsField(nullable=True),
    }


@base.register
class AggregateList(base.NovaList):
    """Aggregates."""

    VERSION = '1.3'

    fields = {
        'objects': fields.ListOfObjectsField('Aggregate'),
    }


@base.register
class CellMapping(base.NovaObject):
    """One cell; the URLs carry passwords, so they are never printed."""

    VERSION = '1.1'

    fields = {
        'id': fields.IntegerField(read_only=True),
        'uuid': fields.UUIDField(),
        'name': fields.StringField(nullable=True),
        'transport_url': fields.StringField(),
        'database_connection': fields.StringField(),
        'disabled': fields.BooleanField(default=False),
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
    }

    def __repr__(self):
        return f'CellMapping(uuid={self.uuid if "uuid" in self else "<?>"})'


@base.register
class Instance(base.NovaObject):
    """One server in a list of those on a host. Nova's other fields are not read."""

    VERSION = '2.8'

    fields = {
        'uuid': fields.UUIDField(),
    }


@base.register
class InstanceList(base.NovaList):
    """Instances."""

    VERSION = '2.6'

    fields = {
        'objects': fields.ListOfObjectsField('Instance'),
    }

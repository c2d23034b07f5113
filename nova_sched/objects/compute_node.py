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

"""Compute nodes: their resources, their usage, and claims on them."""

from nova_sched.objects import base, fields
from nova_sched.objects.node_usage import ComputeNodeUsage


@base.register
class ComputeNode(ComputeNodeUsage, base.PersistentMixin, base.NovaObject):
    """One compute node: memory in MiB, disk in GiB, whole CPUs."""

    VERSION = '1.19'
    ADDED_IN = {
        'stats': '1.3',
        'host_ip': '1.4',
        'numa_topology': '1.5',
        'supported_hv_specs': '1.6',
        'host': '1.7',
        'pci_device_pools': '1.9',
        'cpu_allocation_ratio': '1.14',
        'ram_allocation_ratio': '1.14',
        'uuid': '1.15',
        'disk_allocation_ratio': '1.16',
        'mapped': '1.17',
    }

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

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

"""The versioned objects of the RPC and store formats, and their conversion from and to
primitives."""
# ruff: noqa: F401 - the classes are imported for use by other modules

from nova_sched.objects.aggregate import Aggregate, AggregateList
from nova_sched.objects.block_device import BlockDeviceMapping, BlockDeviceMappingList
from nova_sched.objects.candidate import Candidate
from nova_sched.objects.cell_mapping import CellMapping
from nova_sched.objects.claim_info import ClaimInfo
from nova_sched.objects.compute_node import ComputeNode, ComputeNodeList
from nova_sched.objects.destination import Destination
from nova_sched.objects.device_metadata import DeviceBus, DeviceMetadata, InstanceDeviceMetadata
from nova_sched.objects.flavor import Flavor
from nova_sched.objects.host_mapping import HostMapping, HostMappingList
from nova_sched.objects.hv_spec import HVSpec
from nova_sched.objects.image_meta import ImageMeta
from nova_sched.objects.image_props import ImageMetaProps
from nova_sched.objects.instance import Instance, InstanceList
from nova_sched.objects.instance_details import EC2Ids, InstanceFault, InstanceInfoCache
from nova_sched.objects.instance_group import InstanceGroup, InstanceGroupList
from nova_sched.objects.instance_mapping import InstanceMapping
from nova_sched.objects.instance_numa import InstanceNUMACell, InstanceNUMATopology
from nova_sched.objects.instance_pci import InstancePCIRequest, InstancePCIRequests
from nova_sched.objects.job import QueueJob, QueueResult
from nova_sched.objects.keypair import KeyPair, KeyPairList
from nova_sched.objects.migration import Migration, MigrationContext, MigrationList
from nova_sched.objects.monitor_metric import MonitorMetric, MonitorMetricList
from nova_sched.objects.network import NetworkMetadata, NetworkRequest, NetworkRequestList
from nova_sched.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology, NUMATopologyLimits
from nova_sched.objects.pci import PciDevice, PciDeviceList, PciDevicePool, PciDevicePoolList
from nova_sched.objects.request_group import RequestGroup, RequestLevelParams
from nova_sched.objects.request_spec import RequestSpec
from nova_sched.objects.resource import (
    LibvirtVPMEMDevice,
    Resource,
    ResourceList,
    ResourceMetadata,
)
from nova_sched.objects.scheduler_limits import SchedulerLimits, SchedulerRetries
from nova_sched.objects.security_group import SecurityGroup, SecurityGroupList
from nova_sched.objects.selection import Selection
from nova_sched.objects.serializer import from_primitive, to_primitive
from nova_sched.objects.service import Service, ServiceList
from nova_sched.objects.tag import Tag, TagList
from nova_sched.objects.top_group import GroupMember, GroupMove, TopGroup
from nova_sched.objects.trusted_certs import TrustedCerts
from nova_sched.objects.virt_cpu import VirtCPUFeature, VirtCPUModel, VirtCPUTopology

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

from nova_sched.objects.compute_node import (
    Aggregate,
    AggregateList,
    CellMapping,
    ComputeNode,
    ComputeNodeList,
    HVSpec,
    Instance,
    InstanceList,
    Service,
)
from nova_sched.objects.hardware import (
    InstanceNUMACell,
    InstanceNUMATopology,
    InstancePCIRequest,
    InstancePCIRequests,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
    NUMATopologyLimits,
    PciDevicePool,
    PciDevicePoolList,
    VirtCPUTopology,
)
from nova_sched.objects.image_meta import ImageMeta, ImageMetaProps
from nova_sched.objects.job import QueueJob, QueueResult
from nova_sched.objects.object_io import Primitives, from_primitive, to_primitive
from nova_sched.objects.request_spec import (
    Destination,
    Flavor,
    InstanceGroup,
    NetworkMetadata,
    NetworkRequest,
    NetworkRequestList,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
    SecurityGroup,
    SecurityGroupList,
    simple_request,
)
from nova_sched.objects.selection import (
    Candidate,
    ClaimInfo,
    SchedulerLimits,
    SchedulerRetries,
    Selection,
)
from nova_sched.objects.top_group import GroupMember, GroupMove, TopGroup

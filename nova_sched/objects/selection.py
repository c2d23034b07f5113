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

"""The answers of the scheduler: chosen and offered hosts, their limits, earlier attempts, and
claims."""

from nova_sched.claim import CONFIRMED, MOVES, PENDING, PLANNED
from nova_sched.objects import base, fields


@base.register
class SchedulerLimits(base.NovaObject):
    """Limits for the claim check on the chosen compute node; null means no limit."""

    VERSION = '1.0'

    fields = {
        'numa_topology': fields.ObjectField('NUMATopologyLimits', nullable=True, default=None),
        'vcpu': fields.IntegerField(nullable=True, default=None),
        'disk_gb': fields.IntegerField(nullable=True, default=None),
        'memory_mb': fields.IntegerField(nullable=True, default=None),
    }

    def to_dict(self):
        """Return the limits that are not null, by name."""
        return {
            name: getattr(self, name)
            for name in self.fields
            if name in self and getattr(self, name) is not None
        }


@base.register
class SchedulerRetries(base.NovaObject):
    """The hosts that were tried before."""

    VERSION = '1.1'

    fields = {
        'num_attempts': fields.IntegerField(),
        'hosts': fields.ObjectField('ComputeNodeList'),
    }


@base.register
class Selection(base.NovaObject):
    """One chosen host, or an alternate for it."""

    VERSION = '1.1'

    fields = {
        'compute_node_uuid': fields.UUIDField(),
        'service_host': fields.StringField(),
        'nodename': fields.StringField(),
        'cell_uuid': fields.UUIDField(),
        'limits': fields.ObjectField('SchedulerLimits', nullable=True),
        'allocation_request': fields.StringField(nullable=True),
        'allocation_request_version': fields.StringField(nullable=True),
        'availability_zone': fields.StringField(nullable=True),
    }


@base.register
class Candidate(base.NovaSchedObject):
    """One host that an instance may claim by ``uuid`` before ``expires_at``; no resources are
    held.

    ``rank`` numbers the hosts that are offered for the instance, from 1, the best.
    """

    VERSION = '1.0'

    fields = {
        'uuid': fields.UUIDField(),
        'instance_uuid': fields.UUIDField(),
        'compute_node_uuid': fields.UUIDField(),
        'host': fields.StringField(),
        'nodename': fields.StringField(),
        'rank': fields.IntegerField(),
        'expires_at': fields.DateTimeField(),
    }


ClaimStateField = fields.enum_field('ClaimState', f'{PLANNED} {PENDING} {CONFIRMED}')
MoveField = fields.enum_field('Move', ' '.join(MOVES))


@base.register
class ClaimInfo(base.NovaSchedObject):
    """One instance's claim on one compute node, in Placement's resource classes.

    ``allocation_request`` is JSON text in Placement's form; ``expires_at`` null never expires.
    ``move`` (since 1.1) is the reason why the instance comes from another node. ``resize_uuid``
    (since 1.2) identifies the open resize; null if there is none. ``request_id`` (since 1.3) is
    the request that made the claim; null if several have asked for it. ``numa_topology`` has the
    instance's cells with the CPUs and pages of the host that it holds. ``pci_device_pools`` has
    its devices; null if it holds none.
    """

    VERSION = '1.3'

    fields = {
        'uuid': fields.UUIDField(),
        'instance_uuid': fields.UUIDField(),
        'compute_node_uuid': fields.UUIDField(),
        'host': fields.StringField(),
        'nodename': fields.StringField(),
        'state': ClaimStateField(),
        'move': MoveField(nullable=True),
        'resize_uuid': fields.UUIDField(nullable=True),
        'request_id': fields.StringField(nullable=True),
        'resources': fields.DictOfIntegersField(),
        'numa_topology': fields.ObjectField('InstanceNUMATopology', nullable=True),
        'pci_device_pools': fields.ObjectField('PciDevicePoolList', nullable=True),
        'project_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'allocation_request': fields.StringField(nullable=True),
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
        'expires_at': fields.DateTimeField(nullable=True),
    }

    @property
    def name(self):
        """Return the UUID by which calls name the claim: that of its open resize, or its own."""
        resize = self.resize_uuid if 'resize_uuid' in self else None
        return resize or self.uuid

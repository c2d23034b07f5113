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

"""The answers of the scheduler: chosen and offered hosts, their limits, and earlier attempts."""

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
        """Returns the limits that are not null, by name."""
        return {
            name: getattr(self, name)
            for name in self.fields
            if name in self and getattr(self, name) is not None
        }


@base.register
class SchedulerRetries(base.NovaObject):
    """Returns the hosts that were tried before."""

    VERSION = '1.1'

    fields = {
        'num_attempts': fields.IntegerField(),
        'hosts': fields.ObjectField('ComputeNodeList'),
    }


@base.register
class Selection(base.NovaObject):
    """One chosen host, or an alternate for it."""

    VERSION = '1.1'
    ADDED_IN = {'availability_zone': '1.1'}

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

    def to_dict(self):
        """Returns host, node and limits as a dict, for callers below RPC 4.5."""
        limits = self.limits.to_dict() if 'limits' in self and self.limits is not None else {}
        return {'host': self.service_host, 'nodename': self.nodename, 'limits': limits}


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

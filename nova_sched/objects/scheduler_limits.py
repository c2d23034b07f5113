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

"""The earlier attempts of a request, and limits for the compute node."""

from nova_sched.objects import base, fields


@base.register
class SchedulerLimits(base.NovaObject):
    """Limits for the claim check on the chosen compute node; null is no limit."""

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

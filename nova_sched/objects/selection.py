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

"""The answer of the scheduler."""

from nova_sched.objects import base, fields


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

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

"""A host that is offered to a caller for an instance."""

from nova_sched.objects import base, fields


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

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
"""ServerGroupAffinityFilter."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING, HostFacts
from nova_sched.state.request import AFFINITY


class ServerGroupAffinityFilter(Filter):
    """A member of an affinity group is placed on the host of the other members; the first one
    anywhere."""

    for_tenants = 'the policy of the server group is affinity'
    KEPT_WHEN_FORCED = True
    host_facts = LASTING | HostFacts.MEMBERS
    request_facts = ('group',)

    def mask(self, hosts, request):
        group = request.group
        if group is None or group.policy != AFFINITY:
            return True
        if group.in_transit:
            return hosts.everywhere(False)
        return hosts.named(group.hosts) if group.hosts else True

    def why(self, hosts, request, rows):
        policy = 'the policy of the server group is affinity, and'
        if request.group.in_transit:
            return f'{policy} a member is on its way from one host to another'
        return (
            f'{policy} its members are on {reasons.count(len(request.group.hosts), "other host")}'
        )

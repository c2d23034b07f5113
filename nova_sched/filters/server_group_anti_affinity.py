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
"""ServerGroupAntiAffinityFilter."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import OWN_HOSTS, HostFacts
from nova_sched.state.request import ANTI_AFFINITY


class ServerGroupAntiAffinityFilter(Filter):
    """The host has fewer members of the anti-affinity group than max_server_per_host, or already
    has this instance."""

    for_tenants = 'the policy of the server group is anti-affinity'
    KEPT_WHEN_FORCED = True
    host_facts = HostFacts.MEMBERS
    request_facts = ('group', OWN_HOSTS)

    def mask(self, hosts, request):
        group = request.group
        if group is None or group.policy != ANTI_AFFINITY:
            return True
        free = hosts.count_instances(group.members) < group.max_server_per_host
        return free | (hosts.count_instances([request.instance_uuid]) > 0)

    def why(self, hosts, request, rows):
        most = request.group.max_server_per_host
        counts = hosts.count_instances(request.group.members)[rows]
        held = 'the host has' if len(rows) == 1 else 'each of these hosts has'
        has = f'{counts.min()}' if counts.min() == counts.max() else f'{counts.min()} or more'
        allowed = reasons.count(most, 'member')
        return f'the server group allows {allowed} on a host (anti-affinity), and {held} {has}'

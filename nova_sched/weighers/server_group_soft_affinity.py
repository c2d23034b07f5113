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
"""ServerGroupSoftAffinityWeigher."""

from nova_sched.state.request import SOFT_AFFINITY
from nova_sched.weighers import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """Hosts with more members of the request's soft-affinity group are better."""

    option = 'soft_affinity_weight_multiplier'
    request_facts = ('group',)

    def raw(self, hosts, rows, request):
        group = request.group
        if group is None or group.policy != SOFT_AFFINITY:
            return None
        return hosts.count_instances(group.members)[rows]

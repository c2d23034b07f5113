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
"""DifferentHostFilter."""

from nova_sched.filters import Filter
from nova_sched.filters.same_host import uuids
from nova_sched.state.facts import HostFacts


class DifferentHostFilter(Filter):
    """The host holds none of the instances that the hint `different_host` names."""

    for_tenants = 'the hint different_host does not allow them'
    run_filter_once_per_request = True
    host_facts = HostFacts.MEMBERS
    request_facts = ('hints',)

    def mask(self, hosts, request):
        named = uuids(request.hint('different_host'))
        return hosts.count_instances(named) == 0 if named else True

    def why(self, hosts, request, rows):
        held = 'the host has' if len(rows) == 1 else 'each of these hosts has'
        return f'{held} an instance that the hint different_host names'

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
"""ExclusiveDomain, always on: only members of a group may use its exclusive hosts."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts


class ExclusiveDomain(Filter):
    """The request is a member of each policy that has the host in an exclusive domain."""

    for_tenants = 'they are kept for another group'
    host_facts = HostFacts.MEMBERS
    request_facts = ('fences',)

    def mask(self, hosts, request):
        return hosts.open_to(request.fences)

    def why(self, hosts, request, rows):
        return reasons.causes(len(rows), [(len(rows), 'kept for another group')])

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
"""CoreFilter."""

from nova_sched.claim import VCPU
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts


class CoreFilter(Filter):
    """Free vCPUs (allocation ratio applied) cover the flavor, and so do the host's CPUs.

    A host that does not report its number of CPUs passes.
    """

    for_tenants = 'they do not have enough free vCPUs'
    host_facts = HostFacts.AMOUNTS
    request_facts = ('vcpus',)

    def ratio(self, hosts):
        """Return the allocation ratio of each row."""
        return hosts.cpu_allocation_ratio

    def mask(self, hosts, request):
        vcpus, total = request.vcpus, hosts.vcpus_total
        free = total * self.ratio(hosts) - hosts.vcpus_used
        return (total <= 0) | ((total >= vcpus) & (free >= vcpus))

    def why(self, hosts, request, rows):
        text = reasons.amount(VCPU, request.vcpus)
        return reasons.short(text, *self._dimension(hosts, request, rows))

    def nearest(self, hosts, request, rows):
        return reasons.nearest(rows, self._dimension(hosts, request, rows))

    def _dimension(self, hosts, request, rows):
        total = hosts.vcpus_total[rows]
        free = total * self.ratio(hosts)[rows] - hosts.vcpus_used[rows]
        return request.vcpus, free, total

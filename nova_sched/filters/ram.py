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
"""RamFilter."""

from nova_sched.claim import MEMORY_MB
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts


class RamFilter(Filter):
    """Free memory (MiB, allocation ratio applied) covers the flavor, and so does the physical
    memory."""

    for_tenants = 'they do not have enough free memory'
    host_facts = HostFacts.AMOUNTS
    request_facts = ('memory_mb',)

    def ratio(self, hosts):
        """Return the allocation ratio of each row."""
        return hosts.ram_allocation_ratio

    def mask(self, hosts, request):
        memory_mb, total = request.memory_mb, hosts.total_usable_ram_mb
        usable = total * self.ratio(hosts) - (total - hosts.free_ram_mb)
        return (total >= memory_mb) & (usable >= memory_mb)

    def why(self, hosts, request, rows):
        text = reasons.amount(MEMORY_MB, request.memory_mb)
        return reasons.short(text, *self._dimension(hosts, request, rows))

    def nearest(self, hosts, request, rows):
        return reasons.nearest(rows, self._dimension(hosts, request, rows))

    def _dimension(self, hosts, request, rows):
        total = hosts.total_usable_ram_mb[rows]
        free = total * self.ratio(hosts)[rows] - (total - hosts.free_ram_mb[rows])
        return request.memory_mb, free, total

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
"""DiskFilter."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts


def asked_mb(request):
    root_gb = 0 if request.is_bfv else request.root_gb
    return (root_gb + request.ephemeral_gb) * 1024 + request.swap_mb


class DiskFilter(Filter):
    """Free disk (MiB, allocation ratio applied) covers root, ephemeral and swap, and so does the
    disk's size.

    The root disk of an instance that boots from a volume needs no space.
    """

    for_tenants = 'they do not have enough free disk'
    host_facts = HostFacts.AMOUNTS
    request_facts = ('root_gb', 'ephemeral_gb', 'swap_mb', 'is_bfv')

    def ratio(self, hosts):
        """Return the allocation ratio of each row."""
        return hosts.disk_allocation_ratio

    def mask(self, hosts, request):
        disk_mb = asked_mb(request)
        total = hosts.total_usable_disk_gb * 1024
        usable = total * self.ratio(hosts) - (total - hosts.free_disk_mb)
        return (total >= disk_mb) & (usable >= disk_mb)

    def why(self, hosts, request, rows):
        disk_gb, free, total = self._dimension(hosts, request, rows)
        return reasons.short(f'{disk_gb:g} GiB of disk', disk_gb, free, total)

    def nearest(self, hosts, request, rows):
        return reasons.nearest(rows, self._dimension(hosts, request, rows))

    def _dimension(self, hosts, request, rows):
        """Return in GiB: the requested disk, the free disk of the rows, and their total disk."""
        total = hosts.total_usable_disk_gb[rows]
        used = total - hosts.free_disk_mb[rows] / 1024
        return asked_mb(request) / 1024, total * self.ratio(hosts)[rows] - used, total

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

from nova_sched.filters import Filter


class DiskFilter(Filter):
    """Free disk (MiB, allocation ratio applied) covers root, ephemeral and swap, and so does the disk's size.

    The root disk of an instance that boots from a volume needs nothing.
    """

    def mask(self, hosts, request):
        root_gb = 0 if request.is_bfv else request.root_gb
        asked = (root_gb + request.ephemeral_gb) * 1024 + request.swap_mb
        total = hosts.total_usable_disk_gb * 1024
        usable = total * hosts.disk_allocation_ratio - (total - hosts.free_disk_mb)
        return (total >= asked) & (usable >= asked)

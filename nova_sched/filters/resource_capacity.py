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
"""ResourceCapacity, always on: what Placement's inventories do for Nova."""

from nova_sched.filters import Filter


class ResourceCapacity(Filter):
    """Every resource class asked for is free: (total - reserved) x ratio, less claims and foreign use.

    No single instance gets more than the physical total (or the inventory's max_unit), whatever the ratio.
    """

    def mask(self, hosts, request):
        fits = True
        for resource_class, amount in request.resources.items():
            fits = fits & hosts.fits(resource_class, amount)
        return fits

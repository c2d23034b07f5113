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
"""AvailabilityZoneFilter."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter
from nova_sched.filters.requested_zone import outside
from nova_sched.state.facts import LASTING


class AvailabilityZoneFilter(Filter):
    """The host is in the requested zone; hosts without a zone are in default_availability_zone."""

    for_tenants = 'they are not in the requested availability zone'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('availability_zone',)

    def mask(self, hosts, request):
        zone = request.availability_zone
        return hosts.in_zone(zone, CONF.default_availability_zone) if zone else True

    def depends_on(self, request):
        return request.availability_zone, CONF.default_availability_zone

    def why(self, hosts, request, rows):
        return outside(hosts, request.availability_zone, rows)

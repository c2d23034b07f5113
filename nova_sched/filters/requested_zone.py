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
"""RequestedZone, always on: the equivalent of Nova's request to Placement's aggregates."""

import numpy as np

from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import zones
from nova_sched.words import suggestion


class RequestedZone(Filter):
    """The host is in the requested zone, if any aggregate has that zone.

    A zone that no aggregate has restricts nothing, as in Nova: that is how an operator forces a
    host with `default_zone:host`. AvailabilityZoneFilter, when enabled, is stricter.
    """

    for_tenants = 'they are not in the requested availability zone'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('availability_zone',)

    def mask(self, hosts, request):
        zone = request.availability_zone
        if not zone or not hosts.has_zone(zone):
            return True
        return hosts.in_zone(zone, CONF.default_availability_zone)

    def depends_on(self, request):
        return request.availability_zone, CONF.default_availability_zone

    def why(self, hosts, request, rows):
        return outside(hosts, request.availability_zone, rows)


def outside(hosts, zone, rows):
    """Return a text with the zones of the rows."""
    default = CONF.default_availability_zone
    _, firsts = np.unique(hosts.aggregate_set[rows], return_index=True)
    aggregates = (hosts.aggregates.of(hosts.nodes[row].host) for row in rows[firsts].tolist())
    zone_names = {word for some in aggregates for word in zones(some) or {default}}
    here = 'the host is' if len(rows) == 1 else 'these hosts are'
    empty = '' if hosts.in_zone(zone, default).any() else ', where no host is'
    known = hosts.has_zone(zone) or zone == default
    unknown = '' if known else suggestion(zone, [*zones(hosts.aggregates), default])
    return f'zone {zone} is asked for{empty}, {here} in {reasons.listed(zone_names)}{unknown}'

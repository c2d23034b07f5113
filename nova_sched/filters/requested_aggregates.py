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
"""RequestedAggregates, always on: aggregates that the caller names, by UUID."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING


class RequestedAggregates(Filter):
    """The host is in one aggregate of each requested set, and in none of the forbidden ones."""

    for_tenants = 'they are outside of the aggregates that the request names'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('destination',)

    def mask(self, hosts, request):
        wanted = request.destination
        if wanted is None or not (wanted.aggregates or wanted.forbidden_aggregates):
            return True

        def may(aggregates):
            here = {aggregate.uuid for aggregate in aggregates}
            return here.isdisjoint(wanted.forbidden_aggregates) and not any(
                here.isdisjoint(either) for either in wanted.aggregates
            )

        return hosts.aggregates.map(hosts.aggregate_set, may)

    def depends_on(self, request):
        wanted = request.destination
        return (wanted.aggregates, wanted.forbidden_aggregates) if wanted else ()

    def why(self, hosts, request, rows):
        return reasons.causes(
            len(rows), [(len(rows), 'outside of the aggregates that the request names')]
        )

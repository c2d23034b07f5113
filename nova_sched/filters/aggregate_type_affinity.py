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
"""AggregateTypeAffinityFilter."""

from nova_sched.filters import Filter
from nova_sched.filters.reasons import listed
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import values

KEY = 'instance_type'


class AggregateTypeAffinityFilter(Filter):
    """The flavor is in the metadata instance_type of the host's aggregates, if they have it."""

    for_tenants = 'their aggregates are for other flavors'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('flavor_name',)

    def mask(self, hosts, request):
        if KEY not in hosts.aggregates.keys:
            return True
        flavor = request.flavor_name
        return hosts.aggregates.map(
            hosts.aggregate_set, lambda aggregates: flavor in (values(aggregates, KEY) or {flavor})
        )

    def why(self, hosts, request, rows):
        named = {name for aggregates in hosts.aggregates.distinct(hosts.aggregate_set[rows])
                 for name in values(aggregates, KEY)}  # fmt: skip
        whose = 'the host' if len(rows) == 1 else f'{len(rows)} hosts'
        return (
            f'flavor {request.flavor_name} asked, '
            f'the aggregates of {whose} are for {listed(named)}'
        )

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
"""IsolatedAggregates, always on if [scheduler] enable_isolated_aggregate_filtering is set."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING
from nova_sched.state.traits import HYPERTHREADING

PREFIX, REQUIRED = 'trait:', 'required'


class IsolatedAggregates(Filter):
    """The request requires every trait that the host's aggregates are reserved for.

    An aggregate is reserved for a trait by metadata `trait:NAME=required`. Traits of flavor,
    image, ports and devices count, inside and outside of groups.
    """

    for_tenants = 'they are kept for requests with other traits'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('required_traits', 'sibling_threads', 'groups')

    def mask(self, hosts, request):
        if not CONF.scheduler.enable_isolated_aggregate_filtering:
            return True
        required = all_required(request)
        return hosts.aggregates.map(
            hosts.aggregate_set, lambda aggregates: kept_for(aggregates) <= required
        )

    def depends_on(self, request):
        return CONF.scheduler.enable_isolated_aggregate_filtering and (all_required(request),)

    def why(self, hosts, request, rows):
        required = all_required(request)
        aggregate_sets = hosts.aggregates.distinct(hosts.aggregate_set[rows])
        missing = set().union(*(kept_for(aggregates) - required for aggregates in aggregate_sets))
        said = f'kept for requests that require {reasons.listed(missing)}'
        return reasons.causes(len(rows), [(len(rows), said)])


def kept_for(aggregates):
    """Return the traits that these aggregates are reserved for."""
    pairs = (pair for aggregate in aggregates for pair in aggregate.metadata.items())
    return {
        key.removeprefix(PREFIX)
        for key, text in pairs
        if key.startswith(PREFIX) and text == REQUIRED
    }


def all_required(request):
    """Return every trait that the request requires of some provider."""
    threads = {HYPERTHREADING} if request.sibling_threads else set()
    return request.required_traits.union(threads, *(group.required for group in request.groups))

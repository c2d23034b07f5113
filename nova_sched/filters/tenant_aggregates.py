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
"""TenantAggregates, always on if [scheduler] limit_tenants_to_placement_aggregate is set."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import LASTING

PREFIX = 'filter_tenant_id'


class TenantAggregates(Filter):
    """The host is in an aggregate of the project, if the project has any.

    Such an aggregate has the project as the whole value of a metadata key that starts with
    filter_tenant_id. A project without one may use any host, or none if
    placement_aggregate_required_for_tenants is set.
    """

    for_tenants = 'they are outside of the aggregates of the project'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('project_id',)

    def mask(self, hosts, request):
        if not CONF.scheduler.limit_tenants_to_placement_aggregate:
            return True
        project = request.project_id
        if any(is_of(project, aggregate) for aggregate in hosts.aggregates):
            return hosts.aggregates.map(
                hosts.aggregate_set,
                lambda aggregates: any(is_of(project, aggregate) for aggregate in aggregates),
            )
        return (
            hosts.everywhere(False)
            if CONF.scheduler.placement_aggregate_required_for_tenants
            else True
        )

    def depends_on(self, request):
        options = CONF.scheduler
        enabled = options.limit_tenants_to_placement_aggregate
        return enabled and (request.project_id, options.placement_aggregate_required_for_tenants)

    def why(self, hosts, request, rows):
        if any(is_of(request.project_id, aggregate) for aggregate in hosts.aggregates):
            return reasons.causes(
                len(rows), [(len(rows), 'outside of the aggregates of the project')]
            )
        return 'no aggregate is for the project, and it may go nowhere else'


def is_of(project, aggregate):
    """Return whether the aggregate belongs to the project."""
    return any(
        key.startswith(PREFIX) and text == project for key, text in aggregate.metadata.items()
    )

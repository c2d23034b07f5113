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
"""AggregateMultiTenancyIsolation."""

from nova_sched.filters import Filter
from nova_sched.filters.reasons import causes
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import split

PREFIX = 'filter_tenant_id'


def tenants(aggregates):
    """Return the projects that a host's aggregates are restricted to; empty: all projects."""
    return {project for aggregate in aggregates for key, text in aggregate.metadata.items()
            if key.startswith(PREFIX) for project in split(text)}  # fmt: skip


class AggregateMultiTenancyIsolation(Filter):
    """The project is among those that the host's aggregates are restricted to, if any.

    The projects are in metadata whose keys start with filter_tenant_id.
    """

    for_tenants = 'they are kept for other projects'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('project_id',)

    def mask(self, hosts, request):
        if not any(key.startswith(PREFIX) for key in hosts.aggregates.keys):
            return True
        project = request.project_id
        return hosts.aggregates.map(
            hosts.aggregate_set, lambda aggregates: project in (tenants(aggregates) or {project})
        )

    def why(self, hosts, request, rows):
        return causes(len(rows), [(len(rows), 'kept for other projects')])

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
"""The endpoints of a scheduler that reads its hosts from Nova ([cluster] source = nova).

Calls of conductors are as usual. A cast may come late, twice or never: it only makes the scheduler
read what it is about. Methods that would claim without Placement are refused.
"""

from nova_sched import errors
from nova_sched.rpc import words
from nova_sched.rpc.endpoints.candidates import CandidatesEndpoint
from nova_sched.rpc.endpoints.claims import ClaimsEndpoint
from nova_sched.rpc.endpoints.scheduler import SchedulerEndpoint
from nova_sched.rpc.endpoints.stats import StatsEndpoint
from nova_sched.rpc.failures import expected

WHY = 'this scheduler reads hosts from Nova and claims in Placement ([cluster] source = nova)'
CLAIMING = (
    'instance_claim',
    'resize_claim',
    'confirm_claim',
    'revert_claim',
    'abort_claim',
    'claim_alternate',
)
REPORTING = ('update_resource_stats', 'update_service', 'remove_node')


class NovaSourceEndpoint(SchedulerEndpoint):
    """As SchedulerEndpoint; ``mirror`` (cloud.mirror.Mirror) reads what a cast is about."""

    def __init__(self, scheduler, mirror):
        super().__init__(scheduler)
        self._mirror = mirror

    @expected
    def update_aggregates(self, context, aggregates):
        self._mirror.compare_soon()

    @expected
    def delete_aggregate(self, context, aggregate):
        self._mirror.compare_soon()

    @expected
    def update_instance_info(self, context, host_name, instance_info):
        self._mirror.host_changed(words.name(host_name, 'host_name'))

    @expected
    def delete_instance_info(self, context, host_name, instance_uuid):
        self._mirror.host_changed(words.name(host_name, 'host_name'))

    @expected
    def sync_instance_info(self, context, host_name, instance_uuids):
        self._mirror.host_changed(words.name(host_name, 'host_name'))


def _refusing(endpoint, methods):
    """The class of an endpoint, with these methods refused."""

    def refused(name):
        def refuse(*_place, **_arguments):
            raise errors.InvalidRequest(name, WHY)

        refuse.__name__ = name
        refuse.__doc__ = 'Raises InvalidRequest.'
        return expected(refuse)

    return type(endpoint.__name__, (endpoint,), {name: refused(name) for name in methods})


NovaSourceStats = _refusing(StatsEndpoint, REPORTING)
NovaSourceClaims = _refusing(ClaimsEndpoint, CLAIMING)
NovaSourceCandidates = _refusing(CandidatesEndpoint, ['claim_candidate'])

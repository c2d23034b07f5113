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
"""The RPC endpoints of the scheduler, one namespace in each file: they translate arguments, call
the engine, and translate results."""

from nova_sched.rpc.endpoints import nova_source
from nova_sched.rpc.endpoints.claims import CandidatesEndpoint, ClaimsEndpoint
from nova_sched.rpc.endpoints.explain import CloudEndpoint, ExplainEndpoint
from nova_sched.rpc.endpoints.groups import GroupsEndpoint
from nova_sched.rpc.endpoints.scheduler import BaseApiEndpoint, SchedulerEndpoint
from nova_sched.rpc.endpoints.stats import StatsEndpoint


def all_of(scheduler, mirror=None, status=None, networks=None, notifications=None):
    """Return every endpoint of one scheduler.

    ``mirror`` and ``status`` are those of a scheduler that reads its hosts from Nova. Its
    ``networks`` find the aggregates of requested networks in Neutron, and ``notifications`` tells
    of its calls.
    """
    if mirror is None:
        own = [
            SchedulerEndpoint(scheduler),
            StatsEndpoint(scheduler),
            ClaimsEndpoint(scheduler),
            CandidatesEndpoint(scheduler),
        ]
    else:
        own = [
            nova_source.NovaSourceEndpoint(scheduler, mirror, networks, notifications),
            nova_source.NovaSourceStats(scheduler),
            nova_source.NovaSourceClaims(scheduler),
            nova_source.NovaSourceCandidates(scheduler),
        ]
    return [
        *own,
        CloudEndpoint(status),
        ExplainEndpoint(scheduler),
        GroupsEndpoint(scheduler),
        BaseApiEndpoint(),
    ]

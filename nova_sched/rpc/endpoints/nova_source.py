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

from oslo_utils import timeutils

from nova_sched import errors, words
from nova_sched.conf import CONF
from nova_sched.rpc import translate
from nova_sched.rpc.deferred import begins
from nova_sched.rpc.endpoints.candidates import CandidatesEndpoint
from nova_sched.rpc.endpoints.claims import ClaimsEndpoint
from nova_sched.rpc.endpoints.scheduler import SchedulerEndpoint
from nova_sched.rpc.endpoints.stats import StatsEndpoint
from nova_sched.rpc.failures import expected
from nova_sched.rpc.servers import TIMEOUT_S

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
    """As SchedulerEndpoint; ``mirror`` (cloud.mirror.Mirror) reads what a cast is about.

    A conductor may have given up a call that waited in its queue, for example while no scheduler
    ran. A claim would then have no server. So a call whose request is older than
    ``[DEFAULT] rpc_response_timeout`` is decided only while Nova still builds or moves a server.
    """

    def __init__(self, scheduler, mirror):
        super().__init__(scheduler)
        self._mirror = mirror

    @expected
    @begins
    def select_destinations(self, context, **arguments):
        age_s, uuids = _age_s(context), arguments.get('instance_uuids')
        is_old = age_s > getattr(CONF, 'rpc_response_timeout', TIMEOUT_S)
        if uuids and is_old and not self._mirror.waits_for_host(translate.instance_uuids(uuids)):
            why = f'The request is {age_s:.0f} s old, and Nova does not wait for it any more.'
            raise errors.NoValidHost(why)
        return super().select_destinations(context, **arguments)

    @expected
    def update_aggregates(self, context, aggregates):
        self._mirror.aggregates_changed()

    @expected
    def delete_aggregate(self, context, aggregate):
        self._mirror.aggregates_changed()

    @expected
    def update_instance_info(self, context, host_name, instance_info):
        self._mirror.host_changed(words.name(host_name, 'host_name'))

    @expected
    def delete_instance_info(self, context, host_name, instance_uuid):
        self._mirror.host_changed(words.name(host_name, 'host_name'))

    @expected
    def sync_instance_info(self, context, host_name, instance_uuids):
        self._mirror.host_changed(words.name(host_name, 'host_name'))


def _age_s(context):
    """Seconds since the request was made, by the clock of Nova's API; 0 if it is not told."""
    try:
        made = timeutils.parse_isotime(context.timestamp)
    except (AttributeError, TypeError, ValueError):
        return 0.0
    return (timeutils.utcnow() - timeutils.normalize_time(made)).total_seconds()


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

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

import contextlib
import dataclasses
import logging
from concurrent.futures import Future

from oslo_utils import timeutils

from nova_sched import errors, words
from nova_sched.conf import CONF
from nova_sched.engine.explain import callers
from nova_sched.engine.loop import Deferred
from nova_sched.rpc import translate
from nova_sched.rpc.endpoints.claims import CandidatesEndpoint, ClaimsEndpoint
from nova_sched.rpc.endpoints.scheduler import SchedulerEndpoint
from nova_sched.rpc.endpoints.stats import StatsEndpoint
from nova_sched.rpc.messages import begins, expected
from nova_sched.rpc.notifications import END, START
from nova_sched.rpc.servers import TIMEOUT_S
from nova_sched.state.fields import read
from nova_sched.state.request import RequestedDestination
from nova_sched.tracing import TRACER

LOG = logging.getLogger(__name__)

FAILED = 'The scheduler could not decide the request.'  # what a tenant reads of a failure
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
    """As SchedulerEndpoint; ``mirror`` (cloud.mirror.Mirror) reads what a cast is about,
    ``networks`` (cloud.neutron.RoutedNetworks) finds the aggregates of requested networks;
    None: any host will do. ``notifications`` (rpc.notifications.Notifications) tells of calls;
    None: none are wanted.

    A conductor may have given up a call that waited in its queue, for example while no scheduler
    ran. A claim would then have no server. So a call whose request is older than
    ``[DEFAULT] rpc_response_timeout`` is decided only while Nova still builds or moves a server.
    That is read from Nova's databases, so not before the result of the call is made, which may
    wait.

    Each call that fails is refused with NoValidHost: for that, a conductor ends what it does with
    the servers in good order.
    """

    # As it is there, before its errors become failures of the call.
    _select = SchedulerEndpoint.select_destinations.__wrapped__

    def __init__(self, scheduler, mirror, networks=None, notifications=None):
        super().__init__(scheduler)
        self._mirror, self._networks = mirror, networks
        self._notifications = notifications

    @expected
    @begins
    def select_destinations(self, context, **arguments):
        age_s, uuids = _age_s(context), arguments.get('instance_uuids')
        if not uuids or age_s <= getattr(CONF, 'rpc_response_timeout', TIMEOUT_S):
            return self._decision(context, arguments)
        trace = TRACER.parent

        def finish():
            with self._refuse_failures(context):
                if not self._mirror.waits_for_host(translate.instance_uuids(uuids)):
                    raise errors.NoValidHost(
                        f'The request is {age_s:.0f} s old, '
                        'and Nova does not wait for it any more.'
                    )
            with TRACER.following(trace):  # in another thread
                decision = self._decision(context, arguments)
            return decision.result()

        done = Future()
        done.set_result(None)
        return Deferred(done, finish, is_slow=True)

    def _decision(self, context, arguments):
        """The Deferred of a call."""
        with self._refuse_failures(context):
            begun = self._select(context, **arguments)
            self._notify(START, context, arguments)

        def finish():
            with self._refuse_failures(context):
                result = begun.result()
                self._notify(END, context, arguments)
                return result

        return begun.then(finish)

    def _notify(self, phase, context, arguments):
        if self._notifications is not None:
            self._notifications.tell(phase, context, arguments)

    @contextlib.contextmanager
    def _refuse_failures(self, context):
        """Turn errors into NoValidHost."""
        try:
            yield
        except errors.NoValidHost:
            raise
        except errors.Invalid as error:
            raise errors.NoValidHost(str(error)) from None
        except Exception as error:
            LOG.exception('Request %s failed, and is refused', _id(context) or '-')
            why = f'The scheduler failed: {type(error).__name__}: {error}'
            refusal = errors.NoValidHost(why, for_tenants=FAILED)
            raise _for_caller(refusal, context) from None

    def _begin(self, context, requests, *arguments):
        networks = self._networks and _networks(requests[0])
        begin = super()._begin
        if not networks:
            return begin(context, requests, *arguments)
        future = self._networks.begin(networks)

        def finish():
            try:
                aggregates = future.result()
            except errors.NoValidHost as refusal:
                LOG.warning('Request %s is refused: %s', _id(context) or '-', refusal.reason)
                raise _for_caller(refusal, context) from None
            limited = []
            for request in requests:
                destination = request.destination or RequestedDestination()
                both = (*destination.aggregates, *aggregates)
                destination = dataclasses.replace(destination, aggregates=both)
                limited.append(dataclasses.replace(request, destination=destination))
            return begin(context, limited, *arguments).result()

        return Deferred(future, finish, is_slow=True)

    @expected
    def update_aggregates(self, context, aggregates):
        self._mirror.aggregates_changed()

    @expected
    def delete_aggregate(self, context, aggregate):
        self._mirror.aggregates_changed()

    @expected
    def update_instance_info(self, context, host_name, instance_info):
        self._mirror.host_told(words.name(host_name, 'host_name'))

    @expected
    def delete_instance_info(self, context, host_name, instance_uuid):
        self._mirror.host_told(words.name(host_name, 'host_name'))

    @expected
    def sync_instance_info(self, context, host_name, instance_uuids):
        self._mirror.host_told(words.name(host_name, 'host_name'))


def _id(context):
    return getattr(context, 'request_id', None)


def _for_caller(refusal, context):
    """The refusal of a call that the engine has not decided, for its caller."""
    return callers.for_caller(refusal, _id(context), CONF.explain.tell_callers)


def _age_s(context):
    """Seconds since the request was made, by the clock of Nova's API; 0 if it is not told."""
    try:
        requested_at = words.moment(context.timestamp)
    except (AttributeError, ValueError):
        return 0.0
    return (timeutils.utcnow(with_timezone=True) - requested_at).total_seconds()


def _networks(request):
    """The networks that a request for a new place names: pairs of a port and a network."""
    if request.is_rebuild:
        return []
    requested = read(read(request.read_spec(), 'requested_networks'), 'objects') or ()
    pairs = ((read(network, 'port_id'), read(network, 'network_id')) for network in requested)
    return [pair for pair in pairs if any(pair)]


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

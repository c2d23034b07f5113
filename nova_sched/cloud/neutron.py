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
"""Neutron's API, as far as a scheduler needs it, and the aggregates of hosts that reach the
segments of requested networks.

Neutron makes a resource provider in Placement for each segment of a routed network, and an
aggregate of Nova with the hosts that reach it. The provider is in that aggregate.
"""

import concurrent.futures

from nova_sched import errors
from nova_sched.cloud import keystone
from nova_sched.conf.services import register_keystone_opts

TIMEOUTS_S = 3.0, 20.0  # of a connection and of an answer
CONNECTIONS = 16
THREADS = 8
FOR_TENANTS = 'The segments of a requested network are not known.'


class NeutronClient(keystone.Client):
    """Requests to Neutron. They raise NeutronError."""

    GROUP = 'neutron'
    UNAVAILABLE = errors.NeutronError
    REFUSED = staticmethod(lambda why, _status: errors.NeutronError(why))

    def port(self, uuid):
        """Return the `network_id` of a port, and the UUIDs of its subnets."""
        port = self._get(f'/v2.0/ports/{uuid}')['port']
        return port['network_id'], [
            address['subnet_id'] for address in port.get('fixed_ips') or ()
        ]

    def segment_of(self, subnet_uuid):
        """Return the UUID of a subnet's segment; None if its network is not routed."""
        return self._get(f'/v2.0/subnets/{subnet_uuid}')['subnet'].get('segment_id')

    def segments_of(self, network_uuid):
        """Return the UUIDs of the segments of a network's subnets; empty if it is not routed."""
        subnets = self._get('/v2.0/subnets', network_id=network_uuid)['subnets']
        segments = (subnet.get('segment_id') for subnet in subnets)
        return sorted({segment for segment in segments if segment is not None})


def client(conf):
    """The NeutronClient of the options in [neutron]. Raises BadConfig; sends no request."""
    register_keystone_opts(conf, 'neutron')
    timeout_s = conf.neutron.timeout
    timeouts_s = (timeout_s,) * 2 if timeout_s else TIMEOUTS_S
    return NeutronClient.of_options(conf, CONNECTIONS, timeouts_s)


class RoutedNetworks:
    """Finds the aggregates in threads of its own, because a server of calls must not wait."""

    def __init__(self, neutron, placement):
        self._neutron, self._placement = neutron, placement
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS, 'nova-sched-network')

    def begin(self, networks):
        """Return a Future of ``aggregates``."""
        return self._pool.submit(self.aggregates, networks)

    def stop(self):
        self._pool.shutdown(wait=False, cancel_futures=True)

    def aggregates(self, networks):
        """Return a set of aggregate UUIDs for each routed network: the host must be in one of
        each.

        ``networks`` are pairs of a port UUID and a network UUID, one of which may be None. Raises
        NoValidHost if Neutron or Placement does not tell.
        """
        try:
            sets = [self._of_network(port, network) for port, network in networks]
        except (errors.NeutronError, errors.PlacementError) as error:
            reason = f'The segments of a requested network cannot be read: {error}.'
            raise errors.NoValidHost(reason, for_tenants=FOR_TENANTS) from None
        return tuple(aggregates for aggregates in sets if aggregates)

    def _of_network(self, port, network):
        """The aggregates of one requested network; empty if any host will do.

        A port with an address stays in the segment of its subnet. All others may be in any segment
        of their network.
        """
        if port is not None:
            network, subnets = self._neutron.port(port)
            if subnets:
                segment = self._neutron.segment_of(subnets[0])
                return self._of_segments([] if segment is None else [segment])
        return self._of_segments([] if network is None else self._neutron.segments_of(network))

    def _of_segments(self, segments):
        aggregates = set()
        for segment in segments:
            of_segment = self._placement.aggregates(segment)
            if not of_segment:
                reason = f'Segment {segment} of a requested network has no aggregate in Placement.'
                raise errors.NoValidHost(reason, for_tenants=FOR_TENANTS)
            aggregates.update(of_segment)
        return frozenset(aggregates)

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
"""Neutron's API, as far as a scheduler needs it."""

from nova_sched import errors
from nova_sched.cloud import keystone
from nova_sched.conf import neutron as conf_neutron

TIMEOUTS_S = 3.0, 20.0  # of a connection and of an answer
CONNECTIONS = 16


class NeutronClient(keystone.Client):
    """Requests to Neutron. They raise NeutronError."""

    GROUP = conf_neutron.GROUP
    UNAVAILABLE = errors.NeutronError
    REFUSED = staticmethod(lambda why, _status: errors.NeutronError(why))

    def port(self, uuid):
        """Returns the `network_id` of a port, and the UUIDs of its subnets."""
        port = self._get(f'/v2.0/ports/{uuid}')['port']
        return port['network_id'], [
            address['subnet_id'] for address in port.get('fixed_ips') or ()
        ]

    def segment_of(self, subnet_uuid):
        """Returns the UUID of a subnet's segment; None if its network is not routed."""
        return self._get(f'/v2.0/subnets/{subnet_uuid}')['subnet'].get('segment_id')

    def segments_of(self, network_uuid):
        """Returns the UUIDs of the segments of a network's subnets; empty if it is not routed."""
        subnets = self._get('/v2.0/subnets', network_id=network_uuid)['subnets']
        segments = (subnet.get('segment_id') for subnet in subnets)
        return sorted({segment for segment in segments if segment is not None})


def client(conf):
    """The NeutronClient of the options in [neutron]. Raises BadConfig; sends no request."""
    conf_neutron.register_keystone_opts(conf)
    timeout_s = conf.neutron.timeout
    timeouts_s = (timeout_s,) * 2 if timeout_s else TIMEOUTS_S
    return NeutronClient.of_options(conf, CONNECTIONS, timeouts_s)

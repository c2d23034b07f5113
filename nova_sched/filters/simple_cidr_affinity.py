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
"""SimpleCIDRAffinityFilter."""

import functools
import ipaddress

from nova_sched import errors
from nova_sched.filters import Filter
from nova_sched.state.facts import LASTING

NEAR, SIZE = 'build_near_host_ip', 'cidr'


def network(request):
    """Return the network of the addresses that are near enough; None: any. Raises
    InvalidRequest."""
    near, size = request.hint(NEAR), request.hint(SIZE, '/24')
    if not near:
        return None
    for name, value in ((NEAR, near), (SIZE, size)):
        if not isinstance(value, str):
            raise errors.InvalidRequest(f'scheduler hint {name}', f'{value!r:.80} is not text')
    try:
        # The texts are joined unchanged: without its slash the size would become digits of the
        # address.
        return ipaddress.ip_network(near + size, strict=False)
    except ValueError:
        raise _at_fault(near, size) from None


def _at_fault(near, size):
    """Return the error that names the invalid one of the two hints."""
    try:
        ipaddress.ip_address(near)
    except ValueError:
        return errors.InvalidRequest(
            f'scheduler hint {NEAR}', f'{near!r:.80} is not an IP address'
        )
    return errors.InvalidRequest(
        f'scheduler hint {SIZE}', f'{size!r:.80} is not a size such as /24'
    )


@functools.lru_cache(maxsize=2**17)  # hosts keep their addresses between requests
def address(text):
    """Return the IP version and the address as a number; (0, 0) for an invalid address."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return 0, 0
    return parsed.version, int(parsed)


def holds(network):
    """Return whether an address, as text, is in the network: a fast test for many addresses."""
    mask, start = int(network.netmask), int(network.network_address)

    def inside(host_ip):
        version, number = address(str(host_ip))
        return version == network.version and number & mask == start

    return inside


class SimpleCIDRAffinityFilter(Filter):
    """The host's address is in the network around the address that the hint `build_near_host_ip`
    names.

    The hint `cidr`, with its slash, is the size of the network; /24 unless given.
    """

    for_tenants = 'their addresses are not in the requested network'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('hints',)

    def mask(self, hosts, request):
        near = network(request)
        return True if near is None else hosts.map('host_ip', holds(near))

    def depends_on(self, request):
        return (network(request),)

    def why(self, hosts, request, rows):
        subject = 'the host has no' if len(rows) == 1 else f'none of {len(rows)} hosts has an'
        return f'{subject} address in {network(request)}'

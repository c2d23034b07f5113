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
"""RetryFilter."""

from nova_sched.filters import Filter
from nova_sched.filters.reasons import causes
from nova_sched.state.facts import LASTING


class RetryFilter(Filter):
    """The request was not sent to this node of this host before."""

    for_tenants = 'the request was sent there before'
    host_facts = LASTING
    request_facts = ('retry_hosts',)

    def mask(self, hosts, request):
        fits = True
        for host, node in request.retry_hosts:
            fits = fits & ~hosts.named([host], [node])
        return fits

    def why(self, hosts, request, rows):
        return causes(len(rows), [(len(rows), 'where the request was sent before')])

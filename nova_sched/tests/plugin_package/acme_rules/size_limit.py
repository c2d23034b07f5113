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
"""SizeLimitFilter."""

from acme_rules.options import CONF
from nova_sched.filters import Filter
from nova_sched.state.facts import LASTING

KEY = 'largest_instance_mb'  # of the option, and in the metadata of aggregates


class SizeLimitFilter(Filter):
    """A host takes no instance with more memory (MiB) than its aggregates, or else the option,
    allow."""

    for_tenants = 'they take no server with that much memory'
    host_facts = LASTING
    request_facts = ('memory_mb',)

    def mask(self, hosts, request):
        limit = self._limit(hosts)
        return (limit == 0) | (request.memory_mb <= limit) if limit.any() else True

    def depends_on(self, request):
        return request.memory_mb, self._default()

    def why(self, hosts, request, rows):
        most = self._limit(hosts)[rows].max()
        return f'{request.memory_mb} MiB of memory asked, the most that a host takes is {most}'

    def _limit(self, hosts):
        """Memory (MiB) of the largest instance that each host takes; 0 is no limit."""
        return hosts.everywhere(hosts.aggregate_number(KEY, self._default(), int), int)

    def _default(self):
        return CONF.filter_scheduler.largest_instance_mb

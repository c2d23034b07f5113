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
"""NumInstancesFilter."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter
from nova_sched.filters.io_ops import least_over
from nova_sched.state.facts import HostFacts


class NumInstancesFilter(Filter):
    """The host holds fewer instances than max_instances_per_host."""

    for_tenants = 'they have as many instances as they may have'
    host_facts = HostFacts.COUNTS
    request_facts = ()

    def limit(self, hosts):
        """Return the limit that a host must stay below: one number, or one for each row."""
        return CONF.filter_scheduler.max_instances_per_host

    def mask(self, hosts, request):
        return hosts.num_instances < self.limit(hosts)

    def why(self, hosts, request, rows):
        _, number, limit = least_over(rows, hosts.num_instances, self.limit(hosts))
        subject = 'the host' if len(rows) == 1 else 'the emptiest host'
        return f'max_instances_per_host is {limit}, {subject} has {number}'

    def nearest(self, hosts, request, rows):
        return least_over(rows, hosts.num_instances, self.limit(hosts))[0]

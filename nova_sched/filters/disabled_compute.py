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
"""DisabledCompute, always on: the equivalent of Placement's trait COMPUTE_STATUS_DISABLED."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts

LEFT_OUT = 'left out (nova-sched-manage cloud status has the reasons)'


class DisabledCompute(Filter):
    """The compute service is not disabled; ComputeFilter checks whether it is alive."""

    for_tenants = 'they are disabled'
    run_filter_once_per_request = True
    host_facts = HostFacts.REPORTED
    request_facts = ()

    def mask(self, hosts, request):
        return ~hosts.disabled

    def why(self, hosts, request, rows):
        left_out = sum(hosts.nodes[row].is_left_out for row in rows.tolist())
        causes = [(len(rows) - left_out, 'disabled'), (left_out, LEFT_OUT)]
        return reasons.causes(len(rows), causes)

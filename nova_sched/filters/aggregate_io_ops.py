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
"""AggregateIoOpsFilter."""

from nova_sched.filters.io_ops import IoOpsFilter
from nova_sched.state.facts import LASTING, HostFacts


class AggregateIoOpsFilter(IoOpsFilter):
    """As IoOpsFilter; aggregates with metadata max_io_ops_per_host set it for their hosts."""

    host_facts = LASTING | HostFacts.COUNTS

    def limit(self, hosts):
        return hosts.aggregate_number('max_io_ops_per_host', super().limit(hosts), int)

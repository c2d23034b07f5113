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
"""LargeOnlyFilter."""

import numpy as np

from acme_rules.options import CONF
from nova_sched.filters import Filter

KEY = 'smallest_instance_mb'  # of the option, and of the metadata of aggregates


class LargeOnlyFilter(Filter):
    """A host takes no instance with less memory (MiB) than its aggregates, or else the option, ask for."""

    def mask(self, hosts, request):
        least = self._least(hosts)
        return hosts.everywhere(request.memory_mb, int) >= least if np.any(least) else True

    def depends_on(self, request):
        return request.memory_mb, self._default()

    def why(self, hosts, request, rows):
        least = hosts.everywhere(self._least(hosts), int)[rows].min()
        return f'{request.memory_mb} MiB of memory asked, the least that a host takes is {least}'

    def _least(self, hosts):
        """Memory (MiB) that each host asks for; one number if no aggregate sets any."""
        return hosts.aggregate_number(KEY, self._default(), int)

    def _default(self):
        return CONF.filter_scheduler.smallest_instance_mb

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
"""ComputeFilter."""

from nova_sched.conf import CONF
from nova_sched.filters import Filter


class ComputeFilter(Filter):
    """The compute service is switched on, not forced down, and was seen within service_down_time seconds."""

    run_filter_once_per_request = True

    def mask(self, hosts, request):
        patience_s = CONF.service_down_time
        up = hosts.seen_s >= hosts.now_s - patience_s
        up &= hosts.seen_s <= hosts.now_s + patience_s  # a clock that runs ahead is as wrong as a late report
        up &= ~(hosts.disabled | hosts.forced_down)
        return up

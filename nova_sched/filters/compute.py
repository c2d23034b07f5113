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

import numpy as np

from nova_sched.conf import CONF
from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts

ROUNDED_S = 0.001  # more than a sum of times is rounded


class ComputeFilter(Filter):
    """The compute service is enabled, not forced down, and reported within service_down_time
    seconds."""

    for_tenants = 'they are not in service'
    run_filter_once_per_request = True
    host_facts = HostFacts.REPORTED
    request_facts = ()
    follows_time = True

    def mask(self, hosts, request):
        down_time_s = CONF.service_down_time
        up = hosts.seen_s >= hosts.now_s - down_time_s
        up &= (
            hosts.seen_s <= hosts.now_s + down_time_s
        )  # a clock that is ahead is as wrong as a late report
        up &= ~(hosts.disabled | hosts.forced_down)
        return up

    def until_s(self, hosts):
        """A host that is alive falls silent; one whose clock is ahead will be alive."""
        down_s, seen_s = CONF.service_down_time, hosts.seen_s
        ahead = seen_s > hosts.now_s + down_s
        next_s = np.where(ahead, seen_s - down_s, seen_s + down_s) - ROUNDED_S
        return np.where(seen_s < hosts.now_s - down_s, np.inf, next_s)

    def why(self, hosts, request, rows):
        disabled, down, seen_s = hosts.disabled[rows], hosts.forced_down[rows], hosts.seen_s[rows]
        age_s, rest = hosts.now_s - seen_s, ~(disabled | down)
        silent, ahead = rest & (age_s > 0), rest & (age_s < 0)
        causes = [(disabled, 'disabled'), (down & ~disabled, 'forced down')]
        if silent.any():
            latest = f', the latest heartbeat is {age_s[silent].min():.0f} s old'
            detail = latest if seen_s[silent].any() else ''
            causes.append((silent, f'silent for more than {CONF.service_down_time} s{detail}'))
        if ahead.any():
            causes.append((ahead, f'ahead of our clock by {-age_s[ahead].max():.0f} s or more'))
        return reasons.causes(
            len(rows), [(np.count_nonzero(mask), cause) for mask, cause in causes]
        )

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
"""MetricsFilter."""

import numpy as np

from nova_sched.conf import ratios
from nova_sched.filters import Filter
from nova_sched.filters.reasons import count
from nova_sched.state.facts import HostFacts


class MetricsFilter(Filter):
    """The host reports every metric that [metrics] weight_setting names, even if without a
    value."""

    for_tenants = 'they do not report all metrics'
    host_facts = HostFacts.REPORTED
    request_facts = ()

    def mask(self, hosts, request):
        fits = True
        for name, _ in ratios('metrics', 'weight_setting'):
            fits = fits & ~np.isnan(hosts.metric(name))
        return fits

    def why(self, hosts, request, rows):
        lacking = {name: np.count_nonzero(np.isnan(hosts.metric(name)[rows]))
                   for name, _ in ratios('metrics', 'weight_setting')}  # fmt: skip
        if len(rows) == 1:
            return (
                'the host does not report '
                f'{" and ".join(name for name in lacking if lacking[name])}'
            )
        return ', '.join(
            f'{name} is not reported by {count(number, "host")}'
            for name, number in lacking.items()
            if number
        )

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
"""MetricsWeigher."""

import numpy as np

from nova_sched import errors
from nova_sched.conf import CONF, ratios
from nova_sched.weighers import Weigher


class MetricsWeigher(Weigher):
    """The sum of value x ratio over the metrics of [metrics] weight_setting.

    A host that does not report one of them weighs weight_of_unavailable, unless ratio x
    multiplier is 0 there. If metrics are required, which is the default, the request fails as in
    Nova, but with BadConfig. The operator must enable MetricsFilter or set [metrics] required to
    false.
    """

    group = 'metrics'
    option = 'weight_multiplier'
    key = 'metrics_weight_multiplier'
    request_facts = ()

    def raw(self, hosts, rows, request):
        wanted = ratios('metrics', 'weight_setting')
        if not wanted:
            return None
        weights, lacking = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        multiplier = self.multiplier(hosts, rows)
        for name, ratio in wanted:
            values = hosts.metric(name)[rows]
            has_value = np.isfinite(values)
            if CONF.metrics.required and not has_value.all():
                lacks = f'{np.count_nonzero(~has_value)} of {len(rows)} hosts that could be chosen'
                why = f'{name} has no value on {lacks}: enable MetricsFilter, or set it to false'
                raise errors.BadConfig('[metrics] required', why)
            weights += np.where(has_value, values, 0.0) * ratio
            lacking |= ~has_value & (ratio * multiplier != 0)
        weights[lacking] = CONF.metrics.weight_of_unavailable
        return weights

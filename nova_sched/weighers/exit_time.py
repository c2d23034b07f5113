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
"""ExitTimeWeigher."""

import numpy as np

from nova_sched.state import lifetime
from nova_sched.state.facts import OWN_HOSTS
from nova_sched.state.hosts import Hosts
from nova_sched.weighers import Weigher

STEP_S = 300.0  # an extension of that length counts half as much as one of three times it
FOREVER_S = 30 * 86400.0  # an end that is not known, or later than this, is so far off


class ExitTimeWeigher(Weigher):
    """Hosts that would be empty hardly later with the server on them are better.

    The weight is log2(1 + extension / 300 s), negated. The extension is the time by which the
    server would end after the last one on the host (``state.lifetime``). An empty host ends now. A
    server whose end is not known extends every host on which all ends are known.
    """

    option = 'exit_time_weight_multiplier'
    load = True
    minval = float(-np.log2(1.0 + FOREVER_S / STEP_S))
    maxval = 0.0
    request_facts = 'hints', 'extra_specs', 'image_properties', OWN_HOSTS
    per_request = 'exit_s'

    def raw(self, hosts, rows, request):
        if not isinstance(hosts, Hosts):
            return np.zeros(len(rows))
        end_s = lifetime.end_s(getattr(hosts, 'real', hosts), request)
        left_s = FOREVER_S if end_s is None else min(max(end_s - hosts.now_s, 0.0), FOREVER_S)
        there_s = np.clip(hosts.exit_s[rows] - hosts.now_s, 0.0, FOREVER_S)
        return -np.log2(1.0 + np.maximum(left_s - there_s, 0.0) / STEP_S)

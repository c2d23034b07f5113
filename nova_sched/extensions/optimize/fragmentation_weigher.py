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
"""FragmentationWeigher."""

import numpy as np

from nova_sched.conf import CONF
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.mix import size_of
from nova_sched.state.hosts import Hosts, WhatIf
from nova_sched.weighers import Weigher

MIDDLE = 1000.0  # a cost of one whole device


class FragmentationWeigher(Weigher):
    """Hosts whose free capacity stays usable for the usual requests are better.

    The weight is the cost of the request there, negated: thousandths of a device that no request
    of the mix can use any more, or of a mean host without devices. With keep_empty it is between
    -1 and 1, and 2 less on an empty host. ``scores`` are made off the loop
    (``mix_learner``); until they are there, all weights are 0. They change the version.
    """

    option = 'fragmentation_weight_multiplier'
    load = True
    request_facts = ('resources', 'groups', 'required_traits', 'forbidden_traits', 'pieces')

    def __init__(self):
        self._scores, self.version = None, 0
        self._latest: tuple = None, None  # request and its Size: a decision asks more than once

    def use(self, scores):
        """Weigh by these ``packing.scores.Scores`` from now on."""
        self._scores, self.version = scores, self.version + 1

    def raw(self, hosts, rows, request):
        scores = self._scores
        if scores is None or not isinstance(hosts, Hosts):
            return np.zeros(len(rows))
        size = self._size(hosts, request)
        if not isinstance(hosts, WhatIf):
            costs, empty = scores.costs(hosts, size, rows)
        elif hosts.is_real:
            costs, empty = scores.costs(hosts.real, size, hosts.picked[rows])
        else:
            tables = scores.tables
            resources = read_resources(hosts, rows, tables.classes)
            costs, empty = tables.cost(size, tables.state(resources))[0], resources.empty
        if not CONF.filter_scheduler.keep_empty:
            return -costs
        return -costs / (MIDDLE + np.abs(costs)) - 2.0 * empty

    def device(self, hosts, row, request):
        if self._scores is None or not np.any(self.multiplier(hosts, np.array([row]))):
            return None
        return self._scores.device(hosts, row, self._size(hosts, request))

    def _size(self, hosts, request):
        last_request, size = self._latest
        if last_request is not request:
            size = size_of(request, hosts.child_classes)
            self._latest = request, size
        return size

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
"""The servers of a plan on their destinations, for the rules on amounts and numbers."""

import numpy as np

from nova_sched.engine.planning.fleet_builder import SERVERS


class Arrivals:
    """What comes to each host. ``counts`` (int64 [host]) is the number of servers, ``refused``
    (bool [host]) says where a rule refuses one of them, ``left`` are the kinds that are not
    checked yet."""

    def __init__(self, plan):
        fleet = self._fleet = plan.fleet
        pairs = np.array(plan.moves, dtype=np.int64).reshape(-1, 2)
        self._kinds, self._targets = fleet.servers.kind[pairs[:, 0]], pairs[:, 1]
        self._amounts = np.zeros(fleet.free.shape, dtype=np.int64)
        np.add.at(self._amounts, self._targets, fleet.demand[self._kinds])
        self.counts = np.bincount(self._targets, minlength=len(fleet))
        self.refused = np.zeros(len(fleet), dtype=bool)
        self.left = np.unique(self._kinds).tolist()

    def check(self, hosts, rules, request, kind):
        """Evaluate the rules for one server of a kind, on each of its destinations, as if all
        other servers were there. Takes as long as the kind has destinations, whatever the number
        of hosts. Runs in the loop.
        """
        rows = np.unique(self._targets[self._kinds == kind])
        view = hosts.what_if(rows)
        view.num_instances = hosts.num_instances[rows] + self.counts[rows] - 1
        more = self._amounts[rows] - self._fleet.demand[kind]
        for place, name in enumerate(self._fleet.columns):
            if name != SERVERS and more[:, place].any():
                view.resources[name].take(slice(None), more[:, place])
        for rule in rules:
            verdict = rule.mask(view, request)
            if verdict is not True:
                self.refused[rows] |= ~verdict

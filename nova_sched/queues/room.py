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
"""Checks if a node has the requested amounts of all resource classes, for all queues at once."""

import itertools
import operator

import numpy as np

from nova_sched.filters import Filter
from nova_sched.queues.requests import Requests
from nova_sched.state.hosts import Hosts


class Room:
    """The verdicts of a rule that judges each resource class by itself, for all queues of a
    catalogue.

    A queue requests the amounts of its flavor and those of its special thing. The two have no
    resource class in common, so each distinct amount is judged only once. No queue uses shared
    CPUs for dedicated ones: that requires NUMA cells, and a flavor with NUMA cells has no queue.
    """

    def __init__(self, rule: Filter, requests: Requests):
        catalogue = requests.catalogue
        bare = [catalogue.bare[str(flavor.name)].resources for flavor in catalogue.flavors]
        more = [
            {special.name: 1} if special.kind == 'resource' else {}
            for special in catalogue.specials
        ]
        asked = [*bare, {}, *more]
        amounts = sorted({pair for one in asked for pair in one.items()})
        # Nothing at all comes first: an empty request asks for it, so that no request is empty.
        number = {pair: 1 + place for place, pair in enumerate(amounts)}
        places = [[number[pair] for pair in one.items()] or [0] for one in asked]
        self._rule, self._count = rule, 1 + len(amounts)
        self._units = [
            (name, np.array([units for _, units in pairs], np.int64))
            for name, pairs in itertools.groupby(amounts, operator.itemgetter(0))
        ]
        self._of = np.array([place for one in places for place in one], np.intp)
        self._starts = np.cumsum([0, *(len(one) for one in places[:-1])])
        self._flavor, self._special = requests.flavor, requests.special + len(bare)

    def fits(self, hosts: Hosts) -> np.ndarray:
        """Returns bool for each queue, for the one node of these hosts."""
        gives, end = np.ones(self._count, dtype=bool), 1
        for name, units in self._units:
            start, end = end, end + len(units)
            gives[start:end] = self._rule.gives(hosts, name, units)
        parts = np.logical_and.reduceat(gives[self._of], self._starts)
        return parts[self._flavor] & parts[self._special]

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

import numpy as np

from nova_sched.queues.fits.asking import Requests
from nova_sched.state.hosts import Hosts


class Room:
    """The result of ResourceCapacity for all queues of a catalogue.

    A queue requests the amounts of its flavor and those of its special thing. The two have no
    resource class in common, so they are checked separately, and each only once. No queue uses
    shared CPUs for dedicated ones: that requires NUMA cells, and a flavor with NUMA cells has no
    queue.
    """

    def __init__(self, requests: Requests):
        catalogue = requests.catalogue
        bare = [catalogue.bare[str(flavor.name)].resources for flavor in catalogue.flavors]
        more = [
            {special.name: 1} if special.kind == 'resource' else {}
            for special in catalogue.specials
        ]
        amounts = [*bare, {}, *more]
        self._classes = sorted({name for one in amounts for name in one})
        places = {name: place for place, name in enumerate(self._classes)}
        # An empty request takes 0 of an additional last class, so that no request is empty.
        pairs = [
            sorted((places[name], units) for name, units in one.items()) or [(len(places), 0)]
            for one in amounts
        ]
        self._of = np.array([place for one in pairs for place, _ in one], np.intp)
        self._units = np.array([units for one in pairs for _, units in one], np.int64)
        self._starts = np.cumsum([0, *(len(one) for one in pairs[:-1])])
        self._flavor, self._special = requests.flavor, requests.special + len(bare)

    def fits(self, hosts: Hosts) -> np.ndarray:
        """Returns bool for each queue, for the one node of these hosts."""
        free, largest, least, step, below = self._figures(hosts)
        of, units = self._of, self._units
        fits = (
            (units <= free[of])
            & (units <= largest[of])
            & (units >= least[of])
            & (units % step[of] == 0)
        )
        if below.any():
            fits |= below[of]
        parts = np.logical_and.reduceat(fits, self._starts)
        return parts[self._flavor] & parts[self._special]

    def _figures(self, hosts: Hosts) -> tuple[np.ndarray, ...]:
        """Returns the node's figures for each class and for the additional last one.

        The last array says whether only the node's devices have the class.
        """
        count = len(self._classes) + 1
        free, largest, least, below = (np.zeros(count, np.int64) for _ in range(4))
        step = np.ones(count, np.int64)
        for place, name in enumerate(self._classes):
            found = hosts.resources.get(name)
            if found is None:
                free[place] = -1
            else:
                free[place], largest[place] = found.free[0], found.largest[0]
                least[place], step[place] = found.min_unit[0], max(found.step_size[0], 1)
            if name in hosts.child_classes:
                below[place] = not hosts.has_class(name)[0] and hosts.has_below(name)[0]
        return free, largest, least, step, below.astype(bool)

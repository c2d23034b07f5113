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
"""Kept costs: a decision computes only those of hosts in a new state."""

import collections

import numpy as np

from nova_sched.packing.fleet import read_fleet
from nova_sched.packing.host_states import HostStates, resized

MOST_STATES = 2**14  # states of hosts that are kept, or twice as many as there are hosts
SOME = 64  # states whose costs are computed without a pause
MEMORY = 64 * 2**20  # bytes that kept costs may take


class Costs:
    """The costs of a size, and the places of its devices, by state. The arrays may have more lines
    than the ``count`` that are known."""

    def __init__(self):
        self.costs, self.places, self.count = np.zeros(0), np.zeros(0, np.int16), 0

    @property
    def bytes(self):
        return self.costs.nbytes + self.places.nbytes

    def add(self, costs, places):
        """Add those of the next states."""
        end = self.count + len(costs)
        if end > len(self.costs):
            self.costs = resized(self.costs, end + self.count)
            self.places = resized(self.places, end + self.count)
        self.costs[self.count : end], self.places[self.count : end] = costs, places
        self.count = end


class Scores:
    """The costs of sizes on all hosts, up to date with the host state. Used in the loop only.

    A table that ``Tables`` made is constant, so a cost depends on the size and the state of the
    host only: what it has free. States are numbered, and a cost is computed once for each. The
    costs of the size that was used last are dropped last.
    """

    def __init__(self, tables, fleet, memory=MEMORY):
        self.tables, self._memory = tables, memory
        self._start(fleet)

    def _start(self, fleet):
        """Start without states, with these hosts."""
        self._known: dict[tuple, int] = {}
        self._states: HostStates | None = None
        self._kept: collections.OrderedDict[object, Costs] = collections.OrderedDict()
        self._show(fleet)

    def _show(self, fleet):
        self._empty, self._position = fleet.empty, fleet.position
        self._state_of = self._number(fleet)

    def prepare(self, sizes, pause=lambda: None):
        """Compute the costs of these sizes on all hosts. ``pause`` is called after every few
        states, because the loop waits meanwhile."""
        for size in sizes:
            self._of(size, SOME, pause)

    def costs(self, hosts, size, rows=slice(None)):
        """Returns the costs of a size, and whether a host is empty, for these rows."""
        self._catch_up(hosts)
        return self._of(size).costs[self._state_of[rows]], self._empty[rows]

    def device(self, hosts, row, size):
        """Returns the UUID of the device that a request takes on a row; None: any, or several."""
        self._catch_up(hosts)
        place = self._of(size).places[self._state_of[row]]
        tree = hosts.nodes[row].providers
        return None if tree is None or place < 0 else self.tables.provider(tree, place)

    def _of(self, size, step=MOST_STATES, pause=lambda: None):
        """The Costs of a size; ``step`` new states are computed at a time."""
        found = self._kept.pop(size, None) or Costs()
        count = len(self._known)
        while found.count < count:
            new = self._states.picked(slice(found.count, min(found.count + step, count)))
            found.add(*self.tables.cost(size, new))
            pause()
        self._kept[size] = found
        if len(self._kept) * found.bytes > self._memory and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return found

    def _number(self, fleet):
        """The numbers of the states of hosts; new states are computed."""
        before = len(self._known)
        found, firsts = np.empty(len(fleet), dtype=np.int64), list[int]()
        for line, key in enumerate(self.tables.keys(fleet)):
            number = self._known.setdefault(key, len(self._known))
            found[line] = number
            if number >= before + len(firsts):
                firsts.append(line)
        if firsts:
            new = self.tables.state(fleet.some(firsts))
            self._states = new if self._states is None else self._states.put(before, new)
        return found

    def _catch_up(self, hosts):
        changed, count = hosts.changed, len(self._state_of)
        if changed.end == self._position and len(hosts) == count:
            return
        found = changed.since(self._position)
        if len(self._known) > max(MOST_STATES, 2 * count):
            self.tables.machines.forget()
            self._start(read_fleet(hosts, classes=self.tables.classes))
        elif found is None or len(hosts) != count:
            self._show(read_fleet(hosts, classes=self.tables.classes))
        else:
            rows = np.array(sorted(found[0]), dtype=np.intp)
            fleet = read_fleet(hosts, rows, self.tables.classes)
            self._state_of[rows] = self._number(fleet)
            self._empty[rows], self._position = fleet.empty, fleet.position

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
"""Costs that are kept by size and host: a decision computes those of hosts that changed."""

import collections

import numpy as np

from nova_sched.packing.fleet import read_fleet

MOST_STATES = 2**17  # states of hosts that are told apart
MEMORY = 64 * 2**20  # bytes that kept costs may take


class Scores:
    """The costs of sizes on all hosts, up to date with the host state. Used in the loop only.

    A table that ``Tables`` made is constant, so the cost of a size on a host changes only with
    the host. The costs of the size that was used last are dropped last.
    """

    def __init__(self, tables, fleet, memory=MEMORY):
        self.tables, self._memory = tables, memory
        self._show(fleet)

    def _show(self, fleet):
        """Start with these hosts."""
        self._state, self._empty = self.tables.state(fleet), fleet.empty
        self._position, self._version = fleet.position, 1
        self._changed = np.ones(len(fleet), dtype=np.int64)
        self._alike: dict[bytes, int] = {}
        self._kind = self._number(self._state)
        self._kept: collections.OrderedDict = collections.OrderedDict()

    def prepare(self, sizes, pause=lambda: None):
        """Compute the costs of these sizes on all hosts. ``pause`` is called after each."""
        for size in sizes:
            self._of(size)
            pause()

    def costs(self, hosts, size):
        """Returns the costs of a size, and whether a host is empty, for all rows of the hosts."""
        self._catch_up(hosts)
        return self._of(size)[0], self._empty

    def device(self, hosts, row, size):
        """Returns the UUID of the device that a request takes on a row; None: any, or several."""
        self._catch_up(hosts)
        place = self._of(size)[1][row]
        tree = hosts.nodes[row].providers
        return None if tree is None or place < 0 else self.tables.provider(tree, place)

    def _of(self, size):
        """The costs of a size, and the places of its devices."""
        costs, places, version = self._kept.pop(size, (None, None, 0))
        stale = np.flatnonzero(self._changed > version)
        if costs is None:
            costs, places = np.zeros(len(self._changed)), np.zeros(len(self._changed), np.int16)
        if len(stale):
            _, first, alike = np.unique(self._kind[stale], return_index=True, return_inverse=True)
            found, chosen = self.tables.cost(size, self._state.picked(stale[first]))
            costs[stale], places[stale] = found[alike], chosen[alike]
        self._kept[size] = costs, places, self._version
        taken = len(self._kept) * (costs.nbytes + places.nbytes)
        if taken > self._memory and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return costs, places

    def _number(self, state):
        """A number for each host of a State; equal ones are in the same state."""
        lines = zip(state.free, state.milli, state.models, strict=True)
        keys = (b''.join(part.tobytes() for part in line) for line in lines)
        if len(self._alike) > MOST_STATES:
            self._alike.clear()
            self._kind = np.arange(-len(self._kind), 0)  # like no new number
        return np.array([self._alike.setdefault(key, len(self._alike)) for key in keys], np.int64)

    def _catch_up(self, hosts):
        found = hosts.changed.since(self._position)
        if found is None or len(hosts) != len(self._changed):
            self._show(read_fleet(hosts, classes=self.tables.classes))
            return
        rows = np.array(sorted(found[0]), dtype=np.intp)
        if not len(rows):
            return
        fleet = read_fleet(hosts, rows, self.tables.classes)
        new = self.tables.state(fleet)
        if new.milli.shape[1] > self._state.milli.shape[1]:
            self._show(read_fleet(hosts, classes=self.tables.classes))
            return
        self._state.put(rows, new)
        self._empty[rows] = fleet.empty
        self._kind[rows] = self._number(self._state.picked(rows))
        self._position, self._version = fleet.position, self._version + 1
        self._changed[rows] = self._version

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
from typing import Any

import numpy as np

from nova_sched.extensions.optimize.packing.host_resources import read_resources, resized

MAX_STATES = 2**14  # states of hosts that are kept, or twice as many as there are hosts
BATCH = 64  # states whose costs are computed without a pause
MEMORY = 64 * 2**20  # bytes that kept costs may take


class Costs:
    """The costs of a size, NaN where they are not known, and the places of its devices, by
    state."""

    def __init__(self):
        self.costs, self.places = np.zeros(0), np.zeros(0, np.int16)

    @property
    def bytes(self):
        return self.costs.nbytes + self.places.nbytes

    def grow(self, count):
        """Have a line for each of so many states, or for more."""
        if len(self.costs) < count:
            lines = max(count, 2 * len(self.costs))
            self.costs = resized(self.costs, lines, fill=np.nan)
            self.places = resized(self.places, lines)


class Scores:
    """The costs of sizes on all hosts, up to date with the host state. Used in the loop only.

    A table that ``Tables`` made is constant, so a cost depends on the size and the state of the
    host only: what it has free. States are numbered, and a cost is computed once for each that a
    host is in when the size is asked for there. The costs of the size that was used last are
    dropped last.
    """

    def __init__(self, tables, resources, memory=MEMORY):
        self.tables, self._memory = tables, memory
        self._start(resources)

    def _start(self, resources):
        """Start without states, with these hosts."""
        self._known: dict[tuple, int] = {}
        self._states: Any = None  # HostStates, as soon as there are hosts
        self._kept: collections.OrderedDict[object, Costs] = collections.OrderedDict()
        self._show(resources)

    def _show(self, resources):
        self._empty, self._position = resources.empty, resources.position
        self._state_of = self._number(resources)

    def prepare(self, sizes, pause=lambda: None):
        """Compute the costs of these sizes on all hosts. ``pause`` is called after every few
        states, because the loop waits meanwhile."""
        for size in sizes:
            self._of(size, self._state_of, BATCH, pause)

    def costs(self, hosts, size, rows=slice(None)):
        """Return the costs of a size, and whether a host is empty, for these rows."""
        self._catch_up(hosts)
        states = self._state_of[rows]
        return self._of(size, states).costs[states], self._empty[rows]

    def device(self, hosts, row, size):
        """Return the UUID of the device that a request takes on a row; None: any, or several."""
        self._catch_up(hosts)
        states = self._state_of[[row]]
        (place,) = self._of(size, states).places[states]
        tree = hosts.nodes[row].providers
        return None if tree is None or place < 0 else self.tables.provider(tree, place)

    def _of(self, size, states, step=MAX_STATES, pause=lambda: None):
        """The Costs of a size, which are known at least for these states (numbers); ``step`` new
        ones are computed at a time."""
        kept = self._kept.pop(size, None) or Costs()
        kept.grow(len(self._known))
        unknown = states[np.isnan(kept.costs[states])]
        new = np.unique(unknown) if len(unknown) > 1 else unknown
        for start in range(0, len(new), step):
            batch = new[start : start + step]
            costs, places = self.tables.cost(size, self._states.picked(batch))
            kept.costs[batch], kept.places[batch] = costs, places
            pause()
        self._kept[size] = kept
        if len(self._kept) * kept.bytes > self._memory and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return kept

    def _number(self, resources):
        """The numbers of the states of hosts; new states are computed."""
        before = len(self._known)
        numbers, firsts = np.empty(len(resources), dtype=np.int64), list[int]()
        for line, key in enumerate(self.tables.keys(resources)):
            number = self._known.setdefault(key, len(self._known))
            numbers[line] = number
            if number >= before + len(firsts):
                firsts.append(line)
        if firsts:
            new = self.tables.state(resources.of_lines(firsts))
            self._states = new if self._states is None else self._states.put(before, new)
        return numbers

    def _catch_up(self, hosts):
        changed, count = hosts.changed, len(self._state_of)
        if changed.end == self._position and len(hosts) == count:
            return
        changes = changed.since(self._position)
        if len(self._known) > max(MAX_STATES, 2 * count):
            self.tables.machines.forget()
            self._start(read_resources(hosts, classes=self.tables.classes))
        elif changes is None or len(hosts) != count:
            self._show(read_resources(hosts, classes=self.tables.classes))
        else:
            rows = np.array(sorted(changes[0]), dtype=np.intp)
            resources = read_resources(hosts, rows, self.tables.classes)
            self._state_of[rows] = self._number(resources)
            self._empty[rows], self._position = resources.empty, resources.position

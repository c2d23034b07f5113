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
"""Hosts as the potentials read them: their free capacity, and the states that a table was applied
to."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from nova_sched.extensions.optimize.packing.devices import NO_MODEL
from nova_sched.hardware.machine import Machine
from nova_sched.hardware.providers import ProviderTree

WHOLE = 1000.0  # the potential of a mean host that takes nothing
BY_HOST = 'free', 'devices', 'machine', 'potential'  # arrays of HostStates, in their order
BY_DEVICE = 'milli', 'models', 'distinct'


@dataclasses.dataclass(frozen=True, slots=True)
class HostResources:
    """Hosts, a line each. ``free`` and ``capacity``: units by resource class of the node itself.

    ``trees``: the child providers of each host, or None; ``machines``: its NUMA cells and PCI
    devices, or None. ``empty``: whether it has no instance;
    ``position``: where in the list of changes it was read (``state.facts.ChangedRows``).
    """

    free: Mapping[str, np.ndarray]
    capacity: Mapping[str, np.ndarray]
    trees: list[ProviderTree | None]
    empty: np.ndarray
    position: int = 0
    machines: list[Machine | None] | None = None

    def __len__(self) -> int:
        return len(self.trees)

    def of_lines(self, lines):
        """Return these lines of it, a list of numbers, without capacities."""
        return HostResources(
            {name: units[lines] for name, units in self.free.items()},
            {},
            [self.trees[line] for line in lines],
            self.empty[lines],
            self.position,
            self.machines and [self.machines[line] for line in lines],
        )

    def picked(self, classes):
        """Return the free units of these resource classes, of shape (hosts, classes)."""
        units = np.zeros((len(self), len(classes)))
        for place, name in enumerate(classes):
            if name in self.free:
                units[:, place] = self.free[name]
        return units


def read_resources(hosts: Any, rows: Any = slice(None), classes: Any = None) -> HostResources:
    """Return the HostResources of these rows of a ``state.hosts.Hosts``, or of a view of it.

    With ``classes``, it has only these resource classes, and no capacities.
    """
    trees, machines = hosts.interned['shape'].values, hosts.interned['machine'].values
    names = list(getattr(hosts, 'real', hosts).resources) if classes is None else classes
    columns = {name: hosts.resources[name] for name in names if name in hosts.resources}
    capacity = (
        {}
        if classes is not None
        else {
            name: ((column.total - column.reserved) * column.ratio)[rows].astype(np.int64)
            for name, column in columns.items()
        }
    )
    return HostResources(
        {name: np.array(column.free[rows]) for name, column in columns.items()},
        capacity,
        [trees[slot] for slot in hosts.shape[rows].tolist()],
        hosts.num_instances[rows] == 0,
        hosts.changed.end,
        [machines[slot] for slot in hosts.machine[rows].tolist()],
    )


@dataclasses.dataclass(slots=True)
class HostStates:
    """Hosts, or states of hosts, a line each: free units of the node's resource classes and free
    PCI devices by kind, the sums over the devices (``devices``), the number of the machine
    (``machines.Machines``), and the potential without its cells; of each device the thousandths
    that are free, its model, and whether it is unlike the earlier ones."""

    free: np.ndarray
    devices: np.ndarray
    machine: np.ndarray
    potential: np.ndarray
    milli: np.ndarray
    models: np.ndarray
    distinct: np.ndarray

    def __len__(self):
        return len(self.free)

    def picked(self, rows):
        """Return these lines of it."""
        return HostStates(*(getattr(self, name)[rows] for name in (*BY_HOST, *BY_DEVICE)))

    def put(self, start, new):
        """Return these states with ``new`` ones from line ``start`` on; the arrays may have more
        lines than that."""
        lines, devices = start + len(new), new.milli.shape[1]
        states = self
        if lines > len(self) or devices > self.milli.shape[1]:
            space = max(lines, len(self), 2 * start)
            most = max(devices, self.milli.shape[1])
            states = HostStates(
                **{name: resized(getattr(self, name), space) for name in BY_HOST},
                milli=resized(self.milli, space, most),
                models=resized(self.models, space, most, NO_MODEL),
                distinct=resized(self.distinct, space, most),
            )
        rows = slice(start, lines)
        for name in BY_HOST:
            getattr(states, name)[rows] = getattr(new, name)
        for name in BY_DEVICE:
            getattr(states, name)[rows, :devices] = getattr(new, name)
        return states


def resized(array, lines, columns=None, fill=0):
    """Return a copy with so many lines, and columns if given; new ones are ``fill``."""
    shape = (lines, *array.shape[1:]) if columns is None else (lines, columns)
    copy = np.full(shape, fill, dtype=array.dtype)
    copy[tuple(slice(size) for size in array.shape)] = array
    return copy

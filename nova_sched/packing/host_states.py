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
"""The states of hosts that a table was applied to."""

import dataclasses

import numpy as np

from nova_sched.packing.models import NO_MODEL


@dataclasses.dataclass(slots=True)
class HostStates:
    """Hosts, or states of hosts, a line each: free units of the node's resource classes and free
    PCI devices by kind, thousandths free of each device, its model and whether it is unlike the
    earlier ones, the sums over the devices (``device_potential``), the number of the machine
    (``machines.Machines``), and the potential without its cells."""

    free: np.ndarray
    milli: np.ndarray
    models: np.ndarray
    distinct: np.ndarray
    devices: np.ndarray
    machine: np.ndarray
    potential: np.ndarray

    def __len__(self):
        return len(self.free)

    def picked(self, rows):
        return HostStates(
            self.free[rows],
            self.milli[rows],
            self.models[rows],
            self.distinct[rows],
            self.devices[rows],
            self.machine[rows],
            self.potential[rows],
        )

    def put(self, start, new):
        """Returns these states with ``new`` ones from line ``start`` on; the arrays may have more
        lines than that."""
        lines, devices = start + len(new), new.milli.shape[1]
        made = self
        if lines > len(self) or devices > self.milli.shape[1]:
            made = self._resized(
                max(lines, len(self), 2 * start), max(devices, self.milli.shape[1])
            )
        rows = slice(start, lines)
        for name in ('free', 'devices', 'machine', 'potential'):
            getattr(made, name)[rows] = getattr(new, name)
        for name in ('milli', 'models', 'distinct'):
            getattr(made, name)[rows, :devices] = getattr(new, name)
        return made

    def _resized(self, lines, devices):
        """Returns a copy with so many lines and devices."""
        return HostStates(
            resized(self.free, lines),
            resized(self.milli, lines, devices),
            resized(self.models, lines, devices, NO_MODEL),
            resized(self.distinct, lines, devices),
            resized(self.devices, lines),
            resized(self.machine, lines),
            resized(self.potential, lines),
        )


def resized(array, lines, columns=None, fill=0):
    """Returns a copy with so many lines, and columns if given; new ones are ``fill``."""
    shape = (lines, *array.shape[1:]) if columns is None else (lines, columns)
    made = np.full(shape, fill, dtype=array.dtype)
    made[tuple(slice(size) for size in array.shape)] = array
    return made

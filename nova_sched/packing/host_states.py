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

from nova_sched.packing.device_potential import Devices
from nova_sched.packing.models import NO_MODEL


@dataclasses.dataclass(slots=True)
class HostStates:
    """Hosts, a line each: free units of the node's resource classes, thousandths free of each
    device and its model, the sums over the devices, and the potential."""

    free: np.ndarray
    milli: np.ndarray
    models: np.ndarray
    devices: Devices
    potential: np.ndarray

    def picked(self, rows):
        return HostStates(
            self.free[rows],
            self.milli[rows],
            self.models[rows],
            self.devices.picked(rows),
            self.potential[rows],
        )

    def put(self, rows, new):
        """Replace these lines; ``new`` may have fewer devices."""
        self.free[rows], self.potential[rows] = new.free, new.potential
        self.milli[rows], self.models[rows] = 0, NO_MODEL
        self.milli[rows, : new.milli.shape[1]] = new.milli
        self.models[rows, : new.models.shape[1]] = new.models
        self.devices.put(rows, new.devices)

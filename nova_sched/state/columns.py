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
"""The cluster as arrays: row i is compute node i, in every column."""

import numpy as np

from nova_sched.state.vocab import Interned, Vocab, WordSets

# Column: type. Names are Nova's host state names where Nova has one.
SCALARS = {
    'cell': np.int32,  # id of the cell's UUID in ``cells``
    'seen_s': np.float64,  # seconds since the epoch: the last sign of life
    'disabled': np.bool_,  # the service is switched off by an operator, or the node reports so
    'forced_down': np.bool_,  # an operator says that the host is down
    'disk_slack_gb': np.int64,  # GiB that are free by the books but not on the disk
    'num_io_ops': np.int64,  # builds, resizes, snapshots, ... under way
    'num_instances': np.int64,
    'failed_builds': np.int64,  # since the last good one
    'hypervisor_version': np.int64,  # 2001000 is 2.1.0; 0 is unknown
    'aggregate_set': np.int32,  # slot of the host's aggregates
    'hypervisor_type': np.int32,  # slot, as the next three
    'cpu_info': np.int32,
    'supported_instances': np.int32,
    'host_ip': np.int32,
}
INTERNED = ('hypervisor_type', 'cpu_info', 'supported_instances', 'host_ip')


class Resource:
    """One resource class over all rows, in whole units (int64)."""

    ARRAYS = ('total', 'reserved', 'used', 'free', 'unused', 'largest', 'min_unit', 'step_size')

    def __init__(self, rows, capacity):
        self._arrays = {name: np.zeros(capacity, dtype=np.int64) for name in self.ARRAYS}
        self._arrays['ratio'] = np.ones(capacity)
        self.stepped = False  # whether any row has a smallest unit or a step other than 1
        self.publish(rows)

    def publish(self, rows):
        """Show the first ``rows`` rows: total, reserved, used (claims and foreign use), free (what claims may
        still take), unused (what lies idle), largest (most for one consumer), min_unit, step_size, ratio."""
        for name, array in self._arrays.items():
            setattr(self, name, array[:rows])

    def resize(self, capacity):
        for name, array in self._arrays.items():
            self._arrays[name] = np.resize(array, capacity)
            self._arrays[name][len(array) :] = 0

    def put(self, row, inventory):
        """Set a row from an Inventory (None: the node has nothing of it); use stays as it is."""
        total, reserved, ratio, capacity, largest, low, step = 0, 0, 1.0, 0, 0, 1, 1
        if inventory is not None:
            total, reserved, ratio = inventory.total, inventory.reserved, inventory.ratio
            capacity, largest = inventory.capacity, inventory.largest
            low, step = inventory.min_unit, inventory.step_size
        used = self._arrays['used'][row]
        values = (total, reserved, used, capacity - used, total - reserved - used, largest, low, step)
        for name, value in zip(self.ARRAYS, values, strict=True):
            self._arrays[name][row] = value
        self._arrays['ratio'][row] = ratio
        self.stepped = self.stepped or low != 1 or step != 1

    def take(self, row, amount):
        self.used[row] += amount
        self.free[row] -= amount
        self.unused[row] -= amount

    def move(self, source, target):
        for array in self._arrays.values():
            array[target] = array[source]
            array[source] = 0

    def fits(self, amount):
        """Rows that can give the amount to one consumer."""
        mask = self.free >= amount
        mask &= self.largest >= amount
        if self.stepped and amount:
            mask &= (self.min_unit <= amount) & (amount % np.maximum(self.step_size, 1) == 0)
        return mask


class Columns:
    """All rows. Attributes are the columns of SCALARS, and ``resources`` by class name."""

    def __init__(self, capacity=64):
        self._capacity = capacity
        self._arrays = {name: np.zeros(capacity, dtype=kind) for name, kind in SCALARS.items()}
        self.rows = 0
        self.resources = {}
        self.traits = Vocab()
        self.cells = Vocab()
        self.trait_sets = WordSets(capacity)
        self.interned = {name: Interned() for name in INTERNED}
        self._publish()

    def __len__(self):
        return self.rows

    def _publish(self):
        for name, array in self._arrays.items():
            setattr(self, name, array[: self.rows])
        for resource in self.resources.values():
            resource.publish(self.rows)

    def add(self):
        """Append an empty row and return its position."""
        if self.rows == self._capacity:
            self._grow(2 * self._capacity)
        row, self.rows = self.rows, self.rows + 1
        for name, column in self.interned.items():
            self._arrays[name][row] = column.take(None)
        self._publish()
        return row

    def _grow(self, capacity):
        for name, array in self._arrays.items():
            self._arrays[name] = np.resize(array, capacity)
            self._arrays[name][len(array) :] = 0
        for resource in self.resources.values():
            resource.resize(capacity)
        self.trait_sets.resize(capacity)
        self._capacity = capacity

    def remove(self, row):
        """Drop a row; the last row takes its place. Returns the row that moved (or the same row)."""
        last = self.rows - 1
        for name, column in self.interned.items():
            column.drop(self._arrays[name][row])
        if last != row:
            for array in self._arrays.values():
                array[row] = array[last]
        for array in self._arrays.values():
            array[last] = 0
        for resource in self.resources.values():
            resource.move(last, row)
        self.trait_sets.move(last, row)
        self.rows = last
        self._publish()
        return last

    def resource(self, name):
        """The columns of a resource class, made when the first node has some."""
        found = self.resources.get(name)
        if found is None:
            found = self.resources[name] = Resource(self.rows, self._capacity)
        return found

    def intern(self, name, row, value):
        """Set an interned column of a row."""
        column, array = self.interned[name], self._arrays[name]
        slot = column.take(value)
        column.drop(array[row])
        array[row] = slot

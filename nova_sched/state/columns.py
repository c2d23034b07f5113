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

import copy
from typing import Any

import numpy as np

from nova_sched.state.report import Inventory
from nova_sched.state.vocab import Interned, Vocab, WordSets

INTERNED = (
    'hypervisor_type',
    'cpu_info',
    'supported_instances',
    'host_ip',
    'machine',
    'shape',
    'fences',
)


class DeclaredColumn:
    """The declaration of a column. The instance has the array; a view of some rows makes it by
    ``some`` at the first use."""

    def __init__(self, kind):
        self.kind = np.dtype(kind)

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        array = vars(instance)[self._name] = instance.some(self._name)
        return array


def column(kind: Any) -> Any:
    """Declare an array of that NumPy type."""
    return DeclaredColumn(kind)


def declared(cls):
    """Return the columns that a class declares: name -> type."""
    # In a copy: the first copy of an instance makes Python add an entry to its class at the same
    # time.
    return {
        name: declaration.kind
        for name, declaration in vars(cls).copy().items()
        if isinstance(declaration, DeclaredColumn)
    }


def resized(array, size):
    """Return a copy with that many rows; new ones are zero."""
    grown = np.zeros(size, dtype=array.dtype)
    grown[: len(array)] = array[:size]
    return grown


TAKEN = frozenset(['used', 'free', 'unused', 'spare'])  # the columns that ``take`` changes


class ResourceColumns:
    """One resource class over all rows, in whole units."""

    total = column(np.int64)
    reserved = column(np.int64)
    used = column(np.int64)  # claims and unclaimed usage
    free = column(np.int64)  # units that claims may still take; negative when oversubscribed
    unused = column(np.int64)  # units really idle: total less reserved and used
    largest = column(np.int64)  # maximum for one consumer
    min_unit = column(np.int64)
    step_size = column(np.int64)
    ratio = column(np.float64)
    spare = column(np.float64)  # total x ratio, less reserved and used

    def __init__(self, rows, capacity):
        self._arrays = {
            name: np.zeros(capacity, dtype=kind)
            for name, kind in declared(ResourceColumns).items()
        }
        self.stepped = False  # whether any row has a smallest unit or a step other than 1
        # No row that has any refuses this amount to one consumer.
        self.always_allowed = np.iinfo(np.int64).max
        self.publish(rows)

    def publish(self, rows):
        """Make the first ``rows`` rows visible."""
        for name, array in self._arrays.items():
            setattr(self, name, array[:rows])

    def resize(self, capacity):
        self._arrays = {name: resized(array, capacity) for name, array in self._arrays.items()}

    def put(self, row, inventory):
        """Set a row from an Inventory (None: the node has none of it); the usage does not
        change."""
        inventory = inventory or Inventory(0)
        used = int(self._arrays['used'][row])
        values = {
            'total': inventory.total,
            'reserved': inventory.reserved,
            'free': inventory.capacity - used,
            'unused': inventory.total - inventory.reserved - used,
            'largest': inventory.largest,
            'min_unit': inventory.min_unit,
            'step_size': inventory.step_size,
            'ratio': inventory.ratio,
            'spare': inventory.total * inventory.ratio - inventory.reserved - used,
        }
        for name, value in values.items():
            self._arrays[name][row] = value
        self.stepped = self.stepped or inventory.min_unit != 1 or inventory.step_size != 1
        if inventory.largest:
            self.always_allowed = min(self.always_allowed, inventory.largest)

    def take(self, row, amount):
        self.used[row] += amount
        self.free[row] -= amount
        self.unused[row] -= amount
        self.spare[row] -= amount

    def copy(self, rows=slice(None)):
        """Return these rows of all columns; ``take`` on it does not change the original."""
        copied = copy.copy(self)
        for name in self._arrays:
            column = getattr(self, name)[rows]
            setattr(copied, name, column.copy() if name in TAKEN else column)
        return copied

    def view(self, rows):
        """Return these rows (an array) of the columns; each is copied at its first use."""
        return SomeResource(self, rows)

    def move(self, source, target):
        for array in self._arrays.values():
            array[target] = array[source]
            array[source] = 0

    def fits(self, amount):
        """Rows that can give the amount to one consumer; of a single row, which of the amounts."""
        mask = self.free >= amount
        most = amount.max() if isinstance(amount, np.ndarray) else amount
        if most > self.always_allowed:
            mask &= self.largest >= amount
        if self.stepped and most:
            whole = amount % np.maximum(self.step_size, 1) == 0
            mask &= ((self.min_unit <= amount) & whole) | (amount == 0)
        return mask


class SomeResource(ResourceColumns):
    """Some rows of a resource class."""

    def __init__(self, real, rows):
        self._real, self._rows = real, rows
        self.stepped, self.always_allowed = real.stepped, real.always_allowed

    def some(self, name):
        return getattr(self._real, name)[self._rows]


class MetricColumns:
    """Columns of metrics, each made on first use by a rule: float64, NaN where it is not
    reported."""

    def __init__(self):
        self._columns = {}

    def put(self, row, numbers):
        """Set the row's metrics to exactly these: name -> number."""
        for name, column in self._columns.items():
            if row >= len(column):
                column = self._columns[name] = resized(column, 2 * row + 1)
            column[row] = numbers.get(name, np.nan)

    def move(self, source, target):
        for column in self._columns.values():
            column[target] = column[source]

    def column(self, name, nodes):
        """Return the metric of all rows; ``nodes`` are their nodes, to fill a new column."""
        if name not in self._columns:
            self._columns[name] = np.array(
                [node.metrics.get(name, np.nan) for node in nodes], dtype=float
            )
        return self._columns[name][: len(nodes)]


class Columns:
    """All rows; names are those of Nova's host state where it has one. ``resources`` is keyed by
    class name."""

    cell = column(np.int32)  # id of the cell's UUID in ``cells``
    seen_s = column(np.float64)  # seconds since the epoch: the last heartbeat
    disabled = column(np.bool_)  # an operator has disabled the service, or the node reports so
    forced_down = column(np.bool_)  # an operator has forced the host down
    disk_slack_mb = column(np.int64)  # MiB that are free by the records but not on the disk
    num_io_ops = column(np.int64)  # builds, resizes, snapshots, ... in progress
    num_instances = column(np.int64)
    # Seconds since the epoch: the latest expected end of its instances; inf: that of one is not
    # known, 0: it has none.
    exit_s = column(np.float64)
    failed_builds = column(np.int64)  # since the last successful one
    hypervisor_version = column(np.int64)  # 2001000 is 2.1.0; 0 is unknown
    aggregate_set = column(np.int32)  # slot of the host's aggregates
    hypervisor_type = column(np.int32)  # slot in ``interned``, as the next six
    cpu_info = column(np.int32)
    supported_instances = column(np.int32)
    host_ip = column(np.int32)
    # NUMA cells and PCI devices, a hardware.machine.Machine; None: not reported
    machine = column(np.int32)
    shape = column(np.int32)  # child providers and their usage, a ProviderTree; None: none
    fences = column(np.int32)  # tokens of the exclusive domains that the host is in; None: none
    free_pci_devices = column(np.int64)

    def __init__(self, capacity=64):
        self._capacity = capacity
        self._arrays = {
            name: np.zeros(capacity, dtype=kind) for name, kind in declared(Columns).items()
        }
        self.rows = 0
        self.resources: dict[str, ResourceColumns] = {}
        self.traits = Interned()
        self.cells = Vocab()
        self.trait_sets = WordSets(capacity)
        self.metric_columns = MetricColumns()
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
            capacity = 2 * self._capacity
            self._arrays = {name: resized(array, capacity) for name, array in self._arrays.items()}
            for resource in self.resources.values():
                resource.resize(capacity)
            self.trait_sets.resize(capacity)
            self._capacity = capacity
        row, self.rows = self.rows, self.rows + 1
        for name, column in self.interned.items():
            self._arrays[name][row] = column.take(None)
        self._publish()
        return row

    def remove(self, row):
        """Remove a row; the last row takes its place. Returns the row that moved (or the same
        row)."""
        last = self.rows - 1
        self.set_traits(row, ())
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
        self.metric_columns.move(last, row)
        self.rows = last
        self._publish()
        return last

    def resource(self, name):
        """Return the columns of a resource class, made when the first node has some."""
        columns = self.resources.get(name)
        if columns is None:
            columns = self.resources[name] = ResourceColumns(self.rows, self._capacity)
        return columns

    def drop_unused(self, names):
        """Drop the columns of those of these resource classes that no row has any more."""
        for name in names:
            resource = self.resources.get(name)
            if resource and not (resource.total.any() or resource.used.any()):
                del self.resources[name]

    def set_traits(self, row, traits):
        """Set the traits of a row to exactly these."""
        before = self.trait_sets.of(row)
        self.trait_sets.put(row, [self.traits.take(trait) for trait in traits])
        for number in before:
            self.traits.drop(number)

    def intern(self, name, row, value):
        """Set an interned column of a row."""
        column, array = self.interned[name], self._arrays[name]
        slot = column.take(value)
        column.drop(array[row])
        array[row] = slot

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
"""What one decision costs as bare NumPy: ten masks, four scaled weights, the best four rows."""

import numpy as np

RAM_MB, VCPUS, DISK_GB, TRAITS, AGGREGATE = 4096, 2, 20, 0b1011, 1 << 3


class Floor:
    """Columns of random facts and one pass over them, with every buffer made beforehand."""

    def __init__(self, rows, seed=1):
        chance = np.random.default_rng(seed)
        used = chance.integers(0, 28, rows)
        self.ram, self.vcpus, self.disk = 262144 - used * 8192, 128 - used * 4, 2000 - used * 40
        self.on, self.up = chance.random(rows) < 0.97, chance.random(rows) < 0.98
        self.zone, self.kind = chance.integers(0, 3, rows), chance.integers(0, 4, rows)
        self.traits = chance.integers(0, 2**60, rows) | TRAITS
        self.aggregates = chance.integers(0, 2**20, rows)
        self.members = (chance.random(rows) < 0.01).astype(np.int64)
        self.io = chance.integers(0, 10, rows)
        self.mask, self.spare = np.empty(rows, bool), np.empty(rows, bool)
        self.words = np.empty(rows, np.int64)

    def _and(self, operation, column, value):
        operation(column, value, out=self.spare)
        np.logical_and(self.mask, self.spare, out=self.mask)

    def decide(self):
        np.greater_equal(self.vcpus, VCPUS, out=self.mask)
        self._and(np.greater_equal, self.ram, RAM_MB)
        self._and(np.greater_equal, self.disk, DISK_GB)
        np.logical_and(self.mask, self.on, out=self.mask)
        np.logical_and(self.mask, self.up, out=self.mask)
        self._and(np.not_equal, self.zone, 2)
        np.bitwise_and(self.traits, TRAITS, out=self.words)
        self._and(np.equal, self.words, TRAITS)
        np.bitwise_and(self.aggregates, AGGREGATE, out=self.words)
        self._and(np.equal, self.words, 0)
        self._and(np.not_equal, self.kind, 3)
        self._and(np.equal, self.members, 0)
        rows = np.flatnonzero(self.mask)
        cost = np.zeros(len(rows))
        for column, weight in (
            (self.ram, -1.0),
            (self.vcpus, -1.0),
            (self.disk, -1.0),
            (self.io, 1.0),
        ):
            raw = column[rows]
            low, high = raw.min(), raw.max()
            if low != high:
                cost += raw * (weight / float(high - low))
        best = np.argpartition(cost, 3)[:4]
        return rows[best[np.argsort(cost[best])]]

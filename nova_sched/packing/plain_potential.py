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
"""The potential of hosts without devices: what they have free less the copies of each size that
they can take."""

import numpy as np

WHOLE = 1000.0  # a mean host, whole
LEAST_LEFT = 1e-4  # weight of what is left: among equal hosts the fullest


class PlainPotential:
    """Counts, for each size of the mix, what no copy of it can use.

    ``needs``: units of the sizes, of shape (sizes, resource classes); ``share`` of each size in
    the mix; ``capacity``: units of a mean host by resource class. A resource class weighs as much
    as the mix asks for of it. ``whole`` is the potential of a mean host that takes nothing.
    """

    def __init__(self, needs, share, capacity, whole=WHOLE):
        self._needs, self._share = needs.astype(float), share / max(share.sum(), 1e-300)
        capacity = np.maximum(capacity.astype(float), 1.0)
        asked = self._share @ (self._needs / capacity)
        scarcity = asked / asked.sum() if asked.sum() > 0 else np.zeros(len(capacity))
        self._worth = whole * scarcity / capacity  # of one unit
        self._value = self._share * (self._needs @ self._worth)
        self._columns = [np.flatnonzero(column) for column in self._needs.T > 0]

    def of(self, free):
        """Returns the potential for free units of shape (hosts, resource classes)."""
        free = np.maximum(free, 0.0)
        copies = self.copies(free)
        copies[np.isinf(copies)] = 0.0  # a size that asks for nothing
        # Not a matrix product: its sums depend on the number of rows.
        return np.einsum('ij,j->i', free, self._worth) - np.einsum('ij,j->i', copies, self._value)

    def copies(self, free):
        """How many copies of each size fit, of shape (hosts, sizes); infinite for a size that asks
        for nothing."""
        copies = np.full((len(free), len(self._needs)), np.inf)
        for place, sizes in enumerate(self._columns):
            many = free[:, place, None] // self._needs[sizes, place]
            copies[:, sizes] = np.minimum(copies[:, sizes], many)
        return copies

    def cost(self, after, before):
        """Returns what requests cost that leave these free units on hosts, of which the potential
        was ``before``."""
        left = np.einsum('ij,j->i', np.maximum(after, 0.0), self._worth)
        return self.of(after) - before + LEAST_LEFT * left

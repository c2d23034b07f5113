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
"""Whether members fit on one host together, if each may take its resources in one of several
ways."""

from collections.abc import Iterable

import numpy as np

_LIMIT = 4096  # maximum number of sums kept; beyond it the largest are dropped


def sums(demands: Iterable[np.ndarray], free: np.ndarray | None = None) -> np.ndarray:
    """Returns the total demands of the members, int64 [N, R], one row per different sum of their
    ways.

    ``demands``: [V, R] per member. ``free`` [R]: rows that exceed it are omitted; no row means
    that the members do not fit. A resource that no member asks for is ignored.
    """
    reached = np.zeros((1, 1), dtype=np.int64)  # without members the demand is zero
    for ways in demands:
        ways = np.unique(ways, axis=0)
        reached = (reached[:, None, :] + ways[None]).reshape(-1, ways.shape[1])
        if len(reached) > 1:
            reached = np.unique(reached, axis=0)
        if free is not None:
            reached = reached[((reached <= free) | (reached == 0)).all(axis=1)]
        if len(reached) > _LIMIT:
            reached = reached[np.argsort(reached.max(axis=1), kind='stable')[:_LIMIT]]
    return reached


def fit(demands: Iterable[np.ndarray], free: np.ndarray) -> bool:
    """Returns whether the members, [V, R] each, fit into ``free`` [R] together."""
    return len(sums(demands, free)) > 0


def thrifty(ways: np.ndarray) -> np.ndarray:
    """Returns the ways, [V, R], without those that take at least as much of everything as
    another."""
    if len(ways) < 2:
        return ways
    below = (ways[None] <= ways[:, None]).all(axis=2) & (ways[None] != ways[:, None]).any(axis=2)
    return ways[~below.any(axis=1)]

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
"""Hosts that the search may leave out, because enough other hosts can replace them."""

import numpy as np

from nova_sched.groups.arrays.compile import Compiled

SLICE = 256  # hosts compared at a time with the other hosts of their kind


def useful(compiled: Compiled) -> np.ndarray:
    """Bool [h]: live hosts that suffice: if there is a placement, there is one on these hosts
    only.

    A placement of N units uses N hosts at most. Suppose N hosts differ from another host only in
    free capacity and have at least as much. If that host is used, one of the N is empty and can
    take all its units. The result ignores which placement is better.
    """
    layout = compiled.layout
    keep = np.ones(len(layout.live), dtype=bool)
    units = int(compiled.count.sum())
    for hosts in _alike(compiled):
        if len(hosts) > units:
            keep[hosts] = ~_dominated(_room(compiled, hosts), units)
    return keep


def _alike(compiled: Compiled) -> list[np.ndarray]:
    """Returns hosts of the same domains above, open to the same classes, without fixed members."""
    layout = compiled.layout
    columns = [level.ids for level in layout.levels[1:]]
    fixed = np.zeros(len(layout.live), dtype=bool)
    fixed[layout.position[compiled.problem.fixed[compiled.problem.fixed >= 0]]] = True
    rows = np.column_stack([*columns, *np.packbits(compiled.open, axis=0)]).astype(np.int64)
    candidates = np.flatnonzero(~fixed & compiled.open.any(axis=0))
    if not len(candidates):
        return []
    _, kinds = np.unique(rows[candidates], axis=0, return_inverse=True)
    order = np.argsort(kinds.ravel(), kind='stable')
    cuts = np.flatnonzero(np.diff(kinds.ravel()[order])) + 1
    return np.split(candidates[order], cuts)


def _room(compiled: Compiled, hosts: np.ndarray) -> np.ndarray:
    """Int64 [n, R']: the free capacity, as far as the group could use it."""
    demand = np.array([compiled.shapes[s].ways.max(axis=0) for s in compiled.shape])
    total = (demand * compiled.count[:, None]).sum(axis=0)
    every = np.concatenate([compiled.shapes[s].ways for s in compiled.shape])
    unit = np.maximum(np.gcd.reduce(every, axis=0), 1)
    return np.minimum(compiled.free[hosts], total) // unit


def _dominated(room: np.ndarray, enough: int) -> np.ndarray:
    """Bool [n]: rows that ``enough`` other rows equal or exceed in every column.

    Of equal rows the first are kept.
    """
    found = np.zeros(len(room), dtype=bool)
    place = np.arange(len(room))
    for start in range(0, len(room), SLICE):
        mine = room[start : start + SLICE, None, :]
        covers = (room[None] >= mine).all(axis=2)
        same = (room[None] == mine).all(axis=2)
        before = place[None] < place[start : start + SLICE, None]
        found[start : start + SLICE] = (covers & (~same | before)).sum(axis=1) >= enough
    return found

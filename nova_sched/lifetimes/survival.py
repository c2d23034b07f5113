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
"""How much longer servers are expected to run."""

import bisect

import numpy as np

from nova_sched.lifetimes.ages import DAY_S, EDGES_S, STEPS, WIDTHS_S
from nova_sched.lifetimes.ends import Counts, Ends
from nova_sched.lifetimes.life import Kind

SCALE_S = 300.0  # the prior: half of the servers end before they are so old
LONGEST_S = 30 * DAY_S  # nothing longer is told
BACK_OFF = 10.0  # as many servers at risk count as much as what is known of the level above
MOST_KEPT = 4096  # kinds without counts of their own whose level is kept

# Before any server has ended: the share that ends in a step, if a server of an age doubles it with
# a chance of one in two, whatever the age.
PRIOR = WIDTHS_S / (SCALE_S + EDGES_S[1:])
EDGES = EDGES_S.tolist()


class Survival:
    """Expected ends by kind and age, from Ends.

    What few servers of a kind tell is mixed with what those of the level above tell: all servers,
    those of the flavor, of the flavor in the project, of requests for about as many (the same
    power of two), of requests for exactly as many. The share of servers at risk that end in a step
    is (ended + 10 x the share of the level above) / (at risk + 10): the estimate of Kaplan and
    Meier, with additive smoothing.
    """

    def __init__(self, ends: Ends):
        summed: dict[tuple, Counts] = {(): np.zeros((2, STEPS))}
        for kind, counts in ends.counts.items():
            for level in levels(kind):
                summed[level] = summed.get(level, 0.0) + counts
        shares: dict[tuple, np.ndarray] = {}
        for level in sorted(summed, key=len):
            above = shares[level[:-1]] if level else PRIOR
            ended, at_risk = summed[level]
            shares[level] = (ended + BACK_OFF * above) / (at_risk + BACK_OFF)
        alive = surviving(np.array(list(shares.values())))
        rest = _rest_s(alive, np.array(list(shares.values()))[:, -1:])
        self._alive = dict(zip(shares, alive, strict=True))
        self._rest = dict(zip(shares, rest.tolist(), strict=True))
        self._kept: dict[Kind, list[float]] = {}

    def alive(self, kind: Kind) -> np.ndarray:
        """The share of servers of this kind that run longer than each of ages.EDGES_S."""
        return self._alive[self._level(kind)]

    def rest_s(self, kind: Kind, age_s: float) -> float:
        """How much longer a server of this kind and age is expected to run, at most LONGEST_S."""
        rest = self._kept.get(kind)
        if rest is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            rest = self._kept[kind] = self._rest[self._level(kind)]
        if age_s <= 0.0:
            return rest[0]
        step = bisect.bisect_right(EDGES, age_s) - 1
        if step >= STEPS:
            return rest[-1]
        part = (age_s - EDGES[step]) / (EDGES[step + 1] - EDGES[step])
        return rest[step] + part * (rest[step + 1] - rest[step])

    def _level(self, kind: Kind) -> tuple:
        """The most precise level that has counts."""
        return next(level for level in reversed(levels(kind)) if level in self._alive)


def levels(kind: Kind) -> list[tuple]:
    """The levels that a kind is part of, from all servers on; each is the beginning of the
    next."""
    found: list[tuple] = [()]
    parts = kind.flavor, kind.project, kind.together and kind.together.bit_length(), kind.together
    for part in parts:
        if part is None:
            break
        found.append((*found[-1], part))
    return found


def surviving(shares: np.ndarray) -> np.ndarray:
    """The share of servers that are alive at each edge, from the shares that end in each step:
    (..., STEPS) to (..., STEPS + 1)."""
    first = np.ones((*shares.shape[:-1], 1))
    return np.concatenate([first, np.cumprod(1.0 - shares, axis=-1)], axis=-1)


def _rest_s(alive, last):
    """The expected rest at each edge: the area under what survives from there on. Beyond the last
    edge as many end in a time as in the last step."""
    rate = -np.log1p(-last) / WIDTHS_S[-1]
    area = WIDTHS_S * (alive[:, :-1] + alive[:, 1:]) / 2
    beyond = alive[:, -1:] / np.maximum(rate, 1.0 / LONGEST_S)
    area = np.concatenate([area, beyond], axis=1)
    return np.minimum(area[:, ::-1].cumsum(axis=1)[:, ::-1] / alive, LONGEST_S)

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
"""The live hosts, sorted so that domains are slices wherever levels nest."""

import dataclasses
import functools

import numpy as np

from nova_sched.groups.arrays.problem import Problem, slots

Rows = slice | np.ndarray  # hosts, to index with


@dataclasses.dataclass(eq=False)
class LayoutLevel:
    """The domains of one level over the h live hosts; ids are dense, and each domain has a host.

    ``order`` sorts hosts by domain. It is None if they are already sorted: then every domain is a
    slice.
    """

    ids: np.ndarray  # intp [h]
    numbers: np.ndarray  # intp [D]: the domain's number in the problem
    order: np.ndarray | None  # intp [h]
    bounds: np.ndarray  # intp [D + 1]: where domains begin in the sorted order

    @classmethod
    def of(cls, given: np.ndarray) -> 'LayoutLevel':
        """Return a level from the problem's domain numbers of the live hosts, in their order."""
        starts = np.flatnonzero(np.diff(given, prepend=-1))
        size = int(given.max(initial=-1)) + 1
        present = np.zeros(size, dtype=bool)
        present[given] = True
        if present.sum() == len(starts):  # each domain is contiguous
            ids = np.zeros(len(given), dtype=np.intp)
            ids[starts[1:]] = 1
            return cls(
                np.cumsum(ids), given[starts].astype(np.intp), None, np.append(starts, len(given))
            )
        ids = (np.cumsum(present) - 1)[given]
        bounds = np.append(0, np.cumsum(np.bincount(ids)))
        return cls(ids, np.flatnonzero(present), np.argsort(ids, kind='stable'), bounds)

    @property
    def count(self) -> int:
        return len(self.numbers)

    @functools.cached_property
    def is_host(self) -> bool:
        """Whether each domain is one host."""
        return self.count == len(self.ids)

    def rows(self, domain: int) -> Rows:
        """Return the hosts of a domain, as an index."""
        if self.order is None:
            return slice(self.bounds[domain], self.bounds[domain + 1])
        return self.order[self.bounds[domain] : self.bounds[domain + 1]]

    def sum(self, values: np.ndarray) -> np.ndarray:
        """[..., h] to [..., D]: the sum over the hosts of each domain."""
        if values.dtype == bool:
            values = values.astype(np.int32)
        return self._reduce(np.add, values)

    def max(self, values: np.ndarray) -> np.ndarray:
        """[..., h] to [..., D]: the largest over the hosts of each domain."""
        return self._reduce(np.maximum, values)

    def any(self, values: np.ndarray) -> np.ndarray:
        """Bool [..., h] to [..., D]: whether any host of the domain has the value True."""
        return self._reduce(np.logical_or, values)

    def best_first(self, values: np.ndarray) -> np.ndarray:
        """Intp [h]: the hosts domain by domain, by falling value within each."""
        return np.lexsort((-values, self.ids))

    def top(
        self, order: np.ndarray, values: np.ndarray, usable: np.ndarray, count: int
    ) -> np.ndarray:
        """Float64 [D]: the sum of the ``count`` largest values on usable hosts; -inf if there are
        fewer.

        ``order`` [h]: the result of ``best_first`` for ``values`` [h], so that several calls share
        one sort.
        """
        usable = usable[order]
        rank = np.cumsum(usable)
        before = np.append(0, rank)[self.bounds]
        rank -= np.repeat(before[:-1], np.diff(self.bounds))
        total = np.add.reduceat(
            np.where(usable & (rank <= count), values[order], 0.0), self.bounds[:-1]
        )
        return np.where(np.diff(before) >= count, total, -np.inf)

    def _reduce(self, how: np.ufunc, values: np.ndarray) -> np.ndarray:
        if self.order is not None:
            values = values[..., self.order]
        elif self.is_host:
            return values
        if not self.count:
            return values[..., :0]
        return how.reduceat(values, self.bounds[:-1], axis=-1)


@dataclasses.dataclass(eq=False)
class Layout:
    """The h live hosts. ``live`` [h] are their rows in the problem; ``whole`` is one domain of all
    hosts.

    ``nests[below, above]``: each domain of level ``below`` lies in one of ``above``.
    """

    live: np.ndarray
    levels: list[LayoutLevel]
    whole: LayoutLevel
    nests: np.ndarray
    position: np.ndarray  # intp [H]: place among the live hosts, else -1

    @functools.cached_property
    def around(self) -> dict[tuple[int, int], np.ndarray]:
        """By levels ``below`` and ``above`` where the one nests in the other: the domain of
        ``above`` around each domain of ``below``, intp [D of below]."""
        around_by_levels = {}
        for below, above in zip(*np.nonzero(self.nests), strict=True):
            fine, coarse = self.levels[below], self.levels[above]
            around = np.zeros(fine.count, dtype=np.intp)
            around[fine.ids] = coarse.ids
            around_by_levels[int(below), int(above)] = around
        return around_by_levels


def lay_out(problem: Problem) -> Layout:
    """Keep hosts where some kind fits and passes, or a fixed member is; sorts by coarse levels
    first."""
    fits = np.zeros(problem.host_count, dtype=bool)
    columns = np.ascontiguousarray(problem.free.T)
    for kind in np.unique(problem.kind[problem.fixed < 0]):
        room = slots(problem.demand[kind], columns) > 0
        if problem.cap is not None:
            room &= problem.cap[kind] > 0
        fits |= room & problem.mask[kind]
    fits[problem.fixed[problem.fixed >= 0]] = True
    live = np.flatnonzero(fits)
    nests = _nests(problem, live)
    live = live[_sorted(problem, live, nests)]
    levels = [LayoutLevel.of(ids[live]) for ids in problem.domains]
    position = np.full(problem.host_count, -1, dtype=np.intp)
    position[live] = np.arange(len(live))
    return Layout(
        live, levels, LayoutLevel.of(np.zeros(len(live), dtype=np.intp)), nests, position
    )


def _nests(problem: Problem, live: np.ndarray) -> np.ndarray:
    """Bool [L, L] over the live hosts: whether each domain of a level lies in one domain of the
    other."""
    every = [ids[live] for ids in problem.domains]
    nests = np.eye(len(every), dtype=bool)
    for below, fine in enumerate(every):
        around = np.zeros(int(fine.max(initial=-1)) + 1, dtype=np.int32)
        for above, coarse in enumerate(every):
            if below != above:
                around[fine] = coarse
                nests[below, above] = bool((around[fine] == coarse).all())
    return nests


def _sorted(problem: Problem, live: np.ndarray, nests: np.ndarray) -> np.ndarray:
    """Return an order in which the domains of a chain of nested levels are slices.

    The most used levels have priority.
    """
    uses = np.bincount([rule.level for rule in problem.rules], minlength=len(nests))
    chain: list[int] = []
    for level in sorted(range(1, len(nests)), key=lambda level: -uses[level]):
        if all(nests[level, other] or nests[other, level] for other in chain):
            chain.append(level)
    chain.sort(key=lambda level: int(nests[:, level].sum()))  # fine to coarse, as lexsort wants
    keys = [problem.domains[level][live] for level in chain]
    return np.lexsort(keys) if keys else np.arange(len(live))

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
"""How each node stood when a request was decided: the filter that removed it, or its weights."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nova_sched.engine.decide import Note, ask, chain, narrow, weigh
from nova_sched.engine.explain.reasons import Watched
from nova_sched.weighers import scaled_by

PASSED = 255  # in place of the number of a step
CLOSE = 1e-9  # weights that differ by less count as equal


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """One node: the filter that removed it; or None, and its rank among ``of`` nodes that passed.

    Nodes of equal weight have the same rank; the best have 1.
    """

    filter: str | None = None
    rank: int | None = None
    of: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Standings:
    """All nodes at one moment, which later changes do not reach.

    ``removed_by`` (uint8) has for each of the ``nodes`` the number of the step that removed it, or
    PASSED. ``rows`` (int32) are the positions of those that passed, ``weights`` (float64) their
    sums, and ``parts`` (float32) what each weigher adds to them; not that of weighers to which all
    are equal.
    """

    nodes: Sequence[Any]
    steps: tuple[str, ...]
    removed_by: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    parts: Mapping[str, np.ndarray]

    def of(self, node_uuid):
        """The Standing of a node; None if it was not known."""
        row = self._row(node_uuid)
        if row is None:
            return None
        if self.removed_by[row] != PASSED:
            return Standing(self.steps[self.removed_by[row]])
        weight = self.weights[np.searchsorted(self.rows, row)]
        better = int(np.count_nonzero(self.weights > weight + CLOSE))
        return Standing(rank=1 + better, of=len(self.rows))

    def decisive(self, better, worse):
        """The weigher that prefers one node (by UUID) to the other one the most, and by how much.

        None if no weigher does, or if one of the nodes did not pass.
        """
        places = [self._place(better), self._place(worse)]
        if None in places:
            return None
        first, second = places
        leads = {name: float(part[first] - part[second]) for name, part in self.parts.items()}
        most = max(leads, key=leads.__getitem__, default=None)
        return None if most is None or not leads[most] > CLOSE else (most, leads[most])

    def _row(self, node_uuid):
        return next((row for row, node in enumerate(self.nodes) if node.uuid == node_uuid), None)

    def _place(self, node_uuid):
        row = self._row(node_uuid)
        passed = row is not None and self.removed_by[row] == PASSED
        return int(np.searchsorted(self.rows, row)) if passed else None


def taken(rules, hosts, request):
    """The Standings for a request now: all filters run once more, and all weighers."""
    candidates = Watched(len(hosts))
    narrow(candidates, hosts, request)
    for rule in chain(rules, request):
        if not candidates.left:
            break
        ask(rule, candidates, hosts, request)
    removed_by = np.full(len(hosts), PASSED, dtype=np.uint8)
    for number, gone in enumerate(candidates.gone):
        removed_by[gone] = number
    rows, notes = candidates.rows(), list[Note]()
    weights = weigh(rules.weighers, hosts, rows, request, notes)
    parts = {
        weigher.name: scaled_by(raw, low, high) * multiplier
        for weigher, raw, low, high, multiplier in notes
    }
    return Standings(
        tuple(hosts.nodes),
        tuple(step.name for step in candidates.steps),
        removed_by,
        rows.astype(np.int32),
        weights,
        {
            name: part.astype(np.float32)
            for name, part in parts.items()
            if part.max() - part.min() > CLOSE
        },
    )

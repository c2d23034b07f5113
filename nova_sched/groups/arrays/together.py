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
"""Which members must share a domain: components of required affinity, at every level."""

import dataclasses

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.layout import Layout
from nova_sched.groups.arrays.problem import Problem


@dataclasses.dataclass(eq=False)
class Together:
    """The constraints of required affinity, and of near where it is equivalent.

    ``labels`` [L, M]: members of one label must share a domain of the level. ``pins`` [L, M]: the
    live domain to which a member is bound because a fixed member shares its label, else -1.
    ``spoken``: rules that labels and pins express completely. ``torn``: levels and labels where
    one label is bound to two domains.
    """

    labels: np.ndarray
    pins: np.ndarray
    spoken: set[int]
    torn: list[tuple[int, int]]  # level, label


def unite(problem: Problem, layout: Layout) -> Together:
    """Merges labels until nothing changes.

    Affinity applies at its level and all levels around it. Near applies if its partner is a single
    label.
    """
    labels = np.tile(np.arange(problem.member_count), (len(problem.levels), 1))
    spoken: set[int] = set()
    waiting = []
    for number, rule in enumerate(problem.rules):
        if rule.is_required and rule.kind == definition.AFFINITY:
            _merge(labels, layout, rule.level, rule.a)
            spoken.add(number)
        elif rule.is_required and rule.kind == definition.NEAR and len(rule.a) and len(rule.b):
            waiting.append(number)
    changed = True
    while changed:
        changed = False
        for number in [number for number in waiting if number not in spoken]:
            rule = problem.rules[number]
            partners = labels[rule.level, rule.b]
            if (partners == partners[0]).all():
                _merge(labels, layout, rule.level, np.append(rule.a, rule.b))
                spoken.add(number)
                changed = True
    pins, torn = _nail(problem, layout, labels)
    return Together(labels, pins, spoken, torn)


def _merge(labels: np.ndarray, layout: Layout, level: int, members: np.ndarray) -> None:
    if len(members) < 2:
        return
    for above in np.flatnonzero(layout.nests[level]):
        row = labels[above]
        hit = np.zeros(labels.shape[1], dtype=bool)
        hit[row[members]] = True
        row[hit[row]] = row[members[0]]


def _nail(
    problem: Problem, layout: Layout, labels: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Returns the pins from the fixed members, and the labels that these pins contradict."""
    pins = np.full(labels.shape, -1, dtype=np.intp)
    torn: list[tuple[int, int]] = []
    fixed = np.flatnonzero(problem.fixed >= 0)
    at = layout.position[problem.fixed[fixed]]
    for level, row in enumerate(labels):
        nail = np.full(labels.shape[1], -1, dtype=np.intp)
        domains = layout.levels[level].ids[at]
        nail[row[fixed]] = domains
        torn.extend(
            (level, int(label)) for label in np.unique(row[fixed][nail[row[fixed]] != domains])
        )
        pins[level] = nail[row]
    return pins, torn

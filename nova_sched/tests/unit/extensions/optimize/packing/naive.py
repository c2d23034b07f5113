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
"""The potentials once more, with loops over one host, and a linear program for the holes."""

import math

from ortools.linear_solver import pywraplp


def device_potential(items, sizes, values, blocks, free, milli, models):
    """The terms of one host's potential: holes, fit, stranding and blocks."""
    total = sum(sizes.share)
    share = [one / total for one in sizes.share]
    asked = [
        items.milli[item] * count for item, count in zip(sizes.item, sizes.count, strict=True)
    ]
    large = [p * math.sqrt(g / 1000) for p, g in zip(share, asked, strict=True)]
    there = [(f, m) for f, m in zip(milli, models, strict=True) if m >= 0]
    found = [sum(f - values[m][f // 10] for f, m in there), 0.0, 0.0, 0.0]
    for number, item in enumerate(sizes.item):
        size, count = items.milli[item], sizes.count[number]
        near = [(f, items.allowed[m][item]) for f, m in there
                if items.class_of_model[m] == items.resource_class[item]]  # fmt: skip
        served = [f for f, allowed in near if allowed]
        copies = (
            sum(f >= size for f in served) // count
            if items.apart[item]
            else sum(f // size for f in served)
        )
        by_node = min(
            [
                max(has, 0) / need
                for has, need in zip(free, sizes.needs[number], strict=True)
                if need
            ],
            default=math.inf,
        )
        if copies >= 1 and by_node >= 1:
            small = sum(f for f, allowed in near if not allowed or f < size)
        else:
            small = sum(f for f, _ in near)
        found[1] += share[number] * small
        found[2] += large[number] / sum(large) * asked[number] * max(0.0, copies - by_node)
        found[3] -= blocks[number] * asked[number] * math.floor(min(copies, by_node))
    return found


def plain_potential(needs, share, capacity, free):
    """The counting form, for one host."""
    total = sum(share)
    scarce = [
        sum(p / total * need[c] for p, need in zip(share, needs, strict=True)) / capacity[c]
        for c in range(len(capacity))
    ]
    worth = [1000 * one / sum(scarce) / has for one, has in zip(scarce, capacity, strict=True)]
    found = sum(max(f, 0) * w for f, w in zip(free, worth, strict=True))
    for p, need in zip(share, needs, strict=True):
        copies = min([max(f, 0) // n for f, n in zip(free, need, strict=True) if n], default=0)
        found -= p / total * copies * sum(n * w for n, w in zip(need, worth, strict=True))
    return found


def best_filling(holes, sizes, allowed, expected):
    """The most that the expected items fill of the holes, in levels; a fluid linear program of
    arcs between levels."""
    solver = pywraplp.Solver.CreateSolver('GLOP')
    volume, takes = [], [[] for _ in sizes]
    for model, counts in enumerate(holes):
        flow = {level: [] for level in range(len(counts))}  # (sign, arc)
        for level in range(1, len(counts)):
            arcs = [(1, None)] + [(size, item) for item, size in enumerate(sizes)
                                  if size <= level and allowed[model][item]]  # fmt: skip
            for length, item in arcs:
                arc = solver.NumVar(0, solver.infinity(), '')
                flow[level].append((-1, arc))
                flow[level - length].append((1, arc))
                if item is not None:
                    takes[item].append(arc)
                    volume.append(length * arc)
        for level in range(1, len(counts)):
            solver.Add(sum(sign * arc for sign, arc in flow[level]) == -float(counts[level]))
    for item, arcs in enumerate(takes):
        if arcs:
            solver.Add(sum(arcs) <= float(expected[item]))
    solver.Maximize(sum(volume))
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return solver.Objective().Value()

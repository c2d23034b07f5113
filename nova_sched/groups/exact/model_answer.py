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
"""Converts between counts and members: which member goes to which of the hosts that were
counted."""

import collections
from collections.abc import Mapping, Sequence

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.exact import alike
from nova_sched.groups.exact.crowds import Crew, Team

SPLIT_S = 1.0  # for blocks of one rack: a few variables each

Counts = Sequence[Mapping[int, int]]  # for each unit set: units by live position
Shares = list[
    list[list[int]]
]  # for each block: for each of its unit sets the live positions of its units
Caps = list[tuple[int, list[int]]]  # see _caps


class CannotSplitError(Exception):
    """The blocks of this team cannot be separated in the counts; ``blocks`` has their numbers."""

    def __init__(self, blocks: list[int]) -> None:
        super().__init__(f'blocks {blocks}')
        self.blocks = blocks


def placement(crew: Crew, counts: Counts) -> np.ndarray:
    """Returns the hosts [M], -1 for members without a place. Raises CannotSplitError."""
    compiled = crew.compiled
    hosts = np.where(compiled.problem.fixed >= 0, compiled.problem.fixed, -1).astype(np.int32)
    of_class: dict[int, Mapping[int, int]] = {}
    for crowd, here in zip(crew.crowds, counts, strict=True):
        places = collections.Counter(here).elements()
        shares = alike.deal(compiled, crowd.classes, places)
        of_class |= {c: collections.Counter(share) for c, share in shares.items()}
    for team in crew.teams:
        if team.count > 1:
            of_class |= _split(crew, team, counts)
    for c, here in of_class.items():
        _name(compiled, c, here, hosts)
    return hosts


def counts(crew: Crew, hosts: np.ndarray) -> Counts:
    """Returns the units of each unit set by live position, as placed by a placement [M]."""
    layout = crew.compiled.layout
    found = []
    for crowd in crew.crowds:
        heads = np.concatenate([crew.compiled.members[c][:, 0] for c in crowd.classes])
        found.append(collections.Counter(layout.position[hosts[heads]].tolist()))
    return found


def _name(compiled: Compiled, c: int, here: Mapping[int, int], hosts: np.ndarray) -> None:
    """Assigns the places ``here`` to units of one class: first units at home, then the rest in
    order."""
    if not here:
        return
    left = collections.Counter(here)
    units = compiled.members[c]
    homes = compiled.layout.position[compiled.problem.home[units]]
    homes[compiled.problem.home[units] < 0] = -1
    waiting = []
    for unit, own in zip(units, homes.tolist(), strict=True):
        stay = [h for h, _ in collections.Counter(own).most_common() if h >= 0 and left[h] > 0]
        if stay:
            left[stay[0]] -= 1
            hosts[unit] = compiled.layout.live[stay[0]]
        else:
            waiting.append(unit)
    # If some units are left out, these are the last ones.
    for unit, h in zip(waiting, left.elements(), strict=False):
        hosts[unit] = compiled.layout.live[h]


def _split(crew: Crew, team: Team, counts: Counts) -> dict[int, collections.Counter[int]]:
    """Returns the places of each class of a team of several blocks, domain by domain."""
    ids = crew.compiled.layout.levels[team.level].ids
    caps = _caps(crew, team)
    classes = (c for crowd in team.crowds for c in crew.crowds[crowd].classes)
    found: dict[int, collections.Counter[int]] = {c: collections.Counter() for c in classes}
    by_domain: dict[int, list[list[int]]] = {}
    for place, crowd in enumerate(team.crowds):
        for h, count in sorted(counts[crowd].items()):
            rows = by_domain.setdefault(int(ids[h]), [[] for _ in team.crowds])
            rows[place].extend([h] * count)
    block = 0
    for rows in by_domain.values():
        blocks = len(rows[0]) // crew.crowds[team.crowds[0]].each
        shares = _deal(rows, blocks)
        if blocks > 1 and not _kept(shares, caps):
            searched = _search(rows, blocks, caps)
            if searched is None:
                raise CannotSplitError(team.blocks)
            shares = searched
        for share in shares:
            for crowd, places in zip(team.crowds, share, strict=True):
                found[crew.crowds[crowd].classes[block]].update(places)
            block += 1
    return found


def _caps(crew: Crew, team: Team) -> Caps:
    """Returns the caps from anti-affinity within a block.

    Each cap is the maximum on a host, and the number of members of each unit set that count.
    """
    found = []
    for position in crew.private:
        one = crew.compiled.active[position]
        members = [int(one.a[crew.crowds[crowd].first]) for crowd in team.crowds]
        if any(members):
            found.append((one.rule.most, members))
    return found


def _deal(rows: list[list[int]], blocks: int) -> Shares:
    """Distributes the places of each unit set over the blocks, host by host, round-robin.

    No block gets more places on a host than necessary.
    """
    return [[row[block::blocks] for row in rows] for block in range(blocks)]


def _kept(shares: Shares, caps: Caps) -> bool:
    for share in shares:
        for most, members in caps:
            on = collections.Counter[int]()
            for row, weight in zip(share, members, strict=True):
                for h in row:
                    on[h] += weight
            if any(count > most for count in on.values()):
                return False
    return True


def _search(rows: list[list[int]], blocks: int, caps: Caps) -> Shares | None:
    """Does the same with the solver, if anti-affinity covers several unit sets of a block."""
    model = cp_model.CpModel()
    held = [collections.Counter(row) for row in rows]
    z = {
        (block, place, h): model.new_int_var(0, count, '')
        for block in range(blocks)
        for place, on in enumerate(held)
        for h, count in on.items()
    }
    every = range(blocks)
    for place, on in enumerate(held):
        # Rule: all places are assigned, and each block has its share.
        for h, count in on.items():
            model.add(sum(z[block, place, h] for block in every) == count)
        for block in every:
            model.add(sum(z[block, place, h] for h in on) == len(rows[place]) // blocks)
    for most, members in caps:
        # Rule: no block exceeds its limit on a host.
        for h in {h for on in held for h in on}:
            for block in every:
                terms = [w * z[block, p, h] for p, w in enumerate(members) if w and h in held[p]]
                model.add(sum(terms) <= most)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = SPLIT_S
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [
        [
            [h for h in on for _ in range(solver.value(z[block, place, h]))]
            for place, on in enumerate(held)
        ]
        for block in every
    ]

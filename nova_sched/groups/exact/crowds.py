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
"""Interchangeable units, counted together: the solver's model has variables for these sets."""

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.compile import Compiled
from nova_sched.groups.arrays.layout import Level
from nova_sched.groups.exact.alike import alike

ROUNDS = 3  # of bounds that follow from each other


@dataclasses.dataclass(eq=False)
class Crowd:
    """A set of interchangeable units: of one class, or of classes that are alike.

    Such classes are in one column of several blocks, or in no block. ``each``: units of one class.
    ``most`` int64 [h]: how many units each live host takes, regardless of other unit sets.
    """

    classes: list[int]
    each: int
    most: np.ndarray

    @property
    def first(self) -> int:
        """The class that represents all classes of the set, because they are alike."""
        return self.classes[0]

    @property
    def count(self) -> int:
        return self.each * len(self.classes)


@dataclasses.dataclass(eq=False)
class Team:
    """Blocks of one type: each needs one domain of the level for all its units.

    ``crowds``: their positions in ``Crew.crowds``. ``most`` int64 [D]: the maximum number of
    blocks per domain. ``inner``: teams wholly inside the block, if this team has a single block.
    ``whole``: the units of a block are placed all together or not at all.
    """

    level: int
    blocks: list[int]  # numbers in the compiled problem
    crowds: list[int]
    most: np.ndarray
    inner: list[int] = dataclasses.field(default_factory=list)
    whole: bool = True

    @property
    def count(self) -> int:
        return len(self.blocks)

    def need(self, crowd: Crowd) -> int:
        """Returns the units of a unit set of this team in each block."""
        return crowd.each if self.count > 1 else crowd.count


@dataclasses.dataclass(eq=False)
class Crew:
    """A compiled problem as unit sets (``crowds``) and sets of blocks (``teams``).

    ``private``: the number of alike blocks or classes, for each rule on the units of a single one
    of them; the key is the rule's position in ``Compiled.active``. All such rules are required
    anti-affinity, for blocks at host level. The rules of the first block or class represent the
    rest. ``partial``: some units may be left out. A block is placed whole or not at all, except a
    block that contains other blocks or all members.
    """

    compiled: Compiled
    crowds: list[Crowd]
    teams: list[Team]
    private: dict[int, int]
    partial: bool = False

    @property
    def size(self) -> int:
        """The number of variables that the unit sets need."""
        return sum(int(np.count_nonzero(crowd.most)) for crowd in self.crowds)

    @property
    def units(self) -> int:
        return int(self.compiled.count.sum())

    @property
    def is_hopeless(self) -> bool:
        """Whether a unit set or a team has too few places even by itself.

        This is a proof, if no host was left out.
        """
        return any(int(crowd.most.sum()) < crowd.count for crowd in self.crowds) or any(
            int(team.most.sum()) < team.count for team in self.teams
        )

    def within(self, masks: Sequence[np.ndarray]) -> 'Crew':
        """Returns the same crew on fewer live hosts: bool [h] for each unit set."""
        crowds = [
            dataclasses.replace(crowd, most=np.where(mask, crowd.most, 0))
            for crowd, mask in zip(self.crowds, masks, strict=True)
        ]
        crew = dataclasses.replace(
            self, crowds=crowds, teams=[dataclasses.replace(t) for t in self.teams]
        )
        _tighten(crew)
        return crew


def gather(
    compiled: Compiled, apart: Collection[int] = (), partial: bool = False, by_home: bool = False
) -> Crew:
    """Returns the unit sets and teams of a compiled problem.

    Blocks with a number in ``apart`` are not merged. With ``by_home``, units that have a home are
    not merged either, because their identity matters.
    """
    named = np.array(
        [by_home and bool((compiled.problem.home[rows] >= 0).any()) for rows in compiled.members],
        dtype=bool,
    )
    columns, teams = _merge(compiled, set(apart), named)
    for team in teams:
        everybody = len(team.crowds) == len(columns) and team.count == 1
        team.whole = not partial or not (team.inner or everybody)
    crew = Crew(compiled, [], teams, {}, partial)
    for classes in columns:
        each = int(compiled.count[classes[0]])
        most = np.minimum(compiled.slots(classes[0]), each * len(classes))
        crew.crowds.append(Crowd(classes, each, most))
    crew.private = _private(crew)
    _cap(crew)
    _tighten(crew)
    return crew


def _merge(
    compiled: Compiled, apart: set[int], named: np.ndarray
) -> tuple[list[list[int]], list[Team]]:
    """Returns the columns of classes that form one unit set, and teams that refer to these
    columns."""
    columns: list[list[int]] = []
    taken = named.copy()
    teams = []
    single = []
    for kind in sorted(compiled.block_types, key=lambda kind: -len(kind.blocks)):
        # If levels cross, a class may be in two types of several blocks. Only one of them is
        # merged.
        if (
            len(kind.blocks) > 1
            and apart.isdisjoint(kind.blocks)
            and not taken[kind.classes].any()
        ):
            first = len(columns)
            columns += kind.classes.T.tolist()
            taken[kind.classes] = True
            crowds = list(range(first, len(columns)))
            teams.append(Team(kind.level, list(kind.blocks), crowds, np.zeros(0)))
        else:
            single += kind.blocks
    columns += alike(compiled, np.flatnonzero(~taken))
    known = {c for classes in columns for c in classes}
    columns += [[c] for c in range(compiled.class_count) if c not in known]
    of = {c: number for number, classes in enumerate(columns) for c in classes}
    team_of = {block: number for number, team in enumerate(teams) for block in team.blocks}
    for number in sorted(single):  # inner blocks have the lower numbers
        block = compiled.blocks[number]
        crowds = sorted({of[c] for c in block.classes.tolist()})
        inner = sorted({team_of[other] for other in block.inner})
        team_of[number] = len(teams)
        teams.append(Team(block.level, [number], crowds, np.zeros(0), inner))
    return columns, teams


def _private(crew: Crew) -> dict[int, int]:
    """Returns how many are alike, for each rule on units of a single one of them."""
    in_team = {crowd for team in crew.teams if team.count > 1 for crowd in team.crowds}
    owner: dict[int, tuple[int, str, int, int]] = {}
    for number, team in enumerate(crew.teams):
        if team.count > 1:
            for place in team.crowds:
                for block, c in enumerate(crew.crowds[place].classes):
                    owner[c] = (team.count, 'team', number, block)
    for number, crowd in enumerate(crew.crowds):
        if number not in in_team and len(crowd.classes) > 1:
            owner |= {c: (len(crowd.classes), 'crowd', number, c) for c in crowd.classes}
    found = {}
    for position, one in enumerate(crew.compiled.active):
        owners = {owner.get(c) for c in np.flatnonzero((one.a > 0) | (one.b > 0)).tolist()}
        mine = next(iter(owners), None)
        if len(owners) == 1 and mine is not None and not (one.fixed_a.any() or one.fixed_b.any()):
            found[position] = mine[0]
    return found


def _cap(crew: Crew) -> None:
    """Limits each unit set by the anti-affinity among its units."""
    for position, one in enumerate(crew.compiled.active):
        if one.is_required and one.kind == definition.ANTI_AFFINITY:
            times = crew.private.get(position, 1)
            left = np.maximum(one.rule.most - one.fixed_a, 0)
            for crowd in crew.crowds:
                a = int(one.a[crowd.first])
                if a:
                    most = (left // a * times)[crew.compiled.layout.levels[one.level].ids]
                    crowd.most = np.minimum(crowd.most, most)


def _tighten(crew: Crew) -> None:
    """Limits teams by the places of their unit sets in each domain, and unit sets by their
    teams."""
    layout = crew.compiled.layout
    for _ in range(ROUNDS):
        before = [int(crowd.most.sum()) for crowd in crew.crowds]
        for team in crew.teams:
            level = layout.levels[team.level]
            team.most = _blocks(crew, team, level)
            for number in team.crowds:
                crowd = crew.crowds[number]
                crowd.most = np.minimum(crowd.most, (team.most * team.need(crowd))[level.ids])
        if before == [int(crowd.most.sum()) for crowd in crew.crowds]:
            return


def _blocks(crew: Crew, team: Team, level: Level) -> np.ndarray:
    """Int64 [D]: how many blocks of a team each domain could take, by places and by each
    resource."""
    compiled = crew.compiled
    most = np.full(level.count, team.count, dtype=np.int64)
    usable = np.zeros(len(level.ids), dtype=bool)
    asked = np.zeros(compiled.free.shape[1], dtype=np.int64)
    for crowd in (crew.crowds[number] for number in team.crowds):
        usable |= crowd.most > 0
        if team.whole:
            most = np.minimum(most, level.sum(crowd.most) // team.need(crowd))
        asked += compiled.shapes[compiled.shape[crowd.first]].least * team.need(crowd)
    if not team.whole:
        return np.where(level.any(usable), most, 0)
    for resource in np.flatnonzero(asked):
        held = level.sum(np.where(usable, compiled.free[:, resource], 0))
        most = np.minimum(most, held // asked[resource])
    return most

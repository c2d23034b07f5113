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
"""The variables of the solver's model, and the sums over domains that its rules use.

One integer per unit set and host is the number of its units there; one per team and domain is the
number of its blocks there. So the size of the model does not depend on the number of members.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.layout import Level
from nova_sched.groups.exact.crowds import Crew

Literal = cp_model.IntVar | int  # 0 or 1, known or not
Amount = cp_model.LinearExpr | int


@dataclasses.dataclass(eq=False)
class Sums:
    """Members of one side of a rule, by domain: unplaced members as terms, fixed members as
    numbers.

    ``terms``: variables and coefficients by domain. ``most`` int64 [D]: the maximum of the terms.
    ``literals``: variables that are known to state whether a domain is used.
    """

    model: cp_model.CpModel
    terms: dict[int, tuple[list, list]]
    fixed: np.ndarray
    most: np.ndarray
    literals: dict[int, Literal]

    def __iter__(self) -> Iterator[int]:
        """Yields the domains where some of the unplaced members may go."""
        return iter(self.terms)

    @property
    def domains(self) -> list[int]:
        """Returns the domains that may be used, or that fixed members use."""
        return sorted({*self.terms, *np.flatnonzero(self.fixed).tolist()})

    def placed(self, domain: int) -> Amount:
        """Returns how many of the unplaced members go to the domain."""
        return cp_model.LinearExpr.weighted_sum(*self.terms[domain]) if domain in self.terms else 0

    def total(self, domain: int) -> Amount:
        return self.placed(domain) + int(self.fixed[domain])

    def bound(self, domain: int) -> int:
        """Returns the maximum of ``total``."""
        return int(self.most[domain] + self.fixed[domain])

    def used(self, domain: int) -> Literal:
        """Returns whether the domain has a member."""
        if self.fixed[domain]:
            return 1
        if domain not in self.terms:
            return 0
        if domain not in self.literals:
            self.literals[domain] = self._literal(domain)
        return self.literals[domain]

    def _literal(self, domain: int) -> cp_model.IntVar:
        if self.most[domain] == 1 and len(self.terms[domain][0]) == 1:
            return self.terms[domain][0][0]
        used, placed = self.model.new_bool_var(''), self.placed(domain)
        self.model.add(placed >= used)
        self.model.add(placed <= int(self.most[domain]) * used)
        return used


class Variables:
    """The variables for a crew, with the rule that every member is placed.

    ``x[crowd]``: units by live position. ``y[team]``: blocks by domain.
    """

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.model = cp_model.CpModel()
        self._sums: dict[tuple, Sums] = {}
        new = self.model.new_int_var
        self.x = [
            {h: new(0, int(crowd.most[h]), '') for h in np.flatnonzero(crowd.most).tolist()}
            for crowd in crew.crowds
        ]
        self.y = [
            {d: new(0, int(team.most[d]), '') for d in np.flatnonzero(team.most).tolist()}
            for team in crew.teams
        ]
        self._everybody_is_placed()
        for number in range(len(crew.teams)):
            self._blocks_are_together(number)

    def level(self, number: int) -> Level:
        return self.crew.compiled.layout.levels[number]

    def a(self, one: Active) -> Sums:
        return self._sums_of(one.level, one.a, one.fixed_a)

    def b(self, one: Active) -> Sums:
        return self._sums_of(one.level, one.b, one.fixed_b)

    def by_domain(self, number: int, weights: dict[int, int]) -> dict[int, tuple[list, list]]:
        """Returns the weighted variables of unit sets: variables and coefficients by domain of a
        level."""
        ids = self.level(number).ids.tolist()
        terms: dict[int, tuple[list, list]] = {}
        for crowd, weight in weights.items():
            for h, variable in self.x[crowd].items():
                variables, coefficients = terms.setdefault(ids[h], ([], []))
                variables.append(variable)
                coefficients.append(weight)
        return terms

    def _everybody_is_placed(self) -> None:
        # Rule: every unit has one host, every block one domain; or at most one.
        places = [(x, crowd.count) for x, crowd in zip(self.x, self.crew.crowds, strict=True)]
        places += [(y, team.count) for y, team in zip(self.y, self.crew.teams, strict=True)]
        for variables, count in places:
            total = cp_model.LinearExpr.sum(list(variables.values()))
            self.model.add(total <= count if self.crew.partial else total == count)

    def _blocks_are_together(self, number: int) -> None:
        team, y = self.crew.teams[number], self.y[number]
        # Rule: where a block is, all its units are.
        for crowd in team.crowds:
            need = team.need(self.crew.crowds[crowd])
            terms = self.by_domain(team.level, {crowd: 1})
            for domain, blocks in y.items():
                placed = cp_model.LinearExpr.weighted_sum(*terms.get(domain, ([], [])))
                room = need * blocks
                self.model.add(placed == room if team.whole else placed <= room)
        # An implied rule for the blocks inside, stated explicitly because the search uses it
        # sooner.
        layout = self.crew.compiled.layout
        for other in team.inner:
            inner = self.crew.teams[other]
            around = layout.around(inner.level, team.level)
            inside: dict[int, list] = {domain: [] for domain in y}
            for domain, variable in self.y[other].items():
                inside.setdefault(int(around[domain]), []).append(variable)
            for domain, variables in inside.items():
                total, most = cp_model.LinearExpr.sum(variables), inner.count * y.get(domain, 0)
                self.model.add(total <= most if self.crew.partial else total == most)

    def _sums_of(self, number: int, counts: np.ndarray, fixed: np.ndarray) -> Sums:
        weights = {
            crowd: int(counts[row.first])
            for crowd, row in enumerate(self.crew.crowds)
            if counts[row.first]
        }
        key = (number, tuple(weights.items()), fixed.tobytes())
        if key not in self._sums:
            level = self.level(number)
            most = np.zeros(level.count, dtype=np.int64)
            total = 0
            for crowd, weight in weights.items():
                most += weight * level.sum(self.crew.crowds[crowd].most)
                total += weight * self.crew.crowds[crowd].count
            terms = self.by_domain(number, weights)
            self._sums[key] = Sums(
                self.model,
                terms,
                fixed,
                np.minimum(most, total),
                self._known(number, set(weights)),
            )
        return self._sums[key]

    def _known(self, number: int, crowds: set[int]) -> dict[int, Literal]:
        """The unit sets of one block use the domain of the block."""
        for team, y in zip(self.crew.teams, self.y, strict=True):
            is_exact = team.count == 1 and team.level == number and team.whole
            if is_exact and crowds and crowds.issubset(team.crowds):
                return dict(y)
        return {}

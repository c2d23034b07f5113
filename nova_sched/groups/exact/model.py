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
"""The solver's model: the variables, the rules by kind, and the objective.

One integer per symmetry set and host is the number of its units there; one per blocks and domain
is the number of the blocks there. So the size of the model does not depend on the number of
members.
"""

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.arrays.layout import LayoutLevel
from nova_sched.groups.exact.symmetry import Symmetry

Literal = cp_model.IntVar | int  # 0 or 1, known or not
Amount = cp_model.LinearExpr | int

STEPS = 1000  # resolution of scores, from the lowest to the highest of all candidates
FINEST = 1000  # denominator of the policies' weights, which are rounded to it


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
        """Yield the domains where some of the unplaced members may go."""
        return iter(self.terms)

    @property
    def domains(self) -> list[int]:
        """Return the domains that may be used, or that fixed members use."""
        return sorted({*self.terms, *np.flatnonzero(self.fixed).tolist()})

    def placed(self, domain: int) -> Amount:
        """Return how many of the unplaced members go to the domain."""
        return cp_model.LinearExpr.weighted_sum(*self.terms[domain]) if domain in self.terms else 0

    def total(self, domain: int) -> Amount:
        return self.placed(domain) + int(self.fixed[domain])

    def bound(self, domain: int) -> int:
        """Return the maximum of ``total``."""
        return int(self.most[domain] + self.fixed[domain])

    def used(self, domain: int) -> Literal:
        """Return whether the domain has a member."""
        if self.fixed[domain]:
            return 1
        if domain not in self.terms:
            return 0
        if domain not in self.literals:
            if self.most[domain] == 1 and len(self.terms[domain][0]) == 1:
                return self.terms[domain][0][0]
            used, placed = self.model.new_bool_var(''), self.placed(domain)
            self.model.add(placed >= used)
            self.model.add(placed <= int(self.most[domain]) * used)
            self.literals[domain] = used
        return self.literals[domain]


class Variables:
    """The variables for a symmetry, with the rule that every member is placed.

    ``x[alike]``: units by live position. ``y[blocks]``: blocks by domain.
    """

    def __init__(self, symmetry: Symmetry) -> None:
        self.symmetry = symmetry
        self.model = cp_model.CpModel()
        self._sums: dict[tuple, Sums] = {}
        new = self.model.new_int_var
        self.x = [
            {h: new(0, int(alike.most[h]), '') for h in np.flatnonzero(alike.most).tolist()}
            for alike in symmetry.sets
        ]
        self.y = [
            {d: new(0, int(blocks.most[d]), '') for d in np.flatnonzero(blocks.most).tolist()}
            for blocks in symmetry.blocks
        ]
        # Rule: every unit has one host, every block one domain; or at most one.
        places = [(x, alike.count) for x, alike in zip(self.x, symmetry.sets, strict=True)]
        places += [(y, blocks.count) for y, blocks in zip(self.y, symmetry.blocks, strict=True)]
        for variables, count in places:
            total = cp_model.LinearExpr.sum(list(variables.values()))
            self.model.add(total <= count if symmetry.partial else total == count)
        for number in range(len(symmetry.blocks)):
            self._blocks_are_together(number)

    def level(self, number: int) -> LayoutLevel:
        return self.symmetry.compiled.layout.levels[number]

    def a(self, active: Active) -> Sums:
        return self._sums_of(active.level, active.a, active.fixed_a)

    def b(self, active: Active) -> Sums:
        return self._sums_of(active.level, active.b, active.fixed_b)

    def by_domain(self, number: int, weights: dict[int, int]) -> dict[int, tuple[list, list]]:
        """Return the weighted variables of sets: variables and coefficients by domain of a
        level."""
        ids = self.level(number).ids.tolist()
        terms: dict[int, tuple[list, list]] = {}
        for alike, weight in weights.items():
            for h, variable in self.x[alike].items():
                variables, coefficients = terms.setdefault(ids[h], ([], []))
                variables.append(variable)
                coefficients.append(weight)
        return terms

    def _blocks_are_together(self, number: int) -> None:
        blocks, y = self.symmetry.blocks[number], self.y[number]
        # Rule: where a block is, all its units are.
        for alike in blocks.sets:
            need = blocks.need(self.symmetry.sets[alike])
            terms = self.by_domain(blocks.level, {alike: 1})
            for domain, here in y.items():
                placed = cp_model.LinearExpr.weighted_sum(*terms.get(domain, ([], [])))
                room = need * here
                self.model.add(placed == room if blocks.whole else placed <= room)
        # An implied rule for the blocks inside, stated explicitly because the search uses it
        # sooner.
        layout = self.symmetry.compiled.layout
        for other in blocks.inner:
            inner = self.symmetry.blocks[other]
            around = layout.around[inner.level, blocks.level]
            inside: dict[int, list] = {domain: [] for domain in y}
            for domain, variable in self.y[other].items():
                inside.setdefault(int(around[domain]), []).append(variable)
            for domain, variables in inside.items():
                total, most = cp_model.LinearExpr.sum(variables), inner.count * y.get(domain, 0)
                self.model.add(total <= most if self.symmetry.partial else total == most)

    def _sums_of(self, number: int, counts: np.ndarray, fixed: np.ndarray) -> Sums:
        weights = {
            alike: int(counts[row.first])
            for alike, row in enumerate(self.symmetry.sets)
            if counts[row.first]
        }
        key = (number, tuple(weights.items()), fixed.tobytes())
        if key not in self._sums:
            level = self.level(number)
            most = np.zeros(level.count, dtype=np.int64)
            total = 0
            for alike, weight in weights.items():
                most += weight * level.sum(self.symmetry.sets[alike].most)
                total += weight * self.symmetry.sets[alike].count
            terms = self.by_domain(number, weights)
            self._sums[key] = Sums(
                self.model,
                terms,
                fixed,
                np.minimum(most, total),
                self._known(number, set(weights)),
            )
        return self._sums[key]

    def _known(self, number: int, sets: set[int]) -> dict[int, Literal]:
        """The sets of one block use the domain of the block."""
        for blocks, y in zip(self.symmetry.blocks, self.y, strict=True):
            is_exact = blocks.count == 1 and blocks.level == number and blocks.whole
            if is_exact and sets and sets.issubset(blocks.sets):
                return dict(y)
        return {}


def add_rules(these: Variables) -> None:
    """Add all rules that a placement must keep."""
    _room(these)
    rules = {
        definition.ANTI_AFFINITY: _anti_affinity,
        definition.SPREAD: _spread,
        definition.EXCLUSIVE: _not_both,
        definition.NEAR: _near,
        definition.APART: _not_both,
    }  # affinity is expressed by the units, the blocks and the open hosts of classes
    for position, active in enumerate(these.symmetry.compiled.active):
        if not active.is_required:
            continue
        if position in these.symmetry.private:
            _private_anti_affinity(these, active)
        else:
            rules[active.kind](these, active)
    if these.symmetry.partial:
        _partners(these)


def _room(these: Variables) -> None:
    # Rule: no host is overcommitted. Added only where that is possible.
    compiled, sets = these.symmetry.compiled, these.symmetry.sets
    asks = [compiled.shapes[compiled.shape[alike.first]].ways for alike in sets]
    worst = sum(
        np.outer(alike.most, ways.max(axis=0)) for alike, ways in zip(sets, asks, strict=True)
    )
    over = worst > compiled.free
    several = [number for number, ways in enumerate(asks) if len(ways) > 1]
    touched = np.zeros(len(over), dtype=bool)
    for number in several:
        touched |= sets[number].most > 0
    here: dict[int, list[int]] = {}
    for number in range(len(sets)):
        for h in these.x[number]:
            here.setdefault(h, []).append(number)
    for h in np.flatnonzero(over.any(axis=1)).tolist():
        resources = np.flatnonzero(over[h])
        if touched[h]:
            _room_by_ways(these, h, resources, here[h])
            continue
        variables = [these.x[number][h] for number in here[h]]
        for resource in resources:
            amounts = [int(asks[number][0, resource]) for number in here[h]]
            free = int(compiled.free[h, resource])
            these.model.add(cp_model.LinearExpr.weighted_sum(variables, amounts) <= free)


def _room_by_ways(these: Variables, h: int, resources: np.ndarray, sets: list[int]) -> None:
    """Capacity of a host whose members have several ways: how many of each kind take each way."""
    compiled = these.symmetry.compiled
    problem = compiled.problem
    taken: dict[int, list] = {int(resource): [] for resource in resources}
    members: dict[int, list] = {}
    for number in sets:
        shape = compiled.shapes[compiled.shape[these.symmetry.sets[number].first]]
        for kind in shape.kinds:
            members.setdefault(kind, []).append(these.x[number][h])
        for resource in taken:
            if resource >= problem.demand.shape[2]:  # a cap: the same for all ways
                taken[resource].append(int(shape.ways[0, resource]) * these.x[number][h])
    for kind, variables in members.items():
        ways = np.unique(problem.demand[kind], axis=0)
        total = cp_model.LinearExpr.sum(variables)
        counts = [total]
        if len(ways) > 1:
            loose = int((problem.fixed < 0).sum())
            counts = [these.model.new_int_var(0, loose, '') for _ in ways]
            these.model.add(cp_model.LinearExpr.sum(counts) == total)
        for resource, terms in taken.items():
            if resource < problem.demand.shape[2]:
                amounts = ways[:, resource].tolist()
                terms.extend(
                    amount * count for amount, count in zip(amounts, counts, strict=True) if amount
                )
    for resource, terms in taken.items():
        these.model.add(cp_model.LinearExpr.sum(terms) <= int(compiled.free[h, resource]))


def _anti_affinity(these: Variables, active: Active) -> None:
    # Rule: no domain exceeds its limit.
    side = these.a(active)
    for domain in side:
        if side.bound(domain) > active.rule.most:
            these.model.add(side.total(domain) <= active.rule.most)


def _private_anti_affinity(these: Variables, active: Active) -> None:
    # Rule: on a host, alike blocks together have at most n times the limit of one, for n of them
    # in the domain around the host.
    side = these.a(active)
    sets = {n for n, alike in enumerate(these.symmetry.sets) if active.a[alike.first]}
    number, blocks = next(
        (number, blocks)
        for number, blocks in enumerate(these.symmetry.blocks)
        if blocks.count > 1 and sets.issubset(blocks.sets)
    )
    ids = these.level(blocks.level).ids
    for h in side:
        if side.bound(h) > active.rule.most or blocks.most[ids[h]] > 1:
            these.model.add(side.placed(h) <= active.rule.most * these.y[number][int(ids[h])])


def _spread(these: Variables, active: Active) -> None:
    side = these.a(active)
    domains = side.domains
    model, least = these.model, active.rule.min_domains
    # Rule: enough domains are used.
    if least > 1:
        used = cp_model.LinearExpr.sum([side.used(domain) for domain in domains])
        if not these.symmetry.partial:
            model.add(used >= least)
        else:
            some = model.new_bool_var('')
            model.add(used >= least * some)
            for domain in domains:
                model.add(side.used(domain) <= some)
    # Rule: the used domains have about the same count.
    skew = active.rule.max_skew
    if skew is not None and any(side.bound(domain) > skew + 1 for domain in domains):
        largest, smallest = extremes(these, active)
        model.add(largest - smallest <= skew)


def extremes(these: Variables, active: Active) -> tuple[cp_model.IntVar, cp_model.IntVar]:
    """Return an upper bound on a side's largest count and a lower bound on its smallest.

    Only used domains count.
    """
    side = these.a(active)
    top = max(side.bound(domain) for domain in side.domains)
    largest, smallest = these.model.new_int_var(1, top, ''), these.model.new_int_var(1, top, '')
    for domain in side.domains:
        total, used = side.total(domain), side.used(domain)
        these.model.add(largest >= total)
        constraint = these.model.add(smallest <= total)
        if not isinstance(used, int):
            constraint.only_enforce_if(used)
    return largest, smallest


def _near(these: Variables, active: Active) -> None:
    # Rule: a domain that has members of A has one of B.
    side, other = these.a(active), these.b(active)
    for domain in side.domains:
        if not other.fixed[domain]:
            these.model.add(other.placed(domain) >= side.used(domain))


def _partners(these: Variables) -> None:
    # Rule: no A without a B. This holds implicitly if near is equivalent to affinity and all
    # members are placed, and also in a block that is placed whole.
    compiled = these.symmetry.compiled
    problem, active = compiled.problem, {rule.number for rule in compiled.active}
    for number, rule in enumerate(problem.rules):
        is_spoken = rule.is_required and rule.kind == definition.NEAR and number not in active
        if not is_spoken or (problem.fixed[rule.b] >= 0).any():
            continue
        sides: list[list] = [[], []]
        for alike, x in zip(these.symmetry.sets, these.x, strict=True):
            for side, members in zip(sides, (rule.a, rule.b), strict=True):
                if (
                    len(alike.classes) == 1
                    and np.isin(compiled.members[alike.first][0], members).any()
                ):
                    side.extend(x.values())
        anchors, partners = (cp_model.LinearExpr.sum(side) for side in sides)
        these.model.add(anchors <= these.symmetry.units * partners)


def _not_both(these: Variables, active: Active) -> None:
    # Rule: no domain has both sides; for an exclusive policy, B is all other members.
    side, other = these.a(active), these.b(active)
    for domain in set(side.domains) & set(other.domains):
        these.model.add(side.used(domain) + other.used(domain) <= 1)


@dataclasses.dataclass(eq=False)
class Tier:
    """One part of the objective: minimises the sum of terms, which lies between 0 and ``span``."""

    variables: list
    weights: list[int]
    span: int


def add_goal(these: Variables) -> int:
    """Add the objective; each tier outweighs all tiers after it.

    Return the step: a placement with fewer breaches or fewer moves is better by more than all
    that scores and new hosts can add, which is below this number.
    """
    tiers = [_preferred(these), _moves(these), _loss(these), _spoilt(these)]
    step = (tiers[2].span + 1) * (tiers[3].span + 1)
    factor, variables, weights = 1, [], []
    for tier in reversed(tiers):
        variables += tier.variables
        weights += [factor * weight for weight in tier.weights]
        factor *= tier.span + 1
    these.model.minimize(cp_model.LinearExpr.weighted_sum(variables, weights))
    return step


def _preferred(these: Variables) -> Tier:
    breached, given = [], []
    for active in these.symmetry.compiled.active:
        weight = active.rule.weight
        if weight is not None and weight > 0:
            breached.append((active, list(BREACHES[active.kind](these, active))))
            given.append(weight)
    weights = _whole(given)
    tier = Tier([], [], 0)
    for each, (active, breaches) in zip(weights, breached, strict=True):
        members = len(these.symmetry.compiled.problem.names)
        tier.variables += breaches
        tier.weights += [each] * len(breaches)
        tier.span += each * (members + active.rule.min_domains)
    return tier


def _whole(weights: list[float]) -> list[int]:
    """Return integers in the proportion of the weights, or nearly so."""
    fractions = [Fraction(weight).limit_denominator(FINEST) for weight in weights]
    common = math.lcm(*(fraction.denominator for fraction in fractions))
    if common > FINEST:
        return [max(1, round(weight * FINEST / max(weights))) for weight in weights]
    whole = [int(fraction * common) for fraction in fractions]
    shared = math.gcd(*whole) or 1
    return [max(1, number // shared) for number in whole]


def _domains_used(these: Variables, active: Active) -> Iterator[Literal]:
    side = these.a(active)
    return (side.used(domain) for domain in side)


def _members_above(these: Variables, active: Active) -> Iterator[cp_model.IntVar]:
    side = these.a(active)
    for domain in side:
        above = side.bound(domain) - active.rule.most
        if above > 0:
            excess = these.model.new_int_var(0, above, '')
            these.model.add(excess >= side.total(domain) - active.rule.most)
            yield excess


def _short_of_spread(these: Variables, active: Active) -> Iterator[cp_model.IntVar]:
    side = these.a(active)
    least, skew = active.rule.min_domains, active.rule.max_skew
    if least > 1:
        missing = these.model.new_int_var(0, least, '')
        used = cp_model.LinearExpr.sum([side.used(domain) for domain in side.domains])
        these.model.add(missing >= least - used)
        yield missing
    if skew is not None:
        largest, smallest = extremes(these, active)
        excess = these.model.new_int_var(0, max(side.bound(domain) for domain in side.domains), '')
        these.model.add(excess >= largest - smallest - skew)
        yield excess


def _shared_domains(these: Variables, active: Active) -> Iterator[cp_model.IntVar]:
    side, other = these.a(active), these.b(active)
    for domain in side.domains:
        used, shared = side.used(domain), 1 if active.outside[domain] else other.used(domain)
        if isinstance(shared, int):
            used, shared = shared, used
        if isinstance(used, int):  # one of the two is known
            if used and not isinstance(shared, int):
                yield shared
        else:
            both = these.model.new_bool_var('')
            these.model.add(both >= used + shared - 1)
            yield both


def _members_alone(these: Variables, active: Active) -> Iterator[cp_model.IntVar]:
    side, other = these.a(active), these.b(active)
    for domain in side.domains:
        if not other.fixed[domain]:
            bound = side.bound(domain)
            alone = these.model.new_int_var(0, bound, '')
            these.model.add(alone >= side.total(domain) - bound * other.used(domain))
            yield alone


# By kind: terms whose sum is the number of breaches of a preferred policy, up to a constant.
BREACHES = {
    definition.AFFINITY: _domains_used,
    definition.ANTI_AFFINITY: _members_above,
    definition.SPREAD: _short_of_spread,
    definition.EXCLUSIVE: _shared_domains,
    definition.NEAR: _members_alone,
    definition.APART: _shared_domains,
}


def _moves(these: Variables) -> Tier:
    """Count -1 for each member placed at its home."""
    symmetry, tier = these.symmetry, Tier([], [], 0)
    problem, layout = symmetry.compiled.problem, symmetry.compiled.layout
    for alike, x in zip(symmetry.sets, these.x, strict=True):
        units = np.concatenate([symmetry.compiled.members[c] for c in alike.classes])
        homes = problem.home[units]
        at, counts = np.unique(layout.position[homes[homes >= 0]], return_counts=True)
        for h, count in zip(at.tolist(), counts.tolist(), strict=True):
            if h not in x:
                continue
            tier.span += count
            if units.shape[1] > 1:
                # Units of several members form one set only if their homes are the same.
                tier.variables.append(x[h])
                tier.weights.append(-(count // len(units)))
            else:
                stay = these.model.new_int_var(0, min(count, int(alike.most[h])), '')
                these.model.add(stay <= x[h])
                tier.variables.append(stay)
                tier.weights.append(-1)
    return tier


def _loss(these: Variables) -> Tier:
    """The amount by which scores are below the highest, in steps."""
    symmetry = these.symmetry
    scores = [
        symmetry.compiled.shapes[symmetry.compiled.shape[alike.first]].score
        for alike in symmetry.sets
    ]
    seen = [score[alike.most > 0] for score, alike in zip(scores, symmetry.sets, strict=True)]
    every = np.concatenate(seen) if seen else np.zeros(1)
    if not len(every) or every.max() == every.min():
        return Tier([], [], 0)
    step = (every.max() - every.min()) / STEPS
    tier = Tier([], [], 0)
    for score, top, alike, x in zip(scores, seen, symmetry.sets, these.x, strict=True):
        short = np.rint((top.max(initial=-np.inf) - score[alike.most > 0]) / step).astype(np.int64)
        tier.variables += x.values()
        tier.weights += short.tolist()
        tier.span += alike.count * int(short.max(initial=0))
    return tier


def _spoilt(these: Variables) -> Tier:
    """Hosts that had no instance before this placement and are used by it."""
    symmetry = these.symmetry
    problem, layout = symmetry.compiled.problem, symmetry.compiled.layout
    terms = these.by_domain(0, dict.fromkeys(range(len(symmetry.sets)), 1))
    hosts = np.array([layout.levels[0].numbers[domain] for domain in terms], dtype=np.intp)
    tier = Tier([], [], symmetry.units)
    for domain, is_settled in zip(list(terms), problem.settled[hosts].tolist(), strict=True):
        if not is_settled:
            used = these.model.new_bool_var('')
            bound = sum(int(alike.most[domain]) for alike in symmetry.sets)
            these.model.add(cp_model.LinearExpr.weighted_sum(*terms[domain]) <= bound * used)
            tier.variables.append(used)
            tier.weights.append(1)
    return tier

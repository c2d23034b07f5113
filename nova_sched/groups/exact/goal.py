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
"""The objective of the solver's model: preferred policies, then moves, then score, then new
hosts."""

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.exact.model import Literal, Variables, extremes

STEPS = 1000  # resolution of scores, from the lowest to the highest of all candidates
FINEST = 1000  # denominator of the policies' weights, which are rounded to it


@dataclasses.dataclass(eq=False)
class Tier:
    """One part of the objective: minimises the sum of terms, which lies between 0 and ``span``."""

    variables: list
    weights: list[int]
    span: int


def add_goal(these: Variables) -> int:
    """Adds the objective; each tier outweighs all tiers after it.

    Returns the step: a placement with fewer breaches or fewer moves is better by more than all
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
    found, given = [], []
    for one in these.symmetry.compiled.active:
        weight = one.rule.weight
        if weight is not None and weight > 0:
            found.append((one, list(BREACHES[one.kind](these, one))))
            given.append(weight)
    weights = _whole(given)
    tier = Tier([], [], 0)
    for each, (one, breaches) in zip(weights, found, strict=True):
        members = len(these.symmetry.compiled.problem.names)
        tier.variables += breaches
        tier.weights += [each] * len(breaches)
        tier.span += each * (members + one.rule.min_domains)
    return tier


def _whole(weights: list[float]) -> list[int]:
    """Returns integers in the proportion of the weights, or nearly so."""
    fractions = [Fraction(weight).limit_denominator(FINEST) for weight in weights]
    common = math.lcm(*(fraction.denominator for fraction in fractions))
    if common > FINEST:
        return [max(1, round(weight * FINEST / max(weights))) for weight in weights]
    whole = [int(fraction * common) for fraction in fractions]
    shared = math.gcd(*whole) or 1
    return [max(1, number // shared) for number in whole]


def _domains_used(these: Variables, one: Active) -> Iterator[Literal]:
    side = these.a(one)
    return (side.used(domain) for domain in side)


def _members_above(these: Variables, one: Active) -> Iterator[cp_model.IntVar]:
    side = these.a(one)
    for domain in side:
        above = side.bound(domain) - one.rule.most
        if above > 0:
            excess = these.model.new_int_var(0, above, '')
            these.model.add(excess >= side.total(domain) - one.rule.most)
            yield excess


def _short_of_spread(these: Variables, one: Active) -> Iterator[cp_model.IntVar]:
    side = these.a(one)
    least, skew = one.rule.min_domains, one.rule.max_skew
    if least > 1:
        missing = these.model.new_int_var(0, least, '')
        used = cp_model.LinearExpr.sum([side.used(domain) for domain in side.domains])
        these.model.add(missing >= least - used)
        yield missing
    if skew is not None:
        largest, smallest = extremes(these, one)
        excess = these.model.new_int_var(0, max(side.bound(domain) for domain in side.domains), '')
        these.model.add(excess >= largest - smallest - skew)
        yield excess


def _shared_domains(these: Variables, one: Active) -> Iterator[cp_model.IntVar]:
    side, other = these.a(one), these.b(one)
    for domain in side.domains:
        used, shared = side.used(domain), 1 if one.outside[domain] else other.used(domain)
        if isinstance(shared, int):
            used, shared = shared, used
        if isinstance(used, int):  # one of the two is known
            if used and not isinstance(shared, int):
                yield shared
        else:
            both = these.model.new_bool_var('')
            these.model.add(both >= used + shared - 1)
            yield both


def _members_alone(these: Variables, one: Active) -> Iterator[cp_model.IntVar]:
    side, other = these.a(one), these.b(one)
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
    """Counts -1 for each member placed at its home."""
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
    settled = problem.occupied.copy()
    settled[problem.fixed[problem.fixed >= 0]] = True
    settled[problem.home[problem.home >= 0]] = True
    terms = these.by_domain(0, dict.fromkeys(range(len(symmetry.sets)), 1))
    hosts = np.array([layout.levels[0].numbers[domain] for domain in terms], dtype=np.intp)
    tier = Tier([], [], symmetry.units)
    for domain, is_settled in zip(list(terms), settled[hosts].tolist(), strict=True):
        if not is_settled:
            used = these.model.new_bool_var('')
            bound = sum(int(alike.most[domain]) for alike in symmetry.sets)
            these.model.add(cp_model.LinearExpr.weighted_sum(*terms[domain]) <= bound * used)
            tier.variables.append(used)
            tier.weights.append(1)
    return tier

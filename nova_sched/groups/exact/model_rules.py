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
"""The required rules of the solver's model: capacity of hosts, and required policies that may
bind."""

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import definition
from nova_sched.groups.arrays.active import Active
from nova_sched.groups.exact.model_variables import Variables


def add(these: Variables) -> None:
    """Adds all rules that a placement must keep."""
    _room(these)
    rules = {
        definition.ANTI_AFFINITY: _anti_affinity,
        definition.SPREAD: _spread,
        definition.EXCLUSIVE: _not_both,
        definition.NEAR: _near,
        definition.APART: _not_both,
    }  # affinity is expressed by the units, the teams and the open hosts of classes
    for position, one in enumerate(these.crew.compiled.active):
        if not one.is_required:
            continue
        if position in these.crew.private:
            _private_anti_affinity(these, one, these.crew.private[position])
        else:
            rules[one.kind](these, one)
    if these.crew.partial:
        _partners(these)


def _room(these: Variables) -> None:
    # Rule: no host is overcommitted. Added only where that is possible.
    compiled, crowds = these.crew.compiled, these.crew.crowds
    asks = [compiled.shapes[compiled.shape[crowd.first]].ways for crowd in crowds]
    worst = sum(
        np.outer(crowd.most, ways.max(axis=0)) for crowd, ways in zip(crowds, asks, strict=True)
    )
    over = worst > compiled.free
    several = [number for number, ways in enumerate(asks) if len(ways) > 1]
    touched = np.zeros(len(over), dtype=bool)
    for number in several:
        touched |= crowds[number].most > 0
    here: dict[int, list[int]] = {}
    for number in range(len(crowds)):
        for h in these.x[number]:
            here.setdefault(h, []).append(number)
    for h in np.flatnonzero(over.any(axis=1)).tolist():
        resources = np.flatnonzero(over[h])
        if touched[h]:
            _room_by_ways(these, h, resources, here[h])
            continue
        variables = [these.x[number][h] for number in here[h]]
        for resource in resources:
            asked = [int(asks[number][0, resource]) for number in here[h]]
            free = int(compiled.free[h, resource])
            these.model.add(cp_model.LinearExpr.weighted_sum(variables, asked) <= free)


def _room_by_ways(these: Variables, h: int, resources: np.ndarray, crowds: list[int]) -> None:
    """Capacity of a host whose members have several ways: how many of each kind take each way."""
    compiled = these.crew.compiled
    problem = compiled.problem
    taken: dict[int, list] = {int(resource): [] for resource in resources}
    members: dict[int, list] = {}
    for number in crowds:
        shape = compiled.shapes[compiled.shape[these.crew.crowds[number].first]]
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
                asked = ways[:, resource].tolist()
                terms.extend(
                    amount * count for amount, count in zip(asked, counts, strict=True) if amount
                )
    for resource, terms in taken.items():
        these.model.add(cp_model.LinearExpr.sum(terms) <= int(compiled.free[h, resource]))


def _anti_affinity(these: Variables, one: Active) -> None:
    # Rule: no domain exceeds its limit.
    side = these.a(one)
    for domain in side:
        if side.bound(domain) > one.rule.most:
            these.model.add(side.total(domain) <= one.rule.most)


def _private_anti_affinity(these: Variables, one: Active, alike: int) -> None:
    # Rule: all alike blocks or classes together have at most n times the limit of one, for n of
    # them.
    side = these.a(one)
    crowds = {n for n, crowd in enumerate(these.crew.crowds) if one.a[crowd.first]}
    for number, team in enumerate(these.crew.teams):
        if team.count > 1 and crowds and crowds.issubset(team.crowds):
            # For blocks: only those in the domain around the host count.
            ids = these.level(team.level).ids
            for h in side:
                if side.bound(h) > one.rule.most or team.most[ids[h]] > 1:
                    these.model.add(side.placed(h) <= one.rule.most * these.y[number][int(ids[h])])
            return
    for number in crowds:
        each = int(one.a[these.crew.crowds[number].first])
        most = one.rule.most // each * each * alike
        for domain in side:
            if side.bound(domain) > most:
                these.model.add(side.placed(domain) <= most)


def _spread(these: Variables, one: Active) -> None:
    side = these.a(one)
    domains = side.domains
    model, least = these.model, one.rule.min_domains
    # Rule: enough domains are used.
    if least > 1:
        used = cp_model.LinearExpr.sum([side.used(domain) for domain in domains])
        if not these.crew.partial:
            model.add(used >= least)
        else:
            some = model.new_bool_var('')
            model.add(used >= least * some)
            for domain in domains:
                model.add(side.used(domain) <= some)
    # Rule: the used domains have about the same count.
    skew = one.rule.max_skew
    if skew is not None and any(side.bound(domain) > skew + 1 for domain in domains):
        largest, smallest = extremes(these, one)
        model.add(largest - smallest <= skew)


def extremes(these: Variables, one: Active) -> tuple[cp_model.IntVar, cp_model.IntVar]:
    """Returns an upper bound on a side's largest count and a lower bound on its smallest.

    Only used domains count.
    """
    side = these.a(one)
    top = max(side.bound(domain) for domain in side.domains)
    largest, smallest = these.model.new_int_var(1, top, ''), these.model.new_int_var(1, top, '')
    for domain in side.domains:
        total, used = side.total(domain), side.used(domain)
        these.model.add(largest >= total)
        constraint = these.model.add(smallest <= total)
        if not isinstance(used, int):
            constraint.only_enforce_if(used)
    return largest, smallest


def _near(these: Variables, one: Active) -> None:
    # Rule: a domain that has members of A has one of B.
    side, other = these.a(one), these.b(one)
    for domain in side.domains:
        if not other.fixed[domain]:
            these.model.add(other.placed(domain) >= side.used(domain))


def _partners(these: Variables) -> None:
    # Rule: no A without a B. This holds implicitly if near is equivalent to affinity and all
    # members are placed, and also in a block that is placed whole.
    compiled = these.crew.compiled
    problem, active = compiled.problem, {one.number for one in compiled.active}
    for number, rule in enumerate(problem.rules):
        is_spoken = rule.is_required and rule.kind == definition.NEAR and number not in active
        if not is_spoken or (problem.fixed[rule.b] >= 0).any():
            continue
        sides: list[list] = [[], []]
        for crowd, x in zip(these.crew.crowds, these.x, strict=True):
            for side, members in zip(sides, (rule.a, rule.b), strict=True):
                if (
                    len(crowd.classes) == 1
                    and np.isin(compiled.members[crowd.first][0], members).any()
                ):
                    side.extend(x.values())
        anchors, partners = (cp_model.LinearExpr.sum(side) for side in sides)
        these.model.add(anchors <= these.crew.units * partners)


def _not_both(these: Variables, one: Active) -> None:
    # Rule: no domain has both sides; for an exclusive policy, B is all other members.
    side, other = these.a(one), these.b(one)
    for domain in set(side.domains) & set(other.domains):
        these.model.add(side.used(domain) + other.used(domain) <= 1)

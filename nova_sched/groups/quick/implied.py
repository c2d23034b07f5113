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
"""Implied policies: partners are spread as widely as the members that need them near."""

import dataclasses

import numpy as np

from nova_sched.groups import definition
from nova_sched.groups.arrays.problem import Problem, Rule


def with_implied(problem: Problem) -> Problem:
    """Returns the problem with a spread for the partners of each near, if its members need several
    domains.

    If the members must use n domains of a level, where the level is the near's or nests in it,
    each of those domains needs a partner. A search that places partners first would otherwise put
    all of them into one domain.
    """
    nears = [rule for rule in problem.rules if rule.is_required and rule.kind == definition.NEAR]
    told = [rule for rule in problem.rules if _domains(rule) > 1] if nears else []
    found: dict[tuple[bytes, int], Rule] = {}
    while told:
        rule = told.pop()
        for near in nears:
            key, known = (near.b.tobytes(), rule.level), found.get((near.b.tobytes(), rule.level))
            if _domains(rule) > (known.min_domains if known else 1) and _brings(
                problem, near, rule
            ):
                found[key] = _spread(problem, near, rule)
                told.append(found[key])
    return (
        dataclasses.replace(problem, rules=[*problem.rules, *found.values()]) if found else problem
    )


def _domains(rule: Rule) -> int:
    """Returns the minimum number of domains of its level that the rule makes its members use."""
    if not rule.is_required:
        return 1
    if rule.kind == definition.SPREAD:
        return rule.min_domains
    return -(-len(rule.a) // max(rule.most, 1)) if rule.kind == definition.ANTI_AFFINITY else 1


def _brings(problem: Problem, near: Rule, rule: Rule) -> bool:
    """Returns whether every domain that the rule's members use must have a partner.

    The partners must be different members.
    """
    if not np.isin(rule.a, near.a).all() or np.isin(rule.a, near.b).all():
        return False
    fine, coarse = problem.domains[near.level], problem.domains[rule.level]
    around = np.zeros(int(fine.max(initial=-1)) + 1, dtype=np.int32)
    around[fine] = coarse
    return bool((around[fine] == coarse).all())


def _spread(problem: Problem, near: Rule, rule: Rule) -> Rule:
    policy = definition.Policy(
        name=f'{near.policy.name}, because of {rule.policy.name}',
        kind=definition.SPREAD,
        level=problem.levels[rule.level],
        a=near.policy.b,
        min_domains=_domains(rule),
    )
    index = {problem.names[member]: int(member) for member in near.b}
    return Rule.of(policy, index, problem.levels)

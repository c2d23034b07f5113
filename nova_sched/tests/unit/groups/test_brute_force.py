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
"""Small random groups against plain enumeration, with a checker that knows nothing of the
planner."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nova_sched.groups import joint
from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.exact import worker
from nova_sched.groups.limits import PlanLimits
from nova_sched.tests import checker
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.groups import instances

LIMITS = PlanLimits(greedy_s=2.0, repair_s=20.0, improve_s=0.0, explain_s=0.0)
IMPROVE = dataclasses.replace(LIMITS, improve_s=20.0, improve_scores=True)
QUICK = PlanLimits(greedy_s=2.0, repair_s=0.0, improve_s=0.0, explain_s=0.0)
GREEDY_SEEDS = range(150)
GREEDY_SHARE = 0.97

problems = st.randoms(use_true_random=False).map(instances.problem)


@pytest.fixture(scope='module')
def solver():
    with worker.Solver() as made:
        yield made


def judged(problem, hosts):
    return checker.violations(*checker.of_problem(problem, hosts))


def best(problem):
    """The least that any placement costs: weights of broken preferences, members that moved, minus
    scores."""
    _, _, rules, cluster = checker.of_problem(problem, None)
    number = {host: row for row, host in enumerate(problem.domain_names[0])}

    def cost(placement):
        hosts = np.array([number[host] for host in placement.values()])
        loose = problem.fixed < 0
        moves = ((problem.home >= 0) & (hosts != problem.home)).sum()
        scores = problem.score[problem.kind[loose], hosts[loose]].sum()
        return checker.cost(placement, rules, cluster), int(moves), -float(scores)

    return min(map(cost, instances.placements(problem)), default=None)


@given(problems)
@settings(max_examples=cases(70))
def test_a_placement_is_found_exactly_when_one_exists(solver, problem):
    possible = next(instances.placements(problem), None)
    result = joint.plan(problem, LIMITS, solver)
    if possible is None:
        assert result.hosts is None
        assert result.proven
    else:
        assert result.hosts is not None, possible
        assert judged(problem, result.hosts) == []


@given(problems)
@settings(max_examples=cases(30))
def test_the_improver_finds_the_best_of_all(solver, problem):
    least = best(problem)
    assume(least is not None)
    result = joint.plan(problem, IMPROVE, solver)
    assert judged(problem, result.hosts) == []
    preferred, moves, loss, _ = policies.cost(problem, result.hosts)
    assert (preferred, moves) == pytest.approx(least[:2])
    # The solver's scores are whole thousandths.
    assert loss == pytest.approx(least[2], abs=0.001 * len(problem.names))


@given(problems)
@settings(max_examples=cases(100))
def test_what_is_proven_impossible_is_impossible(problem):
    if bounds.first(problem) is not None:
        assert next(instances.placements(problem), None) is None


def test_greedy_alone_finds_nearly_all():
    feasible, missed = 0, []
    for seed in GREEDY_SEEDS:
        problem = instances.problem(random.Random(seed))
        if next(instances.placements(problem), None) is None:
            continue
        feasible += 1
        result = joint.plan(problem, QUICK, solver=None)
        if result.hosts is None:
            missed.append(seed)
        else:
            assert judged(problem, result.hosts) == []
    assert len(missed) <= (1 - GREEDY_SHARE) * feasible, missed


@given(problems, st.randoms(use_true_random=False))
@settings(max_examples=cases(100))
def test_the_planner_judges_as_the_checker_does(problem, chance):
    hosts = np.array([chance.randrange(problem.host_count) for _ in problem.names], dtype=np.int32)
    hosts = np.where(problem.fixed >= 0, problem.fixed, hosts)
    placement, _, rules, cluster = checker.of_problem(problem, hosts)
    assert bool(policies.broken(problem, hosts)) == bool(judged(problem, hosts))
    assert policies.cost(problem, hosts).preferred == pytest.approx(
        checker.cost(placement, rules, cluster)
    )


@given(problems)
@settings(max_examples=cases(70))
def test_one_member_may_go_where_the_checker_lets_it(problem):
    placement = next(instances.placements(problem), None)
    assume(placement is not None)
    names = problem.domain_names[0]
    hosts = np.array([names.index(host) for host in placement.values()], dtype=np.int32)
    for member in np.flatnonzero(problem.fixed < 0):
        kept = []
        for host in range(problem.host_count):
            moved = hosts.copy()
            moved[member] = host
            kept.append(judged(problem, moved) == [])
        assert policies.allowed(problem, hosts, member).tolist() == kept

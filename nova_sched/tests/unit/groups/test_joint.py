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
"""The whole way of a plan: quick search, solver, the better of two, and what is left without the
solver."""

import threading
import time

import pytest

from nova_sched.groups import joint
from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import AFFINITY, ANTI_AFFINITY, APART
from nova_sched.groups.exact import worker
from nova_sched.groups.limits import PlanLimits
from nova_sched.tests.groups import policy
from nova_sched.tests.unit.groups import oracle, random_problems
from nova_sched.tests.unit.groups.exact.test_solver import CELLS, at, paths, problem

LONG = PlanLimits(greedy_s=5.0, repair_s=60.0, improve_s=60.0, explain_s=0.0, improve_scores=True)


@pytest.fixture(scope='module')
def solver():
    with worker.Solver() as solver:
        yield solver


def easy():
    return problem([2, 2], 2, {'a': 4}, policy(ANTI_AFFINITY, 'host', paths('a', 4)))


def crowded():
    """Three members apart from each other in two racks: counting does not see it."""
    pairs = (['a/0', 'a/1'], ['a/1', 'a/2'], ['a/2', 'a/0'])
    return problem([3, 3], 1, {'a': 3}, *(policy(APART, 'rack', [a], [b]) for a, b in pairs))


@pytest.mark.parametrize('seeds', [pytest.param(range(40), id='mixtures')])
def test_the_solver_settles_all_and_makes_nothing_worse(solver, seeds):
    wrong = []
    for seed in seeds:
        one = random_problems.mixture(seed)
        best = oracle.best(one)
        result = joint.plan(one, LONG, solver)
        if best is None:
            good = result.hosts is None and result.proven
        else:
            good = result.hosts is not None and tuple(policies.cost(one, result.hosts)) == best
        if not good or (result.hosts is not None and policies.broken(one, result.hosts)):
            wrong.append(seed)
    assert wrong == []


def test_without_a_solver_what_greedy_finds_is_taken():
    result = joint.plan(easy())
    assert policies.broken(easy(), result.hosts) == []
    assert (result.figures['by'], result.figures['improved'], result.reason) == (
        'greedy',
        False,
        None,
    )


@pytest.mark.parametrize(
    'one, proven, by',
    [
        pytest.param(problem([2], 1, {'a': 3}), True, 'counts', id='counted'),
        pytest.param(
            problem([3, 3, 2], 0, {'a': 9}, *CELLS, room=[1, 1, 1, 1, 1, 1, 2, 2]),
            True,
            'counts',
            id='three cells, of which two find a rack',
        ),
        pytest.param(
            problem([3, 3], 1, {'a': 2, 'b': 1}, policy(APART, 'rack', ['a/0'], ['a/0'])),
            True,
            'counts',
            id='hopeless',
        ),
    ],
)
def test_without_a_solver_counts_prove(one, proven, by):
    result = joint.plan(one)
    assert (result.hosts, result.proven, result.figures['by']) == (None, proven, by)
    assert result.reason.words


def test_a_refusal_is_proven_by_the_solver_only(solver):
    alone, asked = joint.plan(crowded()), joint.plan(crowded(), LONG, solver)
    assert (alone.hosts, alone.proven, alone.figures['by']) == (None, False, 'nobody')
    assert 'not proven' in alone.reason.words
    assert (asked.hosts, asked.proven, asked.figures['by']) == (None, True, 'solver')


@pytest.mark.parametrize('seed', [128, 202, 444, 567])
def test_the_solver_finds_what_greedy_may_miss(solver, seed):
    one = random_problems.mixture(seed)
    by = 'solver' if joint.plan(one).hosts is None else 'greedy'
    result = joint.plan(one, LONG, solver)
    assert policies.broken(one, result.hosts) == []
    assert result.figures['by'] == by


def test_limits_of_no_time_ask_nothing_of_the_solver(solver):
    result = joint.plan(crowded(), PlanLimits(0.0, 0.0, 0.0, 0.0), solver)
    assert (result.hosts, result.proven) == (None, False)


def test_figures_tell_the_time_of_each_part(solver):
    figures = joint.plan(crowded(), LONG, solver).figures
    assert {name for name in figures if name.endswith('_s')} == {
        'greedy_s',
        'repair_s',
        'explain_s',
    }
    assert all(0 <= figures[name] < 60 for name in figures if name.endswith('_s'))


def test_everybody_stays_at_home(solver):
    one = problem([4], 1, {'a': 3}, policy(AFFINITY, 'rack', paths('a', 3)), home=at(2, 0, 1))
    assert joint.plan(one, LONG, solver).hosts.tolist() == [2, 0, 1]


class _Deaf:
    """A solver that has died, hangs, or is busy."""

    def ask(self, task, *arguments, seconds, wait_s=0.0):
        return None


class _Wrong:
    """A solver that answers every question with the same hosts."""

    def __init__(self, hosts):
        self._hosts = hosts

    def ask(self, task, *arguments, seconds, wait_s=0.0):
        return (
            self._hosts
            if task == joint.IMPROVE
            else (self._hosts, False)
            if task == joint.REPAIR
            else None
        )


def test_a_solver_that_is_gone_costs_nothing_but_its_answers():
    assert joint.plan(easy(), solver=_Deaf()).hosts.tolist() == joint.plan(easy()).hosts.tolist()
    assert joint.plan(crowded(), solver=_Deaf()).proven is False


def test_what_the_solver_says_is_checked():
    assert (
        joint.plan(easy(), solver=_Wrong(at(0, 0, 0, 0))).hosts.tolist()
        == joint.plan(easy()).hosts.tolist()
    )
    assert joint.plan(crowded(), solver=_Wrong(at(*[0] * 3))).hosts is None


class _Asked:
    """A solver that only remembers the tasks."""

    def __init__(self):
        self.tasks = []

    def ask(self, task, *arguments, seconds, wait_s=0.0):
        self.tasks.append(task)


@pytest.mark.parametrize(
    'one, scores, asked',
    [
        pytest.param(easy(), False, [], id='nothing but scores to gain'),
        pytest.param(easy(), True, [joint.IMPROVE], id='scores wanted'),
        pytest.param(
            problem([2], 1, {'a': 2}, policy(ANTI_AFFINITY, 'rack', paths('a', 2), weight=1.0)),
            False,
            [joint.IMPROVE],
            id='a preference is broken',
        ),
        pytest.param(
            problem([2], 1, {'a': 2}, policy(ANTI_AFFINITY, 'host', paths('a', 2)), home=at(0, 0)),
            False,
            [joint.IMPROVE],
            id='a member moves',
        ),
    ],
)
def test_the_solver_improves_what_can_gain(one, scores, asked):
    solver = _Asked()
    assert joint.plan(one, PlanLimits(improve_scores=scores), solver).hosts is not None
    assert solver.tasks == asked


def test_a_busy_solver_is_not_waited_for_when_there_is_a_placement(solver, tmp_path):
    end = tmp_path / 'end'
    busy = threading.Thread(
        target=solver.ask,
        args=('nova_sched.tests.unit.groups.tasks:wait_for_file', str(end)),
        kwargs={'seconds': 30.0},
    )
    solver.ask('nova_sched.tests.unit.groups.tasks:pid', seconds=30.0)
    busy.start()
    while solver.ask('nova_sched.tests.unit.groups.tasks:pid', seconds=30.0) is not None:
        time.sleep(0.01)
    result = joint.plan(easy(), LONG, solver)
    assert busy.is_alive()
    assert result.hosts is not None
    end.touch()
    busy.join()

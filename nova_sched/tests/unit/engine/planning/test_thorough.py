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
"""Thorough plans: what a search finds, and what remains when it finds nothing."""

import contextlib

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.engine.planning import move_planner
from nova_sched.engine.planning.move_planner import SEARCH, ThoroughSearch
from nova_sched.engine.planning.snapshot import Scope
from nova_sched.filters.aggregate_core import AggregateCoreFilter
from nova_sched.rebalance import read_goal
from nova_sched.rebalance.bound import PROGRAM
from nova_sched.rebalance.greedy import empty, fit
from nova_sched.tests.builders import aggregate, request
from nova_sched.tests.unit.engine.planning.test_move_planner import Planned
from nova_sched.tests.unit.rebalance.fleets import fleet

SECONDS = 60
SIZE, EVERYWHERE = np.array([8, 0, 0]), np.ones(3, dtype=bool)


class Answers:
    """A solver whose process answers as a test says; ``asked`` are the tasks."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def __call__(self):
        return contextlib.nullcontext(self)

    def ask(self, task, *arguments, seconds):
        self.asked.append((task, seconds))
        return self.answer


@pytest.fixture
def made():
    """A plan that empties host 0 of three."""
    return empty(fleet([8, 8, 8], [2], [(0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)]), 3)


def test_a_better_plan_takes_the_place_of_the_first(made):
    made.moves, made.emptied, made.after = [], [], 0
    solver = Answers(([(0, 2)], 2))
    found = ThoroughSearch(SECONDS, solver).emptied(made, 3)
    assert (found.moves, found.emptied, found.after) == ([(0, 2)], [0], 1)
    assert (found.bound, found.bound_by, found.is_spent) == (2, SEARCH, made.is_spent)
    ((task, seconds),) = solver.asked
    assert task == 'nova_sched.rebalance.exact:empty'
    assert 0 < seconds <= SECONDS


@pytest.mark.parametrize(
    'answer, bound',
    [
        pytest.param(None, None, id='no process'),
        pytest.param((None, None), None, id='no plan in time'),
        pytest.param((None, 2), 2, id='a proof alone'),
        pytest.param(([], 2), 2, id='a worse plan'),
    ],
)
def test_the_first_plan_remains(made, answer, bound):
    moves = list(made.moves)
    found = ThoroughSearch(SECONDS, Answers(answer)).emptied(made, 3)
    assert (found.moves, found.bound) == (moves, bound)
    assert moves


def test_places(made):
    first = fit(made.fleet, SIZE, EVERYWHERE, 0)
    solver = Answers(([(0, 2)], 1))
    found = ThoroughSearch(SECONDS, solver).fitting(first, SIZE, EVERYWHERE, 1)
    assert (found.moves, found.before, found.after, found.is_spent) == ([(0, 2)], 0, 1, True)
    assert (found.bound, solver.asked[0][0]) == (1, 'nova_sched.rebalance.exact:fit')


def test_no_search_without_time(made):
    solver = Answers(([], 0))
    assert ThoroughSearch(0.5, solver).emptied(made, 3) is made
    with move_planner.TURN:  # another search goes on
        assert ThoroughSearch(0.0, solver).emptied(made, 3) is made
    assert solver.asked == []


def test_plans_of_a_process():
    """From the host state to a proof and back, with the solver itself."""
    made = Planned([1, 3, 4])
    found = made.planner.plan(Scope(read_goal('empty')), 4, thorough_s=SECONDS)
    assert (len(found.emptied), found.bound, len(found.moves)) == (2, 2, 4)
    found = made.planner.plan(
        Scope(read_goal('fit:large')), 4, request(vcpus=16, memory_mb=1024), thorough_s=SECONDS
    )
    assert (found.before, found.after, found.bound, found.bound_by) == (0, 2, 2, SEARCH)


def test_rules_that_allow_less_than_is_free_are_kept():
    """By the inventories all servers fit on host 1; the aggregate allows no oversubscription."""
    there = aggregate(1, ['host-0', 'host-1'], cpu_allocation_ratio='1.0')
    made = Planned([4, 6], [AggregateCoreFilter()], aggregates=[there], vcpus_ratio=2.0)
    found = made.planner.plan(Scope(read_goal('empty')), thorough_s=SECONDS)
    assert (found.moves, found.emptied) == ([], [])
    assert (found.bound, found.bound_by) == (1, PROGRAM)  # of the free amounts


@pytest.mark.parametrize('text', ['spread', 'drain:host-0'])
def test_goals_without_a_search(text):
    with pytest.raises(errors.InvalidRequest, match=f'goal {read_goal(text).kind}, but'):
        Planned([1, 1]).planner.plan(Scope(read_goal(text)), thorough_s=SECONDS)

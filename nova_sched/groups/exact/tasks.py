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
"""The solver's tasks: find, refute or improve a placement, and count the members that fit.

Only the worker process imports this module and its dependencies, because the solver is large and
may abort.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import why
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import NOWHERE, Problem
from nova_sched.groups.exact.model import Variables, add_goal, add_rules
from nova_sched.groups.exact.search import CLOCK, Progress, has_answer, solve
from nova_sched.groups.exact.symmetry import (
    CannotSplitError,
    Counts,
    counted,
    placement,
    promising,
    roomy,
    symmetry_of,
)
from nova_sched.groups.limits import TimeLimit

PROGRESS = 0.25  # share of the time of an improvement, after which it ends if it finds no better
MAX_VARIABLES = 6000  # with more, the members that fit are counted on a part of the hosts
BUDGET = 4000  # variables for the improvement of a placement

Answer = tuple[np.ndarray | None, bool]  # hosts [M], or None; whether None is a proof


def repair(problem: Problem, seconds: float) -> Answer:
    """Return a placement that keeps all required rules, or None.

    With enough time, finds a placement if there is one.
    """
    limit = TimeLimit(seconds, CLOCK)
    compiled = compile(dataclasses.replace(problem, home=NOWHERE))
    if compiled.hopeless:
        return None, True

    def attempt(apart: Collection[int]) -> Answer:
        these = Variables(symmetry_of(compiled, apart))
        add_rules(these)
        hosts, status = _solved(these, limit.left(), stop_after_first_solution=True)
        return hosts, status == cp_model.INFEASIBLE

    hosts, proven = _unmerging(attempt)
    return _checked(problem, hosts), proven


def improve(
    problem: Problem, hosts: np.ndarray, scores: bool = True, *, seconds: float
) -> np.ndarray:
    """Return a placement that is no worse than ``hosts``, by ``policies.cost``.

    Ends early after PROGRESS of the time without a better one. Without ``scores``, only fewer
    broken preferences and fewer moves are better.
    """
    limit = TimeLimit(seconds, CLOCK)
    compiled = compile(dataclasses.replace(problem, home=NOWHERE))
    compiled.problem = problem
    if any(rows.shape[1] > 1 and (problem.home[rows] >= 0).any() for rows in compiled.members):
        # For units of several members it matters which of them have a home.
        compiled = compile(problem)
    if not compiled.class_count:
        return hosts

    def attempt(apart: Collection[int]) -> Answer:
        symmetry = symmetry_of(compiled, apart, by_home=True)
        counts = counted(symmetry, hosts)
        these = Variables(promising(symmetry, counts, BUDGET))
        add_rules(these)
        step = add_goal(these)
        if not _hint(these, counts):
            return None, False
        progress = Progress(1 if scores else step)
        return _solved(these, limit.left(), progress, PROGRESS * seconds)[0], False

    better, _ = _unmerging(attempt)
    better = _checked(problem, better)
    if better is None or policies.cost(problem, better) >= policies.cost(problem, hosts):
        return hosts
    return better


def largest(problem: Problem, seconds: float) -> Answer:
    """Return hosts [M] of as many members as fit together, and whether this is the maximum.

    Members without a place have -1; hosts None: not known. Blocks are placed whole or not at all,
    except those that contain other blocks or all members.
    """
    limit = TimeLimit(seconds, CLOCK)
    compiled = compile(dataclasses.replace(problem, home=NOWHERE))

    def attempt(apart: Collection[int]) -> Answer:
        symmetry = symmetry_of(compiled, apart, partial=True)
        is_large = symmetry.size > MAX_VARIABLES
        these = Variables(roomy(symmetry) if is_large else symmetry)
        add_rules(these)
        terms = [
            (len(compiled.shapes[compiled.shape[alike.first]].kinds), variable)
            for alike, x in zip(these.symmetry.sets, these.x, strict=True)
            for variable in x.values()
        ]
        these.model.maximize(sum(size * variable for size, variable in terms))
        # Here the linear relaxation is loose, and only takes time from the search.
        hosts, status = _solved(these, limit.left(), linearization_level=0)
        return hosts, status == cp_model.OPTIMAL and not is_large

    return _unmerging(attempt)


def explain(
    problem: Problem, proven: bool, seconds: float
) -> tuple[why.Reason, np.ndarray | None]:
    """See ``why.explain``."""
    return why.explain(problem, _settle, largest, seconds, proven, CLOCK)


def contradiction(problem: Problem, seconds: float) -> str:
    """See ``why.clash``."""
    return why.clash(problem, _settle, seconds, CLOCK)


def _settle(problem: Problem, seconds: float) -> bool | None:
    known = why.quick(problem, seconds)
    if known is not None:
        return known
    hosts, proven = repair(problem, seconds)
    return False if proven else (None if hosts is None else True)


def _hint(these: Variables, counts: Counts) -> bool:
    """Pass a placement to the search as a hint.

    Sets every variable, because the solver ignores an incomplete hint.
    """
    model = these.model
    for x, here in zip(these.x, counts, strict=True):
        for h, variable in x.items():
            model.add_hint(variable, here.get(h, 0))
    for blocks, y in zip(these.symmetry.blocks, these.y, strict=True):
        first, ids = blocks.sets[0], these.level(blocks.level).ids
        units = np.zeros(these.level(blocks.level).count, dtype=np.int64)
        for h, count in counts[first].items():
            units[ids[h]] += count
        need = blocks.need(these.symmetry.sets[first])
        for domain, variable in y.items():
            model.add_hint(variable, int(units[domain]) // need)
    solver, status = solve(model, 1.0, num_workers=1, fix_variables_to_their_hinted_value=True)
    if not has_answer(status):
        return False
    values = list(solver.response_proto.solution)
    model.clear_hints()
    for number, value in enumerate(values):
        model.add_hint(model.get_int_var_from_proto_index(number), value)
    return True


def _solved(
    these: Variables, *limits: Any, **parameters: Any
) -> tuple[np.ndarray | None, cp_model.CpSolverStatus]:
    """Return the hosts [M] that a search finds, or None, and its status; arguments are those of
    ``solve``."""
    solver, status = solve(these.model, *limits, **parameters)
    if not has_answer(status):
        return None, status
    counts = [
        {h: value for h, variable in x.items() if (value := solver.value(variable))}
        for x in these.x
    ]
    return placement(these.symmetry, counts), status


def _unmerging(attempt: Callable[[Collection[int]], Answer]) -> Answer:
    """Repeat the attempt until the counts can be split into blocks, usually at once."""
    apart: set[int] = set()
    while True:
        try:
            return attempt(apart)
        except CannotSplitError as error:
            apart |= set(error.blocks)


def _checked(problem: Problem, hosts: np.ndarray | None) -> np.ndarray | None:
    """Return the placement if an independent check finds no fault, else None."""
    if hosts is None or (hosts < 0).any() or policies.broken(problem, hosts):
        return None
    return hosts

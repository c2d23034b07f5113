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
"""Places a whole group: greedy search first, then the solver to repair, improve or explain."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nova_sched.groups import why
from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.exact.worker import Solver
from nova_sched.groups.plan_limits import PlanLimits
from nova_sched.groups.quick import greedy
from nova_sched.groups.time_limit import WALL_FACTOR
from nova_sched.groups.why import Reason

REPAIR, IMPROVE, EXPLAIN = (
    f'nova_sched.groups.exact.tasks:{task}' for task in ('repair', 'improve', 'explain')
)
T = TypeVar('T')


@dataclasses.dataclass(frozen=True, eq=False)
class PlanResult:
    """A placement, ``hosts`` int32 [M]; or None and the reason.

    ``proven``: there is no placement. ``figures``: ``by`` is the part that found or settled it
    (greedy, solver, counts, nobody); ``improved``: whether the solver improved it; names that end
    in ``_s``: the seconds of each part.
    """

    hosts: np.ndarray | None
    proven: bool = False
    reason: Reason | None = None
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)


def plan(
    problem: Problem, limits: PlanLimits | None = None, solver: Solver | None = None
) -> PlanResult:
    """Places all members, or none. Takes as much processor time as the limits allow, plus some
    milliseconds.

    ``solver`` is a ``worker.Solver``. Without one, or while it is busy with another task, the
    result is the greedy placement, and only counting can prove that there is none.
    """
    limits = (limits or PlanLimits()).of_group(problem.member_count)
    return _Planner(problem, limits, solver).plan()


class _Planner:
    def __init__(self, problem: Problem, limits: PlanLimits, solver: Solver | None) -> None:
        self._problem, self._limits, self._solver = problem, limits, solver
        self._figures: dict[str, Any] = {'by': 'nobody', 'improved': False}

    def plan(self) -> PlanResult:
        if why.has_no_hosts(self._problem):
            self._figures['by'] = 'counts'
            reason, _ = why.explain(self._problem, why.counted, None, 0.0, True)
            return PlanResult(None, True, reason, self._figures)
        hosts = self._timed('greedy_s', self._greedy)
        proven = False
        if hosts is None:
            hosts, proven = self._timed('repair_s', self._repair)
        if hosts is None:
            reason, hosts = self._timed('explain_s', self._explain, proven)
            if hosts is None:
                return PlanResult(None, proven, reason, self._figures)
        return PlanResult(self._timed('improve_s', self._improve, hosts), figures=self._figures)

    def _timed(self, name: str, part: Callable[..., T], *arguments: object) -> T:
        began = time.monotonic()
        try:
            return part(*arguments)
        finally:
            self._figures[name] = time.monotonic() - began

    def _greedy(self) -> np.ndarray | None:
        self._compiled = compile(self._problem)
        return self._good(greedy.place(self._compiled, self._limits.greedy_s), 'greedy')

    def _repair(self) -> tuple[np.ndarray | None, bool]:
        """Returns a placement, or None and whether that is a proof."""
        if bounds.first(self._compiled) is not None:
            self._figures['by'] = 'counts'
            return None, True
        limit_s = self._limits.repair_s
        hosts, proven = self._ask(REPAIR, seconds=limit_s, wait_s=limit_s) or (None, False)
        if proven:
            self._figures['by'] = 'solver'
        return self._good(hosts, 'solver'), proven

    def _explain(self, proven: bool) -> tuple[Reason, np.ndarray | None]:
        """Returns the reason, and a placement if one was found during the explanation."""
        limit_s = self._limits.explain_s
        answer = self._ask(EXPLAIN, proven, seconds=limit_s, wait_s=limit_s)
        if answer is None:
            counted = self._figures['by'] == 'counts'
            answer = why.explain(self._problem, why.counted, None, limit_s, counted)
        reason, hosts = answer
        return reason, None if proven else self._good(hosts, 'solver')

    def _improve(self, hosts: np.ndarray) -> np.ndarray:
        """Returns the better of the placement and the solver's.

        Does not wait for a busy solver, because this step only improves a placement.
        """
        cost, scores = policies.cost(self._problem, hosts), self._limits.improve_scores
        if not (scores or cost.preferred or cost.moves):
            return hosts
        better = self._ask(IMPROVE, hosts, scores, seconds=self._limits.improve_s)
        if better is None or policies.cost(self._problem, better) >= cost:
            return hosts
        if policies.broken(self._problem, better):
            return hosts
        self._figures['improved'] = True
        return better

    def _ask(self, task: str, *arguments: object, seconds: float, wait_s: float = 0.0) -> Any:
        if self._solver is None or seconds <= 0:
            return None
        wait_s *= WALL_FACTOR
        return self._solver.ask(task, self._problem, *arguments, seconds=seconds, wait_s=wait_s)

    def _good(self, hosts: np.ndarray | None, by: str) -> np.ndarray | None:
        """Returns the placement if it has no fault; every placement is checked here, whatever
        found it."""
        if hosts is None or policies.broken(self._problem, hosts):
            return None
        self._figures['by'] = by
        return hosts

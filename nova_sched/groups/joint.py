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
"""Places a whole group: greedy search first, then the solver to repair, improve or explain.

``plan`` places all members of a problem. ``place`` does so for a group that has servers, which
move only to keep a policy. A server holds its resources until it has moved: its destination needs
the same capacity in addition, and no other server gets the capacity that it leaves. So a move
never frees capacity for the plan.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nova_sched.groups import definition, why
from nova_sched.groups.arrays import bounds, policies
from nova_sched.groups.arrays.compile import compile
from nova_sched.groups.arrays.problem import Problem, Rule
from nova_sched.groups.exact.worker import Solver
from nova_sched.groups.limits import WALL_FACTOR, PlanLimits
from nova_sched.groups.quick import greedy
from nova_sched.groups.why import Reason

REPAIR, IMPROVE, EXPLAIN = (
    f'nova_sched.groups.exact.tasks:{task}' for task in ('repair', 'improve', 'explain')
)
MAX_MOVERS = 100  # servers that may all move at once; more take too long to plan
FEWER_S = 5.0  # time to find out which of several moves are unnecessary
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


Planner = Callable[[Problem, PlanLimits], PlanResult]


def plan(
    problem: Problem, limits: PlanLimits | None = None, solver: Solver | None = None
) -> PlanResult:
    """Place all members, or none. Takes as much processor time as the limits allow, plus some
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
        """Return a placement, or None and whether that is a proof."""
        if bounds.first(self._compiled) is not None:
            self._figures['by'] = 'counts'
            return None, True
        limit_s = self._limits.repair_s
        hosts, proven = self._ask(REPAIR, seconds=limit_s, wait_s=limit_s) or (None, False)
        if proven:
            self._figures['by'] = 'solver'
        return self._good(hosts, 'solver'), proven

    def _explain(self, proven: bool) -> tuple[Reason, np.ndarray | None]:
        """Return the reason, and a placement if one was found during the explanation."""
        limit_s = self._limits.explain_s
        answer = self._ask(EXPLAIN, proven, seconds=limit_s, wait_s=limit_s)
        if answer is None:
            counted = self._figures['by'] == 'counts'
            answer = why.explain(self._problem, why.counted, None, limit_s, counted)
        reason, hosts = answer
        return reason, None if proven else self._good(hosts, 'solver')

    def _improve(self, hosts: np.ndarray) -> np.ndarray:
        """Return the better of the placement and the solver's.

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
        """Return the placement if it has no fault; every placement is checked here, whatever found
        it."""
        if hosts is None or policies.broken(self._problem, hosts):
            return None
        self._figures['by'] = by
        return hosts


@dataclasses.dataclass(frozen=True, eq=False)
class Sites:
    """Rows of hosts, int32 [M] each, -1 for none.

    ``built``: the host of a member's server. ``bound``: the destination of a move that is under
    way. ``planned``: the planned host of the member; if it has a server, this is a move that is
    not yet made.
    """

    built: np.ndarray
    bound: np.ndarray
    planned: np.ndarray

    @property
    def is_built(self) -> np.ndarray:
        return self.built >= 0

    @property
    def is_leaving(self) -> np.ndarray:
        """Bool [M]: servers with a move that is under way or not yet made."""
        return self.is_built & ((self.bound >= 0) | (self.planned >= 0))


def place(
    problem: Problem, sites: Sites, planner: Planner, limits: PlanLimits, may_move: bool
) -> PlanResult:
    """Place the members that have no servers; with ``may_move``, moves servers if necessary.

    In the ``problem`` all servers stay where they are. Without ``may_move``, moves that were
    planned before are kept. Takes several times as long as the limits say if servers have to move.
    A refusal is not proven unless all servers were free to move.
    """
    leaving = sites.is_leaving
    if not may_move:
        return planner(_elsewhere(problem, sites, leaving), limits)
    if not sites.is_built.any():
        return planner(problem, limits)
    silent = dataclasses.replace(limits, explain_s=0.0)
    result = planner(problem, silent)
    if result.hosts is not None:
        return result
    quick = dataclasses.replace(silent, improve_s=0.0)
    movers = leaving
    if leaving.any():
        result = planner(_elsewhere(problem, sites, leaving), quick)
    if result.hosts is None:
        result = _with_moves(problem, sites, planner, limits, quick)
        if result.hosts is None:
            return result
        movers = _moved(sites, result.hosts)
    movers, hosts = _fewest(
        problem, sites, movers, result.hosts, lambda freed: planner(freed, quick).hosts
    )
    best = planner(_elsewhere(problem, sites, movers), silent)
    return best if best.hosts is not None else dataclasses.replace(result, hosts=hosts)


def _with_moves(
    problem: Problem, sites: Sites, planner: Planner, limits: PlanLimits, quick: PlanLimits
) -> PlanResult:
    """Return a placement with servers moved, or the reason why there is none.

    Moves only the servers that are in the way, if that is enough.
    """
    tried = np.zeros(problem.member_count, dtype=bool)
    for movers in (in_the_way(problem, sites.built), _beside_them(problem, sites), sites.is_built):
        if (movers & ~tried).any() and movers.sum() <= MAX_MOVERS:
            is_last, tried = bool((movers == sites.is_built).all()), movers
            result = planner(_free(problem, sites, movers), limits if is_last else quick)
            if is_last or result.hosts is not None:
                return result
    return dataclasses.replace(planner(problem, limits), proven=False)


def in_the_way(problem: Problem, hosts: np.ndarray) -> np.ndarray:
    """Bool [M]: members of required rules that the members at ``hosts`` (-1: nowhere) break.

    Only members in the domains where the rules are broken count.
    """
    blocking = np.zeros(problem.member_count, dtype=bool)
    for rule in problem.rules:
        at = policies.counts(problem, rule, hosts)
        if rule.is_required and policies.misses(rule, at):
            sides = rule.a if rule.kind == definition.EXCLUSIVE else np.union1d(rule.a, rule.b)
            placed = sides[hosts[sides] >= 0]
            blocking[placed] |= _breaks(rule, at)[problem.domains[rule.level][hosts[placed]]]
    return blocking


def _breaks(rule: Rule, at: policies.Counts) -> np.ndarray:
    """Domains, bool [D], in which members break a rule that is broken."""
    match rule.kind:
        case definition.AFFINITY:
            return np.arange(len(at.a)) != np.argmax(at.a)
        case definition.ANTI_AFFINITY:
            return at.a > rule.most
        case definition.APART:
            return (at.a > 0) & (at.b > 0)
        case definition.EXCLUSIVE:
            return (at.a > 0) & (at.outside | (at.others > 0))
    return np.ones(len(at.a), dtype=bool)  # near, spread: any of the members may help


def _beside_them(problem: Problem, sites: Sites) -> np.ndarray:
    """Bool [M]: servers that share a required rule with a member in the way or a member without a
    server."""
    concerned = in_the_way(problem, sites.built) | ~sites.is_built
    beside = concerned.copy()
    for rule in problem.rules:
        members = np.union1d(rule.a, rule.b)
        if rule.is_required and concerned[members].any():
            beside[members] = True
    return beside & sites.is_built


def _moved(sites: Sites, hosts: np.ndarray) -> np.ndarray:
    return sites.is_built & (hosts != sites.built)


def _fewest(
    problem: Problem,
    sites: Sites,
    movers: np.ndarray,
    hosts: np.ndarray,
    search: Callable[[Problem], np.ndarray | None],
) -> tuple[np.ndarray, np.ndarray]:
    """Bool [M]: a minimal set of servers to move, and a placement.

    Each of these servers has to move if no other server does, as far as the time allowed to check.
    """
    until, size = time.monotonic() + FEWER_S, int(movers.sum())
    while size > 1:
        size = (size + 1) // 2
        every = np.flatnonzero(movers)
        for spared in reversed(
            [every[start : start + size] for start in range(0, len(every), size)]
        ):
            fewer = movers.copy()
            fewer[spared] = False
            if not movers[spared].any() or not fewer.any():
                continue
            if time.monotonic() > until:
                return movers, hosts
            places = search(_free(problem, sites, fewer))
            if places is not None:
                movers, hosts = _moved(sites, places), places
        size = min(size, int(movers.sum()))
    return movers, hosts


def _elsewhere(problem: Problem, sites: Sites, movers: np.ndarray) -> Problem:
    """Return the problem with these servers to be placed on other hosts, or at their destinations.

    Their current resources are not free.
    """
    fixed = np.where(sites.is_built & ~movers, sites.built, np.where(movers, sites.bound, -1))
    return dataclasses.replace(problem, fixed=fixed, home=np.where(fixed < 0, sites.planned, -1))


def _free(problem: Problem, sites: Sites, movers: np.ndarray) -> Problem:
    """Return the problem with these servers free to stay or to move.

    A server that is moving arrives at its destination or stays. A server that stays uses only a
    resource that no other server asks for: a private slot on its host. So its resources are not
    free for another server. A server that is moving has such a slot at both ends.
    """
    loose = np.flatnonzero(movers)
    own = np.column_stack([problem.kind[loose], sites.built[loose], sites.bound[loose]])
    slots, which, counts = np.unique(own, axis=0, return_inverse=True, return_counts=True)
    extra, kinds = np.arange(len(slots)), slots[:, 0]
    number, row = np.tile(extra, 2), slots[:, 1:].T.ravel()
    number, row = number[row >= 0], row[row >= 0]
    old_kinds, ways, resources = problem.demand.shape
    fixed, home, kind = problem.fixed.copy(), problem.home.copy(), problem.kind.copy()
    fixed[loose] = -1
    home[loose] = np.where(sites.bound < 0, sites.built, sites.bound)[loose]
    kind[loose] = old_kinds + which.ravel()
    # An extra kind for each slot; its last way is to take the slot.
    demand = np.zeros((old_kinds + len(slots), ways + 1, resources + len(slots)), dtype=np.int64)
    demand[:old_kinds, :ways, :resources] = problem.demand
    demand[:old_kinds, ways, :resources] = problem.demand[:, 0]
    demand[old_kinds:, :ways, :resources] = problem.demand[kinds]
    demand[old_kinds + extra, ways, resources + extra] = 1
    free = np.zeros((problem.host_count, resources + len(slots)), dtype=np.int64)
    free[:, :resources] = problem.free
    free[row, resources + number] = counts[number]
    mask, score = (np.vstack([each, each[kinds]]) for each in (problem.mask, problem.score))
    mask[old_kinds + np.flatnonzero(slots[:, 2] >= 0)] = False
    mask[old_kinds + number, row] = True
    cap = None
    if problem.cap is not None:
        cap = np.vstack([problem.cap, problem.cap[kinds]])
        cap[old_kinds + number, row] = counts[number]
    return dataclasses.replace(
        problem,
        fixed=fixed,
        kind=kind,
        home=home,
        demand=demand,
        free=free,
        mask=mask,
        score=score,
        cap=cap,
        resources=[*problem.resources, *(f'slot {each}' for each in extra.tolist())],
        kind_names=[*problem.kind_names, *(problem.kind_names[kind] for kind in kinds.tolist())],
    )

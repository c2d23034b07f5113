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
"""What no plan of the goal `empty` can exceed: the most hosts that any such plan empties.

It holds for plans in which a host is either a source or a destination, and no empty host is used.
"""

import dataclasses

import numpy as np

from nova_sched.extensions.optimize.rebalance.greedy import candidates

VOLUME, PROGRAM = 'volume', 'linear program'
MAX_VARIABLES = 30_000  # variables of a linear program that is solved in about a second
TIME_S = 3.0
TINY = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The ``most`` hosts that any plan empties, found ``by`` VOLUME or PROGRAM.

    ``shares`` has the hosts (rows) that the linear program empties, and which share of each: a
    hint which ones a plan should empty.
    """

    most: int
    by: str
    shares: dict[int, float] = dataclasses.field(default_factory=dict)


def most_emptied(problem, most):
    """The Bound for so many moves."""
    rows = candidates(problem)
    rows = rows[np.argsort(problem.counts[rows], kind='stable')]
    by_volume = _by_volume(problem, rows, most)
    used = np.flatnonzero(problem.in_use & (problem.destinations | problem.sources))
    takes = problem.takes()[:, used]
    if not by_volume or np.count_nonzero(takes) > MAX_VARIABLES:
        return Bound(by_volume, VOLUME)
    shares = _by_program(problem, rows, used, takes, most)
    if shares is None:
        return Bound(by_volume, VOLUME)
    most_shares = int(np.floor(sum(shares.values()) + TINY))
    return Bound(min(most_shares, by_volume), PROGRAM, shares)


def _by_volume(problem, rows, most):
    """The most hosts that have no more servers than moves, and fit into the free capacity of the
    remaining hosts."""
    count = int(np.searchsorted(np.cumsum(problem.counts[rows]), most, side='right'))
    for column in range(problem.total.shape[1]):
        free = np.maximum(problem.free[:, column], 0)
        capacity = int(free[problem.in_use & problem.destinations].sum())
        # A host that is emptied needs what it uses, and no longer gives what it has free.
        lost = np.where(problem.destinations, free, 0)
        demand = problem.demand[problem.servers.kind, column]
        moved = np.bincount(problem.servers.host, weights=demand, minlength=len(problem))
        need = np.sort(moved.astype(np.int64)[rows] + lost[rows])
        count = min(count, int(np.searchsorted(np.cumsum(need), capacity, side='right')))
    return count


def _by_program(problem, rows, used, takes, most):
    """A linear program: shares of hosts leave, as fractions of the servers of each kind, and what
    a host takes falls with its own share that leaves. Return the shares above 0; None: it was
    not solved in time."""
    from ortools.linear_solver import pywraplp  # late: it takes long to load

    solver = pywraplp.Solver.CreateSolver('GLOP')
    if solver is None:
        return None
    solver.SetTimeLimit(int(TIME_S * 1000))
    leaves = {host: solver.NumVar(0.0, 1.0, '') for host in rows.tolist()}
    counts = problem.counts
    budget = solver.Constraint(-solver.infinity(), float(most))
    for host, share in leaves.items():
        budget.SetCoefficient(share, float(counts[host]))
    flows = [solver.Constraint(0.0, 0.0) for _ in range(len(problem.demand))]
    pairs = problem.servers.host.astype(np.int64) * len(problem.demand) + problem.servers.kind
    numbers, sums = np.unique(pairs, return_counts=True)
    for number, many in zip(numbers.tolist(), sums.tolist(), strict=True):
        host, kind = divmod(number, len(problem.demand))
        if host in leaves:
            flows[kind].SetCoefficient(leaves[host], -float(many))
    columns = np.flatnonzero(problem.demand.any(axis=0)).tolist()
    for place, host in enumerate(used.tolist()):
        kinds = np.flatnonzero(takes[:, place]).tolist()
        if not kinds:
            continue
        share = leaves.get(host)
        free = {column: float(max(problem.free[host, column], 0)) for column in columns}
        rooms = {column: solver.Constraint(-solver.infinity(), free[column]) for column in columns}
        for column in columns:
            if share is not None:
                rooms[column].SetCoefficient(share, free[column])
        for kind in kinds:
            copies = float(takes[kind, place])
            comes = solver.NumVar(0.0, copies, '')
            flows[kind].SetCoefficient(comes, 1.0)
            if share is not None:
                limit = solver.Constraint(-solver.infinity(), copies)
                limit.SetCoefficient(comes, 1.0)
                limit.SetCoefficient(share, copies)
            for column in columns:
                if problem.demand[kind, column]:
                    rooms[column].SetCoefficient(comes, float(problem.demand[kind, column]))
    goal = solver.Objective()
    for share in leaves.values():
        goal.SetCoefficient(share, 1.0)
    goal.SetMaximization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    shares = {host: share.solution_value() for host, share in leaves.items()}
    return {host: share for host, share in shares.items() if share > TINY}

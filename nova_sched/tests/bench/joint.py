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
"""Whole groups planned jointly on nearly full fleets, compared with one server after the other.

To do the group of seed 17 of one size again::

    python -m nova_sched.tests.bench.joint --hosts 500 --members 200 --share 0.9
        --first 17 --groups 1
"""

import argparse
import dataclasses
import itertools
import json
import os
import random
import sys
import time

from nova_sched.groups import joint
from nova_sched.groups.arrays import policies
from nova_sched.groups.exact import worker
from nova_sched.groups.limits import PlanLimits
from nova_sched.tests import checker
from nova_sched.tests.bench import joint_groups, joint_sequential, joint_tables

HOSTS, MEMBERS, SHARES = (500, 2_000, 10_000), (10, 50, 200), (0.80, 0.85, 0.90, 0.95)
GROUPS_OF_A_FLEET = 10
GREEDY = PlanLimits(greedy_s=0.2, repair_s=0.0, improve_s=0.0, explain_s=0.0)
REPAIR = dataclasses.replace(GREEDY, repair_s=1.0)
EXPLAIN = dataclasses.replace(
    REPAIR, repair_s=10.0, explain_s=2.0
)  # proven it was: why is what is asked
# The same attempts once more, whatever the machine does meanwhile.
IMPROVE = dataclasses.replace(REPAIR, greedy_s=5.0, improve_s=1.0, improve_scores=True)
LONG = dataclasses.replace(GREEDY, repair_s=10.0)
THOROUGH = dataclasses.replace(IMPROVE, improve_s=5.0)
IMPROVED_SHARE, THOROUGH_HOSTS = (
    0.25,
    2_000,
)  # which groups are improved, and up to which size with more time


@dataclasses.dataclass(frozen=True)
class Case:
    """One group on one fleet; ``seed`` makes both."""

    hosts: int
    members: int
    share: float
    seed: int

    @property
    def shape(self):
        return joint_groups.shape(self.seed)

    def problem(self):
        fleet = joint_groups.fleet(self.hosts, self.share, self.seed // GROUPS_OF_A_FLEET)
        return joint_groups.problem(
            fleet, joint_groups.group(self.shape, self.members, self.seed), self.seed
        )


@dataclasses.dataclass
class Trial:
    """What came of one case. Times in ms, None where nothing was placed; ``verdict`` is the joint
    one's."""

    case: Case
    shape: str
    sequential_ms: float | None = None
    ordered_ms: float | None = None
    greedy_ms: float | None = None
    greedy_cpu_ms: float | None = None
    repair_ms: float | None = None  # None: not needed
    verdict: str = 'undecided'  # placed, impossible
    found_later: bool = False  # undecided at first, then placed with more time
    proven_later: bool = False
    why_ms: float | None = None
    # what the answer to why not says: minimal, contradicts, count, fits
    why: tuple[str, ...] | None = None
    greedy_cost: tuple | None = None
    improved_cost: tuple | None = None
    best_cost: tuple | None = None

    @property
    def is_placed(self):
        return self.verdict == 'placed'

    @property
    def is_feasible(self):
        """Whether one of the ways placed it."""
        return (
            self.is_placed
            or self.found_later
            or self.sequential_ms is not None
            or self.ordered_ms is not None
        )


def trial(case, solver):
    """Every way to place the case's group. Raises AssertionError if a placement is not what it
    says."""
    problem, made = case.problem(), Trial(case, case.shape)
    made.sequential_ms, _ = _placed(problem, lambda: joint_sequential.place(problem))
    made.ordered_ms, _ = _placed(
        problem, lambda: joint_sequential.place(problem, joint_sequential.best_order(problem))
    )
    began_s = time.thread_time()
    made.greedy_ms, hosts = _placed(
        problem, lambda: joint.plan(problem, GREEDY, None).hosts, must=True
    )
    made.greedy_cpu_ms = (time.thread_time() - began_s) * 1000
    if hosts is None:
        _repair(problem, solver, made)
    else:
        made.verdict, made.greedy_cost = 'placed', tuple(policies.cost(problem, hosts))
        if random.Random(f'improve {case.seed}').random() < IMPROVED_SHARE:
            _improve(problem, solver, made)
    return made


def trials(cases, solver):
    for case in cases:
        yield trial(case, solver)


def rows(budget_s):
    """Rows of all tables: as many groups of each size as ``budget_s`` allows, at least three."""
    made = []
    with worker.Solver() as solver:
        for hosts, members, share in itertools.product(HOSTS, MEMBERS, SHARES):
            end_s = time.monotonic() + budget_s
            for seed in itertools.count():
                made.append(trial(Case(hosts, members, share, seed), solver))
                if time.monotonic() > end_s and seed > 1:
                    break
    return joint_tables.rows(made)


def _placed(problem, place, must=False):
    """Milliseconds and hosts of a placement that breaks nothing, else None and None."""
    began_s = time.perf_counter()
    hosts = place()
    ms = (time.perf_counter() - began_s) * 1000
    wrong = [] if hosts is None else checker.violations(*checker.of_problem(problem, hosts))
    if wrong and must:
        raise AssertionError(wrong)
    return (ms, hosts) if hosts is not None and not wrong else (None, None)


def _repair(problem, solver, made):
    began_s = time.perf_counter()
    result = joint.plan(problem, REPAIR, solver)
    made.repair_ms = (time.perf_counter() - began_s) * 1000
    made.verdict = _verdict(problem, result)
    if made.verdict == 'undecided':
        later = _verdict(problem, joint.plan(problem, LONG, solver))
        made.found_later, made.proven_later = later == 'placed', later == 'impossible'
    elif made.verdict == 'impossible':
        result = joint.plan(problem, EXPLAIN, solver)
        made.why_ms, made.why = result.figures['explain_s'] * 1000, _told(result.reason)


def _told(reason):
    parts = {
        'minimal': reason.minimal,
        'contradicts': reason.contradicts,
        'count': reason.failing is not None,
        'fits': reason.fits is not None,
    }
    return tuple(name for name, is_told in parts.items() if is_told)


def _verdict(problem, result):
    if result.hosts is None:
        return 'impossible' if result.proven else 'undecided'
    wrong = checker.violations(*checker.of_problem(problem, result.hosts))
    if wrong:
        raise AssertionError(wrong)
    return 'placed'


def _improve(problem, solver, made):
    result = joint.plan(problem, IMPROVE, solver)
    _verdict(problem, result)
    made.improved_cost = tuple(policies.cost(problem, result.hosts))
    if made.case.hosts <= THOROUGH_HOSTS:
        best = joint.plan(problem, THOROUGH, solver)
        made.best_cost = min(tuple(policies.cost(problem, best.hosts)), made.improved_cost)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--hosts', type=int, nargs='+', default=HOSTS)
    parser.add_argument('--members', type=int, nargs='+', default=MEMBERS)
    parser.add_argument(
        '--share', type=float, nargs='+', default=SHARES, help='of all vCPUs in use'
    )
    parser.add_argument('--groups', type=int, default=20, help='of each size')
    parser.add_argument('--first', type=int, default=0, help='number of the first')
    parser.add_argument('--list', action='store_true', help='print each trial as JSON')
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.groups)
    sizes = itertools.product(arguments.hosts, arguments.members, arguments.share)
    made = []
    with worker.Solver() as solver:
        for case in itertools.starmap(Case, ((*size, seed) for size in sizes for seed in seeds)):
            made.append(trial(case, solver))
            if arguments.list:
                print(json.dumps(dataclasses.asdict(made[-1])), flush=True)
    joint_tables.show(made)
    print(f'load {os.getloadavg()[0]:.1f}', file=sys.stderr)


if __name__ == '__main__':
    main()

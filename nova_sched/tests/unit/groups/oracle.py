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
"""What the planner is held against: all placements of a small problem, one by one; and a model
with one boolean for each member, way and host, that solves small problems to the end.

It knows nothing of classes and blocks, nor of anything else that the planner counts.
"""

import itertools

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups.arrays import policies
from nova_sched.groups.definition import AFFINITY, ANTI_AFFINITY, APART, EXCLUSIVE, NEAR, SPREAD


def best(problem, goal=True):
    """(preferred, moves, loss, spoilt) of the best placement, None if there is none. Scores must
    be whole."""
    return _Oracle(problem).solve(goal)


class _Oracle:
    def __init__(self, problem):
        self.problem, self.model = problem, cp_model.CpModel()
        self.members, self.hosts = range(len(problem.names)), range(len(problem.free))
        self.on = {(m, h): self.model.new_bool_var('') for m in self.members for h in self.hosts}
        for m in self.members:
            self.model.add_exactly_one(self.on[m, h] for h in self.hosts)
            if problem.fixed[m] >= 0:
                self.model.add(self.on[m, int(problem.fixed[m])] == 1)
        for h in self.hosts:
            self._room(h)
        self.broken = [(rule, self._broken(rule)) for rule in problem.rules]

    def _room(self, h):
        problem, taken = self.problem, {}
        loose = [m for m in self.members if problem.fixed[m] < 0]
        for m in loose:
            if not problem.mask[problem.kind[m], h]:
                self.model.add(self.on[m, h] == 0)
            ways = [self.model.new_bool_var('') for _ in problem.demand[problem.kind[m]]]
            self.model.add(sum(ways) == self.on[m, h])
            for way, amounts in zip(ways, problem.demand[problem.kind[m]], strict=True):
                for resource, amount in enumerate(amounts.tolist()):
                    if amount:
                        taken.setdefault(resource, []).append(amount * way)
        for resource, terms in taken.items():
            self.model.add(sum(terms) <= max(0, int(problem.free[h, resource])))
        if problem.cap is not None:
            for kind in range(len(problem.cap)):
                same = [self.on[m, h] for m in loose if problem.kind[m] == kind]
                self.model.add(sum(same) <= int(problem.cap[kind, h]))

    def _count(self, members, level, domain):
        ids = self.problem.domains[level]
        return sum(self.on[int(m), h] for m in members for h in self.hosts if ids[h] == domain)

    def _both(self, *literals):
        both = self.model.new_bool_var('')
        self.model.add_min_equality(both, literals)
        return both

    def _positive(self, count, bound):
        used = self.model.new_bool_var('')
        self.model.add(count >= 1).only_enforce_if(used)
        self.model.add(count == 0).only_enforce_if(~used)
        return used

    def _least_zero(self, expression, bound):
        """The expression, or 0 if it is negative."""
        positive = self.model.new_int_var(0, bound, '')
        self.model.add_max_equality(positive, [expression, 0])
        return positive

    def _broken(self, rule):
        """How often the rule is broken, as a term."""
        problem, total = self.problem, len(self.problem.names)
        domains = range(len(problem.domain_names[rule.level]))
        count = [self._count(rule.a, rule.level, d) for d in domains]
        used = [self._positive(one, total) for one in count]
        others = rule.b
        if rule.kind == EXCLUSIVE:
            others = [m for m in self.members if m not in set(rule.a.tolist())]
        theirs = [self._positive(self._count(others, rule.level, d), total) for d in domains]
        if rule.kind == AFFINITY:
            return sum(used) - 1
        if rule.kind == ANTI_AFFINITY:
            return sum(self._least_zero(one - rule.most, total) for one in count)
        if rule.kind == SPREAD:
            return self._spread(rule, count, used, total)
        if rule.kind == EXCLUSIVE:
            there = problem.occupied if rule.outside is None else rule.outside
            outside = set(problem.domains[rule.level][there].tolist())
            return sum(
                used[d] if d in outside else self._both(used[d], theirs[d]) for d in domains
            )
        if rule.kind == NEAR:
            alone = []
            for d in domains:
                alone.append(self.model.new_int_var(0, total, ''))
                self.model.add(alone[-1] == count[d]).only_enforce_if(~theirs[d])
                self.model.add(alone[-1] == 0).only_enforce_if(theirs[d])
            return sum(alone)
        assert rule.kind == APART
        return sum(self._both(used[d], theirs[d]) for d in domains)

    def _spread(self, rule, count, used, total):
        broken = self._least_zero(rule.min_domains - sum(used), rule.min_domains)
        if rule.max_skew is None:
            return broken
        largest = self.model.new_int_var(0, total, '')
        smallest = self.model.new_int_var(0, total, '')
        self.model.add_max_equality(largest, count)
        # A domain that is not used counts as more than any domain has.
        self.model.add_min_equality(
            smallest, [one + (total + 1) * (1 - u) for one, u in zip(count, used, strict=True)]
        )
        return broken + self._least_zero(largest - smallest - rule.max_skew, total)

    def solve(self, goal):
        problem = self.problem
        for rule, broken in self.broken:
            if rule.is_required:
                self.model.add(broken == 0)
        loose = [m for m in self.members if problem.fixed[m] < 0]
        settled = set(np.flatnonzero(problem.occupied).tolist())
        settled |= set(problem.fixed.tolist()) | set(problem.home.tolist())
        used = {
            h: self._positive(sum(self.on[m, h] for m in loose), 0) for h in self.hosts if loose
        }
        parts = [
            sum(int(rule.weight) * broken for rule, broken in self.broken if not rule.is_required),
            sum(
                1 - self.on[m, int(problem.home[m])] for m in self.members if problem.home[m] >= 0
            ),
            -sum(
                int(problem.score[problem.kind[m], h]) * self.on[m, h]
                for m in loose
                for h in self.hosts
            ),
            sum(u for h, u in used.items() if h not in settled),
        ]
        if goal:
            self.model.minimize(((parts[0] * 1000 + parts[1]) * 1000 + parts[2]) * 1000 + parts[3])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        return (
            None if status == cp_model.INFEASIBLE else tuple(solver.value(part) for part in parts)
        )


def placements(problem, most=1, limit=3000):
    """The first ``most`` placements that break nothing; None if there were more than ``limit`` to
    look at."""
    loose = np.flatnonzero(problem.fixed < 0)
    options = [np.flatnonzero(problem.mask[problem.kind[member]]).tolist() for member in loose]
    if np.prod([len(hosts) for hosts in options], dtype=np.float64) > limit:
        return None
    found, hosts = [], problem.fixed.astype(np.int32)
    for choice in itertools.product(*options):
        hosts[loose] = choice
        if not policies.broken(problem, hosts):
            found.append(hosts.copy())
            if len(found) == most:
                break
    return found

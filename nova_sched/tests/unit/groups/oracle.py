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
"""Small random problems of every kind, and a model of one boolean per member, way and host that solves them.

The model knows nothing of classes, blocks, or of what the planner's own modules count.
"""

import random

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.groups import definition
from nova_sched.groups.definition import AFFINITY, ANTI_AFFINITY, APART, EXCLUSIVE, NEAR, SPREAD, Policy
from nova_sched.groups.problem import Problem, Rule

LEVELS = ['host', 'rack', 'zone', 'feed']  # feeds cross racks and zones


def random_problem(seed, members=(2, 9), hosts=(2, 12), preferred=True):
    """A problem of a few members with any mixture of policies, fixed members, homes, ways and caps."""
    chance = random.Random(seed)
    m, h = chance.randint(*members), chance.randint(*hosts)
    kinds = chance.randint(1, 3)
    ways = chance.choice([1, 1, 1, 2])
    rack = np.sort([chance.randrange(max(1, h // 2)) for _ in range(h)])
    domains = [np.arange(h), rack, rack // 2, np.array([chance.randrange(3) for _ in range(h)])]
    order = np.array(chance.sample(range(h), h))  # hosts come in any order
    domains = [np.arange(h), *(_dense(ids[order]) for ids in domains[1:])]
    demand = np.array(
        [[[chance.randint(0, 3), chance.randint(1, 3)] for _ in range(ways)] for _ in range(kinds)]
    )
    if ways == 2:  # what one way takes of the first resource, the other takes of a third
        third = demand[:, :, :1].copy()
        third[:, 0] = 0
        demand[:, 1, 0] = 0
        demand = np.concatenate([demand, third], axis=2)
    free = np.array([[chance.randint(-1, 7) for _ in range(demand.shape[2])] for _ in range(h)])
    kind = np.array([chance.randrange(kinds) for _ in range(m)], dtype=np.int32)
    members = [f'app/{number}' for number in range(m)]
    policies = [_policy(chance, number, members, preferred) for number in range(chance.randint(0, 5))]
    index = {path: number for number, path in enumerate(members)}
    fixed = np.array([chance.randrange(h) if chance.random() < 0.1 else -1 for _ in range(m)], dtype=np.int32)
    home = np.array([chance.randrange(h) if chance.random() < 0.5 else -1 for _ in range(m)], dtype=np.int32)
    home[fixed >= 0] = -1
    some = chance.random
    return Problem(
        names=members,
        kind=kind,
        demand=demand.astype(np.int64),
        mask=np.array([[chance.random() < 0.85 for _ in range(h)] for _ in range(kinds)]),
        score=np.array([[chance.randint(0, 5) for _ in range(h)] for _ in range(kinds)], dtype=np.float32),
        free=free.astype(np.int64),
        domains=[ids.astype(np.int32) for ids in domains],
        levels=LEVELS,
        domain_names=[[f'{level}-{d}' for d in range(max(ids) + 1)] for level, ids in zip(LEVELS, domains, strict=True)],
        occupied=np.array([chance.random() < 0.3 for _ in range(h)]),
        rules=[Rule.of(policy, index, LEVELS) for policy in policies],
        cap=np.array([[chance.randint(0, 3) for _ in range(h)] for _ in range(kinds)], dtype=np.int32)
        if some() < 0.3
        else None,
        fixed=fixed if some() < 0.4 else None,
        home=home if some() < 0.3 else None,
    )


def _dense(ids):
    return np.unique(ids, return_inverse=True)[1]


def _policy(chance, number, members, preferred):
    kind = chance.choice(definition.KINDS)
    some = [path for path in members if chance.random() < chance.choice([0.4, 1.0])] or members[:1]
    others = [path for path in members if chance.random() < 0.5] or members[-1:]
    return Policy(
        name=f'{kind} {number}',
        kind=kind,
        level=chance.choice(LEVELS),
        a=tuple(some),
        b=tuple(others) if kind in definition.RELATIONS else (),
        weight=chance.choice([1, 2, 5]) if preferred and chance.random() < 0.35 else None,
        most=chance.choice([1, 1, 2, 3]),
        min_domains=chance.choice([1, 1, 2, 3]) if kind == SPREAD else 1,
        max_skew=chance.choice([None, 0, 1, 1]) if kind == SPREAD else None,
    )


def best(problem, goal=True):
    """(preferred, moves, loss, spoilt) of the best placement, or None if there is none. Scores must be whole."""
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
            outside = set(problem.domains[rule.level][problem.occupied].tolist())
            return sum(used[d] if d in outside else self._both(used[d], theirs[d]) for d in domains)
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
        largest, smallest = self.model.new_int_var(0, total, ''), self.model.new_int_var(0, total, '')
        self.model.add_max_equality(largest, count)
        # A domain that is not used counts as more than anybody has.
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
        used = {h: self._positive(sum(self.on[m, h] for m in loose), 0) for h in self.hosts if loose}
        parts = [
            sum(int(rule.weight) * broken for rule, broken in self.broken if not rule.is_required),
            sum(1 - self.on[m, int(problem.home[m])] for m in self.members if problem.home[m] >= 0),
            -sum(int(problem.score[problem.kind[m], h]) * self.on[m, h] for m in loose for h in self.hosts),
            sum(u for h, u in used.items() if h not in settled),
        ]
        if goal:
            self.model.minimize(((parts[0] * 1000 + parts[1]) * 1000 + parts[2]) * 1000 + parts[3])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        return None if status == cp_model.INFEASIBLE else tuple(solver.value(part) for part in parts)


def random_cells(seed):
    """A problem of blocks that are mostly alike, which the planner merges: few hosts, and just about enough."""
    chance = random.Random(seed)
    racks, per_rack = chance.randint(2, 4), chance.randint(2, 4)
    h = racks * per_rack
    rack = np.repeat(np.arange(racks), per_rack)
    feed = np.array([chance.randrange(2) for _ in range(h)])
    domains = [np.arange(h), rack, rack // 2, _dense(feed)]
    blocks, heads, workers = chance.randint(2, 4), chance.randint(0, 2), chance.randint(1, 3)
    level = chance.choice(['rack', 'rack', 'zone', 'feed'])
    members, kind, policies, every_head = [], [], [], []

    def keep(*given, **rest):
        policies.append(Policy(f'{len(policies)}', *given, **rest))

    most, joint, most_heads = chance.choice([1, 1, 2]), chance.random() < 0.6, chance.choice([1, 2])
    for block in range(blocks):
        extra = chance.random() < 0.15
        names = [f'{block}/head/{n}' for n in range(heads)]
        names += [f'{block}/worker/{n}' for n in range(workers + extra)]
        keep(AFFINITY, level, tuple(names))
        keep(ANTI_AFFINITY, 'host', tuple(names if joint else names[heads:]), most=most)
        members += names
        kind += [1] * heads + [0] * (workers + extra)
        every_head += names[:heads]
    if every_head and chance.random() < 0.5:
        keep(ANTI_AFFINITY, chance.choice(LEVELS), tuple(every_head), most=most_heads)
    if chance.random() < 0.3:
        keep(AFFINITY, chance.choice(['zone', 'feed']), tuple(members))
    if chance.random() < 0.3:
        keep(SPREAD, chance.choice(['rack', 'zone']), tuple(members), min_domains=2, max_skew=2)
    if every_head and chance.random() < 0.3:
        keep(NEAR, 'rack', tuple(members[-1:]), tuple(every_head))
    if chance.random() < 0.3:
        keep(chance.choice([AFFINITY, SPREAD]), 'zone', tuple(members), weight=2, min_domains=2)
    index = {path: number for number, path in enumerate(members)}
    homes = [chance.randrange(h) if chance.random() < 0.5 else -1 for _ in members]
    return Problem(
        names=members,
        kind=np.array(kind, dtype=np.int32),
        demand=np.array([[[1]], [[chance.randint(1, 2)]]], dtype=np.int64),
        mask=np.ones((2, h), dtype=bool),
        score=np.array([[chance.randint(0, 5) for _ in range(h)] for _ in range(2)], dtype=np.float32),
        free=np.array([[chance.randint(0, 4)] for _ in range(h)], dtype=np.int64),
        domains=[ids.astype(np.int32) for ids in domains],
        levels=LEVELS,
        domain_names=[[f'{name}-{d}' for d in range(max(ids) + 1)] for name, ids in zip(LEVELS, domains, strict=True)],
        occupied=np.zeros(h, dtype=bool),
        rules=[Rule.of(policy, index, LEVELS) for policy in policies],
        home=np.array(homes, dtype=np.int32) if chance.random() < 0.2 else None,
    )

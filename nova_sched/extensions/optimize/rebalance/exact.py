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
"""Better plans than the greedy ones, by CP-SAT: the goals `empty` and `fit`.

Servers that no rule tells apart are one class, and the variables are numbers: how many servers of
a class leave a host, and how many come to one. A host is either a source or a destination, as in
all plans. Only the worker process of ``groups.exact.worker`` imports this module: the solver is
native code, and may abort.
"""

import collections
import math
import time

import numpy as np
from ortools.sat.python import cp_model

from nova_sched.extensions.optimize.rebalance import plan
from nova_sched.extensions.optimize.rebalance.greedy import cheapest, places
from nova_sched.groups.arrays.problem import slots
from nova_sched.groups.exact.search import Progress, has_answer, solve

MAX_VARIABLES = 150_000  # variables; a larger model leaves hosts out, and then proves nothing
OF_MOVES = 2  # sources of a smaller model hold so many times the allowed moves
LEAST_S = 0.1


def empty(problem, most, moves, seconds):
    """Empty as many hosts as it can with at most so many moves, from the moves (server,
    destination) of a plan.

    Return moves, and the most hosts that any plan empties; None: nothing is known of that. The
    moves are None if no better ones are found.
    """
    stays = np.bincount(problem.servers.host[problem.stays], minlength=len(problem)) > 0
    counts = problem.counts
    search = Search(
        problem,
        most,
        moves,
        seconds,
        goes=problem.sources & ~problem.held & ~stays & (counts > 0) & (counts <= most),
        comes=problem.in_use,
    )
    for host, leaves in search.is_source.items():
        for number, count in search.counts[host].items():
            search.out[number, host] = count * leaves
    search.add_rules()
    gains = sum(search.is_source.values())
    return search.solved(gains, upper=len(search.is_source))


def fit(problem, wanted, allowed, most, moves, seconds):
    """The same for places of a size: takes ``wanted`` (int64 [column]) on hosts that are
    ``allowed`` (bool). The bound is the most places that there are after any plan."""
    search = Search(
        problem,
        most,
        moves,
        seconds,
        goes=problem.sources & allowed & (problem.counts > 0),
        comes=np.ones(len(problem), dtype=bool),
        is_partial=True,
    )
    for host, leaves in search.is_source.items():
        for number, count in search.counts[host].items():
            search.out[number, host] = search.model.new_int_var(0, count, '')
            search.model.add(search.out[number, host] <= count * leaves)
    search.add_rules()
    fixed, gains = search.add_places(wanted, allowed)
    moves_found, bound = search.solved(gains, upper=int(np.iinfo(np.int32).max))
    return moves_found, None if bound is None else bound + fixed


class Search:
    """A model of sources and destinations.

    It begins with the ``moves`` of a plan. ``goes`` (bool) are hosts that servers may leave,
    ``comes`` hosts that they may go to. ``is_partial``: a part of a host's servers may leave it.
    ``is_whole``: no host was left out. ``counts`` maps each source to the number of its servers by
    class, ``is_source`` to a variable, ``out`` a class and its source to how many leave; ``into``
    a class and a destination to how many come.
    """

    def __init__(self, problem, most, moves, seconds, goes, comes, is_partial=False):
        self._end_s = time.monotonic() + seconds
        self.problem, self.most, self._from, self._is_partial = problem, most, moves, is_partial
        self.model = cp_model.CpModel()
        self._read(np.flatnonzero(goes))
        takes = self.takes = self._takes(comes)
        self.is_whole = np.count_nonzero(takes) <= MAX_VARIABLES
        if not self.is_whole:
            order = cheapest(problem, np.flatnonzero(goes), most)
            few = order[np.cumsum(problem.counts[order]) <= OF_MOVES * most]
            used = problem.servers.host[[server for server, _ in moves]]
            self._read(np.union1d(few, used[goes[used]]))
            takes = self.takes = self._takes(comes)
            # The destinations of the moves, and those with the most free room.
            room = (np.maximum(problem.free, 0) * problem.shares).sum(axis=1)
            room[[host for _, host in moves]] = np.inf
            order = np.argsort(-room, kind='stable')
            takes[:, order[np.cumsum((takes[:, order] > 0).sum(axis=0)) > MAX_VARIABLES]] = 0
        self.is_source = {host: self.model.new_bool_var('') for host in self.counts}
        self.out: dict = {}
        self.into = {
            (number, host): self.model.new_int_var(0, int(takes[number, host]), '')
            for number, host in np.argwhere(takes > 0).tolist()
        }

    def _read(self, sources):
        """The classes of the servers that may leave these hosts."""
        problem, servers = self.problem, self.problem.servers
        inside = np.zeros(len(problem), dtype=bool)
        inside[sources] = True
        self.rows = np.flatnonzero(inside[servers.host] & ~problem.stays)
        table = np.column_stack(
            [
                servers.kind,
                np.where(servers.confined, problem.domain[servers.host], -1),
                servers.families,
            ]
        )[self.rows]
        self._classes, numbers = np.unique(table, axis=0, return_inverse=True)
        self.number_of = dict(zip(self.rows.tolist(), numbers.ravel().tolist(), strict=True))
        self.counts: dict = collections.defaultdict(collections.Counter)
        for row, host in zip(self.rows.tolist(), servers.host[self.rows].tolist(), strict=True):
            self.counts[host][self.number_of[row]] += 1

    def _takes(self, comes):
        """How many of each class fit on each host now (int64 [class, host])."""
        problem = self.problem
        totals = np.bincount(list(self.number_of.values()), minlength=len(self._classes))
        of_kinds = np.where(comes, problem.takes(), 0)
        takes = np.zeros((len(self._classes), len(problem)), dtype=np.int64)
        for number, (kind, domain, *families) in enumerate(self._classes.tolist()):
            most = np.minimum(of_kinds[kind], totals[number])
            if domain >= 0:
                most[problem.domain != domain] = 0
            for family in families:
                if family >= 0:
                    most[problem.hosts_of_family(family)] = 0
                    most = np.minimum(most, 1)
            takes[number] = most
        return takes

    def add_rules(self):
        """What comes is what leaves, within the moves, the free amounts and the families."""
        leaving, coming = collections.defaultdict(list), collections.defaultdict(list)
        self._on: dict = collections.defaultdict(dict)  # destination -> class -> variable
        members: dict = collections.defaultdict(list)
        for (number, _), variable in self.out.items():
            leaving[number].append(variable)
        for (number, host), variable in self.into.items():
            coming[number].append(variable)
            self._on[host][number] = variable
            for family in self._classes[number, 2:].tolist():
                if family >= 0:
                    members[family, host].append(variable)
        for number in range(len(self._classes)):
            self.model.add(sum(coming[number]) == sum(leaving[number]))
        self.model.add(sum(self.out.values()) <= self.most)
        for variables in members.values():
            self.model.add(sum(variables) <= 1)
        for host, variables in self._on.items():
            stays = 1 - self.is_source[host] if host in self.is_source else 1
            for number, variable in variables.items():
                self.model.add(variable <= int(self.takes[number, host]) * stays)
            for column in range(len(self.problem.columns)):
                if (taken := self._amount(variables, column)) is not None:
                    free = max(int(self.problem.free[host, column]), 0)
                    self.model.add(taken <= free * stays)

    def _amount(self, variables, column):
        """What numbers of servers, by class, take of a column; None: nothing."""
        amounts = self.problem.demand[self._classes[:, 0], column].tolist()
        terms = [
            amounts[number] * variable for number, variable in variables.items() if amounts[number]
        ]
        return sum(terms) if terms else None

    def add_places(self, wanted, allowed):
        """The places on hosts that the plan does not change, and a term of those on the rest."""
        problem, columns = self.problem, np.flatnonzero(wanted).tolist()
        before, total, gains = places(problem.free, wanted, allowed), 0, []
        leaving: dict = collections.defaultdict(dict)
        for (number, host), variable in self.out.items():
            leaving[host][number] = variable
        for host in np.flatnonzero(allowed).tolist():
            comes, goes = self._on.get(host, {}), leaving.get(host, {})
            if not columns or not (comes or goes):
                total += int(before[host])
                continue
            # If all servers that may leave the host do.
            most_free = problem.free[host].astype(np.int64)
            for number, count in self.counts.get(host, {}).items():
                most_free += count * problem.demand[self._classes[number, 0]]
            most = int(slots(wanted[None], most_free[:, None])[0])
            places_here = self.model.new_int_var(0, most, '')
            has = self.model.new_bool_var('')
            self.model.add(places_here <= most * has)
            for column in columns:
                free = int(problem.free[host, column])
                come = self._amount(comes, column)
                go = self._amount(goes, column)
                left = free - (0 if come is None else come) + (0 if go is None else go)
                rule = self.model.add(int(wanted[column]) * places_here <= left)
                if free < 0:  # oversubscribed
                    rule.only_enforce_if(has)
            gains.append(places_here)
        return total, sum(gains)

    def solved(self, gains, upper):
        """Moves with the most gains, and of those the fewest; and the most gains of any plan."""
        if isinstance(gains, int):
            return None, gains if self.is_whole else None
        weight = self.most + 1  # a gain is worth more than all moves
        self.model.minimize(sum(self.out.values()) - weight * gains)
        self._hint()
        # It ends when no plan gains more, even if one might have fewer moves.
        solver, status = solve(
            self.model,
            max(self._end_s - time.monotonic(), LEAST_S),
            Progress(weight),
            wall_factor=1.0,
            cp_model_presolve=True,
        )
        if not has_answer(status):
            return None, None
        bound = min(upper, -math.floor(solver.best_objective_bound / weight))
        return self._moves(solver), bound if self.is_whole else None

    def _hint(self):
        """Begin with the moves of the plan, as far as the model has them."""
        out: collections.Counter = collections.Counter()
        into: collections.Counter = collections.Counter()
        for server, target in self._from:
            number, home = self.number_of.get(server), int(self.problem.servers.host[server])
            if number is not None and (number, target) in self.into:
                out[number, home] += 1
                into[number, target] += 1
        sources = {host for _, host in out}
        for host, variable in self.is_source.items():
            self.model.add_hint(variable, host in sources)
        for key, variable in self.into.items():
            self.model.add_hint(variable, into[key])
        for key, variable in self.out.items():
            if self._is_partial:
                self.model.add_hint(variable, out[key])

    def _moves(self, solver):
        leave, target_of = collections.defaultdict(list), {}
        numbers = {
            key: solver.value(variable)
            for key, variable in self.out.items()
            if solver.value(variable)
        }
        for row in self.rows.tolist():
            key = self.number_of[row], int(self.problem.servers.host[row])
            if numbers.get(key, 0):
                numbers[key] -= 1
                leave[key[0]].append(row)
        for (number, host), variable in sorted(self.into.items()):
            for _ in range(solver.value(variable)):
                target_of[leave[number].pop()] = host
        return plan.ordered(self.problem, target_of)

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
"""Makes plans of moves: reads the host state in the loop, in slices, and plans outside of it. A
search for a better plan runs in a process of its own."""

import dataclasses
import logging
import threading
import time

import numpy as np

from nova_sched import errors
from nova_sched.engine.decide import chain
from nova_sched.extensions.optimize.packing.prices import yield_processor
from nova_sched.extensions.optimize.planning import snapshot
from nova_sched.extensions.optimize.planning.problem_builder import (
    SERVERS,
    RebalanceProblemBuilder,
    demand_of,
    mask_of,
)
from nova_sched.extensions.optimize.rebalance import (
    DRAIN,
    EMPTY,
    FIT,
    greedy,
    most_moves,
    read_goal,
)
from nova_sched.extensions.optimize.rebalance.bound import most_emptied
from nova_sched.extensions.optimize.rebalance.plan import emptied
from nova_sched.groups.exact.worker import Solver
from nova_sched.state.facts import CLAIMED

LOG = logging.getLogger(__name__)

SLICE_S = 0.01  # for which kinds of servers are judged in the loop at a time
ATTEMPTS = 5  # hosts may come and go while a plan is made
EXACT = 'nova_sched.extensions.optimize.rebalance.exact'
SEARCH = 'search'  # how the bound was found
NICE = 10  # decisions come first
LEAST_S = 1.0  # a shorter search is not worth its process
TURN = threading.Lock()  # one search at a time: each takes two processors


class _Changed(Exception):
    """Hosts have come or gone meanwhile: the rows of the snapshot do not fit any more."""


class MovePlanner:
    """Makes plans; may be called from any thread but the loop's. It changes nothing.

    ``call`` runs a function in the loop. ``flavors()`` returns a Request of each flavor; None:
    there are none.
    """

    def __init__(self, context, placer, call, flavors=None):
        self._cluster, self._topology = context.cluster, context.topology
        self._settings, self._clock = context.settings, context.clock
        self._placer, self._call, self._flavors = placer, call, flavors

    def plan(self, scope, moves=None, wanted=None, thorough_s=None):
        """A rebalance.plan.Plan with at most so many ``moves``: a number, a share of the servers
        such as `1%`, or None.

        ``wanted`` is a request of the flavor of the goal `fit`; None: it is looked up by its name.
        With ``thorough_s``, a search for a better plan, for the goals `empty` and `fit`, takes at
        most so many seconds. Raises InvalidRequest.
        """
        if thorough_s is not None and scope.goal.kind not in (EMPTY, FIT):
            why = (
                f'there is no thorough plan for the goal {scope.goal.kind}, but for empty and fit'
            )
            raise errors.InvalidRequest('thorough', why)
        if scope.goal.kind == FIT and wanted is None:
            wanted = self._flavor(scope.goal.names[0])
        search = None if thorough_s is None else ThoroughSearch(thorough_s)
        for _ in range(ATTEMPTS):
            try:
                return self._try(scope, moves, wanted, search)
            except _Changed:
                LOG.info('Hosts have come or gone; the plan of moves is made again')
        raise errors.Outdated('The plan of moves', 'hosts came and went each time it was made')

    def moves(self, settings, most):
        """A list of at most so many Move for the goal of ``settings`` (RebalanceSettings), for the
        periodic mode. Raises InvalidRequest, Outdated."""
        scope = snapshot.Scope(read_goal(settings.goal), settings=settings)
        return self.plan(scope, most).to_moves()

    def _flavor(self, name):
        for request in self._flavors() if self._flavors else ():
            if request.flavor_name == name:
                return request
        raise errors.InvalidRequest('goal', f'flavor {name} is not in the database')

    def _try(self, scope, moves, wanted, search):
        begin_s = time.perf_counter()
        seen = self._call(self._take, scope)
        builder = RebalanceProblemBuilder(seen, scope, yield_processor)
        while not self._call(self._judge_some, builder):
            pass
        problem = builder.problem()
        place = None if wanted is None else self._call(self._where, seen, wanted)
        most = most_moves(moves, len(problem.servers.uuids))
        as_seen = problem.free.copy()
        bound = most_emptied(problem, most) if scope.goal.kind == EMPTY else None
        size = None if wanted is None else demand_of(wanted, problem.columns)
        while True:
            plan = self._make(problem, scope.goal, most, bound, size, place)
            if self._is_refused(plan, seen, builder):
                continue
            if search is None:
                break
            if scope.goal.kind == EMPTY:
                plan = search.emptied(plan, most)
            else:
                plan = search.fitting(plan, size, place, most)
            if not self._is_refused(plan, seen, builder):
                break
        if (problem.free != as_seen).any():
            plan.bound = plan.bound_by = None  # of a search that has seen less room than there is
        if bound is not None and (plan.bound is None or bound.most <= plan.bound):
            plan.bound, plan.bound_by = bound.most, bound.by
        LOG.info(
            'Planned %d moves of %d servers on %d hosts (%s), %.0f ms',
            len(plan.moves),
            len(problem.servers.uuids),
            len(problem),
            scope.goal.kind,
            (time.perf_counter() - begin_s) * 1000,
        )
        return plan

    def _is_refused(self, plan, seen, builder):
        """Whether a rule allows less than the free amounts do. Then the destinations take fewer
        servers in the next plan."""
        arrivals, problem = Arrivals(plan), plan.problem
        while not self._call(self._check_some, seen, arrivals, builder.requests):
            pass
        if not arrivals.refused.any():
            return False
        fewer = arrivals.counts[arrivals.refused] // 2
        problem.free[arrivals.refused, problem.columns.index(SERVERS)] = fewer
        return True

    @staticmethod
    def _make(problem, wish, most, bound, size, place):
        if wish.kind == EMPTY:
            return greedy.empty(problem, most, bound)
        if wish.kind == DRAIN:
            rows = np.flatnonzero(problem.sources & ~problem.destinations).tolist()
            return greedy.drain(problem, rows, most)
        if wish.kind == FIT:
            return greedy.fit(problem, size, place, most)
        return greedy.spread(problem, most)

    # In the loop.

    def _take(self, scope):
        self._cluster.hosts.now_s = self._clock()
        rules, settings = self._placer.rules, self._settings()
        return snapshot.take(self._cluster, rules, self._topology, settings, scope)

    def _check(self, seen):
        """The hosts of now. Raises _Changed if they are not those of the Snapshot."""
        hosts = self._cluster.hosts
        hosts.now_s = self._clock()
        if [node.uuid for node in hosts.nodes] != seen.nodes:
            raise _Changed
        return hosts

    def _judge_some(self, builder):
        hosts, end_s = self._check(builder.snapshot), time.monotonic() + SLICE_S
        return builder.judge_some(self._placer.rules, hosts, lambda: time.monotonic() >= end_s)

    def _where(self, seen, wanted):
        """The rows that the rules let a new server of the flavor go to, if they had room."""
        hosts, rules = self._check(seen), self._placer.rules
        view = hosts.what_if()
        view.resources = {name: resource.copy() for name, resource in hosts.resources.items()}
        for unused in view.resources.values():
            unused.take(slice(None), -unused.used)
        return mask_of(rules, view, wanted)[0] & seen.inside

    def _check_some(self, seen, arrivals, requests):
        """Evaluate the rules on amounts and numbers for some kinds of servers that arrive, one at
        least. Return whether all are done."""
        hosts, end_s = self._check(seen), time.monotonic() + SLICE_S
        while arrivals.left:
            kind = arrivals.left.pop()
            request = requests[kind]
            counting = [
                rule
                for rule in chain(self._placer.rules, request)
                if not rule.judges_rows and rule.host_facts_for(request) & CLAIMED
            ]
            arrivals.check(hosts, counting, request, kind)
            if time.monotonic() >= end_s:
                break
        return not arrivals.left


def view_of(plan):
    """A plan as plain values; see ``endpoints.PlansEndpoint.plan_moves``."""
    problem, names = plan.problem, plan.problem.names
    moves = [
        dataclasses.asdict(move)
        | {
            'source_host': names[problem.servers.host[server]],
            'destination_host': names[target],
        }
        for move, (server, target) in zip(plan.to_moves(), plan.moves, strict=True)
    ]
    return {
        'servers': len(problem.servers.uuids),
        'hosts': len(problem),
        'moves': moves,
        'emptied': [{'node': problem.nodes[row], 'host': names[row]} for row in plan.emptied],
        'before': plan.before,
        'after': plan.after,
        'bound': plan.bound,
        'bound_by': plan.bound_by,
        'is_spent': plan.is_spent,
        'obstacles': [
            {
                'rule': obstacle.rule,
                'hosts': obstacle.hosts,
                'server': obstacle.server,
                'host': names[obstacle.host],
            }
            for obstacle in plan.obstacles
        ],
    }


class Arrivals:
    """What comes to each host. ``counts`` (int64 [host]) is the number of servers, ``refused``
    (bool [host]) says where a rule refuses one of them, ``left`` are the kinds that are not
    checked yet."""

    def __init__(self, plan):
        problem = self._problem = plan.problem
        pairs = np.array(plan.moves, dtype=np.int64).reshape(-1, 2)
        self._kinds, self._targets = problem.servers.kind[pairs[:, 0]], pairs[:, 1]
        self._amounts = np.zeros(problem.free.shape, dtype=np.int64)
        np.add.at(self._amounts, self._targets, problem.demand[self._kinds])
        self.counts = np.bincount(self._targets, minlength=len(problem))
        self.refused = np.zeros(len(problem), dtype=bool)
        self.left = np.unique(self._kinds).tolist()

    def check(self, hosts, rules, request, kind):
        """Evaluate the rules for one server of a kind, on each of its destinations, as if all
        other servers were there. Takes as long as the kind has destinations, whatever the number
        of hosts. Runs in the loop.
        """
        rows = np.unique(self._targets[self._kinds == kind])
        view = hosts.what_if(rows)
        view.num_instances = hosts.num_instances[rows] + self.counts[rows] - 1
        more = self._amounts[rows] - self._problem.demand[kind]
        for place, name in enumerate(self._problem.columns):
            if name != SERVERS and more[:, place].any():
                view.resources[name].take(slice(None), more[:, place])
        for rule in rules:
            verdict = rule.mask(view, request)
            if verdict is not True:
                self.refused[rows] |= ~verdict


class ThoroughSearch:
    """Improves plans for so many seconds in all; a plan that it cannot improve stays as it is.

    It waits for another search in this process. ``solver`` makes a groups.exact.worker.Solver.
    """

    def __init__(self, seconds, solver=lambda: Solver(nice=NICE)):
        self._end_s, self._solver = time.monotonic() + seconds, solver

    def emptied(self, plan, most):
        """A plan for the goal `empty`, made from another one."""
        moves, bound = self._ask('empty', plan.problem, most, plan.moves)
        if moves is not None:
            gone = emptied(plan.problem, dict(moves))
            if (len(gone), -len(moves)) > (len(plan.emptied), -len(plan.moves)):
                plan = self._replaced(plan, moves, gone, plan.before + len(gone), most)
        return self._bounded(plan, bound)

    def fitting(self, plan, wanted, allowed, most):
        """A plan for the goal `fit`, made from another one."""
        moves, bound = self._ask('fit', plan.problem, wanted, allowed, most, plan.moves)
        if moves is not None:
            gone = emptied(plan.problem, dict(moves))
            after = greedy.places_after(plan.problem, moves, wanted, allowed)
            if (after, -len(moves)) > (plan.after, -len(plan.moves)):
                plan = self._replaced(plan, moves, gone, after, most)
        return self._bounded(plan, bound)

    def _ask(self, task, *arguments):
        """The answer of a function of rebalance.exact; (None, None) without one."""
        if not TURN.acquire(timeout=max(self._left_s(), 0.0)):
            return None, None
        try:
            if self._left_s() < LEAST_S:
                return None, None
            with self._solver() as solver:
                answer = solver.ask(f'{EXACT}:{task}', *arguments, seconds=self._left_s())
                return answer or (None, None)
        finally:
            TURN.release()

    def _left_s(self):
        return self._end_s - time.monotonic()

    @staticmethod
    def _replaced(plan, moves, gone, after, most):
        is_spent = plan.is_spent or len(moves) >= most
        return dataclasses.replace(plan, moves=moves, emptied=gone, after=after, is_spent=is_spent)

    @staticmethod
    def _bounded(plan, bound):
        if bound is not None:
            plan.bound, plan.bound_by = bound, SEARCH
        return plan

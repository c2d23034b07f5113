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
"""Searches for better plans of moves than the greedy ones, in a process of its own."""

import dataclasses
import threading
import time

from nova_sched.groups.exact.worker import Solver
from nova_sched.rebalance import greedy, plan

EXACT = 'nova_sched.rebalance.exact'
SEARCH = 'search'  # how the bound was found
NICE = 10  # decisions come first
LEAST_S = 1.0  # a shorter search is not worth its process
TURN = threading.Lock()  # one search at a time: each takes two processors


class ThoroughSearch:
    """Improves plans for so many seconds in all; a plan that it cannot improve stays as it is.

    It waits for another search in this process. ``solver`` makes a groups.exact.worker.Solver.
    """

    def __init__(self, seconds, solver=lambda: Solver(nice=NICE)):
        self._end_s, self._solver = time.monotonic() + seconds, solver

    def emptied(self, made, most):
        """A plan for the goal `empty`, made from another one."""
        moves, bound = self._ask('empty', made.fleet, most, made.moves)
        if moves is not None:
            gone = plan.emptied(made.fleet, dict(moves))
            if (len(gone), -len(moves)) > (len(made.emptied), -len(made.moves)):
                made = self._replaced(made, moves, gone, made.before + len(gone), most)
        return self._bounded(made, bound)

    def fitting(self, made, wanted, allowed, most):
        """A plan for the goal `fit`, made from another one."""
        moves, bound = self._ask('fit', made.fleet, wanted, allowed, most, made.moves)
        if moves is not None:
            gone = plan.emptied(made.fleet, dict(moves))
            after = greedy.places_after(made.fleet, moves, wanted, allowed)
            if (after, -len(moves)) > (made.after, -len(made.moves)):
                made = self._replaced(made, moves, gone, after, most)
        return self._bounded(made, bound)

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
    def _replaced(made, moves, gone, after, most):
        is_spent = made.is_spent or len(moves) >= most
        return dataclasses.replace(made, moves=moves, emptied=gone, after=after, is_spent=is_spent)

    @staticmethod
    def _bounded(made, bound):
        if bound is not None:
            made.bound, made.bound_by = bound, SEARCH
        return made

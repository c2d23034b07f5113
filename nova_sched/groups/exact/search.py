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
"""One search by CP-SAT, whatever the model: its time, what ends it early, and whether it has an
answer.

Only the worker process imports this module: the solver is native code, and may abort.
"""

import math
import threading
import time
from typing import Any

from ortools.sat.python import cp_model

from nova_sched.groups.limits import WALL_FACTOR

WORKERS = 2
POLL_S = 0.01  # between two polls of the processor time of a search
LEAST_S = 0.001


class SolverClock:
    """Processor time of this process as if the threads of its searches ran at the same time.

    Calling it gives seconds.
    """

    def __init__(self) -> None:
        self._beside_s = 0.0  # of the other threads

    def __call__(self) -> float:
        return time.process_time() - self._beside_s

    def searched(self, seconds: float, workers: int) -> None:
        """Count the processor time of a search by so many threads."""
        self._beside_s += seconds * (1 - 1 / workers)


CLOCK = SolverClock()  # the process does one task at a time


class Progress(cp_model.CpSolverSolutionCallback):
    """When the minimum that is searched for has last fallen by a whole ``step`` of the objective.

    The search ends when no solution is a whole step better.
    """

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step, self._best = step, math.inf
        self.since_s = time.process_time()
        self.is_complete = False

    def on_solution_callback(self) -> None:
        best = self.objective_value // self._step
        if best < self._best:
            self._best, self.since_s = best, time.process_time()
        self.bounded(self.best_objective_bound)

    def bounded(self, bound: float) -> None:
        """The objective cannot be below the bound."""
        if self._best <= bound // self._step:
            self.is_complete = True


def solve(
    model: cp_model.CpModel,
    seconds: float,
    progress: Progress | None = None,
    stall_s: float = math.inf,
    wall_factor: float = WALL_FACTOR,
    **parameters: Any,
) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    """Search for ``seconds`` of processor time of each thread; with ``progress``, no longer than
    ``stall_s`` without any. It takes ``wall_factor`` times as long by the wall clock at most."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(wall_factor * seconds, LEAST_S)
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = 1
    solver.parameters.cp_model_presolve = False  # within a second it costs more than it saves
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    workers = solver.parameters.num_workers
    began_s, done = time.process_time(), threading.Event()

    def is_enough() -> bool:
        now_s = time.process_time()
        if progress is not None and (
            progress.is_complete or now_s - progress.since_s >= workers * stall_s
        ):
            return True
        return now_s - began_s >= workers * seconds

    def watch() -> None:
        while not done.wait(POLL_S):
            if is_enough():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        if progress is not None:
            solver.best_bound_callback = progress.bounded
        return solver, solver.solve(model, progress)
    finally:
        done.set()
        watcher.join()
        CLOCK.searched(time.process_time() - began_s, workers)


def has_answer(status: cp_model.CpSolverStatus) -> bool:
    return status in (cp_model.OPTIMAL, cp_model.FEASIBLE)

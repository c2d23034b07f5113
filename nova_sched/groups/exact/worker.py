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
"""The solver process, and the handle through which other processes call it.

The solver is native code: it may abort, and it may exceed its time. So it runs in a separate
process. If that process dies, the only consequence is that there is no better answer::

    caller -- ask('module:function', ...) --> handle == pickles with a length prefix ==> process
       ^                                        |  late, dead, out of step: killed, None    |
       +----------- the answer, or None --------+<============== (True, answer) ============+

The handle imports nothing of the solver, so that the calling process stays small.
"""

import logging
import pickle
import threading
import time
from typing import Any, Self

from nova_sched.groups.process import ChildProcess

LOG = logging.getLogger(__name__)

# modules that take the process half a second to load, before the first task
NATIVE = 'nova_sched.groups.exact.tasks'
GRACE_S = 0.5  # time beyond a task's seconds, before the process is killed
START_S = 20.0  # time to load, on a busy machine
REST_S = 30.0  # pause after a process died while it loaded, because the next one would too


class Solver:
    """One worker process. It starts when first needed (or by ``start``), and again after each
    death.

    Any number of threads, native or green, may call ``ask``. The process does one task at a time.
    A second task waits for its turn, up to its ``wait_s``. A process that was forked from this one
    starts a separate worker process. Its niceness is that of this process and ``nice`` more.
    """

    def __init__(self, grace_s: float = GRACE_S, start_s: float = START_S, nice: int = 0) -> None:
        self._grace_s = grace_s
        self._start_s = start_s
        self._nice = nice
        self._turn = threading.Lock()
        self._process: ChildProcess | None = None
        self._rest_until = 0.0
        self._closed = False

    def start(self) -> None:
        """Start the process if it is not running, without waiting until it is ready."""
        with self._turn:
            self._running()

    def ask(self, task: str, *arguments: object, seconds: float, wait_s: float = 0.0) -> Any:
        """Return the result of ``function(*arguments, seconds=seconds)``.

        ``task`` is 'module:function', and ``seconds`` are of processor time. Return None if there
        is no answer: the process was busy for longer than ``wait_s``, or died, or was killed
        because it took WALL_FACTOR times ``seconds`` and a grace period, or the function raised
        (which is logged). The time to load a new process is added.
        """
        if not self._turn.acquire(timeout=max(wait_s, 0.0)):
            return None
        try:
            process = self._running()
            return self._done(process, task, arguments, seconds) if process else None
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process, even during a task; later calls return None."""
        self._closed = True
        process = self._process
        if process is not None and process.is_ours:
            process.stop()
        with self._turn:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> 'ChildProcess | None':
        if self._process is not None and not (self._process.is_ours and self._process.is_alive):
            self._drop()
        if self._process is None and not self._closed and time.monotonic() >= self._rest_until:
            try:
                self._process = ChildProcess(NATIVE, self._nice)
            except OSError:
                LOG.exception('The solver process cannot start; groups are planned without it')
                self._rest_until = time.monotonic() + REST_S
        return self._process

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _done(
        self, process: ChildProcess, task: str, arguments: tuple[object, ...], seconds: float
    ) -> Any:
        try:
            try:
                process.wait_until_ready(self._start_s)
            except (OSError, EOFError):
                self._rest_until = time.monotonic() + REST_S
                raise
            good, answer = process.ask(task, arguments, seconds, self._grace_s)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            if not self._closed:
                LOG.warning(
                    'The solver gave no answer to %s: %s. The process is restarted.',
                    task,
                    error or type(error).__name__,
                )
            self._drop()
            self._running()  # so that the next call does not wait while it loads
            return None
        except BaseException:  # if a thread ends during a task, no thread reads the answer
            self._drop()
            raise
        if not good:
            LOG.error('The solver raised an exception in %s: %s', task, answer)
        return answer if good else None

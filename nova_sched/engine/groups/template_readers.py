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
"""The child processes in which a scheduler reads the templates of tenants.

A template can be made to cost memory and processor time, by known ways and by others. In a child
it takes them from no other request: the scheduler's interpreter stays free, and a child that takes
too much is killed, which refuses the template.
"""

import contextlib
import dataclasses
import logging
import pickle
import threading
from typing import Any

from nova_sched import errors
from nova_sched.groups.process import ChildProcess
from nova_sched.groups.template.values import ROOT

LOG = logging.getLogger(__name__)

LOADS = 'nova_sched.engine.groups.reading'
PROCESSES = 2  # at once: one for a project that sends hard templates, one for the others
MAX_MEMORY = 256 * 2**20  # bytes for one reading; the largest template takes a fifth of it
MAX_ANSWER = 64 * 2**20  # bytes
# Calls, each of which holds a thread of the scheduler's.
MAX_CALLS_OF_PROJECT = 16
MAX_CALLS = 40
MAX_FIRST_CALLS = 56  # the same for a project that has none: a few others must not keep it out
WAIT_S = 20.0  # for the turn of the project, then for a process: it may have to start first
NICE = 5  # more than the scheduler, once they have loaded
START_S = 30.0  # time to load, on a busy machine
GRACE_S = 20.0  # the limit of processor time ends nearly all; a busy machine refuses no template
TOO_MUCH = 'it takes more memory or time to read than a template may take; ask for less'


class TemplateReaders:
    """Runs one function at a time for each project, and PROCESSES at a time in all.

    Any number of threads, native or green, may call ``run``. A process starts when it is needed,
    and again after its death.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[object, _Turn] = {}  # by project
        self._slots = threading.Semaphore(PROCESSES)
        self._idle: list[ChildProcess] = []
        self._closed = False

    def run(self, project_id: str | None, task: str, *arguments: object, seconds: float) -> Any:
        """Return the result of ``function(*arguments, seconds=seconds)``.

        ``task`` is 'module:function'. Raises the SchedError that the function raises,
        TemplateError if it takes too much memory or time, RateLimited if the project has too many
        calls, or others have, and NoAnswer if no process can start.
        """
        with self._turn(project_id):
            good, answer = self._answer(task, arguments, seconds)
        if good:
            return answer
        if isinstance(answer, errors.SchedError):
            raise answer
        LOG.error('A template cannot be read: %s', answer)
        raise errors.TemplateError(ROOT, None, None, 'it cannot be read')

    def close(self) -> None:
        """End the processes; one that reads ends afterwards."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    @contextlib.contextmanager
    def _turn(self, project_id):
        # A caller without a project is not a tenant, and waits for nobody's turn.
        key = object() if project_id is None else project_id
        with self._lock:
            turn = self._turns.get(key) or _Turn()
            calls = sum(other.calls for other in self._turns.values())
            most = MAX_CALLS if turn.calls else MAX_FIRST_CALLS
            if turn.calls >= MAX_CALLS_OF_PROJECT or calls >= most:
                raise errors.RateLimited('one after the other', 1)
            turn.calls += 1
            self._turns[key] = turn
        try:
            if not turn.lock.acquire(timeout=WAIT_S):
                raise errors.RateLimited('one after the other', 1)
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._lock:
                turn.calls -= 1
                if not turn.calls:
                    del self._turns[key]

    def _answer(self, task, arguments, seconds):
        """Return what a process sends. It is kept for the next call, if it lives."""
        if not self._slots.acquire(timeout=WAIT_S):
            raise errors.RateLimited('after those of others', 1)
        process = None
        try:
            process = self._ready()
            answer = _asked(process, task, arguments, seconds)
            with self._lock:
                if not self._closed:
                    self._idle.append(process)
                    process = None
            return answer
        finally:
            if process is not None:
                process.end()
            self._slots.release()

    def _ready(self):
        """Return an idle process, or a new one that has loaded. Raises NoAnswer."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                break
            if process.is_ours and process.is_alive:
                return process
            process.end()
        try:
            process = ChildProcess(LOADS, NICE, MAX_MEMORY)
            process.wait_until_ready(START_S)
        except (OSError, EOFError) as error:
            LOG.exception('A reader of templates cannot start')
            if process is not None:
                process.end()
            raise errors.NoAnswer('the reader of templates', str(error)) from None
        return process


@dataclasses.dataclass(slots=True)
class _Turn:
    """Of one project: the call that holds the lock reads, the other ``calls`` wait."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    calls: int = 0


def _asked(process, *question):
    """Return the answer of a process. Raises TemplateError if it does not answer."""
    try:
        return process.ask(*question, GRACE_S, MAX_ANSWER)
    except (OSError, EOFError, BufferError, pickle.UnpicklingError) as error:
        LOG.warning(
            'A template is refused, because its reader gave no answer: %s',
            error or type(error).__name__,
        )
        raise errors.TemplateError(ROOT, None, None, TOO_MUCH) from None

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

import contextlib
import importlib
import logging
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Self

from nova_sched.groups.time_limit import WALL_FACTOR

LOG = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]  # the package's parent directory
# modules that take the process half a second to load, before the first task
NATIVE = 'nova_sched.groups.exact.tasks'
GRACE_S = 0.5  # time beyond a task's seconds, before the process is killed
START_S = 20.0  # time to load, on a busy machine
REST_S = 30.0  # pause after a process died while it loaded, because the next one would too
LENGTH = struct.Struct('>Q')


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
        self._process: _Process | None = None
        self._rest_until = 0.0
        self._closed = False

    def start(self) -> None:
        """Starts the process if it is not running, without waiting until it is ready."""
        with self._turn:
            self._running()

    def ask(self, task: str, *arguments: object, seconds: float, wait_s: float = 0.0) -> Any:
        """Returns the result of ``function(*arguments, seconds=seconds)``.

        ``task`` is 'module:function', and ``seconds`` are of processor time. Returns None if there
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
        """Ends the process, even during a task; later calls return None."""
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

    def _running(self) -> '_Process | None':
        if self._process is not None and not (self._process.is_ours and self._process.is_alive):
            self._drop()
        if self._process is None and not self._closed and time.monotonic() >= self._rest_until:
            try:
                self._process = _Process(self._nice)
            except OSError:
                LOG.exception('The solver process cannot start; groups are planned without it')
                self._rest_until = time.monotonic() + REST_S
        return self._process

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _done(
        self, process: '_Process', task: str, arguments: tuple[object, ...], seconds: float
    ) -> Any:
        try:
            self._wait_until_ready(process)
            deadline = time.monotonic() + WALL_FACTOR * seconds + self._grace_s
            process.send((task, arguments, seconds), deadline)
            good, answer = process.receive(deadline)
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

    def _wait_until_ready(self, process: '_Process') -> None:
        if not process.ready:
            try:
                process.ready = process.receive(time.monotonic() + self._start_s)
            except (OSError, EOFError):
                self._rest_until = time.monotonic() + REST_S
                raise


class _Process:
    """The running process and this side of the channel to it."""

    def __init__(self, nice: int) -> None:
        self._channel, far = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
        try:
            self._popen = subprocess.Popen(
                [sys.executable, '-m', __spec__.name, str(far.fileno()), str(nice)],
                env=os.environ | {'PYTHONPATH': path},
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            far.close()
        self._owner = os.getpid()
        self.ready = False

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_ours(self) -> bool:
        """Whether this process started it, not the process that this one was forked from."""
        return self._owner == os.getpid()

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def send(self, message: object, deadline: float) -> None:
        send(self._channel, message, deadline)

    def receive(self, deadline: float) -> Any:
        return receive(self._channel, deadline)

    def stop(self) -> None:
        """Kills the process; a thread that waits for its answer gets an error."""
        self._popen.kill()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Kills the process and reaps it.

        If it belongs to the process that this one was forked from, only drops the handle.
        """
        if self.is_ours:
            self.stop()
            self._popen.wait()
        else:
            self._popen.returncode = 0  # else the interpreter warns that the process still runs
        self._channel.close()


def send(channel: socket.socket, message: object, deadline: float | None = None) -> None:
    """Writes a pickle after its length. Raises OSError; TimeoutError after the deadline."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    channel.settimeout(_left(deadline))
    channel.sendall(LENGTH.pack(len(body)) + body)


def receive(channel: socket.socket, deadline: float | None = None) -> Any:
    """Reads one pickle. Raises EOFError if the other end is closed, else as ``send``."""
    (length,) = LENGTH.unpack(_read(channel, LENGTH.size, deadline))
    return pickle.loads(_read(channel, length, deadline))


def _read(channel: socket.socket, length: int, deadline: float | None) -> bytearray:
    body = bytearray(length)
    view, got = memoryview(body), 0
    while got < length:
        channel.settimeout(_left(deadline))
        count = channel.recv_into(view[got:])
        if not count:
            raise EOFError('its process has ended')
        got += count
    return body


def _left(deadline: float | None) -> float | None:
    """Returns the seconds until the deadline, of ``time.monotonic``. Raises TimeoutError after
    it."""
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError('timed out')
    return left


def main() -> None:
    """The main loop of the process: does one task after the other until the other end closes."""
    # They go to all of the group of processes, and are for the parent; it closes the channel.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel = socket.socket(fileno=int(sys.argv[1]))
    os.nice(int(sys.argv[2]))
    importlib.import_module(NATIVE)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        send(channel, True)
        while True:
            task, arguments, seconds = receive(channel)
            send(channel, _do(task, arguments, seconds))


def _do(task: str, arguments: tuple[object, ...], seconds: float) -> tuple[bool, Any]:
    module, _, name = task.partition(':')
    try:
        return True, getattr(importlib.import_module(module), name)(*arguments, seconds=seconds)
    except Exception:  # noqa: BLE001 whatever it was, the process lives on and the handle logs it
        return False, traceback.format_exc()


if __name__ == '__main__':
    main()

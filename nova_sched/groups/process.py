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
"""A child process that does one task after the other, and the handle of its parent.

The parent sends the name of a function and its arguments, and receives the result::

    ChildProcess.ask ==== (task, arguments, seconds), a pickle with its length ====> process
         result <============== (True, result), or (False, why) =====================+

Threads and locks of the parent do not reach the child: it is started, not forked. The handle
imports nothing that the tasks need.
"""

import contextlib
import importlib
import json
import math
import os
import pickle
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from nova_sched import errors
from nova_sched.groups.limits import WALL_FACTOR

ROOT = Path(__file__).resolve().parents[1]  # the package's parent directory
LENGTH = struct.Struct('>Q')
# Each thread of numpy's library takes a buffer, on a large machine more than a child may have.
ONE_THREAD = {'OPENBLAS_NUM_THREADS': '1', 'OMP_NUM_THREADS': '1'}


class ChildProcess:
    """The running process and this side of the channel to it.

    It loads the module ``loads`` before the first task, then sends True. Its niceness is that of
    this process and ``nice`` more. With ``memory`` it has so many bytes for tasks, and so many
    whole seconds of processor time for each as that may take; more of either kills it.
    """

    def __init__(self, loads: str, nice: int = 0, memory: int | None = None) -> None:
        self._channel, far = socket.socketpair()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
        about = json.dumps({'loads': loads, 'nice': nice, 'memory': memory})
        try:
            self._popen = subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-m', __spec__.name, str(far.fileno()), about],
                env=os.environ | {'PYTHONPATH': path} | (ONE_THREAD if memory else {}),
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
        self._is_ready = False

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

    def wait_until_ready(self, start_s: float) -> None:
        """Wait until it has loaded. Raises OSError or EOFError if it has not after so long."""
        if not self._is_ready:
            self._is_ready = receive(self._channel, time.monotonic() + start_s)

    def ask(
        self,
        task: str,
        arguments: tuple[object, ...],
        seconds: float,
        grace_s: float,
        most: int | None = None,
    ) -> tuple[bool, Any]:
        """Return whether ``function(*arguments, seconds=seconds)`` has a result, and it; else the
        SchedError that it raised, or a traceback as text. ``task`` is 'module:function'.

        Waits WALL_FACTOR times ``seconds`` and a grace period. Raises as ``send`` and ``receive``.
        """
        deadline = time.monotonic() + WALL_FACTOR * seconds + grace_s
        send(self._channel, (task, arguments, seconds), deadline)
        answer: tuple[bool, Any] = receive(self._channel, deadline, most)
        return answer

    def stop(self) -> None:
        """Kill the process; a thread that waits for its answer gets an error."""
        self._popen.kill()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Kill the process and reaps it.

        If it belongs to the process that this one was forked from, only drops the handle.
        """
        if self.is_ours:
            self.stop()
            self._popen.wait()
        else:
            self._popen.returncode = 0  # else the interpreter warns that the process still runs
        self._channel.close()


def send(channel: socket.socket, message: object, deadline: float | None = None) -> None:
    """Write a pickle after its length. Raises OSError; TimeoutError after the deadline."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    channel.settimeout(_left(deadline))
    channel.sendall(LENGTH.pack(len(body)) + body)


def receive(channel: socket.socket, deadline: float | None = None, most: int | None = None) -> Any:
    """Read one pickle of at most ``most`` bytes.

    Raises EOFError if the other end is closed, BufferError for a longer one, else as ``send``.
    """
    (length,) = LENGTH.unpack(_read(channel, LENGTH.size, deadline))
    if most is not None and length > most:
        raise BufferError(f'an answer of {length} bytes')
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
    """Return the seconds until the deadline, of ``time.monotonic``. Raises TimeoutError after
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
    channel, about = socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2])
    importlib.import_module(about['loads'])  # the first caller waits for it
    os.nice(about['nice'])
    if about['memory'] is not None:
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + about['memory'])
        _limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        send(channel, True)
        while True:
            task, arguments, seconds = receive(channel)
            if about['memory'] is not None:
                _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds) + 1)
            send(channel, _do(task, arguments, seconds))


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _do(task: str, arguments: tuple[object, ...], seconds: float) -> tuple[bool, Any]:
    """Return as ``ask``."""
    module, _, name = task.partition(':')
    try:
        return True, getattr(importlib.import_module(module), name)(*arguments, seconds=seconds)
    except errors.SchedError as error:
        return False, error.with_traceback(None)
    except MemoryError:
        os._exit(1)  # what it has is too little for anything; the parent sees the end
    except Exception:  # noqa: BLE001 whatever it was, the process lives on and the handle logs it
        return False, traceback.format_exc()


if __name__ == '__main__':
    main()

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
"""The driver that runs an operator's command for each job."""

import contextlib
import fcntl
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any, Self

from nova_sched import errors
from nova_sched.extensions.queues.drivers import Driver
from nova_sched.objects.job import CREATE, DELETE, MIGRATE, RESIZE, QueueJob

MAX_REASON = 200  # characters
BOUND_S = 1.0  # between two checks of how much a command has printed
TAIL = 4096  # bytes of an output stream that are kept
MAX_ON_DISK = 2**20  # bytes of a stream on disk, between two calls of ``bound``
VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')


class CommandOutput:
    """One stream of a command, in a file without a name: a child process that is left behind
    would keep a pipe open forever."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115, see __exit__
        # The command has the same position in the file: what it writes must go to the end anyway.
        flags = fcntl.fcntl(self.file, fcntl.F_GETFL)
        fcntl.fcntl(self.file, fcntl.F_SETFL, flags | os.O_APPEND)

    def bound(self) -> None:
        """Drop all but the end of a long stream. Output that comes at this moment may be lost."""
        if os.fstat(self.file.fileno()).st_size > MAX_ON_DISK:
            kept = self._tail()
            self.file.truncate(0)
            self.file.write(kept)

    @property
    def text(self) -> str:
        """The end of the stream, without characters that would steer a terminal."""
        tail = self._tail().decode(errors='replace')
        return ''.join(
            character if character.isprintable() or character in '\n\t' else '\ufffd'
            for character in tail
        )

    def _tail(self) -> bytes:
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(max(0, size - TAIL))
        return self.file.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


class Exec(Driver):
    """Runs ``exec_command`` with the kind of the job and the UUID of the instance as its last
    arguments.

    The command reads the job from standard input: a JSON object with the fields of a QueueJob and
    the ``host``; ``spec`` is the RequestSpec in its RPC form. If the command fails, the last line
    of its standard error is the reason, and the ends of its output are kept with it. The command
    and its child processes are killed after ``exec_timeout_s`` seconds. It runs as ``exec_user``,
    and sees the variables of ``exec_environment`` only.
    """

    def __init__(self, settings: Any, host: str):
        super().__init__(settings, host)
        self._command = _split(settings.exec_command)
        self._options = user_options(settings.exec_user, self._command[0])
        self._options['env'] = environment(settings.exec_environment)
        self._running = set[subprocess.Popen]()
        self._lock = threading.Lock()
        self._closed = False

    def create(self, job: QueueJob, spec: Any) -> None:
        self._run(CREATE, job.instance_uuid, job)

    def destroy(self, job: QueueJob | None, instance_uuid: str) -> None:
        self._run(DELETE, instance_uuid, job)

    def resize(self, job: QueueJob, spec: Any) -> None:
        self._run(RESIZE, job.instance_uuid, job)

    def migrate(self, job: QueueJob, spec: Any, source: str | None) -> None:
        self._run(MIGRATE, job.instance_uuid, job)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill(process)

    def _run(self, kind: str, instance_uuid: str, job: QueueJob | None) -> None:
        with tempfile.TemporaryFile() as stdin, CommandOutput() as out, CommandOutput() as err:
            fields = job.obj_to_primitive()['nova_object.data'] if job is not None else {}
            fields |= {'kind': kind, 'instance_uuid': instance_uuid, 'host': self.host}
            stdin.write(json.dumps(fields).encode())
            stdin.seek(0)
            process = self._start([*self._command, kind, instance_uuid], stdin, out, err)
            try:
                self._wait(process, out, err)
                status = process.returncode
                lines = [line.strip() for line in err.text.split('\n') if line.strip()]
                if lines:
                    why = lines[-1][:MAX_REASON]
                elif status < 0:
                    why = f'{kind} was ended by signal {-status}'
                else:
                    why = f'{kind} ended with status {status}'
            except subprocess.TimeoutExpired:
                _kill(process)
                process.wait()
                why = f'{kind} has taken longer than {self.settings.exec_timeout_s:g} s'
            finally:
                with self._lock:
                    self._running.discard(process)
            if process.returncode:
                raise errors.BuildFailed(self.host, why, out.text, err.text)

    def _wait(self, process: subprocess.Popen, *outputs: CommandOutput) -> None:
        """Raise TimeoutExpired."""
        end_s = time.monotonic() + self.settings.exec_timeout_s
        while True:
            left_s = end_s - time.monotonic()
            try:
                process.wait(min(left_s, BOUND_S))
                return
            except subprocess.TimeoutExpired:
                if left_s <= BOUND_S:
                    raise
            for output in outputs:
                output.bound()

    def _start(
        self, arguments: list[str], stdin: IO, out: CommandOutput, err: CommandOutput
    ) -> subprocess.Popen:
        with self._lock:
            if self._closed:
                raise errors.BuildFailed(self.host, 'the agent ends')
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=stdin,
                    stdout=out.file,
                    stderr=err.file,
                    start_new_session=True,
                    **self._options,
                )
            except OSError as error:
                why = f'{arguments[0]} cannot be run: {error.strerror}'
                raise errors.BuildFailed(self.host, why) from None
            self._running.add(process)
            return process


def _split(command: str | None) -> list[str]:
    """Return the command as a list of arguments. Raises BadConfig."""
    try:
        words = shlex.split(command or '')
    except ValueError as error:
        raise errors.BadConfig('[queues] exec_command', str(error)) from None
    if not words:
        raise errors.BadConfig('[queues] exec_command', 'the driver exec needs one')
    program = shutil.which(words[0])
    if program is None:
        raise errors.BadConfig('[queues] exec_command', f'there is no program {words[0]}')
    return [os.path.abspath(program), *words[1:]]


def _kill(process: subprocess.Popen) -> None:
    """Kill a process and its group; after a wait, its process ID may belong to another process."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def user_options(name: str | None, program: str) -> dict[str, Any]:
    """Return the options with which ``subprocess`` runs a program as this user, with its groups.

    None, or the user of this process: none. Raises BadConfig if there is no such user, or if this
    process cannot run the program as that user, or not end it.
    """
    if name is None:
        return {}
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise errors.BadConfig(
            '[queues] exec_user', f'there is no user {name} on this machine'
        ) from None
    if (user.pw_uid, user.pw_gid) == (os.geteuid(), os.getegid()):
        return {}
    groups = os.getgrouplist(name, user.pw_gid)
    chosen = {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': groups, 'cwd': '/'}
    _try_user(name, program, chosen)
    return chosen


def _try_user(name: str, program: str, chosen: dict[str, Any]) -> None:
    """Run a program as the user, and end it. Raises BadConfig."""
    try:
        may_run = subprocess.run(['test', '-x', program], check=False, **chosen).returncode == 0
        waiting = subprocess.Popen(['cat'], stdin=subprocess.PIPE, **chosen)
        with waiting, contextlib.ExitStack() as stack:
            stack.callback(waiting.communicate)  # it ends with its input, if the signal fails
            waiting.send_signal(signal.SIGKILL)
    except OSError as error:
        why = (
            f'the agent cannot run commands as {name}: {error.strerror}. Let it run as root, or '
            'with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL (and, under systemd, '
            'PrivateUsers=no)'
        )
        raise errors.BadConfig('[queues] exec_user', why) from None
    if not may_run:
        raise errors.BadConfig('[queues] exec_user', f'user {name} may not run {program}')


def environment(wanted: Sequence[str]) -> dict[str, str]:
    """Return the variables of commands: each of ``wanted`` is NAME=value, or the NAME of a
    variable of this process, which may be missing. Raises BadConfig."""
    variables = {}
    for item in wanted:
        name, is_given, value = item.partition('=')
        if not VARIABLE.fullmatch(name):
            why = f'{item!r} is neither NAME nor NAME=value'
            raise errors.BadConfig('[queues] exec_environment', why)
        if is_given:
            variables[name] = value
        elif name in os.environ:
            variables[name] = os.environ[name]
    return variables

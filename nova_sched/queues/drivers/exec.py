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
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Any

from nova_sched import errors
from nova_sched.objects.job import CREATE, DELETE, MIGRATE, RESIZE, QueueJob
from nova_sched.queues.drivers import Driver, command_user
from nova_sched.queues.drivers.command_output import CommandOutput

LONGEST_REASON = 200  # characters
BOUND_S = 1.0  # between two checks of how much a command has printed


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
        self._options = command_user.options(settings.exec_user, self._command[0])
        self._options['env'] = command_user.environment(settings.exec_environment)
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
        with tempfile.TemporaryFile() as told, CommandOutput() as out, CommandOutput() as err:
            told.write(_words(kind, instance_uuid, job, self.host))
            told.seek(0)
            process = self._start([*self._command, kind, instance_uuid], told, out, err)
            try:
                self._wait(process, out, err)
                why = _last_line(err.text) or _how(process.returncode, kind)
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
        """Raises TimeoutExpired."""
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
        self, arguments: list[str], told: IO, out: CommandOutput, err: CommandOutput
    ) -> subprocess.Popen:
        with self._lock:
            if self._closed:
                raise errors.BuildFailed(self.host, 'the agent ends')
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=told,
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
    """Returns the command as a list of arguments. Raises BadConfig."""
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


def _words(kind: str, instance_uuid: str, job: QueueJob | None, host: str) -> bytes:
    """Returns the command's input: the fields of the job, and the fields that a job may lack."""
    fields = job.obj_to_primitive()['nova_object.data'] if job is not None else {}
    return json.dumps(
        fields | {'kind': kind, 'instance_uuid': instance_uuid, 'host': host}
    ).encode()


def _kill(process: subprocess.Popen) -> None:
    """Kill a process and its group; after a wait, its process ID may belong to another process."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _last_line(said: str) -> str:
    """Returns the last line of a text that is not empty, '' if there is none."""
    lines = reversed(said.split('\n'))
    return next((line.strip()[:LONGEST_REASON] for line in lines if line.strip()), '')


def _how(status: int, kind: str) -> str:
    return (
        f'{kind} was ended by signal {-status}'
        if status < 0
        else f'{kind} ended with status {status}'
    )

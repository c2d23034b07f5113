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
"""Installed programs as processes: started together, watched together, killed together."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nova_sched.tests.fixtures.process import LOOPBACK, Process, ServerFailed

ENV = {
    'NO_PROXY': LOOPBACK,
    'no_proxy': LOOPBACK,
    # What Nova's own code warns of is not ours to mend.
    'PYTHONWARNINGS': 'ignore',
}
TIMEOUT_S = 300.0  # the machine may be busy


def installed(name: str) -> Path:
    """A program of the environment that runs the tests."""
    return Path(sys.prefix, 'bin', name)


class Programs:
    """Processes by name; the output of each goes to ``NAME.out`` in ``home``."""

    def __init__(self, home: Path):
        self._home = home
        self._running: dict[str, Process] = {}

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        """Start, without waiting for anything; ``until`` does."""
        self._running[name] = Process(
            command,
            answers=lambda: True,
            log=self._home / f'{name}.out',
            env={**ENV, **(env or {})},
        )
        self._running[name].start()

    def kill(self, name: str) -> None:
        """SIGKILL it and all of its children."""
        self._running[name].kill()

    def start_again(self, name: str) -> None:
        self._running[name].start()

    def kill_all(self) -> None:
        for process in reversed(self._running.values()):
            process.kill()

    def run(self, *commands: Sequence[str | Path]) -> None:
        """Run commands side by side to their ends; ServerFailed with the output of one that
        fails."""
        started = [
            subprocess.Popen(
                [str(word) for word in command],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=os.environ | ENV,
                text=True,
            )
            for command in commands
        ]
        outputs = [one.communicate()[0] for one in started]
        for one, output in zip(started, outputs, strict=True):
            if one.returncode:
                raise ServerFailed(f'{one.args} ended with {one.returncode}:\n{output}')

    def until(self, what: str, is_so: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        """Ask until it is so; ServerFailed if a program ends meanwhile, or after the timeout."""
        until = time.monotonic() + timeout_s
        while not is_so():
            ended = [name for name, one in self._running.items() if not one.running]
            if ended:
                raise ServerFailed(f'{ended[0]} ended, see its files in {self._home}')
            if time.monotonic() > until:
                raise ServerFailed(f'not {what} in {timeout_s} s, see {self._home}')
            time.sleep(0.1)

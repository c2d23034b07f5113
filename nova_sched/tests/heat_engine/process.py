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
"""Our side as a process of its own, in an environment where the whole package is and Heat is
not."""

import contextlib
import json
import subprocess

from nova_sched.tests.fixtures.interpreter import ROOT


class Process:
    """The program ``ours``; ``url`` is that of the scheduler's API."""

    def __init__(self, process, log):
        self._process = process
        self._log = log
        self.url = self._answer()['url']

    def ask(self, door, asked):
        """What ``ours`` says at that door: ``read``, ``boot`` or ``end``."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([door, asked]) + '\n')
            self._process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)


@contextlib.contextmanager
def running(python, folder):
    """A Process for as long as the block runs."""
    command = [python, '-W', 'ignore', '-m', 'nova_sched.tests.heat_engine.ours']
    log = folder / 'ours.log'
    with (
        log.open('w') as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        try:
            yield Process(process, log)
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

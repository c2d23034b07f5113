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
"""The schedulers that a cloud may run with: Nova's own, as the reference, and ours."""

import json
import subprocess
from pathlib import Path

from nova_sched.tests.fixtures.process import Process
from nova_sched.tests.stock_cloud import consumers
from nova_sched.tests.stock_cloud.programs import ENV, TIMEOUT_S, installed
from nova_sched.tests.stock_cloud.settings import ini

REFERENCE, OURS = KINDS = ('reference', 'ours')
QUEUE = 'scheduler'


class Scheduler:
    """The scheduler of a cloud, as a process with one configuration file, and ours with a second.

    ``python`` runs our package; it is not needed for the reference. ``options``
    (``{'group': {'name': value}}``) go into the second file.
    """

    def __init__(
        self,
        kind: str,
        configuration: Path,
        transport_url: str,
        python: Path | None = None,
        options: dict | None = None,
    ):
        self.kind = kind
        self.log = configuration.with_suffix('.log')
        self._transport_url = transport_url
        own = configuration.with_name('nova_sched.conf')
        own.write_text(ini(options or {}))
        self._python = python
        self._files = ['--config-file', configuration, '--config-file', own]
        if kind == REFERENCE:
            command = [installed('nova-scheduler'), '--config-file', configuration]
        else:
            command = [python.with_name('nova-sched-scheduler'), *self._files]
        output = configuration.with_suffix('.out')
        self._process = Process(command, answers=self._listens, log=output, timeout_s=TIMEOUT_S)

    def start(self) -> None:
        """Start, and wait until it takes calls."""
        self._process.start()

    def stop(self) -> None:
        """SIGTERM, and wait until it has left."""
        self._process.stop()

    def kill(self) -> None:
        """SIGKILL it and all of its workers."""
        self._process.kill()
        consumers.until_left(self._transport_url, QUEUE)

    def ask(self, program: str, *words: str) -> tuple[int, dict]:
        """Run one of our programs with the same files: its exit status, and the JSON it prints."""
        command = [self._python.with_name(program), *self._files, *words]
        done = subprocess.run(
            [str(word) for word in command],
            env=ENV,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.stdout.startswith('{'), done
        return done.returncode, json.loads(done.stdout)

    def _listens(self) -> bool:
        return consumers.has_consumer(self._transport_url, QUEUE)

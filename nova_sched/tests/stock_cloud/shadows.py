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
"""nova-sched-shadow as a process, with a nova.conf alone."""

import json
import subprocess
from pathlib import Path

from nova_sched.tests.fixtures.process import Process
from nova_sched.tests.stock_cloud.programs import ENV

WATCHES = 'arrive in queue'
START_S = 120.0


class Shadow:
    """``python`` runs our package; without it the shadow cannot be started."""

    def __init__(self, configuration: Path, python: Path | None):
        self._configuration, self._python = configuration, python
        self.log = configuration.with_suffix('.log')
        self._process: Process | None = None

    def start(self) -> None:
        """Start, and wait until it gets copies of calls."""
        before = self._logged().count(WATCHES)
        self._process = Process(
            self._command('nova-sched-shadow'),
            answers=lambda: self._logged().count(WATCHES) > before,
            log=self._configuration.with_suffix('.out'),
            timeout_s=START_S,
        )
        self._process.start()

    def stop(self) -> None:
        """SIGTERM, and wait until it has left."""
        self._process.stop()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _logged(self) -> str:
        return self.log.read_text() if self.log.exists() else ''

    def lines(self) -> list[dict]:
        """Its comparisons."""
        path = self._configuration.parent / 'state' / 'shadow' / 'shadow.jsonl'
        found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return [line for line in found if 'outcome' in line]

    def report(self) -> dict:
        return self._asked('nova-sched-shadow', 'report')

    def explain(self, verb: str, *words: str) -> dict:
        """What `nova-sched-manage explain` says when it asks the shadow."""
        return self._asked('nova-sched-manage', 'explain', verb, *words, '--shadow')

    def _asked(self, program: str, *words: str) -> dict:
        command = [*self._command(program, *words), '--format', 'json']
        done = subprocess.run(
            [str(word) for word in command],
            env=ENV,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return json.loads(done.stdout)

    def _command(self, program: str, *words: str) -> list[str | Path]:
        return [
            self._python.with_name(program),
            *words,
            '--config-file',
            self._configuration,
        ]

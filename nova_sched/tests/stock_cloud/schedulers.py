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
"""The schedulers of a cloud: Nova's own, as the reference, and ours; and our shadow."""

import json
import subprocess
from pathlib import Path

from nova_sched.tests.fixtures.process import Process
from nova_sched.tests.stock_cloud import waiting
from nova_sched.tests.stock_cloud.programs import ENV, TIMEOUT_S, installed
from nova_sched.tests.stock_cloud.settings import CONTROLLER, Settings, ini

REFERENCE, OURS = KINDS = ('reference', 'ours')


def _run(command: list[str | Path]) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in command],
        env=ENV,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


class Scheduler:
    """A scheduler of a cloud, as a process with one configuration file, and ours with a second.

    ``host`` is its name among the schedulers. ``python`` runs our package; it is not needed for
    the reference. ``options`` (``{'group': {'name': value}}``) go into the second file.
    """

    def __init__(
        self,
        kind: str,
        configuration: Path,
        transport_url: str,
        host: str,
        python: Path | None = None,
        options: dict | None = None,
    ):
        self.kind = kind
        self.log = configuration.with_suffix('.log')
        self._transport_url, self._queue = transport_url, f'scheduler.{host}'
        self._python, self._files = python, ['--config-file', configuration]
        if kind == REFERENCE:
            program = installed('nova-scheduler')
        else:
            own = configuration.with_name(f'{configuration.stem}-own.conf')
            own.write_text(ini(options or {}))
            self._files += ['--config-file', own]
            program = python.with_name('nova-sched-scheduler')
        output = configuration.with_suffix('.out')
        self._process = Process(
            [program, *self._files], answers=self._listens, log=output, timeout_s=TIMEOUT_S
        )

    def manage(self, *words: str) -> str:
        """What ``nova-sched-manage`` prints with the files of this scheduler; it must succeed."""
        done = self._run('nova-sched-manage', *words)
        assert done.returncode == 0, f'{done.stdout}{done.stderr}'
        return done.stdout

    def ask(self, program: str, *words: str) -> tuple[int, dict]:
        """Run one of our programs with the same files: its exit status, and the JSON it prints."""
        done = self._run(program, *words)
        assert done.stdout.startswith('{'), done
        return done.returncode, json.loads(done.stdout)

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess:
        return _run([self._python.with_name(program), *self._files, *words])

    def start(self) -> None:
        """Start, and wait until it takes calls."""
        self._process.start()

    def stop(self) -> None:
        """SIGTERM, and wait until it has left."""
        self._process.stop()

    def kill(self) -> None:
        """SIGKILL it and all of its workers."""
        self._process.kill()
        waiting.until_left(self._transport_url, self._queue)

    def pause(self) -> None:
        """SIGSTOP it and all of its workers."""
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def _listens(self) -> bool:
        return waiting.has_consumer(self._transport_url, self._queue)


class Schedulers:
    """Makes schedulers for a cloud; they are not started."""

    def __init__(self, settings: Settings, transport_url: str, python: Path | None):
        self._settings, self._transport_url, self._python = settings, transport_url, python

    def make(self, kind: str, host: str = CONTROLLER, options: dict | None = None) -> Scheduler:
        """A Scheduler on a host. Those of one host have the same nova.conf."""
        configuration = self._settings.scheduler(host)
        return Scheduler(kind, configuration, self._transport_url, host, self._python, options)


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
        done = _run([*self._command(program, *words), '--format', 'json'])
        done.check_returncode()
        return json.loads(done.stdout)

    def _command(self, program: str, *words: str) -> list[str | Path]:
        return [self._python.with_name(program), *words, '--config-file', self._configuration]

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
"""nova-sched-agent as a process: what it says, and how it ends."""

import os
import signal
import time

import pytest

from nova_sched.tests.fixtures import warm

TIMEOUT_S = 120  # the machine may be busy


class Daemon:
    """A program of the package, with a configuration and a log of its own below ``root``."""

    def __init__(self, root, url='fake://', module='agent'):
        self._root = root
        self._url = url
        self._module = module
        self._child = None

    def configure(self, *lines):
        """Write the configuration; ``lines`` come after those of the [agent] group."""
        head = ['[DEFAULT]', f'transport_url = {self._url}', 'host = cmp1']
        plain = ['[agent]', f'state_path = {self._root}/state', 'report_timeout = 1']
        (self._root / 'agent.conf').write_text('\n'.join([*head, *plain, *lines]))

    def start(self):
        # In a session of its own: a reload is sent to all of the process group.
        with (self._root / 'log').open('w') as log:
            self._child = warm.start(
                warm.program(self._module),
                ['--config-file', self._root / 'agent.conf'],
                stdout=log,
                stderr=log,
            )

    @property
    def log(self):
        return (self._root / 'log').read_text()

    def says(self, text):
        """Wait until the log has this."""
        end = time.monotonic() + TIMEOUT_S
        while text not in self.log:
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def tell(self, number):
        self._child.send_signal(number)

    def status(self):
        """Wait for the end."""
        return self._child.wait(TIMEOUT_S)

    def kill(self):
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(tmp_path)
    yield made
    made.kill()


def test_it_goes_on_without_a_scheduler_until_it_is_told_to_end(daemon):
    daemon.configure('report_interval = 1')
    daemon.start()
    daemon.says('Node cmp1 cannot be reported')
    daemon.configure('report_interval = 2')
    daemon.tell(signal.SIGHUP)
    daemon.says('Reporting node cmp1 each 2 s')
    daemon.tell(signal.SIGTERM)
    assert daemon.status() == 0
    # Once for each process that there was: on native threads, a reload starts a new one.
    assert daemon.log.count('cannot be reported') <= 2


@pytest.mark.parametrize(
    'line, why',
    [
        pytest.param(
            'cpu_dedicated_set = 99999', 'no CPUs [99999]', id='a machine that has not that'
        ),
        pytest.param(
            'instances_path = /no/such', 'there is no directory /no/such', id='a missing directory'
        ),
        pytest.param('report_interval = soon', 'report_interval', id='a word for a number'),
        pytest.param(
            '[DEFAULT]\ntransport_url = strange://', 'transport_url', id='a bus of no known kind'
        ),
    ],
)
def test_a_daemon_that_cannot_work_says_why(daemon, line, why):
    daemon.configure(line)
    daemon.start()
    assert daemon.status() == os.EX_CONFIG
    assert why in daemon.log
    assert 'Traceback' not in daemon.log


def test_a_list_of_instances_that_cannot_be_read_stops_it(daemon, tmp_path):
    (tmp_path / 'state').mkdir()
    (tmp_path / 'state' / 'instances.json').write_text('{')
    daemon.configure()
    daemon.start()
    assert daemon.status() == os.EX_CONFIG
    assert 'instances.json' in daemon.log
    assert 'restore it' in daemon.log

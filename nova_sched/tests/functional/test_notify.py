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
"""What the daemons tell systemd, as processes: when they are ready, reload, hang and stop."""

import os
import signal
import time

import pytest

from nova_sched.tests.fixtures import warm
from nova_sched.tests.fixtures.notify_socket import NotifySocket
from nova_sched.tests.fixtures.process import family, free_port

WATCHDOG_S = 6.0
STEPS = 10  # seconds that a hung daemon is listened to
WORKING = '1 of 1 workers ready'


class Daemon:
    """A daemon on a bus inside of itself, with a watchdog, as systemd starts it."""

    def __init__(self, root, module, lines=''):
        self.heard = NotifySocket()
        self.file = root / 'nova_sched.conf'
        self.file.write_text(
            f'[DEFAULT]\ntransport_url = fake://\nhost = one\ngraceful_shutdown_timeout = 20\n'
            f'[database]\nconnection = sqlite:///{root}/db.sqlite\n'
            f'[agent]\nstate_path = {root}/state\nreport_timeout = 1\n'
            f'[groups]\nsolver = false\n'
            f'[api]\nauth_strategy = noauth\nport = {free_port()}\n{lines}\n'
        )
        self._log = (root / 'log').open('wb')
        self.child = warm.start(
            warm.program(module),
            ['--config-file', self.file],
            env=self.heard.environment(WATCHDOG_S),
            stdout=self._log,
            stderr=self._log,
            is_warm='eventlet' not in lines,
        )

    def signal_workers(self, number):
        for one in family(self.child.pid)[1:]:
            os.kill(one.pid, number)

    def pings(self, seconds):
        """Whether there is a heartbeat within so many seconds."""
        try:
            return bool(self.heard.until('WATCHDOG', timeout_s=seconds))
        except AssertionError:
            return False

    def end(self):
        if self.child.poll() is None:  # else its number may be another process's
            for one in family(self.child.pid):
                one.kill()
            self.child.wait()
        self.heard.close()
        self._log.close()


@pytest.fixture
def daemon(tmp_path):
    made = []

    def start(module, lines=''):
        made.append(Daemon(tmp_path, module, lines))
        return made[0]

    yield start
    for one in made:
        one.end()


MODULES = [pytest.param(name, id=name) for name in ('scheduler', 'agent', 'queues', 'api')]


@pytest.mark.parametrize('module', MODULES)
def test_from_its_start_to_its_end(daemon, module):
    made = daemon(module)
    assert made.heard.until('READY', '1')['STATUS'] == WORKING
    assert made.heard.until('WATCHDOG')
    made.child.send_signal(signal.SIGTERM)
    made.heard.until('STOPPING', '1')
    assert made.child.wait(60) == 0


@pytest.mark.parametrize('module', [one for one in MODULES if one.id != 'api'])
def test_a_reload(daemon, module):
    made = daemon(module)
    made.heard.until('READY', '1')
    made.child.send_signal(signal.SIGHUP)
    assert int(made.heard.until('RELOADING', '1')['MONOTONIC_USEC'])
    assert made.heard.until('READY', '1')['STATUS'] == WORKING


def test_a_reload_with_an_error_ends_too_and_says_so(daemon):
    made = daemon('scheduler')
    made.heard.until('READY', '1')
    made.file.write_text(made.file.read_text() + '[scheduler]\nmax_attempts = many\n')
    made.child.send_signal(signal.SIGHUP)
    made.heard.until('RELOADING', '1')
    assert 'max_attempts' in made.heard.until('READY', '1')['STATUS']


@pytest.mark.parametrize('workers', [pytest.param(count, id=f'{count}w') for count in (1, 2)])
def test_a_worker_that_hangs_stops_the_heartbeats(daemon, workers):
    made = daemon('scheduler', f'[scheduler]\nworkers = {workers}')
    made.heard.until('READY', '1')
    assert made.heard.until('WATCHDOG')
    hung = family(made.child.pid)[-1].pid
    os.kill(hung, signal.SIGSTOP)
    time.sleep(WATCHDOG_S)
    made.heard.read()
    made.heard.said.clear()
    assert not made.pings(WATCHDOG_S)
    os.kill(hung, signal.SIGCONT)
    assert made.heard.until('WATCHDOG')


def test_killed_workers_are_replaced_while_the_daemon_lives(daemon):
    """Two: with eventlet, one worker is the process of the daemon itself."""
    made = daemon('scheduler', '[scheduler]\nworkers = 2')
    made.heard.until('READY', '1')
    made.signal_workers(signal.SIGKILL)
    made.heard.until('STATUS', '0 of 2 workers ready')
    made.heard.until('STATUS', '2 of 2 workers ready')
    assert made.heard.until('WATCHDOG')


def test_it_is_not_ready_while_it_waits_for_the_bus(daemon):
    made = daemon('scheduler', '[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:1/')
    made.heard.until('STATUS', '0 of 1 workers ready')
    assert not any('READY' in one for one in made.heard.read(STEPS))


def test_with_eventlet(daemon):
    made = daemon('scheduler', '[DEFAULT]\nservice_backend = eventlet')
    assert made.heard.until('READY', '1')['STATUS'] == WORKING
    made.child.send_signal(signal.SIGHUP)
    made.heard.until('RELOADING', '1')
    made.heard.until('READY', '1')
    assert made.heard.until('WATCHDOG')
    made.child.send_signal(signal.SIGTERM)
    made.heard.until('STOPPING', '1')
    assert made.child.wait(60) == 0

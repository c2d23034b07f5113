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
"""The set-up of queues in the manual, step by step, with daemons as processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nova_sched.tests.fixtures import warm
from nova_sched.tests.fixtures.scheduler import Daemon
from nova_sched.tests.integration.queue_crowd import Manager

CONDUCTOR = Path(__file__).resolve().parents[3] / 'doc/source/examples/queues/conductor.py'
TIMEOUT_S = 300


class WorkerNode(Daemon):
    """An agent as a process."""

    module, listens = 'nova_sched.extensions.agent.cmd', 'Reporting node'


def ran(*words):
    """What the program with these arguments has printed; the test fails if the program does."""
    found = subprocess.run(
        [sys.executable, '-W', 'ignore', *map(str, words)],
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture
def start(rabbitmq, tmp_path):
    """What starts a daemon of a kind under a name, with more options."""
    url, queues = rabbitmq.fresh(), rabbitmq.fresh()  # a virtual host of their own
    started = []

    def starts(kind, name, run=True, **options):
        options = {'queues.transport_url': queues, **options}
        made = kind(tmp_path / name, url, f'sqlite:///{tmp_path}/db.sqlite', options)
        if run:
            started.append(made)
            made.start()
        return made

    yield starts
    for one in reversed(started):
        one.kill()


def test_the_steps_of_the_manual(start, tmp_path):
    scheduler = start(Daemon, 'scheduler')
    flavor = ('tiny', '--vcpus', 1, '--ram', 1024, '--disk', 5)
    created = ('flavor', 'create', *flavor, '--config-file', scheduler.settings)
    assert warm.run('nova_sched.cmd.manage:main', created).returncode == 0
    manager = start(Manager, 'manager')
    manager.until_it_says('The catalogue is at version 1, with 1 queues')
    built = tmp_path / 'built'
    build = tmp_path / 'build'
    build.write_text(f'#!/bin/sh\necho "$1" >> {built}\n')
    build.chmod(0o755)
    worker = {
        'agent.state_path': tmp_path / 'state',
        'queues.enabled': True,
        'queues.driver': 'exec',
        'queues.exec_command': build,
        'queues.slots': 2,
    }
    start(WorkerNode, 'node', **worker)
    conductor = start(Daemon, 'conductor', run=False, **{'queues.enabled': True})
    told = ran(CONDUCTOR, '--config-file', conductor.settings)
    assert re.fullmatch(r'server \S+ runs on host node\nit is deleted\n', told)
    assert built.read_text().split() == ['create', 'delete']

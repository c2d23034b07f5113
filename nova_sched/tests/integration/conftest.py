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
"""What the integration tests share: daemons and callers as processes, and a cloud before them."""

import collections
import contextlib
import json
import subprocess
import sys
import threading

import pytest

from nova_sched import rpc
from nova_sched.conf import CONF
from nova_sched.rpc import client
from nova_sched.tests.fixtures.scheduler import Daemon
from nova_sched.tests.functional.harness import at_once, compute_node


class Callers:
    """Processes that call the scheduler; ``answers`` grows while they do."""

    def __init__(self, settings, calls, processes=1, each=8, vcpus=1, pieces=False):
        command = [sys.executable, '-W', 'ignore', '-m', 'nova_sched.tests.integration.callers']
        command += ['--config-file', str(settings), '--', *map(str, (calls // processes, each, vcpus))]
        command += ['pieces'] if pieces else []
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        self.answers = []
        self._children = [subprocess.Popen(command, **pipes) for _ in range(processes)]
        self._readers = [threading.Thread(target=self._read, args=(child,)) for child in self._children]
        for child in self._children:
            assert child.stdout.readline() == 'ready\n'

    def _read(self, child):
        for line in child.stdout:
            self.answers.append(json.loads(line))

    def go(self):
        """Start to call, all at the same time."""
        for child in self._children:
            child.stdin.write('go\n')
            child.stdin.flush()
        for reader in self._readers:
            reader.start()

    def wait(self):
        """All answers, once all are there."""
        for reader in self._readers:
            reader.join()
        return self.answers

    def outcomes(self):
        """error -> how many; None are those that were placed."""
        return collections.Counter(answer['error'] for answer in self.wait())

    def chosen(self):
        """instance -> [node] of all that were placed."""
        return {one['instance']: one['nodes'][:1] for one in self.wait() if one['error'] is None}

    def end(self):
        for child in self._children:
            child.kill()
            child.wait()
            child.stdin.close()
        for reader in self._readers:
            if reader.ident is not None:
                reader.join()
        for child in self._children:
            child.stdout.close()


class Cloud:
    """Daemons and callers on one bus and one database; all are gone at the end."""

    def __init__(self, home, url, database):
        self.url, self.database = url, database
        self._home, self._end = home, contextlib.ExitStack()
        self.bus = rpc.transport(CONF, url)
        self._end.callback(self.bus.cleanup)
        self.scheduler = client.SchedulerClient(self.bus, timeout_s=30)
        self.claims = client.ClaimsClient(self.bus, timeout_s=30)

    def daemon(self, name='one', start=True, **options):
        """A daemon; `group__name` is an option of it."""
        options = {key.replace('__', '.'): value for key, value in options.items()}
        made = Daemon(self._home / name, self.url, self.database, options)
        self._end.callback(made.kill)
        if start:
            made.start()
        return made

    def add(self, count, **fields):
        """Hosts that have reported."""
        stats = client.StatsClient(self.bus, timeout_s=30)
        names = [f'host-{number}' for number in range(count)]
        at_once(lambda name: stats.update_resource_stats(name, compute_node(name, **fields)), names)

    def callers(self, calls, **how):
        made = Callers(self._home / 'one' / 'nova_sched.conf', calls, **how)
        self._end.callback(made.end)
        return made

    def close(self):
        self._end.close()


@pytest.fixture
def cloud(rabbitmq, tmp_path):
    """A cloud on RabbitMQ and SQLite."""
    made = Cloud(tmp_path, rabbitmq.fresh(), f'sqlite:///{tmp_path}/claims.sqlite')
    yield made
    made.close()

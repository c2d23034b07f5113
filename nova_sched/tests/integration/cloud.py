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
"""Daemons and their callers as processes, on one bus and one database."""

import collections
import concurrent.futures
import contextlib
import json
import subprocess
import threading

import sqlalchemy as sa

from nova_sched import rpc
from nova_sched.conf import CONF
from nova_sched.rpc import client
from nova_sched.tests.fixtures import warm
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.fixtures.scheduler import LISTENS, Daemon
from nova_sched.tests.functional.harness import compute_node

# Queues that outlive a broker, as an operator has to set them for the calls in them to outlive it
# too.
DURABLE = {
    'oslo_messaging_rabbit.amqp_durable_queues': True,
    'oslo_messaging_rabbit.rabbit_retry_backoff': 0,
    'oslo_messaging_rabbit.kombu_reconnect_delay': 0.1,
}
PIPES = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
CROWD_STARTS_S = 120.0
REPORTERS = 8  # hosts that report at the same time


class Callers:
    """Processes that call the scheduler; ``answers`` grows while they do."""

    def __init__(self, settings, calls, processes=1, each=8, vcpus=1, pieces=False, silence_s=4):
        module = 'nova_sched.tests.integration.callers'
        given = ['--config-file', settings, '--', calls // processes, each, vcpus, silence_s]
        given += ['pieces'] if pieces else []
        self.answers = []
        self._children = [warm.start(module, given, **PIPES) for _ in range(processes)]
        self._readers = [
            threading.Thread(target=self._read, args=(child,)) for child in self._children
        ]
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


class Crowd:
    """Processes of callers that take orders as they come, see ``crowd_callers``; ``answers`` grows
    meanwhile.

    ``log`` is the file for their other output. Each process calls ``at_once`` times at
    the same time. ``timeout_s``: seconds of silence after which a caller asks again; 0 waits for
    the answer.
    """

    def __init__(self, settings, log, processes=4, at_once=16, timeout_s=0):
        module = 'nova_sched.tests.integration.crowd_callers'
        given = ['--config-file', settings, '--', at_once, timeout_s]
        self.answers = []
        self._log = log.open('ab')
        self._more, self._ready, self._gone = threading.Condition(), 0, 0
        self._children = [
            warm.start(module, given, stderr=self._log, **PIPES) for _ in range(processes)
        ]
        self._readers = [
            threading.Thread(target=self._read, args=(child,)) for child in self._children
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, child):
        for line in child.stdout:
            with self._more:
                if line == 'ready\n':
                    self._ready += 1
                else:
                    self.answers.append(json.loads(line))
                self._more.notify()
        with self._more:
            self._gone += 1
            self._more.notify()

    def ready(self):
        """Come back when all processes have been answered once. Raises ServerFailed."""
        if not self._wait(lambda: self._ready == len(self._children), CROWD_STARTS_S):
            raise ServerFailed(f'{self._ready} processes of callers are ready')

    def send(self, orders):
        """Have these called, by turns and in this order; the answers come."""
        for place, order in enumerate(orders):
            self._children[place % len(self._children)].stdin.write(json.dumps(order) + '\n')
        for child in self._children:
            child.stdin.flush()

    def ask(self, orders, limit_s):
        """Have these called; returns the answers that have come when all have, or the time is
        over."""
        before = len(self.answers)
        self.send(orders)
        self.until(before + len(orders), limit_s)
        return self.answers[before:]

    def until(self, count, limit_s):
        """Come back when there are that many answers, or the time is over; returns whether there
        are."""
        return self._wait(lambda: len(self.answers) >= count, limit_s)

    def _wait(self, is_so, limit_s):
        """Raise ServerFailed if a process ends meanwhile."""
        with self._more:
            self._more.wait_for(lambda: is_so() or self._gone, limit_s)
            if not is_so() and self._gone:
                raise ServerFailed(f'{self._gone} processes of callers have ended')
            return is_so()

    def end(self):
        for child in self._children:
            child.kill()
            child.wait()
        for reader in self._readers:
            reader.join()
        for child in self._children:
            child.stdout.close()
            with contextlib.suppress(BrokenPipeError):  # what it had not read
                child.stdin.close()
        self._log.close()


def through(database, proxy):
    """The URL of a database behind a proxy."""
    return sa.make_url(database).set(port=proxy.port).render_as_string(hide_password=False)


class Cloud:
    """Daemons and callers on one bus and one database; all are gone at the end."""

    def __init__(self, home, url, database):
        self.url, self.database = url, database
        self.options = {}  # of all daemons
        self._home, self._end = home, contextlib.ExitStack()
        self.bus = rpc.transport(CONF, url)
        self._end.callback(self.bus.cleanup)
        self.scheduler = client.SchedulerClient(self.bus, timeout_s=30)
        self.claims = client.ClaimsClient(self.bus, timeout_s=30)

    def daemon(self, name='one', start=True, wrong_s=0, link=None, **options):
        """A daemon, whose clock is wrong by some seconds; `group__name` is an option of it.

        ``link`` is the proxy that it reaches its database by.
        """
        given = {key.replace('__', '.'): value for key, value in options.items()}
        options = {**self.options, **given}
        database = self.database if link is None else through(self.database, link)
        made = Daemon(self._home / name, self.url, database, options, wrong_s)
        self._end.callback(made.kill)
        if start:
            made.start()
        return made

    def daemons(self, count, wrong=(0,), links=(None,), **options):
        """That many daemons, started at the same time; their clocks are ``wrong`` and they have
        ``links`` by turns."""
        made = [
            self.daemon(
                f'scheduler-{number}',
                start=False,
                wrong_s=wrong[number % len(wrong)],
                link=links[number % len(links)],
                **options,
            )
            for number in range(count)
        ]
        for daemon in made:
            daemon.start(wait=False)
        for daemon in made:
            daemon.until_it_says(LISTENS, timeout_s=CROWD_STARTS_S)
        return made

    def add(self, count, **fields):
        """Hosts that have reported."""
        self.report([compute_node(f'host-{number}', **fields) for number in range(count)])

    def report(self, nodes, traits=()):
        """Have these ComputeNodes report, all with these traits."""
        stats = client.StatsClient(self.bus, timeout_s=60)

        def tell(node):
            tree = {node.uuid: {'traits': list(traits)}} if traits else None
            stats.update_resource_stats(node.host, node, inventories=tree)

        with concurrent.futures.ThreadPoolExecutor(REPORTERS) as pool:
            list(pool.map(tell, nodes))

    def callers(self, calls, **how):
        made = Callers(self._home / 'one' / 'nova_sched.conf', calls, **how)
        self._end.callback(made.end)
        return made

    def crowd(self, daemon, **how):
        """Callers that have the same configuration as this daemon."""
        made = Crowd(daemon.settings, self._home / 'callers.log', **how)
        self._end.callback(made.end)
        made.ready()
        return made

    def close(self):
        self._end.close()

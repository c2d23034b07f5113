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
"""Many calls at once over RabbitMQ, from several client processes: how batches grow, and what a
second worker gives."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

from nova_sched import rpc
from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.tests.bench import calls, commits
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

PIPES = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
IN_FLIGHT = (1, 16, 64, 256)
CLIENTS = 4  # processes
SERVERS = {'oslo': (OSLO, 1), 'direct': (DIRECT, 1), 'direct, 2 workers': (DIRECT, 2)}


def called(url, topic, in_flight, seconds):
    """What the calls of all clients took, in seconds."""
    clients = min(CLIENTS, in_flight)
    arguments = url, rpc.EXCHANGE, topic, str(in_flight // clients), str(seconds)
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                calls.process('-m', 'nova_sched.tests.bench.callers', *arguments, **PIPES)
            )
            for _ in range(clients)
        ]
        for one in running:
            one.stdout.readline()
        for one in running:
            one.stdin.write('\n')
            one.stdin.flush()
        return [took for one in running for took in json.loads(one.stdout.readline())]


def rows(budget_s=5.0, nodes=10_000):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(rabbitmq.server())
        seeded = folder / 'seeded'
        seeded.mkdir()
        commits.sqlite_store(seeded, nodes)
        echo = ('-m', 'nova_sched.tests.bench.echo', broker.url, rpc.EXCHANGE, calls.ECHO_TOPIC)
        stack.enter_context(calls.process(*echo, **PIPES)).stdout.readline()
        targets = {'echo': (broker.url, calls.ECHO_TOPIC)}
        for name, (server, workers) in SERVERS.items():
            home, url = folder / name.replace(' ', '-'), broker.fresh()
            shutil.copytree(seeded, home)
            stack.enter_context(calls.daemon(home, url, workers, server))
            targets[name] = url, rpc.TOPIC
        for in_flight in IN_FLIGHT:
            took = {name: called(*at, in_flight, budget_s) for name, at in targets.items()}
            yield from (_row(name, in_flight, took, budget_s, nodes) for name in SERVERS)


def _row(name, in_flight, took, seconds, nodes):
    ours, echo = len(took[name]) / seconds, len(took['echo']) / seconds
    return {
        'what': f'{in_flight} in flight from {min(CLIENTS, in_flight)} processes, {name}, '
        f'{nodes:,} hosts',
        'p50': f'{p50_ms(took[name]):.2f} ms',
        'p99': f'{p99_ms(took[name]):.2f} ms',
        'a second': f'{ours:,.0f}',
        'floor': f'echo {echo:,.0f} a second',
        'ratio': f'{ours / echo:.2f}',
    }

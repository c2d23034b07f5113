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
"""Calls over RabbitMQ: select_destinations against an echo of the same messages, in the same
run."""

import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import oslo_messaging as messaging

from nova_sched import rpc
from nova_sched.conf import CONF
from nova_sched.tests.bench import commits
from nova_sched.tests.bench.timing import by_turns, p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

HERE = pathlib.Path(__file__).parent
ECHO_TOPIC = 'echo'


@contextlib.contextmanager
def process(*command, **options):
    running = subprocess.Popen([sys.executable, '-W', 'ignore', *command], **options)
    try:
        yield running
    finally:
        if running.stdin:
            running.stdin.close()
        running.terminate()
        running.wait(30)


@contextlib.contextmanager
def daemon(folder, url, workers=1):
    """Our daemon on SQLite, in a process of its own."""
    config = folder / 'scheduler.conf'
    config.write_text(
        f'[DEFAULT]\ntransport_url = {url}\nhost = bench\n'
        f'[database]\nconnection = sqlite:///{folder}/claims.sqlite\n'
        f'[scheduler]\nworkers = {workers}\n'
    )
    path = folder / 'scheduler.log'
    with path.open('wb') as log:
        options = {'stdout': log, 'stderr': log}
        with process(
            '-m', 'nova_sched.cmd.scheduler', '--config-file', str(config), **options
        ) as running:
            until_it_says('Scheduling on host', path, running)
            yield running


def until_it_says(words, path, running, timeout_s=60.0):
    """A message that is sent before its queue exists is lost without a word: wait for the
    daemon's."""
    end = time.monotonic() + timeout_s
    while words not in path.read_text():
        if running.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f'the daemon did not start:\n{path.read_text()[-2000:]}')
        time.sleep(0.05)


class Caller:
    """A client that sends the recorded request as it stands, with new instance UUIDs."""

    def __init__(self, url, exchange, topic, request):
        bus = messaging.get_rpc_transport(CONF, url=url)
        target = messaging.Target(exchange=exchange, topic=topic, version='4.5')
        self._client = messaging.get_rpc_client(bus, target, timeout=60)
        self._request = request

    def __call__(self):
        args = {**self._request['args'], 'instance_uuids': [str(uuid.uuid4())]}
        return self._client.call(self._request['context'], 'select_destinations', **args)


def in_flight(call, threads, seconds):
    """Calls a second with that many threads calling all the time."""
    counts, end = itertools.count(), time.perf_counter() + seconds

    def work():
        while time.perf_counter() < end:
            call()
            next(counts)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return next(counts) / seconds


def rows(budget_s=5.0, nodes=10_000):
    request = json.loads((HERE / 'request.json').read_text())
    with tempfile.TemporaryDirectory() as name, rabbitmq.server() as broker:
        folder = pathlib.Path(name)
        commits.sqlite_store(folder, nodes)
        bare = commits.BareClaim(f'{name}/bare.sqlite', [str(place) for place in range(nodes)])
        url = broker.url
        echo_command = ('-m', 'nova_sched.tests.bench.echo', url, rpc.EXCHANGE, ECHO_TOPIC)
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
        with process(*echo_command, **pipes) as echo, daemon(folder, url):
            echo.stdout.readline()
            ours = Caller(url, rpc.EXCHANGE, rpc.TOPIC, request)
            floor = Caller(url, rpc.EXCHANGE, ECHO_TOPIC, request)
            if len(ours()[0]) != 3:
                raise RuntimeError('the answer is not a host with two alternates')
            samples = by_turns({'ours': ours, 'echo': floor, 'commit': bare}, budget_s)
            yield _one(samples, nodes)
            many = {'ours': [], 'echo': []}
            for _ in range(3):
                many['ours'].append(in_flight(ours, 16, budget_s / 3))
                many['echo'].append(in_flight(floor, 16, budget_s / 3))
            yield _many(many, nodes)


def _one(samples, nodes):
    echo, commit, call = (p50_ms(samples[name]) for name in ('echo', 'commit', 'ours'))
    return {
        'what': f'select_destinations, RabbitMQ, {nodes:,} hosts, 1 in flight',
        'p50': f'{call:.2f} ms',
        'p99': f'{p99_ms(samples["ours"]):.2f} ms',
        'a second': f'{1000 / call:,.0f}',
        'floor': f'echo {echo:.2f} + commit {commit:.2f} ms',
        'ratio': f'{call / (echo + commit):.2f}',
    }


def _many(many, nodes):
    ours, echo = (sorted(many[name])[1] for name in ('ours', 'echo'))
    return {
        'what': f'select_destinations, RabbitMQ, {nodes:,} hosts, 16 in flight',
        'a second': f'{ours:,.0f}',
        'floor': f'echo {echo:,.0f} a second',
        'ratio': f'{ours / echo:.2f}',
    }

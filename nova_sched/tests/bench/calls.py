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
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import oslo_messaging as messaging
import psutil

from nova_sched import rpc
from nova_sched.conf import CONF
from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.tests.bench import commits
from nova_sched.tests.bench.timing import by_turns, p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq

HERE = pathlib.Path(__file__).parent
ECHO_TOPIC = 'echo'
SERVERS = (OSLO, DIRECT)


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
def daemon(folder, url, workers=1, rpc_server='oslo'):
    """Our daemon on SQLite, in a process of its own. Its hosts stay up, however long it takes."""
    config = folder / 'scheduler.conf'
    config.write_text(
        f'[DEFAULT]\ntransport_url = {url}\nhost = bench\nservice_down_time = 86400\n'
        f'[database]\nconnection = sqlite:///{folder}/claims.sqlite\n'
        f'[scheduler]\nworkers = {workers}\nrpc_server = {rpc_server}\n'
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


class Measured:
    """A server to call, and the processor time that its process takes."""

    def __init__(self, call, pid):
        self.call = call
        main = psutil.Process(pid)
        self._processes = [main, *main.children(recursive=True)]

    def processor_s(self):
        return sum(sum(one.cpu_times()[:2]) for one in self._processes)


def rows(budget_s=5.0, nodes=10_000):
    request = json.loads((HERE / 'request.json').read_text())
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(rabbitmq.server())
        seeded = folder / 'seeded'
        seeded.mkdir()
        commits.sqlite_store(seeded, nodes)
        bare = commits.BareClaim(f'{folder}/bare.sqlite', [str(place) for place in range(nodes)])
        echo_command = ('-m', 'nova_sched.tests.bench.echo', broker.url, rpc.EXCHANGE, ECHO_TOPIC)
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
        echo = stack.enter_context(process(*echo_command, **pipes))
        echo.stdout.readline()
        servers = {
            'echo': Measured(Caller(broker.url, rpc.EXCHANGE, ECHO_TOPIC, request), echo.pid)
        }
        for name in SERVERS:
            home, url = folder / name, broker.fresh()
            shutil.copytree(seeded, home)
            running = stack.enter_context(daemon(home, url, rpc_server=name))
            caller = Caller(url, rpc.EXCHANGE, rpc.TOPIC, request)
            servers[name] = Measured(caller, running.pid)
            if len(caller()[0]) != 3:
                raise RuntimeError('the answer is not a host with two alternates')
        calls = {name: server.call for name, server in servers.items()}
        samples = by_turns({**calls, 'commit': bare}, budget_s)
        yield from (_one(name, samples, nodes) for name in SERVERS)
        many = {name: [] for name in servers}
        spent = dict.fromkeys(servers, 0.0)
        for _ in range(3):
            for name, server in servers.items():
                before_s = server.processor_s()
                many[name].append(in_flight(server.call, 16, budget_s / 3))
                spent[name] += server.processor_s() - before_s
        counts = {name: sum(many[name]) * budget_s / 3 for name in servers}
        each = {name: spent[name] / counts[name] * 1e3 for name in servers}
        yield from (_many(name, many, each, nodes) for name in SERVERS)


def _one(name, samples, nodes):
    echo, commit, call = (p50_ms(samples[one]) for one in ('echo', 'commit', name))
    return {
        'what': f'select_destinations, RabbitMQ, {name}, {nodes:,} hosts, 1 in flight',
        'p50': f'{call:.2f} ms',
        'p99': f'{p99_ms(samples[name]):.2f} ms',
        'a second': f'{1000 / call:,.0f}',
        'floor': f'echo {echo:.2f} + commit {commit:.2f} ms',
        'ratio': f'{call / (echo + commit):.2f}',
    }


def _many(name, many, each, nodes):
    ours, echo = (sorted(many[one])[1] for one in (name, 'echo'))
    return {
        'what': f'select_destinations, RabbitMQ, {name}, {nodes:,} hosts, 16 in flight',
        'p50': f'{each[name]:.2f} ms of CPU',
        'a second': f'{ours:,.0f}',
        'floor': f'echo {echo:,.0f} a second, {each["echo"]:.2f} ms of CPU',
        'ratio': f'{ours / echo:.2f}',
    }

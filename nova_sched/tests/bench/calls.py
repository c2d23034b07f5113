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
import time
import uuid

import oslo_messaging as messaging
import psutil

from nova_sched import rpc
from nova_sched.claim import Claim
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import CONF
from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.bench import bare, commits, fleet
from nova_sched.tests.bench.raw_client import RawClient
from nova_sched.tests.bench.timing import by_turns, in_threads, p50_ms, p99_ms
from nova_sched.tests.fixtures import postgresql, rabbitmq

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
def daemon(folder, url, workers=1, rpc_server=None, database=None, more=''):
    """Our daemon in a process of its own, on the SQLite file in the folder or on another database,
    with more lines of configuration. Its hosts stay up, however long it takes."""
    database = database or f'sqlite:///{folder}/claims.sqlite'
    config = folder / 'scheduler.conf'
    config.write_text(
        f'[DEFAULT]\ntransport_url = {url}\nhost = bench\nservice_down_time = 86400\n'
        f'[database]\nconnection = {database}\n'
        f'[scheduler]\nworkers = {workers}\n'
        + (f'rpc_server = {rpc_server}\n' if rpc_server else '')
        + more
    )
    path = folder / 'scheduler.log'
    with path.open('wb') as log:
        options = {'stdout': log, 'stderr': log}
        with process(
            '-m', 'nova_sched.cmd.scheduler', '--config-file', str(config), **options
        ) as running:
            until_it_says('Scheduling on host', path, running)
            yield running


def until_it_says(words, path, running, timeout_s=300.0):
    """A message that is sent before its queue exists is lost without a word: wait for the
    daemon's."""
    end = time.monotonic() + timeout_s
    while words not in path.read_text():
        if running.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f'the daemon did not start:\n{path.read_text()[-2000:]}')
        time.sleep(0.05)


class Caller:
    """A client that sends the recorded request as it stands, with another instance UUID, by
    default a new one."""

    def __init__(self, url, exchange, topic, request):
        bus = messaging.get_rpc_transport(CONF, url=url)
        target = messaging.Target(exchange=exchange, topic=topic, version='4.5')
        self._client = messaging.get_rpc_client(bus, target, timeout=60)
        self._request = request

    def __call__(self, instance=None):
        args = {**self._request['args'], 'instance_uuids': [instance or str(uuid.uuid4())]}
        return self._client.call(self._request['context'], 'select_destinations', **args)


def in_flight(call, threads, seconds):
    """Calls a second with that many threads calling all the time."""
    counts, end = itertools.count(), time.perf_counter() + seconds

    def work(_):
        while time.perf_counter() < end:
            call()
            next(counts)

    in_threads(work, threads)
    return next(counts) / seconds


class Measured:
    """A server to call, by oslo.messaging or a raw client, and the processor time that its process
    takes."""

    def __init__(self, call, raw, pid):
        self.call, self.raw = call, raw
        main = psutil.Process(pid)
        self._processes = [main, *main.children(recursive=True)]

    def processor_s(self):
        return sum(sum(one.cpu_times()[:2]) for one in self._processes)


class OnSqlite:
    """Databases for daemons, copies of a filled one, and bare commits."""

    name = 'SQLite'

    def __init__(self, _stack, folder, nodes):
        self._folder, self._seeded = folder, folder / 'seeded'
        self._seeded.mkdir()
        commits.sqlite_store(self._seeded, nodes)
        self.bare = commits.BareClaim(f'{folder}/bare.sqlite', [str(n) for n in range(nodes)])

    def fresh(self, name):
        """URL of a filled database for the daemon of that name."""
        home = self._folder / f'{name}-database'
        shutil.copytree(self._seeded, home)
        return f'sqlite:///{home}/claims.sqlite'


def filled(url, reports):
    """Make the tables of an empty database, and store reports. Returns its URL."""
    engine = db_engine.create(url)
    schema.upgrade(engine)
    store = SqlClaimStore(engine)
    for start in range(0, len(reports), 500):
        store.report(reports[start : start + 500], time.time())
    engine.dispose()
    return url


class OnPostgreSQL:
    """The same on a private server."""

    name = 'PostgreSQL'

    def __init__(self, stack, _folder, nodes):
        self._server = stack.enter_context(postgresql.server())
        self._reports = list(fleet.reports(nodes))
        self._client, self._turn = bare.client(self.fresh('bare')), 0

    def fresh(self, _name):
        return filled(self._server.fresh(), self._reports)

    def bare(self):
        self._turn += 1
        node = self._reports[self._turn * 7919 % len(self._reports)].node_uuid
        claim = Claim(str(uuid.uuid4()), node, commits.RESOURCES, expires_s=2e9)
        self._client.commit(self._client.prepare([claim]))


class Calls:
    """The benchmark with the daemons on one kind of database."""

    def __init__(self, databases):
        self._databases = databases

    def rows(self, budget_s=5.0, nodes=10_000):
        return _rows(self._databases, budget_s, nodes)


SQLITE, POSTGRESQL = Calls(OnSqlite), Calls(OnPostgreSQL)


def _rows(databases, budget_s, nodes):
    request = json.loads((HERE / 'request.json').read_text())
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(rabbitmq.server())
        kept = databases(stack, folder, nodes)
        echo_command = ('-m', 'nova_sched.tests.bench.echo', broker.url, rpc.EXCHANGE, ECHO_TOPIC)
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE}
        echo = stack.enter_context(process(*echo_command, **pipes))
        echo.stdout.readline()

        def clients(*where):
            return Caller(*where, request), RawClient(stack, *where, request)

        echoing = clients(broker.url, rpc.EXCHANGE, ECHO_TOPIC)
        servers = {'echo': Measured(*echoing, echo.pid)}
        for name in SERVERS:
            home, url = folder / name, broker.fresh()
            home.mkdir()
            running = stack.enter_context(
                daemon(home, url, rpc_server=name, database=kept.fresh(name))
            )
            servers[name] = Measured(*clients(url, rpc.EXCHANGE, rpc.TOPIC), running.pid)
            if len(servers[name].call()[0]) != 3:
                raise RuntimeError('the answer is not a host with two alternates')
        calls = {name: server.call for name, server in servers.items()}
        samples = by_turns({**calls, 'commit': kept.bare}, budget_s)
        yield from (_one(kept.name, name, samples, nodes) for name in SERVERS)
        for client in ('', ', raw client'):
            many, each = _rates(servers, bool(client), budget_s)
            if not client:
                echo_rate = many['echo']
            yield from (
                _many(
                    f'{kept.name}, {name}, {nodes:,} hosts, 16 in flight{client}',
                    name,
                    many,
                    each,
                    echo_rate,
                )
                for name in SERVERS
            )


def _rates(servers, is_raw, budget_s):
    """Answered calls a second with 16 in flight, the median of three rounds, and milliseconds of
    processor time for each; by server."""
    many = {name: [] for name in servers}
    spent = dict.fromkeys(servers, 0.0)
    for _ in range(3):
        for name, server in servers.items():
            before_s, seconds = server.processor_s(), budget_s / 3
            many[name].append(
                server.raw.calls_in(seconds, 16) / seconds
                if is_raw
                else in_flight(server.call, 16, seconds)
            )
            spent[name] += server.processor_s() - before_s
    counts = {name: sum(many[name]) * budget_s / 3 for name in servers}
    each = {name: spent[name] / counts[name] * 1e3 for name in servers}
    return {name: sorted(found)[1] for name, found in many.items()}, each


def _one(database, name, samples, nodes):
    echo, commit, call = (p50_ms(samples[one]) for one in ('echo', 'commit', name))
    return {
        'what': f'select_destinations, RabbitMQ, {database}, {name}, {nodes:,} hosts, 1 in flight',
        'p50': f'{call:.2f} ms',
        'p99': f'{p99_ms(samples[name]):.2f} ms',
        'a second': f'{1000 / call:,.0f}',
        'floor': f'echo {echo:.2f} + commit {commit:.2f} ms',
        'ratio': f'{call / (echo + commit):.2f}',
    }


def _many(where, name, many, each, echo_rate):
    """A row; ``echo_rate`` is what oslo.messaging's client reaches with the echo."""
    echo = f'echo {many["echo"]:,.0f} a second, {each["echo"]:.2f} ms of CPU'
    if many['echo'] != echo_rate:
        echo += f'; called by oslo.messaging {echo_rate:,.0f}'
    return {
        'what': f'select_destinations, RabbitMQ, {where}',
        'p50': f'{each[name]:.2f} ms of CPU',
        'a second': f'{many[name]:,.0f}',
        'floor': echo,
        'ratio': f'{many[name] / echo_rate:.2f}',
    }

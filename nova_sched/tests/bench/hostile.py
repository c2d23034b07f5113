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
"""Decisions while a member of another project does all that the REST API lets it do, against
decisions while it does nothing, by turns.

The member is a process of its own: it plans, changes and renews groups, asks for plans that the
solver has to refuse, and reads, up to its rate limit. The scheduler is on RabbitMQ and SQLite.
"""

import contextlib
import http.client
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import limits

from nova_sched import rpc
from nova_sched.conf.api import API_OPTS
from nova_sched.tests.bench.calls import HERE, Caller, OnSqlite, daemon, process, until_it_says
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq
from nova_sched.tests.fixtures.process import free_port

NODES = 10_000
TURN_S = 5.0
PAUSE_S = 0.01  # between two decisions: the machine is not full without the member
# Requests a second: the rate limit by default, and as many that only read.
RATE = limits.parse(next(one.default for one in API_OPTS if one.name == 'plan_rate'))
PLANS_S = READS_S = RATE.amount / RATE.get_expiry()
# As an operator gives a large project: the defaults would refuse the large groups before any work.
QUOTA = '[quota]\nlimits = planned_servers=1000,planned_class:VCPU=100000\n'
HEADERS = {'X-Auth-Token': 'eve:evil', 'Content-Type': 'application/json', 'If-Match': '*'}


def template(count, *policies, vcpus=1):
    """A group of so many servers; each policy is (type, level)."""
    server = {'flavor': {'vcpus': vcpus, 'ram': 512, 'disk': 1}}
    members = [{'get_resource': f's{number}'} for number in range(count)]
    held = [{'type': kind, 'level': level} for kind, level in policies]
    servers = {
        f's{number}': {'type': 'OS::Nova::Server', 'properties': server} for number in range(count)
    }
    group = {'members': members, 'policies': held}
    return {
        'heat_template_version': '2021-04-16',
        'resources': {'g': {'type': 'OS::NovaSched::Group', 'properties': group}, **servers},
    }


SMALL = {'template': template(20, ('anti-affinity', 'host'))}
LARGE = {'template': template(400, ('anti-affinity', 'host'))}
# No host has this much, no two servers can be together and apart.
TOO_LARGE = {'template': template(20, ('anti-affinity', 'host'), vcpus=1000)}
COLLIDING = {'template': template(30, ('affinity', 'host'), ('anti-affinity', 'host'))}
TOO_TIGHT = {'template': template(60, ('affinity', 'host'), vcpus=4)}


class Member:
    """One member of project evil, as a client of the API on a port."""

    def __init__(self, port):
        self._port, self._own = port, None

    def send(self, method, path, body=None):
        link = http.client.HTTPConnection('127.0.0.1', self._port, timeout=60)
        with contextlib.closing(link):
            link.request(method, path, body and json.dumps(body), HEADERS)
            answer = link.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else {}

    def plans(self):
        """Yield the status of each request that plans, for ever."""
        while True:
            status, made = self.send('POST', '/v1/groups', SMALL)
            yield status
            at = f'/v1/groups/{made.get("uuid")}'
            self._own = at if status == 201 else None
            for body in (LARGE, TOO_LARGE, COLLIDING, TOO_TIGHT):
                yield self.send('POST', '/v1/groups?dry_run=true', body)[0]
                yield self.send('POST', '/v1/groups/validate', body)[0]
            if self._own:
                yield self.send('PUT', at, COLLIDING)[0]
                yield self.send('POST', f'{at}/plan')[0]
                yield self.send('POST', f'{at}/renew', {'ttl': 600})[0]
                self._own = None
                yield self.send('DELETE', at)[0]

    def reads(self):
        """Yield the status of each request that reads, for ever."""
        while True:
            for path in (self._own, self._own and f'{self._own}/plan', '/v1/groups'):
                if path:
                    yield self.send('GET', path)[0]


def attack():
    """The process of the member: for each line with seconds, a turn, and a line with the number of
    answers by status."""
    member = Member(int(sys.argv[1]))
    plans, reads = member.plans(), member.reads()
    for line in sys.stdin:
        end_s = time.monotonic() + float(line)
        counts: dict[int, int] = {}
        for number in itertools.count():
            begin_s = time.monotonic()
            if begin_s > end_s:
                break
            status = next(reads if number % 2 else plans)
            counts[status] = counts.get(status, 0) + 1
            time.sleep(max(0.0, begin_s + 1 / (PLANS_S + READS_S) - time.monotonic()))
        print(json.dumps(counts), flush=True)


@contextlib.contextmanager
def api(folder, url, port, more=''):
    """A process of the API, with more lines of configuration."""
    config, path = folder / 'api.conf', folder / 'api.log'
    config.write_text(
        f'[DEFAULT]\ntransport_url = {url}\n[api]\nauth_strategy = noauth\nport = {port}\n{more}'
    )
    with path.open('wb') as log:
        command = '-m', 'nova_sched.cmd.api', '--config-file', str(config)
        with process(*command, stdout=log, stderr=log) as running:
            until_it_says('Serving on', path, running)
            yield running


def rows(budget_s=60.0):
    """Rows of the table of the benchmarks."""
    request = json.loads((HERE / 'request.json').read_text())
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(rabbitmq.server()).fresh()
        database = OnSqlite(stack, folder, NODES).fresh('daemon')
        stack.enter_context(daemon(folder, url, database=database, more=QUOTA))
        port = free_port()
        stack.enter_context(api(folder, url, port))
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        member = stack.enter_context(
            process('-m', 'nova_sched.tests.bench.hostile', f'{port}', **pipes)
        )
        call = Caller(url, rpc.EXCHANGE, rpc.TOPIC, request)
        calm, busy, counts = [], [], {}
        until_s = time.monotonic() + max(budget_s, 4 * TURN_S)
        decide(call, 1.0)
        while time.monotonic() < until_s:
            calm += decide(call, TURN_S)
            member.stdin.write(f'{TURN_S}\n')
            member.stdin.flush()
            busy += decide(call, TURN_S)
            for status, number in json.loads(member.stdout.readline()).items():
                counts[status] = counts.get(status, 0) + number
    answers = ', '.join(f'{number} x {status}' for status, number in sorted(counts.items()))
    yield _row('no other project', calm, calm)
    yield _row(f'a hostile project, answers {answers}', busy, calm)


def decide(call, seconds):
    """Seconds of each decision of another project, one after the other for some time."""
    took, end_s = [], time.monotonic() + seconds
    while time.monotonic() < end_s:
        begin_s = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin_s)
        time.sleep(PAUSE_S)
    return took


def _row(what, samples, calm):
    mean, p50, p99 = (one(samples) / one(calm) for one in (statistics.mean, p50_ms, p99_ms))
    return {
        'what': f'select_destinations, {NODES:,} hosts; {what}',
        'p50': f'{p50_ms(samples):.2f} ms',
        'p99': f'{p99_ms(samples):.2f} ms',
        'a second': f'{1 / statistics.mean(samples):,.0f}',
        'ratio': f'mean {mean:.2f}, p50 {p50:.2f}, p99 {p99:.2f}',
    }


if __name__ == '__main__':
    attack()

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

"""Benchmark: decisions while ten maps of the dashboard are open, and while none is, by turns.

The scheduler and the API are processes of their own, on RabbitMQ and SQLite; the pages are in
another process, and do what the script of the map does. A browser then opens one map.
"""

import contextlib
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import psutil
import requests

from nova_sched import rpc
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.calls import HERE, Caller, Measured, daemon, filled, process
from nova_sched.tests.bench.hostile import api
from nova_sched.tests.bench.timing import in_threads, p50_ms, p99_ms
from nova_sched.tests.fixtures import rabbitmq
from nova_sched.tests.fixtures.process import free_port

NODES, PAGES, CALLERS = 10_000, 10, 4
TURN_S = 6.0
UPDATES = 10  # single changes whose way to a page is timed
AGAIN_S = 2.0
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
MIB = 2**20


class Page:
    """One open map: it reads the board, and follows its changes until it is closed. ``seen`` has
    for each event the moment (time.monotonic) and the number of changed cells."""

    def __init__(self, url, cookies):
        self._url, self._session, self._is_closed = url, requests.Session(), threading.Event()
        self._session.cookies.update(cookies)
        self.seen = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def close(self):
        self._is_closed.set()
        self._thread.join()

    def _follow(self):
        version = None
        while not self._is_closed.is_set():
            if version is None:
                version = self._session.get(f'{self._url}/cluster/board').json()['version']
            with self._session.get(
                f'{self._url}/cluster/changes', params={'since': version}, stream=True
            ) as answer:
                for line in answer.iter_lines(decode_unicode=True):
                    name, _, value = line.partition(': ')
                    if name == 'id':
                        version = value
                    elif name == 'data':
                        cells = json.loads(value)
                        self.seen.append((time.monotonic(), len(cells)))
                        version = version if cells else None  # the board has to be read again
                    if self._is_closed.is_set():
                        return
            self._is_closed.wait(AGAIN_S)


def _logged_in(url):
    session = requests.Session()
    token = TOKEN.search(session.get(f'{url}/login').text)[1]
    form = {'csrf_token': token, 'user': 'admin', 'project': 'operators'}
    session.post(f'{url}/login', data=form).raise_for_status()
    return session


def pages():
    """The process of the pages: for each line with a number, so many are open; then a line with
    what those before have seen."""
    url, opened = sys.argv[1], []
    cookies = _logged_in(url).cookies
    for line in sys.stdin:
        seen = [one.seen for one in opened if one.close() is None]
        opened = [Page(url, cookies) for _ in range(int(line))]
        print(json.dumps(seen), flush=True)


def rows(budget_s=120.0):
    """Rows of the table of the benchmarks."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(rabbitmq.server()).fresh()
        database = filled(f'sqlite:///{folder}/claims.sqlite', list(fleet.reports(NODES)))
        scheduler = stack.enter_context(daemon(folder, url, database=database))
        port = free_port()
        more = f'[database]\nconnection = {database}\n'
        served = stack.enter_context(api(folder, url, port, more))
        there = f'http://127.0.0.1:{port}/dashboard'
        request = json.loads((HERE / 'request.json').read_text())
        call = Caller(url, rpc.EXCHANGE, rpc.TOPIC, request)
        call()
        yield _first(served, there)
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        watch = stack.enter_context(
            process('-m', 'nova_sched.tests.bench.dashboards', there, **pipes)
        )
        processes = {
            'scheduler': Measured(None, None, scheduler.pid),
            'API': Measured(None, None, served.pid),
        }
        turns = {0: Turns(), PAGES: Turns()}
        until_s = time.monotonic() + max(budget_s, 4 * TURN_S)
        while time.monotonic() < until_s:
            for count, one in turns.items():
                _open(watch, count)
                time.sleep(AGAIN_S)  # they read the board
                one.take(call, processes)
        _open(watch, 1)
        yield from _told(turns)
        yield _updates(call, watch)
        yield _browser(there)


class Turns:
    """What is measured while some number of pages is open."""

    def __init__(self):
        self.took, self.length_s, self.processor = [], 0.0, {}

    def take(self, call, processes):
        before = {name: one.processor_s() for name, one in processes.items()}
        begin_s = time.monotonic()
        in_threads(lambda _: self._calls(call, begin_s + TURN_S), CALLERS)
        self.length_s += time.monotonic() - begin_s
        for name, one in processes.items():
            spent = one.processor_s() - before[name]
            self.processor[name] = self.processor.get(name, 0.0) + spent

    def _calls(self, call, end_s):
        while time.monotonic() < end_s:
            begin_s = time.perf_counter()
            call()
            self.took.append(time.perf_counter() - begin_s)

    @property
    def rate(self):
        return len(self.took) / self.length_s


def _open(watch, count):
    """Have so many pages open; returns what those before have seen."""
    watch.stdin.write(f'{count}\n')
    watch.stdin.flush()
    return json.loads(watch.stdout.readline())


def _told(turns):
    for count, one in turns.items():
        spent = ', '.join(
            f'{name} {used / one.length_s:.3f} s' for name, used in one.processor.items()
        )
        ratio = turns[0].rate / one.rate, p50_ms(one.took) / p50_ms(turns[0].took)
        yield {
            'what': f'decisions, {NODES:,} hosts, {CALLERS} callers, {count} open maps; '
            f'processor time a second: {spent}',
            'p50': f'{p50_ms(one.took):.2f} ms',
            'p99': f'{p99_ms(one.took):.2f} ms',
            'a second': f'{one.rate:,.0f}',
            'ratio': f'time for each {ratio[0]:.3f}, p50 {ratio[1]:.3f}',
        }


def _first(served, there):
    """The first map of a new process."""
    one, session = psutil.Process(served.pid), _logged_in(there)
    before, begin_s = one.memory_info().rss, time.monotonic()
    size = len(session.get(f'{there}/cluster/board').content)
    first_s, begin_s = time.monotonic() - begin_s, time.monotonic()
    session.get(f'{there}/cluster/board')
    grown = (one.memory_info().rss - before) / MIB
    return {
        'what': f'first map after the start, {NODES:,} hosts: {first_s:.1f} s, {size / MIB:.2f} '
        f'MiB; the next {time.monotonic() - begin_s:.2f} s; memory of the API {grown:+.0f} MiB'
    }


def _updates(call, watch):
    """From the answer of one decision to the change on a page."""
    time.sleep(3 * AGAIN_S)
    made = []
    for _ in range(UPDATES):
        call()
        made.append(time.monotonic())
        time.sleep(2 * AGAIN_S)
    time.sleep(10 * AGAIN_S)  # until the last one is there, even on a busy machine
    (seen,) = _open(watch, 0)
    took = [
        min((at for at, _ in seen if at > moment), default=math.inf) - moment for moment in made
    ]
    return {
        'what': f'a change on an open map, {NODES:,} hosts',
        'p50': f'{statistics.median(took) * 1e3:,.0f} ms',
        'p99': f'{max(took) * 1e3:,.0f} ms',
    }


def _browser(there):
    """One map in Chromium: the time until it is drawn, and the memory of its script."""
    from playwright.sync_api import sync_playwright

    from nova_sched.tests.browser.surfer import launched, logged_in

    with contextlib.ExitStack() as stack:
        browser = launched(stack.enter_context(sync_playwright()))
        stack.callback(browser.close)
        page = stack.enter_context(logged_in(browser, there, 'admin', 'operators'))
        page.goto(f'{there}/cluster')
        page.wait_for_selector('#map[data-drawn]')
        drawn_ms = page.get_attribute('#map', 'data-drawn')
        used = page.evaluate('performance.memory.usedJSHeapSize') / MIB
    return {
        'what': f'a map in a browser, {NODES:,} hosts; memory of its script {used:.0f} MiB',
        'p50': f'{drawn_ms} ms',
    }


if __name__ == '__main__':
    pages()

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
"""When systemd is told what, step by step."""

import http.server
import multiprocessing
import os
import signal
import threading
import time

import pytest

from nova_sched import errors
from nova_sched.cmd.monitor import ApiHeartbeats, Monitor, Systemd, WorkerHeartbeats
from nova_sched.tests.fixtures.notify_socket import NotifySocket
from nova_sched.tests.rows import each


class FakeSystemd:
    """Keeps what it is told."""

    is_there, watchdog_s = True, 8.0

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *text: self.told.append((name, *text))

    def take(self):
        taken, self.told = self.told, []
        return taken


class FakeHeartbeats:
    def __init__(self):
        self.ready, self.silence_s, self.is_reloaded = 0, 0.0, True
        self.reloads = 0

    def want_reload(self):
        self.reloads, self.is_reloaded = self.reloads + 1, False

    def apply(self, is_valid):
        self.is_valid = is_valid


class Watched:
    """A monitor of two workers, whose clock stands until ``step``."""

    def __init__(self):
        self.systemd, self.heartbeats = FakeSystemd(), FakeHeartbeats()
        self.problem, self.now_s = '', 0.0
        self.monitor = Monitor(
            self.systemd, self.heartbeats, 2, lambda: self.problem, lambda: self.now_s
        )

    def step(self, seconds=0.0, **heartbeats):
        """What systemd is told, without heartbeats."""
        self.now_s += seconds
        vars(self.heartbeats).update(heartbeats)
        self.monitor.step()
        return [one for one in self.systemd.take() if one != ('alive',)]

    def heartbeats_of(self, seconds, **heartbeats):
        """How many heartbeats systemd gets meanwhile; a step each second."""
        vars(self.heartbeats).update(heartbeats)
        for _ in range(seconds):
            self.now_s += 1
            self.monitor.step()
        return self.systemd.take().count(('alive',))


READY = ('ready', '2 of 2 workers ready')


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def working(watched):
    watched.step(ready=2)
    watched.systemd.take()
    return watched


def test_it_is_ready_when_all_workers_are(watched):
    assert watched.step() == [('status', '0 of 2 workers ready')]
    assert watched.step(ready=1) == [('status', '1 of 2 workers ready')]
    assert watched.step(ready=2) == [READY]
    assert watched.step() == []
    # A worker that is replaced changes the status only.
    assert watched.step(ready=1) == [('status', '1 of 2 workers ready')]
    assert watched.step(ready=2) == [('status', '2 of 2 workers ready')]
    watched.monitor.stopping()
    assert watched.step(ready=0) == [('stopping',)]


def test_a_reload_ends_with_ready(working):
    working.monitor.reloading()
    working.monitor.applied(is_valid=True)
    assert working.step() == [('reloading',)]
    assert working.step(is_reloaded=True) == [READY]
    assert working.heartbeats.is_valid
    working.monitor.reloading()
    working.problem = 'no filter is named X'
    words = '2 of 2 workers ready; The configuration is not reloaded: no filter is named X'
    assert working.step(is_reloaded=True) == [('reloading',), ('ready', words)]


def test_a_reload_before_it_is_ready(watched):
    watched.monitor.reloading()
    assert watched.step(is_reloaded=True)[-1] == ('status', '0 of 2 workers ready')
    assert watched.step(ready=2) == [READY]


@pytest.mark.parametrize(
    'heartbeats, least, most',
    [
        ({'silence_s': 0.5}, 4, 5),  # four times within the time
        ({'silence_s': 4.0}, 4, 5),  # half of the time without a move
        ({'silence_s': 4.1}, 0, 0),
        ({'ready': 1, 'silence_s': 0.0}, 4, 5),  # a worker starts
    ],
)
def test_heartbeats(working, heartbeats, least, most):
    assert least <= working.heartbeats_of(8, **heartbeats) <= most


def test_a_loop_that_hangs_is_logged_once_each_time(working, caplog):
    working.heartbeats_of(8, silence_s=5.0)
    working.heartbeats_of(8, silence_s=0.0)
    assert working.heartbeats_of(8, silence_s=6.0) == 0
    assert [record.getMessage().split(';')[0] for record in caplog.records] == [
        'The loop of a worker has not moved for 5 s',
        'The loop of a worker has not moved for 6 s',
    ]


def test_without_a_watchdog_there_are_no_heartbeats(working):
    working.systemd.watchdog_s = None
    assert working.heartbeats_of(8, silence_s=0.0) == 0


# What systemd is told, on a real socket.


@pytest.fixture
def heard(monkeypatch):
    made = NotifySocket()
    monkeypatch.setenv('NOTIFY_SOCKET', made.path)
    yield made
    made.close()


def test_messages(heard):
    made = Systemd()
    before_usec = time.monotonic() * 1e6
    made.ready('fine')
    made.status('waiting')
    made.alive()
    made.stopping()
    made.reloading()
    *others, reload = heard.read(1.0)
    assert others == [
        {'READY': '1', 'STATUS': 'fine'},
        {'STATUS': 'waiting'},
        {'WATCHDOG': '1'},
        {'STOPPING': '1', 'STATUS': 'Stopping: pending calls are answered'},
    ]
    assert reload['RELOADING'] == '1'
    assert before_usec <= int(reload['MONOTONIC_USEC']) <= time.monotonic() * 1e6


def test_without_systemd_nothing_happens(monkeypatch):
    monkeypatch.delenv('NOTIFY_SOCKET', raising=False)
    made = Systemd()
    made.ready('fine')
    assert not made.is_there


def test_children_and_libraries_do_not_see_its_variables(heard, monkeypatch):
    monkeypatch.setenv('WATCHDOG_USEC', '4000000')
    Systemd()
    assert {'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'}.isdisjoint(os.environ)


@each(
    'usec, pid, watchdog_s',
    [
        ('4000000', None, 4.0),
        ('4000000', str(os.getpid()), 4.0),
        ('4000000', '1', None),  # it is of another process
        ('0', None, None),
        ('soon', None, None),
        (None, None, None),
    ],
)
def test_the_watchdog(heard, monkeypatch, usec, pid, watchdog_s):
    for name, value in (('WATCHDOG_USEC', usec), ('WATCHDOG_PID', pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert Systemd().watchdog_s == watchdog_s


# Heartbeats over real processes.


pytestmark = pytest.mark.filterwarnings('ignore:Using fork')  # eventlet is only imported


class Clock:
    def __init__(self, now_s=100.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


@pytest.fixture
def workers():
    """``workers(heartbeats, alive_s, …)``: a process for each time, that sends that heartbeat and
    goes on."""
    made, fork = [], multiprocessing.get_context('fork')

    def work(heartbeats, alive_s, reloads, given):
        heartbeats.begin()
        heartbeats.send(alive_s)
        if reloads is not None:
            heartbeats.reloaded(reloads)
        given.set()
        signal.pause()

    def start(heartbeats, *times, reloads=None):
        for alive_s in times:
            given = fork.Event()
            process = fork.Process(target=work, args=(heartbeats, alive_s, reloads, given))
            process.start()
            assert given.wait(60)
            made.append(process)
        return made

    yield start
    for process in made:
        process.kill()
        process.join()


@pytest.mark.parametrize(
    'times, ready, silence_s',
    [
        ((), 0, 0.0),
        ((0.0,), 0, 0.0),  # it starts
        ((99.0,), 1, 1.0),
        ((99.0, 60.0, 0.0), 2, 40.0),  # the most silent worker counts
        ((101.0,), 1, 0.0),  # since the clock was read
    ],
)
def test_what_the_first_process_reads(workers, times, ready, silence_s):
    heartbeats = WorkerHeartbeats(3, Clock())
    workers(heartbeats, *times)
    assert (heartbeats.ready, heartbeats.silence_s) == (ready, silence_s)


def test_a_killed_worker_is_forgotten_and_its_slot_taken(workers):
    heartbeats = WorkerHeartbeats(1, Clock())
    (killed,) = workers(heartbeats, 10.0)
    killed.kill()
    killed.join()
    assert (heartbeats.ready, heartbeats.silence_s) == (0, 0.0)
    workers(heartbeats, 99.0)
    assert (heartbeats.ready, heartbeats.silence_s) == (1, 1.0)


@pytest.mark.parametrize('reloads, is_reloaded', [([1, 0], False), ([1, None], True)])
def test_a_reload_is_over_when_every_worker_has_made_it(workers, reloads, is_reloaded):
    """A worker that starts after it has made it."""
    heartbeats = WorkerHeartbeats(2, Clock())
    heartbeats.want_reload()
    heartbeats.apply(is_valid=True)
    for number in reloads:
        workers(heartbeats, 99.0, reloads=number)
    assert (heartbeats.reloads, heartbeats.accepted) == (1, 1)
    assert heartbeats.is_reloaded is is_reloaded
    heartbeats.want_reload()
    heartbeats.apply(is_valid=False)
    assert (heartbeats.reloads, heartbeats.accepted) == (2, 1)


# Whether a web server answers, on a real one.


class Live(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == '/healthcheck/live' else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def served():
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Live)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address
    made.shutdown()
    thread.join()
    made.server_close()


def away():
    raise errors.BrokerUnavailable('localhost', 'it is away')


@pytest.mark.parametrize(
    'port, reach, ready',
    [(None, lambda: None, 1), (None, away, 0), (1, lambda: None, 0)],
    ids=['it answers', 'the bus is away', 'it does not answer'],
)
def test_ready(served, port, reach, ready):
    heartbeats = ApiHeartbeats((served[0], port or served[1]), reach)
    assert heartbeats.ready == 0
    heartbeats.probe()
    assert heartbeats.ready == ready


def test_a_bus_that_goes_away_later_does_not_matter(served):
    reached = iter([None])
    heartbeats = ApiHeartbeats(served, lambda: next(reached))
    heartbeats.probe()
    heartbeats.probe()
    assert heartbeats.ready == 1


def test_silence_is_counted_from_the_last_answer(served, monkeypatch):
    moments, answers = iter([10.0, 20.0, 25.0]), iter([True, False])
    heartbeats = ApiHeartbeats(served, lambda: None, lambda: next(moments))
    monkeypatch.setattr(heartbeats, '_answers', lambda: next(answers))
    heartbeats.probe()
    heartbeats.probe()
    assert heartbeats.silence_s == 15.0

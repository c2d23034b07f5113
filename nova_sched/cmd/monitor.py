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
"""What a daemon tells systemd: that it is ready, reloads and stops, and that its workers live.

A Monitor in its first process reads the heartbeats of the workers, and passes them to Systemd.
"""

import contextlib
import http.client
import logging
import multiprocessing
import os
import threading
import time

import psutil
import sdnotify

from nova_sched import errors

LOG = logging.getLogger(__name__)

NAMES = ('NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID')
STEP_S = 0.5
WATCHDOG_HEARTBEATS = 4  # to systemd, within the time that it allows
SILENT = 0.5  # of that time: a worker that has not moved for so long counts as silent
PID, ALIVE_S, RELOADS, FIELDS = 0, 1, 2, 3  # of a slot
LOCK_S = 1.0  # a worker that was killed may have kept the lock
FIRST_S, PROBE_S = 0.2, 5.0  # between two probes of an API: until it is ready, and after that
TIMEOUT_S = 5.0


class Monitor:
    """Runs in the first process of a daemon of ``count`` workers; its methods do nothing in any
    other one. ``problem()`` is what is wrong with the options of the last reload, or ''."""

    def __init__(self, systemd, heartbeats, count, problem=lambda: '', clock=time.monotonic):
        self._systemd, self._heartbeats, self._count = systemd, heartbeats, count
        self._problem, self._clock = problem, clock
        self._pid = os.getpid()
        self._is_ready = self._is_reloading = self._is_stopping = self._is_silent = False
        self._last_status, self._due_s = None, 0.0

    def start(self):
        if not self._systemd.is_there:
            return
        threading.Thread(target=self._run, name='nova-sched-systemd', daemon=True).start()

    def _run(self):
        while True:
            self.step()
            time.sleep(STEP_S)

    def reloading(self):
        """The daemon was told to reload."""
        if os.getpid() == self._pid:
            self._heartbeats.want_reload()
            self._is_reloading = True
            self._systemd.reloading()

    def applied(self, is_valid):
        """This process has read the new configuration, and its workers may apply it if that is
        valid."""
        if os.getpid() == self._pid:
            self._heartbeats.apply(is_valid)

    def stopping(self):
        if os.getpid() == self._pid:
            self._is_stopping = True
            self._systemd.stopping()

    def step(self):
        """Tell what has changed."""
        if not self._is_stopping:
            self._tell_state()
        now_s, watchdog_s = self._clock(), self._systemd.watchdog_s
        if watchdog_s is not None and now_s >= self._due_s and self._speaks_for_all(watchdog_s):
            self._due_s = now_s + watchdog_s / WATCHDOG_HEARTBEATS
            self._systemd.alive()

    def _tell_state(self):
        ready = self._heartbeats.ready
        was_ready = self._is_ready and not self._is_reloading
        self._is_ready = self._is_ready or ready == self._count
        self._is_reloading = self._is_reloading and not self._heartbeats.is_reloaded
        is_ready = self._is_ready and not self._is_reloading
        status = f'{ready} of {self._count} workers ready'
        if is_ready and (problem := self._problem()):
            status += f'; The configuration is not reloaded: {problem}'
        if is_ready and not was_ready:
            self._systemd.ready(status)
        elif status != self._last_status:
            self._systemd.status(status)
        self._last_status = status

    def _speaks_for_all(self, watchdog_s):
        silence_s = self._heartbeats.silence_s
        is_silent = silence_s > SILENT * watchdog_s
        if is_silent and not self._is_silent:
            LOG.error(
                'The loop of a worker has not moved for %.0f s; systemd gets no heartbeat now',
                silence_s,
            )
        self._is_silent = is_silent
        return not is_silent


class Systemd:
    """Messages to systemd; if it is not there, they go nowhere. ``watchdog_s`` is the time within
    which it wants a heartbeat, in seconds; None: it wants none."""

    def __init__(self):
        """Take its variables out of the environment: they are not for libraries and children."""
        self._notifier = sdnotify.SystemdNotifier()
        socket, usec, pid = (os.environ.pop(name, '') for name in NAMES)
        self.is_there = bool(socket)
        is_for_us = usec.isdecimal() and int(usec) and pid in ('', str(os.getpid()))
        self.watchdog_s = int(usec) / 1e6 if is_for_us else None

    def ready(self, status):
        self._notifier.notify(f'READY=1\nSTATUS={status}')

    def reloading(self):
        now_usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._notifier.notify(f'RELOADING=1\nMONOTONIC_USEC={now_usec}\nSTATUS=Reloading')

    def stopping(self):
        self._notifier.notify('STOPPING=1\nSTATUS=Stopping: pending calls are answered')

    def status(self, text):
        self._notifier.notify(f'STATUS={text}')

    def alive(self):
        self._notifier.notify('WATCHDOG=1')


class WorkerHeartbeats:
    """Each of ``count`` workers writes to its slot, and the daemon's first process reads all.

    ``reloads`` counts the reloads that the daemon was told to make; ``accepted`` is the number of
    the last one whose configuration was valid. A worker that starts has the options of reload
    ``applied``. Make it before the fork.
    """

    def __init__(self, count, clock=time.monotonic):
        self._told = multiprocessing.RawArray('q', 2)
        self._slots = [multiprocessing.RawArray('d', FIELDS) for _ in range(count)]
        self._lock = multiprocessing.Lock()
        self._mine = None
        self._clock = clock
        self.applied = 0

    @property
    def reloads(self):
        return self._told[0]

    @property
    def accepted(self):
        return self._told[1]

    # In a worker.

    def begin(self):
        """Take a slot: of a worker that has ended, or one that is free."""
        is_locked = self._lock.acquire(timeout=LOCK_S)
        try:
            self._mine = next(slot for slot in self._slots if not _is_alive(slot))
            self._mine[:] = [os.getpid(), 0.0, self.applied]
        finally:
            if is_locked:
                self._lock.release()

    def send(self, alive_s):
        """``alive_s``: when the worker's loop last moved, in monotonic seconds; 0 while it
        starts."""
        self._mine[ALIVE_S] = alive_s

    def reloaded(self, number):
        """This worker has applied the options of that reload. Does nothing in another process."""
        if self._mine is not None:
            self._mine[RELOADS] = number

    # In the first process.

    def want_reload(self):
        self._told[0] += 1

    def apply(self, is_valid):
        """This process has read the configuration of the last reload."""
        self.applied = self.reloads
        if is_valid:
            self._told[1] = self.reloads

    @property
    def ready(self):
        """The number of workers that are ready."""
        return sum(bool(slot[ALIVE_S]) for slot in self._living())

    @property
    def is_reloaded(self):
        """Whether every worker has the options of the last reload."""
        return all(slot[RELOADS] >= self.reloads for slot in self._living())

    @property
    def silence_s(self):
        """Seconds since the loop of some worker has moved; a worker that starts does not count."""
        heartbeats = [slot[ALIVE_S] for slot in self._living() if slot[ALIVE_S]]
        return max(0.0, self._clock() - min(heartbeats)) if heartbeats else 0.0

    def _living(self):
        return [slot for slot in self._slots if _is_alive(slot)]


def _is_alive(slot):
    return bool(slot[PID]) and psutil.pid_exists(int(slot[PID]))


class ApiHeartbeats:
    """What a monitor asks of the workers of a daemon (``WorkerHeartbeats``), for one web server.

    ``address`` is where it listens. ``reach()`` raises BrokerUnavailable while the bus does not
    answer.
    """

    is_reloaded = True

    def __init__(self, address, reach, clock=time.monotonic):
        self._host, self._port = address
        self._reach, self._clock = reach, clock
        self._is_reached, self._alive_s = False, None

    @property
    def ready(self):
        """The number of servers that are ready: 0 or 1."""
        return int(self._is_reached and self._alive_s is not None)

    @property
    def silence_s(self):
        """Seconds since the server has answered."""
        return 0.0 if self._alive_s is None else self._clock() - self._alive_s

    def start(self):
        threading.Thread(target=self._run, name='nova-sched-heartbeats', daemon=True).start()

    def _run(self):
        while True:
            self.probe()
            time.sleep(PROBE_S if self.ready else FIRST_S)

    def probe(self):
        """One probe."""
        if not self._is_reached:
            with contextlib.suppress(errors.BrokerUnavailable):
                self._reach()
                self._is_reached = True
        asked_s = self._clock()
        if self._answers():
            self._alive_s = asked_s

    def _answers(self):
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request('GET', '/healthcheck/live')
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

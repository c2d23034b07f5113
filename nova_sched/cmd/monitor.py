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
"""Tells systemd what a daemon does: ready, reloading, stopping, and that its workers live."""

import logging
import os
import threading
import time

LOG = logging.getLogger(__name__)

STEP_S = 0.5
PINGS = 4  # signs of life to systemd, within the time that it allows
SILENT = 0.5  # of that time: a worker that has not moved for so long is not spoken for


class Monitor:
    """Runs in the first process of a daemon of ``count`` workers; its methods do nothing in any
    other one. ``problem()`` is what is wrong with the options of the last reload, or ''."""

    def __init__(self, systemd, signs, count, problem=lambda: '', clock=time.monotonic):
        self._systemd, self._signs, self._count = systemd, signs, count
        self._problem, self._clock = problem, clock
        self._pid = os.getpid()
        self._is_ready = self._is_reloading = self._is_stopping = self._is_silent = False
        self._told, self._due_s = None, 0.0

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
            self._signs.want_reload()
            self._is_reloading = True
            self._systemd.reloading()

    def applied(self, is_valid):
        """This process has read the new configuration, and its workers may apply it if that is
        valid."""
        if os.getpid() == self._pid:
            self._signs.apply(is_valid)

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
            self._due_s = now_s + watchdog_s / PINGS
            self._systemd.alive()

    def _tell_state(self):
        ready = self._signs.ready
        was_ready = self._is_ready and not self._is_reloading
        self._is_ready = self._is_ready or ready == self._count
        self._is_reloading = self._is_reloading and not self._signs.is_reloaded
        if not self._is_ready or self._is_reloading:
            self._tell_status(f'{ready} of {self._count} workers ready')
        elif not was_ready:
            self._told = self._status(ready)
            self._systemd.ready(self._told)
        else:
            self._tell_status(self._status(ready))

    def _status(self, ready):
        problem = self._problem()
        words = f'The configuration is not reloaded: {problem}' if problem else ''
        return '; '.join(filter(None, [f'{ready} of {self._count} workers ready', words]))

    def _tell_status(self, text):
        if text != self._told:
            self._told = text
            self._systemd.status(text)

    def _speaks_for_all(self, watchdog_s):
        silence_s = self._signs.silence_s
        is_silent = silence_s > SILENT * watchdog_s
        if is_silent and not self._is_silent:
            LOG.error(
                'The loop of a worker has not moved for %.0f s; systemd gets no sign of life now',
                silence_s,
            )
        self._is_silent = is_silent
        return not is_silent

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
"""The service manager that has started this process, if it is systemd: what it is told, and how
often it wants to hear that the process works."""

import os
import time

import sdnotify

NAMES = ('NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID')


class Systemd:
    """Messages to systemd; if it is not there, they go nowhere. ``watchdog_s`` is the time within
    which it wants a sign of life, in seconds; None: it wants none."""

    def __init__(self):
        """Takes its variables out of the environment: they are not for libraries and children."""
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

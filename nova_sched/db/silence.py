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
"""Ends connections of psycopg2 on which a server does not answer: libpq itself waits forever.

TCP detects a machine that is gone. It does not detect a server that hangs, or a proxy that
acknowledges data that it cannot forward.
"""

import contextlib
import os
import socket
import threading
import time
import weakref

import psycopg2
import psycopg2.extensions

CHECKS = 20  # in the time that an answer may take


class SilenceMonitor:
    """Checks the connections that it made, in a thread that runs as long as one of them exists.

    ``limit_s``: seconds that the answer to one message may take. After that its sender gets an
    OperationalError, and the connection is closed.
    """

    def __init__(self, limit_s):
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._made = weakref.WeakSet()
        self._thread = None

    def connection(self, *given, **named):
        """Make a connection: psycopg2's ``connection_factory``."""
        connection = _Connection(*given, **named)
        with self._lock:
            self._made.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name='nova-sched-silence', daemon=True
                )
                self._thread.start()
        return connection

    def _run(self):
        while self._check():
            time.sleep(self._limit_s / CHECKS)

    def _check(self):
        """Close connections that have waited too long. Returns whether any connection is left."""
        with self._lock:
            connections = list(self._made)
            if not connections:
                self._thread = None
        before_s = time.monotonic() - self._limit_s
        for connection in connections:
            connection.cut_if_asked(before_s)
        return bool(connections)


class _Connection(psycopg2.extensions.connection):
    """Stores the time since when it waits for an answer."""

    def __init__(self, *given, **named):
        self._lock = threading.Lock()
        self._asked_s, self._cut = None, False
        super().__init__(*given, **named)
        self.cursor_factory = _Cursor

    def commit(self):
        self.wait_for(super().commit)

    def rollback(self):
        self.wait_for(super().rollback)

    def wait_for(self, send, *given):
        """Call ``send``, which sends a message and waits for its answer."""
        self._asked_s = time.monotonic()
        try:
            send(*given)
        except psycopg2.Error as error:
            if self._cut:
                raise psycopg2.OperationalError(
                    'no answer has come in time; the connection is closed'
                ) from error
            raise
        finally:
            # The next message may follow soon; the connection must not be closed because of that
            # one.
            with self._lock:
                self._asked_s = None

    def cut_if_asked(self, before_s):
        """End the connection if it waits since before that time."""
        with self._lock:
            if self._asked_s is None or self._asked_s > before_s:
                return
            self._cut = True
            # The descriptor is libpq's; the end of the connection is visible through a copy too.
            with contextlib.suppress(OSError, psycopg2.Error):
                copy = socket.socket(fileno=os.dup(self.fileno()))
                with copy:
                    copy.shutdown(socket.SHUT_RDWR)


class _Cursor(psycopg2.extensions.cursor):
    def execute(self, query, given=None):
        self.connection.wait_for(super().execute, query, given)

    def executemany(self, query, given):
        self.connection.wait_for(super().executemany, query, given)

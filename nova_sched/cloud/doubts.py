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
"""Requests that Placement has done, or may have done, and whose callers were refused: what they
have written is taken back."""

import dataclasses
import logging
import threading
import time

from nova_sched import errors
from nova_sched.cloud.allocation_write import Sent

LOG = logging.getLogger(__name__)

RETRY_S = 1.0  # while Placement or the store does not answer
STOP_S = 2.0  # for a look that is under way
LOOKS = 2  # a request may be done after the first look


@dataclasses.dataclass(slots=True)
class Doubt:
    sent: Sent
    due_s: float
    looks: int = LOOKS


class Doubts:
    """Takes back what requests have written after all, in a thread.

    Nothing is removed that is not as this request has written it: the consumer's generation says
    so. A later call may have written the same, or be about to: while the server has another
    pending claim on that node, the look is repeated, and nothing is removed if it has a confirmed
    one. ``claims`` returns the claims of a server (and may raise StoreUnavailable). ``late_s``: a
    request may be done this long after it was given up.
    """

    def __init__(self, client, turns, claims, late_s, clock=time.monotonic):
        self._client, self._turns, self._claims = client, turns, claims
        self._late_s, self._clock = late_s, clock
        self._waiting: dict[str, list[Doubt]] = {}  # by server
        self._lock = threading.Lock()
        self._wake, self._leaving = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None  # from the first doubt on

    def add(self, sent):
        """Take back what this request has written, or may have written."""
        with self._lock:
            if self._leaving.is_set():
                _warn(sent)
                return
            doubts = self._waiting.setdefault(sent.server.uuid, [])
            for earlier in doubts:
                if earlier.sent.is_in(sent.before):  # it must not come back
                    sent = dataclasses.replace(sent, before=earlier.sent.before)
            doubts.append(Doubt(sent, self._clock()))
            if self._thread is None:
                name = 'nova-sched-doubts'
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
        self._wake.set()

    def forget(self, server):
        """A later request for the server was done: what earlier ones have written is gone or
        is its own."""
        with self._lock:
            self._waiting.pop(server, None)

    @property
    def pending(self):
        """The number of servers with doubts."""
        return len(self._waiting)

    def stop(self):
        """End the thread, and log the servers whose allocations are not certain."""
        with self._lock:
            self._leaving.set()
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(STOP_S)
        with self._lock:  # the thread may still end one
            left = [one.sent for doubts in self._waiting.values() for one in doubts]
        for sent in left:
            _warn(sent)

    def _run(self):
        while not self._leaving.is_set():
            due = [one for doubts in list(self._waiting.values()) for one in doubts]
            next_s = min((one.due_s for one in due), default=None)
            pause_s = None if next_s is None else next_s - self._clock()
            if pause_s is None or pause_s > 0:
                self._wake.wait(pause_s)
                self._wake.clear()
                continue
            for doubt in due:
                if doubt.due_s <= self._clock() and not self._leaving.is_set():
                    self._settle(doubt)

    def _settle(self, doubt):
        """Look at one server, while no other request for it is under way."""
        server, started = doubt.sent.server, threading.Event()
        turns = []

        def start(turn):
            turns.append(turn)
            started.set()

        self._turns.enter([server.uuid], start)
        started.wait()
        try:
            if doubt in self._waiting.get(server.uuid, ()):
                self._look(doubt)
        except errors.SchedError as error:
            LOG.debug('%s', error)
            doubt.due_s = self._clock() + RETRY_S
        except Exception:
            LOG.exception('The allocations of instance %s cannot be checked', server.uuid)
            self._end(doubt)
        finally:
            self._turns.leave(turns[0])

    def _look(self, doubt):
        server = doubt.sent.server
        found = self._client.allocations_of(server.uuid)
        if not doubt.sent.is_in(found):
            doubt.looks -= 1
            doubt.due_s = self._clock() + self._late_s
            if not doubt.looks:
                self._end(doubt)
            return
        # The claims are read after the allocations. A later claim has a later write, and then this
        # removal or that write loses by the consumer's generation.
        others = [one for one in self._claims(server.uuid) if server.is_of_another(one)]
        if others and not any(one.is_confirmed for one in others):
            doubt.due_s = self._clock() + self._late_s
            return
        if not others:
            before = dataclasses.replace(found, providers=doubt.sent.before.providers)
            self._client.put_back({server.uuid: before})
            LOG.warning(
                'Took back the allocations of instance %s on node %s: its caller was refused',
                server.uuid,
                server.node_uuid,
            )
        self._end(doubt)

    def _end(self, doubt):
        with self._lock:
            doubts = self._waiting.get(doubt.sent.server.uuid, [])
            if doubt in doubts:
                doubts.remove(doubt)
            if not doubts:
                self._waiting.pop(doubt.sent.server.uuid, None)


def _warn(sent):
    LOG.warning(
        'Instance %s was refused, but may have allocations on node %s in Placement',
        sent.server.uuid,
        sent.server.node_uuid,
    )

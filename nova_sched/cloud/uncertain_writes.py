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
"""The order of writes to Placement, and those that it has done, or may have done, although their
callers were refused: what they have written is taken back."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable

from nova_sched import errors
from nova_sched.cloud.allocation_write import Sent

LOG = logging.getLogger(__name__)

RETRY_S = 1.0  # while Placement or the store does not answer
STOP_S = 2.0  # for a check that is under way
CHECKS = 2  # of a request: it may be done after the first one


@dataclasses.dataclass(slots=True, eq=False)
class QueuedWrite:
    """Work about some servers, from its entry until it leaves."""

    servers: frozenset[str]
    start: 'Callable[[QueuedWrite], None]'
    waits: int = 0
    followers: 'list[QueuedWrite]' = dataclasses.field(default_factory=list)


class WriteQueue:
    """Starts work in the order of its entry, as soon as all earlier work about its servers has
    left. May be used from any thread."""

    def __init__(self) -> None:
        self._last: dict[str, QueuedWrite] = {}
        self._lock = threading.Lock()

    def enter(self, servers: Iterable[str], start: Callable[[QueuedWrite], None]) -> None:
        """Call ``start`` with the QueuedWrite, now or when its turn comes. It must not wait."""
        turn = QueuedWrite(frozenset(servers), start)
        with self._lock:
            earlier = {self._last[server] for server in turn.servers if server in self._last}
            turn.waits = len(earlier)
            for earlier_turn in earlier:
                earlier_turn.followers.append(turn)
            self._last.update(dict.fromkeys(turn.servers, turn))
        if not earlier:
            start(turn)

    def leave(self, turn: QueuedWrite) -> None:
        with self._lock:
            for server in turn.servers:
                if self._last[server] is turn:
                    del self._last[server]
            for follower in turn.followers:
                follower.waits -= 1
            ready = [follower for follower in turn.followers if not follower.waits]
        for follower in ready:
            follower.start(follower)


@dataclasses.dataclass(slots=True)
class UncertainWrite:
    sent: Sent
    due_s: float
    checks: int = CHECKS


class UncertainWrites:
    """Takes back what requests have written after all, in a thread.

    Nothing is removed that is not as this request has written it: the consumer's generation says
    so. Another call may have written the same, or be about to: while the server has another
    pending claim on that node, the check is repeated, and nothing is removed if it has a confirmed
    one. The reconciler removes what no server needs. ``claims`` returns the claims of a server
    (and may raise StoreUnavailable). ``late_s``: a request may be done this long after it was
    given up.
    """

    def __init__(self, client, queue, claims, late_s, clock=time.monotonic):
        self._client, self._queue, self._claims = client, queue, claims
        self._late_s, self._clock = late_s, clock
        self._waiting: dict[str, list[UncertainWrite]] = {}  # by server
        self._lock = threading.Lock()
        self._wake, self._leaving = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None  # from the first uncertain write on

    def add(self, sent):
        """Take back what this request has written, or may have written."""
        with self._lock:
            if self._leaving.is_set():
                _warn(sent)
                return
            sent = self._before_all(sent)
            writes = self._waiting.setdefault(sent.server.uuid, [])
            writes.append(UncertainWrite(sent, self._clock()))
            if self._thread is None:
                name = 'nova-sched-writes'
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
        self._wake.set()

    def take_back(self, sent):
        """Take back what a request has written, while its caller waits. Return whether that was
        done: not if the allocations or the claims are those of another call. Raises SchedError."""
        with self._lock:
            sent = self._before_all(sent)
        return self._put_back(sent) == []

    def _before_all(self, sent):
        """The request, ``before`` it what the server had before earlier uncertain ones: what
        these have written must not come back."""
        for earlier in self._waiting.get(sent.server.uuid, ()):
            if earlier.sent.is_in(sent.before):
                sent = dataclasses.replace(sent, before=earlier.sent.before)
        return sent

    def forget(self, server):
        """A later request for the server was done: what earlier ones have written is gone or
        is its own."""
        with self._lock:
            self._waiting.pop(server, None)

    @property
    def pending(self):
        """The number of servers with uncertain writes."""
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
            left = [write.sent for writes in self._waiting.values() for write in writes]
        for sent in left:
            _warn(sent)

    def _run(self):
        while not self._leaving.is_set():
            due = [write for writes in list(self._waiting.values()) for write in writes]
            next_s = min((write.due_s for write in due), default=None)
            pause_s = None if next_s is None else next_s - self._clock()
            if pause_s is None or pause_s > 0:
                self._wake.wait(pause_s)
                self._wake.clear()
                continue
            for write in due:
                if write.due_s <= self._clock() and not self._leaving.is_set():
                    self._settle(write)

    def _settle(self, write):
        """Check one server, while no other request for it is under way."""
        server, started = write.sent.server, threading.Event()
        entered = []

        def start(turn):
            entered.append(turn)
            started.set()

        self._queue.enter([server.uuid], start)
        started.wait()
        try:
            if write in self._waiting.get(server.uuid, ()):
                self._check(write)
        except errors.SchedError as error:
            LOG.debug('%s', error)
            write.due_s = self._clock() + RETRY_S
        except Exception:
            LOG.exception('The allocations of instance %s cannot be checked', server.uuid)
            self._end(write)
        finally:
            self._queue.leave(entered[0])

    def _check(self, write):
        server, others = write.sent.server, self._put_back(write.sent)
        if others is None:
            write.checks -= 1
            write.due_s = self._clock() + self._late_s
            if not write.checks:
                self._end(write)
        elif others and not any(claim.is_confirmed for claim in others):
            write.due_s = self._clock() + self._late_s
        else:
            if not others:
                LOG.warning(
                    'Took back the allocations of instance %s on node %s: its caller was refused',
                    server.uuid,
                    server.node_uuid,
                )
            self._end(write)

    def _put_back(self, sent):
        """Put back what a server had before a request. Return the claims that keep what it has
        now, if there are any. None: Placement does not have what the request wrote."""
        server = sent.server
        allocations = self._client.allocations_of(server.uuid)
        if not sent.is_in(allocations):
            return None
        # The claims are read after the allocations. A later claim has a later write, and then this
        # removal or that write loses by the consumer's generation.
        others = [claim for claim in self._claims(server.uuid) if sent.is_kept_by(claim)]
        if not others:
            before = dataclasses.replace(allocations, providers=sent.before.providers, mappings={})
            self._client.put_back({server.uuid: before})
        return others

    def _end(self, write):
        with self._lock:
            writes = self._waiting.get(write.sent.server.uuid, [])
            if write in writes:
                writes.remove(write)
            if not writes:
                self._waiting.pop(write.sent.server.uuid, None)


def _warn(sent):
    LOG.warning(
        'Instance %s was refused, but may have allocations on node %s in Placement',
        sent.server.uuid,
        sent.server.node_uuid,
    )

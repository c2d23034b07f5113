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
"""Writes the allocations of won decisions to Placement, before their callers are answered."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from random import Random

from nova_sched import errors
from nova_sched.cloud import allocation_write
from nova_sched.cloud.allocation_write import AllocationWrite
from nova_sched.cloud.uncertain_writes import UncertainWrites, WriteQueue
from nova_sched.engine.clock import Received
from nova_sched.engine.measuring import PLACEMENT
from nova_sched.engine.writer import GONE, WriteOutcome
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import CALL_SECONDS

LOG = logging.getLogger(__name__)

STOPPING = 'The scheduler stops.'
NOT_TAKEN_BACK = 'A chosen host is not up, and its allocations cannot be taken back'


@dataclasses.dataclass(frozen=True, slots=True)
class WriteLimits:
    """How long a write may go on: until a moment, while its caller waits, and until the writer
    stops. ``report`` is told why Placement does not answer."""

    until_s: float
    received: Received
    stopping: threading.Event
    report: Callable[[Exception], None]

    def left_s(self):
        return max(0.1, self.until_s - time.monotonic())

    def is_over(self):
        return time.monotonic() >= self.until_s or self.received.is_over()

    def wait(self, seconds):
        """Pause. Returns whether the write may go on."""
        if seconds:
            self.stopping.wait(min(seconds, self.left_s()))
        return not (self.is_over() or self.stopping.is_set())


class AllocationWriter:
    """A writer.Writer, for ``in_flight`` decisions at a time; those for one server wait until the
    one before is answered.

    ``claims`` returns the claims that the store has of a server. ``host_of`` returns the host of a
    compute node by its UUID, None if it is not a compute node; ``is_moving`` returns whether Nova
    moves a server now. ``not_up`` is called with the UUIDs of the chosen nodes and of the
    alternates while Placement writes, and returns those whose hosts take no servers; then the
    writer takes back its allocations, and the order is decided again. ``reread`` is called with
    the UUIDs of nodes that Placement has refused, before their order is decided again: it reads
    their usages. All of these run in threads of the writer. A write is
    given up when its order is ``timeout_s`` old; Placement may do its last request up to
    ``late_s`` later.
    """

    def __init__(
        self,
        client,
        claims,
        host_of,
        is_moving,
        reread,
        in_flight=8,
        timeout_s=60.0,
        late_s=20.0,
        random=None,
        not_up=lambda _: (),
    ):
        self._new_write = functools.partial(
            AllocationWrite, client, claims, host_of, is_moving, random or Random()
        )
        self._reread, self._not_up, self._timeout_s = reread, not_up, timeout_s
        self._queue = WriteQueue()
        self._uncertain = UncertainWrites(client, self._queue, claims, late_s)
        self._problems = Problems(LOG)
        self._leaving, self._stopped = threading.Event(), threading.Event()
        self._writing, self._idle = set[Future](), threading.Condition()
        self._pool = concurrent.futures.ThreadPoolExecutor(in_flight, 'nova-sched-write')
        self._checks = concurrent.futures.ThreadPoolExecutor(in_flight, 'nova-sched-verify')

    def write(self, decision, claims, answer, message):
        """See Writer. Rebuilds, and orders without claims, have nothing to write."""
        servers = allocation_write.servers(decision, claims, answer, message.work.context)
        if not servers:
            return None
        future = Future[WriteOutcome]()
        with self._idle:
            if self._stopped.is_set():
                future.set_result(WriteOutcome(won=False, refusal=STOPPING))
                return future
            self._writing.add(future)
        nodes = {selection.node_uuid for chosen in answer for selection in chosen}
        start = functools.partial(self._start, servers, nodes, message, future)
        self._queue.enter([server.uuid for server in servers], start)
        return future

    def _start(self, servers, nodes, message, future, turn):
        with contextlib.suppress(RuntimeError):  # the writer has stopped
            self._pool.submit(self._run, turn, servers, nodes, message, future)

    @property
    def pending(self):
        """How many decisions are not written yet, and of how many servers it is not known whether
        they were."""
        return len(self._writing), self._uncertain.pending

    def leave(self, seconds):
        """Stop in so many seconds; until then writes are done, also new ones, but not repeated.
        Does not wait."""
        self._leaving.set()
        timer = threading.Timer(seconds, self.stop, [0.0])
        timer.daemon = True
        timer.start()

    def stop(self, seconds):
        """Let writes end for so long; they are not repeated any more, and new ones are refused.

        Call it before the loop stops: their callers are answered there.
        """
        self._leaving.set()
        with self._idle:
            if self._stopped.is_set():
                return
            self._stopped.set()
            self._idle.wait_for(lambda: not self._writing, seconds)
            left = list(self._writing)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for future in left:
            self._end(future, WriteOutcome(won=False, refusal=STOPPING))
        self._uncertain.stop()
        self._checks.shutdown(wait=False)

    # The threads.

    def _run(self, turn, servers, nodes, message, future):
        limits = WriteLimits(
            message.since_s + self._timeout_s, message.received, self._leaving, self._no_answer
        )
        write = self._new_write(servers, limits, message.attempts > 0)
        outcome = WriteOutcome(won=False, refusal='Its allocations could not be written.')
        begin_s = time.monotonic()
        try:
            outcome = self._outcome(write, nodes, message.received)
        except Exception:
            LOG.exception('The allocations of a decision cannot be written')
        CALL_SECONDS.observe(time.monotonic() - begin_s, PLACEMENT)
        if outcome.won:
            end = functools.partial(self._answered, turn, write.sent.values())
            outcome = dataclasses.replace(outcome, end=end)
        # The next write for these servers has to know whether what this one wrote stands.
        if not (self._end(future, outcome) and outcome.won):
            self._queue.leave(turn)

    def _answered(self, turn, all_sent, is_answered):
        """The caller of a write got its answer, or it did not. Called by the loop."""
        for sent in all_sent:
            if is_answered:
                self._uncertain.forget(sent.server.uuid)
            else:
                self._uncertain.add(sent)
        self._queue.leave(turn)

    def _outcome(self, write, nodes, received):
        # A request takes Placement longer than a cell's database takes for its services.
        check = self._checks.submit(self._not_up, nodes)
        outcome = write.run()
        if not outcome.won:
            if write.is_doubtful:
                self._doubt(write)
            if write.full:
                try:
                    self._reread(write.full)
                except Exception:  # the order is decided on what is known
                    LOG.exception('Nodes %s cannot be read', ', '.join(write.full))
            return outcome
        self._problems.end('Placement', 'Placement answers again')
        try:
            is_any_not_up = bool(check.result())
        except Exception:  # the order is decided again, on what is known then
            LOG.exception('The services of the chosen hosts cannot be read')
            is_any_not_up = True
        # After that, because a cell's database may be slow. Nova has gone on then.
        if received.is_over():
            self._doubt(write)
            return WriteOutcome(won=False, refusal=GONE)
        return self._take_back(write) if is_any_not_up else outcome

    def _take_back(self, write):
        """Take back what was written: a host takes no servers. The order is decided again, unless
        it is not known whether the allocations are gone."""
        why = 'others have changed or claimed them'
        try:
            if all(self._uncertain.take_back(sent) for sent in write.sent.values()):
                return WriteOutcome(won=False, taken_back=True)
        except errors.SchedError as error:
            why = str(error)
        self._doubt(write)
        return WriteOutcome(won=False, refusal=f'{NOT_TAKEN_BACK}: {why}')

    def _doubt(self, write):
        for sent in write.sent.values():
            self._uncertain.add(sent)

    def _no_answer(self, error):
        self._problems.begin(
            'Placement', '%s; requests are repeated while their callers wait', error
        )

    def _end(self, future, outcome):
        """Return whether the loop gets the outcome; it does not after ``stop``."""
        with self._idle:
            if future not in self._writing:
                if outcome.won:
                    LOG.warning('Allocations were written after the writer had stopped')
                return False
            self._writing.remove(future)
            self._idle.notify_all()
        future.set_result(outcome)
        return True

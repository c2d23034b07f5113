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
"""Decides the copies of calls, looks for what the cloud did, and writes both down."""

import contextlib
import dataclasses
import heapq
import itertools
import logging
import queue
import threading
import time

from nova_sched import errors
from nova_sched.extensions.shadow.comparison import Choice, ShadowDecision, compared, moment
from nova_sched.logs import MINUTE_S, Problems

LOG = logging.getLogger(__name__)

FIRST_S, LAST_S = 0.25, 8.0  # pauses before reads of what the cloud did: the first, the longest
STOP_S = 10.0
MAX_TRIES = 10  # of a decision whose hosts turn out to be out of service
MAX_NAMED = 100  # hosts that a line names


@dataclasses.dataclass(slots=True)
class Pending:
    """A decision, and the Choices of its instances that were found by now."""

    decision: ShadowDecision
    give_up_s: float
    pause_s: float = FIRST_S
    choices: dict[str, Choice] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class WatchSettings:
    """``best``: how many of the best hosts the scheduler chooses from. ``wait_s``: how long to
    look for what the cloud did. ``tell_s``: the interval of lines about what was missed."""

    best: int = 1
    wait_s: float = 60.0
    tell_s: float = MINUTE_S


class Watcher:
    """Two threads: one decides each copy at once, the other one looks for what the cloud did.

    ``choices`` (comparison.Choices) finds that. At most ``most`` copies wait to be decided,
    and as many decisions wait for the cloud. The decisions keep no claims. ``counts`` (a Counter)
    has what was not compared: copies that were `lost` here, and those of a CallCopies.
    """

    def __init__(
        self, scheduler, mirror, choices, journal, counts, most=1000, settings=WatchSettings
    ):
        self._scheduler, self._mirror, self._choices = scheduler, mirror, choices
        self._journal, self._most, self._settings = journal, most, settings
        self._counts = counts
        self._copies: queue.Queue = queue.Queue(most)
        self._decided: queue.SimpleQueue = queue.SimpleQueue()
        # A heap, by the time of the next read.
        self._waiting: list[tuple[float, int, Pending]] = []
        self._numbers = itertools.count()
        self._problems = Problems(LOG)
        self._told_counts, self._told_left_out = {}, {}
        self._told_s = float('-inf')
        self._leaving = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f'nova-sched-{name}', daemon=True)
            for name, work in (('decide', self._decide_all), ('compare', self._compare_all))
        ]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        """Write down what was decided, and end."""
        self._leaving.set()
        self._decided.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_S)

    def take(self, copy):
        """Decide a rpc.copies.CopiedCall soon. Does not wait."""
        try:
            self._copies.put_nowait(copy)
        except queue.Full:
            self._counts['lost'] += 1

    # The first thread.

    def _decide_all(self):
        while not self._leaving.is_set():
            try:
                copy = self._copies.get(timeout=0.5)
            except queue.Empty:
                continue
            try:
                self._decided.put(self.decide(copy))
            except Exception:
                LOG.exception('Request %s cannot be decided', copy.context.request_id)
                self._counts['lost'] += 1

    def decide(self, copy):
        """Return the ShadowDecision on a copy."""
        requests, first = copy.requests, copy.requests[0]
        chosen, reason = (), None
        try:
            # Then their services are read once more, as a scheduler does before it claims.
            for _ in range(MAX_TRIES):
                placed = self._scheduler.place(requests, claim=False, context=copy.context)
                chosen = tuple((selection.node_uuid, selection.host) for selection, *_ in placed)
                if not self._mirror.not_up([node_uuid for node_uuid, _ in chosen]):
                    break
        except errors.SchedError as error:
            chosen, reason = (), str(error)
        took_s = time.monotonic() - copy.since_s
        try:
            standings = self._scheduler.call(self._scheduler.questions.standings, first)
        except errors.SchedError:  # the rules find the request invalid: so says the decision
            standings = None
        return ShadowDecision(
            request_id=copy.context.request_id,
            project_id=first.project_id,
            flavor=first.flavor_name,
            instances=tuple(request.instance_uuid for request in requests),
            ignored=first.ignore_hosts,
            is_check=first.is_rebuild or not copy.is_named,
            time_s=time.time() - took_s,
            took_s=took_s,
            chosen=chosen,
            reason=reason,
            standings=standings,
            best=self._settings().best,
            unreadable=tuple(self._mirror.unreadable),
        )

    # The second thread.

    def _compare_all(self):
        while not self._leaving.is_set():
            self._try(self._tell)
            due_s = self._waiting[0][0] if self._waiting else float('inf')
            pause_s = min(due_s - time.monotonic(), self._settings().tell_s)
            self._take_decided(max(0.0, pause_s))
            self._try(self._read_next)
        while not self._decided.empty():
            self._take_decided(0.0)
        for _, _, pending in sorted(self._waiting):
            self._try(self._end, pending)

    def _take_decided(self, timeout_s):
        with contextlib.suppress(queue.Empty):
            decided = self._decided.get(timeout=timeout_s)
            if decided is not None:
                self._try(self._add, decided)

    def _try(self, work, *args):
        try:
            work(*args)
            self._problems.end('file', 'The comparisons are written again')
        except OSError as error:
            self._problems.begin('file', 'The comparisons cannot be written: %s', error)
        except Exception:
            LOG.exception('A comparison failed')

    def _add(self, decision):
        """Wait for what the cloud does; if too many decisions wait, no more for the oldest."""
        pending = Pending(decision, time.monotonic() + self._settings().wait_s)
        if decision.is_check:
            self._end(pending)
            return
        self._put(pending)
        if len(self._waiting) > self._most:
            oldest = min(self._waiting, key=lambda waiting: waiting[2].give_up_s)
            self._waiting.remove(oldest)
            heapq.heapify(self._waiting)
            self._end(oldest[2])

    def _put(self, pending):
        due_s = time.monotonic() + pending.pause_s
        pending.pause_s = min(2 * pending.pause_s, LAST_S)
        heapq.heappush(self._waiting, (due_s, next(self._numbers), pending))

    def _read_next(self):
        """Read what the cloud did with the call whose read is due, if there is one."""
        if not self._waiting or self._waiting[0][0] > time.monotonic():
            return
        _, _, pending = heapq.heappop(self._waiting)
        try:
            for uuid in pending.decision.instances:
                if uuid not in pending.choices:
                    choice = self._choices.find(uuid, pending.decision.ignored)
                    if choice is not None:
                        pending.choices[uuid] = choice
            self._problems.end('cloud', 'Nova and Placement answer again')
        except errors.SchedError as error:
            self._problems.begin('cloud', '%s; comparisons wait for that', error)
        is_found = len(pending.choices) == len(pending.decision.instances)
        if is_found or time.monotonic() >= pending.give_up_s:
            self._end(pending)
        else:
            self._put(pending)

    def _end(self, pending):
        """Write a comparison, and read the cloud's hosts, which have changed."""
        for host in {choice.host for choice in pending.choices.values() if choice.host}:
            self._mirror.host_changed(host)
        self._journal.write(compared(pending.decision, pending.choices, self._mirror.left_out))

    def _tell(self):
        """Once a minute, write down what was missed, and which hosts are left out, if that is
        new."""
        if time.monotonic() < self._told_s + self._settings().tell_s:
            return
        self._told_s = time.monotonic()
        counts, left_out = dict(self._counts), dict(self._mirror.left_out)
        new = {
            name: count - self._told_counts.get(name, 0)
            for name, count in counts.items()
            if count > self._told_counts.get(name, 0)
        }
        if new:
            counted = ', '.join(f'{count} {name}' for name, count in new.items())
            LOG.warning('Not all calls were compared: %s', counted)
        if new or left_out != self._told_left_out:
            named = dict(sorted(left_out.items())[:MAX_NAMED])
            self._journal.write(
                {'time': moment(time.time()), 'missed': new, 'hosts_left_out': named}
            )
        self._told_counts, self._told_left_out = counts, left_out

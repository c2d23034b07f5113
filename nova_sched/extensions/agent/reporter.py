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
"""Reports this node to the scheduler: at each interval and at once after a change. Errors never
end the reporter."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oslo_utils import versionutils

from nova_sched import errors, words
from nova_sched.extensions.agent import difference, sysfs
from nova_sched.extensions.agent.difference import SETTLE_S, DifferenceLog
from nova_sched.extensions.agent.service import Agent, Facts
from nova_sched.logs import Problems, first_line
from nova_sched.measures.catalogue import REPORT_SECONDS, REPORTS
from nova_sched.state.report import MAX_BOOT, unsettled

LOG = logging.getLogger(__name__)

READ_S = 1.0  # seconds between two reads of the machine
READ_SHARE = 0.05  # of one CPU that reading may take; a large machine is read less often
RETRY_S = 2.0  # seconds before a report that was not answered is sent again
TELLS_NOTHING = errors.NoAnswer, errors.Outdated, OSError  # of the scheduler's release
READ, AWAY, REFUSED = 'read', 'away', 'refused'  # kinds of trouble
CANNOT = 'Node %s cannot be reported; trying until it can. %s'


def takes_new(answer: Any) -> bool:
    """Whether the scheduler that gave this answer takes the amounts of instances, and ``seen``."""
    version = answer.get('version') if isinstance(answer, dict) else None
    return version is not None and versionutils.is_compatible('1.2', version, same_major=False)


class ReportCount:
    """The number of the next report and of the current start; the file ``path`` stores the latter.

    Only one process may use the file. Raises BadMachineFacts if the file can be neither read nor
    written.
    """

    def __init__(self, path: Path):
        self._path = path
        self.sequence = 0
        self.boot = self._read() + 1
        self._write()

    def next(self) -> dict[str, int]:
        """Return the arguments of a report that number it."""
        self.sequence += 1
        return {'boot': self.boot, 'sequence': self.sequence}

    def pass_by(self, boot: int) -> None:
        """Continue after a start that the scheduler knows and this file does not, for a file from
        a backup."""
        if self.boot <= boot < MAX_BOOT:
            self._begin(boot + 1)

    def begin_anew(self) -> None:
        """Continue from 1: the scheduler knows no start of this node that the file follows. If it
        knows another one, its answer to the next report tells it."""
        self._begin(1)

    def _begin(self, boot: int) -> None:
        self.boot, self.sequence = boot, 0
        self._write()

    def _read(self) -> int:
        if not self._path.exists():
            return 0
        try:
            return words.whole(sysfs.text(self._path), most=MAX_BOOT - 1)
        except ValueError as error:
            why = f'{error}; remove the file'
            raise errors.BadMachineFacts(str(self._path), why) from None

    def _write(self) -> None:
        draft = self._path.with_name(f'{self._path.name}.{os.getpid()}')
        try:
            with draft.open('w') as file:
                file.write(f'{self.boot}\n')
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise errors.BadMachineFacts(str(self._path), error.strerror or str(error)) from error


class Reporter:
    """Reports an agent's facts through a StatsClient.

    ``count`` numbers the reports, so that a late report changes nothing. Each report also has the
    node's generation of the last answer before this machine was read: the scheduler settles only
    claims that have not changed since. ``interval_s`` is a
    function that returns the seconds between two reports; ``clock`` returns monotonic seconds. A
    report that takes longer than ``timeout_s`` seconds is logged while it waits, because a bus
    that never connected blocks its callers. ``step`` does all work that is due and can be called
    directly; ``start`` runs it in a thread. Nothing is reported before ``listens`` is called,
    because the scheduler sends servers to every node that it knows.
    """

    def __init__(
        self,
        agent: Agent,
        client: Any,
        interval_s: Callable[[], float],
        cell_uuid: str | None = None,
        timeout_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        count: ReportCount | None = None,
    ):
        self._agent = agent
        self._count = count
        self._client = client
        self._interval_s = interval_s
        self._cell_uuid = cell_uuid
        self._timeout_s = timeout_s
        self._clock = clock
        self._last: Facts | None = None  # content of the last report
        self._seen = 0  # the node's generation, from the last answer
        self._was_late = False  # the last report
        self._is_again = False  # the next report: it is made at once for what the last one left
        self._told_pause: float | None = None
        self._due_s = -math.inf
        self._listening = False
        self._waits_since_s: float | None = None  # for the host's own server to listen
        self._is_new = True  # whether the scheduler takes `stats` 1.2, as far as is known
        self._difference_log = DifferenceLog()
        self._problems = Problems(LOG)
        self._is_sending, self._moved_s = False, clock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-reporter', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def listens(self) -> None:
        """Mark the host's RPC server as reachable."""
        self._listening = True
        self._agent.news.set()

    def alive_s(self) -> float:
        """When it last moved, by its clock; 0 before ``listens``. A report may wait for the bus
        for any time."""
        if not self._listening:
            return 0.0
        return self._clock() if self._is_sending else self._moved_s

    def stop(self, timeout_s: float = 2.0) -> bool:
        """Stop reporting.

        Return False if a report still waits for its answer after ``timeout_s`` seconds.
        """
        self._stopping.set()
        self._agent.news.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            # In this order, so that a change or a stop during a step is not missed.
            self._agent.news.clear()
            if self._stopping.is_set():
                return
            self._rest(self.step())

    def _rest(self, seconds: float) -> None:
        """Wait for news, at most so long."""
        end_s = self._clock() + seconds
        while (left_s := end_s - self._clock()) > 0:
            self._moved_s = self._clock()
            if self._agent.news.wait(min(left_s, READ_S)):
                return

    def step(self) -> float:
        """Read the node, and report it if that is due or it has changed.

        Return the seconds until the next step.
        """
        begin = self._moved_s = self._clock()
        seen = self._seen
        facts = self._read()
        read_s = self._clock()
        if facts is not None and not self._listening:
            # Only an unreachable bus keeps a server from listening. It is logged once.
            if self._waits_since_s is None:
                self._waits_since_s = read_s
            elif read_s - self._waits_since_s >= self._timeout_s:
                why = f'The bus has not answered for {self._timeout_s:g} s'
                self._problems.begin(AWAY, CANNOT, facts.node.hypervisor_hostname, why)
            self._due_s = math.inf  # it is due as soon as the server listens
        elif facts is not None and (read_s >= self._due_s or facts.tells_more_than(self._last)):
            self._report(facts, seen)
        pause = max(READ_S, (read_s - begin) / READ_SHARE)
        return min(pause, max(0.0, self._due_s - self._clock()))

    def _read(self) -> Facts | None:
        try:
            facts = self._agent.read()
        except Exception as error:
            LOG.debug('Reading this machine failed', exc_info=True)
            self._problems.begin(READ, 'No report is made: %s', error, reason=first_line(error))
            self._due_s = self._clock() + READ_S
            return None
        self._problems.end(READ, 'This machine can be read again')
        return facts

    def _report(self, facts: Facts, seen: int) -> None:
        name, pause = facts.node.hypervisor_hostname, self._interval_s()
        if pause != self._told_pause:
            LOG.info('Reporting node %s each %s s, and each change at once', name, pause)
        self._last, self._told_pause = facts, pause
        begin_s, result, is_late = self._clock(), 'no answer', False
        try:
            answer = self._send(facts, seen)
            self._is_new = takes_new(answer)
            is_late = self._take_order(answer)
            if is_late and self._was_late:
                raise errors.Outdated('The report', 'the scheduler knows a later one of this node')
            counted = difference.there(answer)
        except errors.Invalid as refusal:
            result, self._is_new = 'refused', False
            self._problems.end(AWAY, 'The scheduler answers again')
            why = first_line(refusal)
            self._problems.begin(REFUSED, 'The scheduler refuses: %s', why, reason=why)
            if self._count is not None and getattr(refusal, 'field', None) == 'boot':
                self._count.begin_anew()
                pause = min(pause, RETRY_S)
        except Exception as error:
            LOG.debug('Reporting failed', exc_info=True)
            # An older scheduler refuses what it does not know.
            self._is_new = self._is_new and isinstance(error, TELLS_NOTHING)
            pause = min(pause, RETRY_S)
            self._problems.begin(AWAY, CANNOT, name, first_line(error))
        else:
            self._problems.end(AWAY, 'The scheduler answers again')
            if is_late:
                result, pause = 'late', 0.0
            else:
                result = 'accepted'
                self._problems.end(REFUSED, 'The scheduler accepts the reports again')
                pause = min(pause, self._accepted(facts, seen, answer, counted))
        self._was_late = is_late
        REPORTS.add(result)
        REPORT_SECONDS.observe(self._clock() - begin_s)
        self._due_s = self._clock() + pause

    def _take_order(self, answer: Any) -> bool:
        """Note what the scheduler knows of this node. Return whether that is later than the
        report: then the next one has what this one lacks."""
        if not isinstance(answer, dict):
            return False
        self._seen = answer.get('generation') or 0
        is_late = bool(answer.get('stale'))
        if is_late and self._count is not None:
            self._count.pass_by(answer.get('boot') or 0)
        return is_late

    def _accepted(
        self, facts: Facts, seen: int, answer: Any, counted: difference.Counted | None
    ) -> float:
        """Take the answer to a report. Return the seconds until the next one is due.

        A claim that has changed since ``seen`` may be left to the next report, which then has its
        change in what it has seen: it is made at once, but only once, since each report may
        change the node.
        """
        claims = answer.get('claims', {}) if isinstance(answer, dict) else {}
        left = unsettled(claims, facts.instances)
        self._agent.told(counted)
        again_s = self._compare(facts, counted)
        self._is_again = bool(left) and self._seen > seen and not self._is_again
        return 0.0 if self._is_again else again_s

    def _compare(self, facts: Facts, counted: difference.Counted | None) -> float:
        """Log where the scheduler counts differently.

        Return the seconds until the scheduler must be asked again.
        """
        if counted is None:
            return math.inf
        differences = difference.differences(facts.counted, counted)
        again = self._difference_log.update(
            facts.node.hypervisor_hostname, differences, self._clock()
        )
        return SETTLE_S if again else math.inf

    def _send(self, facts: Facts, seen: int) -> Any:
        node = facts.node
        why = f'No answer for {self._timeout_s:g} s'
        complaint = AWAY, CANNOT, node.hypervisor_hostname, why
        timer = threading.Timer(self._timeout_s, self._problems.begin, complaint)
        timer.daemon = True
        timer.start()
        which = {} if self._count is None else self._count.next()
        is_new, self._is_sending = self._is_new, True
        try:
            return self._client.update_resource_stats(
                node.host,
                node,
                facts.held if is_new else sorted(facts.held),
                facts.inventories,
                self._cell_uuid,
                **which,
                seen=seen if is_new else None,
            )
        finally:
            self._moved_s, self._is_sending = self._clock(), False
            timer.cancel()

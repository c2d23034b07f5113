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
"""Waits for the outcomes of jobs: on a reply queue, and by periodic queries of the job table."""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from nova_sched import errors
from nova_sched.db.jobs import DONE, QUEUED, JobEntry
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import Broker, Delivery, of_reply
from nova_sched.objects.job import QueueResult

LOG = logging.getLogger(__name__)

WINDOW = 1000  # unacknowledged answers at the same time


@dataclasses.dataclass(frozen=True, slots=True)
class JobEnd:
    """The outcome of a job.

    ``why`` is None if it was done; ``claim`` is a ClaimInfo if the worker sent one.
    """

    job_uuid: str
    state: str
    host: str | None
    tries: int = 0
    why: str | None = None
    claim: Any = None

    @property
    def is_done(self) -> bool:
        return self.state == DONE

    @classmethod
    def of_result(cls, result: QueueResult) -> 'JobEnd':
        return cls(
            result.job.uuid, result.outcome, result.host, result.tries, result.why, result.claim
        )

    @classmethod
    def of_entry(cls, entry: JobEntry) -> 'JobEnd':
        return cls(entry.uuid, entry.state, entry.host, entry.tries, entry.why)


class Replies:
    """The reply queue of this process, and its waiting threads."""

    def __init__(self, broker: Broker, name: str):
        self.queue = of_reply(name)
        self._broker = broker
        self._changed = threading.Condition()
        self._awaited: dict[str, int] = {}  # waiting calls by job
        self._outcomes: dict[str, JobEnd] = {}
        self._consumer = broker.consumer(self._take, self.queue)

    def start(self) -> None:
        """Raises BrokerUnavailable."""
        self._broker.declare([self.queue])
        self._consumer.window(WINDOW)
        self._consumer.follow({self.queue: 0})

    def stop(self) -> None:
        self._consumer.stop()

    def _take(self, delivery: Delivery) -> None:
        try:
            outcome = JobEnd.of_result(messages.read_result(delivery.body))
        except errors.Invalid as error:
            LOG.warning('An answer cannot be read, and is ignored: %s', error)
        else:
            with self._changed:
                if outcome.job_uuid in self._awaited:
                    self._outcomes[outcome.job_uuid] = outcome
                    self._changed.notify_all()
        with contextlib.suppress(errors.BrokerUnavailable):
            self._consumer.ack(delivery)

    def expect(self, job_uuids: Iterable[str]) -> None:
        """Store answers to these jobs from now on, until ``forget``."""
        with self._changed:
            for job_uuid in job_uuids:
                self._awaited[job_uuid] = self._awaited.get(job_uuid, 0) + 1

    def forget(self, job_uuids: Iterable[str]) -> None:
        with self._changed:
            for job_uuid in job_uuids:
                self._awaited[job_uuid] -= 1
                if not self._awaited[job_uuid]:
                    del self._awaited[job_uuid]
                    self._outcomes.pop(job_uuid, None)

    def drop(self, job_uuid: str) -> None:
        """Forget an answer, and wait for another one."""
        with self._changed:
            self._outcomes.pop(job_uuid, None)

    def wait(self, job_uuids: Collection[str], seconds: float) -> dict[str, JobEnd]:
        """Return the received outcomes of those jobs, as soon as there is one; none after
        ``seconds``."""
        until = time.monotonic() + seconds
        with self._changed:
            while not (
                received := {
                    job_uuid: self._outcomes[job_uuid]
                    for job_uuid in job_uuids
                    if job_uuid in self._outcomes
                }
            ):
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
        return received


class Waiting:
    """Waiting callers.

    ``find`` returns the Entry of a job in the job table. It is called at growing intervals while
    no answer arrives.
    """

    MAX_PAUSE_S = 15.0

    def __init__(self, replies: Replies, find: Callable[[str], JobEntry | None]):
        self._replies, self._find = replies, find

    @contextlib.contextmanager
    def expecting(self, job_uuids: Collection[str]) -> Iterator[None]:
        """Keeps answers that arrive before a caller waits for them."""
        self._replies.expect(job_uuids)
        try:
            yield
        finally:
            self._replies.forget(job_uuids)

    def each(
        self,
        job_uuids: Iterable[str],
        unsent: list[Callable[[], Any]],
        timeout_s: float,
        query_s: float,
    ) -> Iterator[JobEnd]:
        """Yield the outcomes of expected jobs as they arrive. Raises NoAnswer after
        ``timeout_s``.

        ``unsent`` are calls that send jobs that the broker did not accept. They are repeated with
        each query of the job table; the first query is after ``query_s``.
        """
        left, until = set(job_uuids), time.monotonic() + timeout_s
        while left:
            remaining_s = until - time.monotonic()
            if remaining_s <= 0:
                raise errors.NoAnswer('jobs', f'after {timeout_s:g} s, {len(left)} of them go on')
            outcomes = self._by_rows(self._replies.wait(left, min(query_s, remaining_s)))
            if not outcomes:
                query_s = min(1.5 * query_s, self.MAX_PAUSE_S)
                outcomes = self._query(left, unsent)
            for job_uuid, outcome in outcomes.items():
                left.discard(job_uuid)
                yield outcome

    def _by_rows(self, outcomes: dict[str, JobEnd]) -> dict[str, JobEnd]:
        """The outcomes, of the jobs that are denied only those that their rows have: an answer may
        be late, or of anybody. A job whose row cannot be read is waited for."""
        known = {}
        for job_uuid, outcome in outcomes.items():
            try:
                entry = None if outcome.is_done else self._find(job_uuid)
            except errors.StoreUnavailable:
                self._replies.drop(job_uuid)
                continue
            if entry is None:
                known[job_uuid] = outcome
            elif entry.state == QUEUED:
                self._replies.drop(job_uuid)
            else:
                known[job_uuid] = JobEnd.of_entry(entry)
        return known

    def _query(
        self, job_uuids: Iterable[str], unsent: list[Callable[[], Any]]
    ) -> dict[str, JobEnd]:
        try:
            while unsent:
                unsent[-1]()
                unsent.pop()
            entries = [
                entry for job_uuid in job_uuids if (entry := self._find(job_uuid)) is not None
            ]
        except (errors.StoreUnavailable, errors.BrokerUnavailable) as away:
            LOG.debug('Outcomes cannot be queried; waiting continues: %s', away)
            return {}
        return {entry.uuid: JobEnd.of_entry(entry) for entry in entries if entry.state != QUEUED}

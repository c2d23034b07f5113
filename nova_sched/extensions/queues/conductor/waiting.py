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
    def of_entry(cls, entry: JobEntry) -> 'JobEnd':
        return cls(entry.uuid, entry.state, entry.host, entry.tries, entry.why)


class Waiting:
    """The reply queue of this process, and the callers that wait for answers.

    ``find`` returns the entry of a job in the job table. It is called at growing intervals while
    no answer arrives.
    """

    MAX_PAUSE_S = 15.0

    def __init__(self, broker: Broker, name: str, find: Callable[[str], JobEntry | None]):
        self.queue = of_reply(name)
        self._broker, self._find = broker, find
        self._changed = threading.Condition()
        self._awaited: dict[str, int] = {}  # waiting calls by job
        self._outcomes: dict[str, JobEnd] = {}
        self._consumer = broker.consumer(self._take, self.queue)

    def start(self) -> None:
        """Raise BrokerUnavailable."""
        self._broker.declare([self.queue])
        self._consumer.window(WINDOW)
        self._consumer.follow({self.queue: 0})

    def stop(self) -> None:
        self._consumer.stop()

    def _take(self, delivery: Delivery) -> None:
        try:
            result = messages.read_result(delivery.body)
        except errors.Invalid as error:
            LOG.warning('An answer cannot be read, and is ignored: %s', error)
        else:
            uuid = result.job.uuid
            with self._changed:
                if uuid in self._awaited:
                    self._outcomes[uuid] = JobEnd(
                        uuid, result.outcome, result.host, result.tries, result.why, result.claim
                    )
                    self._changed.notify_all()
        with contextlib.suppress(errors.BrokerUnavailable):
            self._consumer.ack(delivery)

    @contextlib.contextmanager
    def expecting(self, job_uuids: Collection[str]) -> Iterator[None]:
        """Keep the answers to these jobs, also those that arrive before a caller waits for
        them."""
        with self._changed:
            for job_uuid in job_uuids:
                self._awaited[job_uuid] = self._awaited.get(job_uuid, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                for job_uuid in job_uuids:
                    self._awaited[job_uuid] -= 1
                    if not self._awaited[job_uuid]:
                        del self._awaited[job_uuid]
                        self._outcomes.pop(job_uuid, None)

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
            outcomes = self._by_rows(self._received(left, min(query_s, remaining_s)))
            if not outcomes:
                query_s = min(1.5 * query_s, self.MAX_PAUSE_S)
                outcomes = self._query(left, unsent)
            for job_uuid, outcome in outcomes.items():
                left.discard(job_uuid)
                yield outcome

    def _received(self, job_uuids: Collection[str], seconds: float) -> dict[str, JobEnd]:
        """Return the answers to those jobs, as soon as there is one; none after ``seconds``."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._outcomes.keys().isdisjoint(job_uuids), seconds
            )
            return {uuid: self._outcomes[uuid] for uuid in job_uuids if uuid in self._outcomes}

    def _by_rows(self, outcomes: dict[str, JobEnd]) -> dict[str, JobEnd]:
        """Return the outcomes. A failure counts only if the job's row has it: an answer may be
        late, or from anybody. Otherwise it is dropped, and the caller waits for another answer."""
        known = {}
        for job_uuid, outcome in outcomes.items():
            try:
                entry = None if outcome.is_done else self._find(job_uuid)
                is_queued = entry is not None and entry.state == QUEUED
            except errors.StoreUnavailable:
                is_queued = True  # perhaps
            if is_queued:
                with self._changed:
                    self._outcomes.pop(job_uuid, None)
            else:
                known[job_uuid] = JobEnd.of_entry(entry) if entry is not None else outcome
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

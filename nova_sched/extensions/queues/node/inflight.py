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
"""The jobs that a worker holds: their threads, and their messages.

One job per instance is in progress, the others wait. Each message is completed once: another
message replaces it, it is put back, or it is only acknowledged.
"""

import collections
import contextlib
import dataclasses
import enum
import logging
import threading
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import (
    FALLBACK,
    RESULTS,
    Broker,
    Consumer,
    Delivery,
    falls_back,
)
from nova_sched.extensions.queues.node import NodeApi
from nova_sched.logs import Problems
from nova_sched.objects.job import DELETE, DONE, FAILED, QueueJob, QueueResult

LOG = logging.getLogger(__name__)


class JobStopped(BaseException):
    """The worker has stopped. No job handles it: the job ends where it is."""


class JobThreads:
    """Each job has a thread while it lasts; none of them delays the end of the process.

    Jobs make their slow calls, and pause, through this class: after ``stop`` a job does nothing
    more when the call that it is in returns or raises.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._timers = set[threading.Timer]()

    def start(self, work: Callable[..., None], *args: Any) -> None:
        """Start a job in its own thread, because the caller may hold a lock."""
        threading.Thread(
            target=self._run, args=(work, *args), name='nova-sched-job', daemon=True
        ).start()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call after some seconds, in its own thread."""

        def due() -> None:
            self._timers.discard(timer)
            if not self._stopped.is_set():
                with contextlib.suppress(JobStopped):
                    call()

        timer = threading.Timer(seconds, due)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def stop(self) -> None:
        """Start no more jobs and calls, and end the jobs; does not wait for the calls that they
        are in."""
        self._stopped.set()
        for timer in list(self._timers):
            timer.cancel()

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return what a call returns. Raises JobStopped if the worker has stopped meanwhile."""
        try:
            return work(*args)
        finally:
            self._check()

    def pause(self, seconds: float) -> None:
        """Wait. Raises JobStopped, without delay, if the worker stops meanwhile."""
        self._stopped.wait(seconds)
        self._check()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise JobStopped

    def _run(self, work: Callable[..., None], *args: Any) -> None:
        try:
            self._check()
            work(*args)
        except JobStopped:
            pass
        except Exception:
            LOG.exception('A job has ended with an unexpected error')


@dataclasses.dataclass(slots=True)
class WorkerFigures:
    """Counts since the start.

    ``taken`` jobs were delivered and started; ``done`` and ``failed`` are their outcomes.
    ``passed`` jobs were sent to another queue: of an alternate, of a flavor, or fallback.
    ``dropped`` jobs were done by another worker. ``put_backs`` are jobs that this node did not
    take, ``redelivered`` those of a worker that disconnected. ``refused`` messages were invalid.
    ``changes`` are subscriptions that began, ended, or got another priority, in ``evaluations`` of
    the node.
    """

    taken: int = 0
    done: int = 0
    failed: int = 0
    passed: int = 0
    dropped: int = 0
    put_backs: int = 0
    redelivered: int = 0
    refused: int = 0
    evaluations: int = 0
    changes: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """A job with its message.

    ``taken``: the node holds the job's resources, and has left the queues that no longer fit.
    ``ended``: only the answer is missing. ``claim`` names the claim that it is done by.
    """

    job: QueueJob
    delivery: Delivery
    taken: bool = False
    ended: bool = False
    claim: str | None = None

    @property
    def uuid(self) -> str:
        """The UUID of its instance."""
        return self.job.instance_uuid


class Verdict(enum.Enum):
    """The action for a message that has arrived.

    RETURN only counts a try. A broker may forget that it delivered a message before; the job then
    begins, and the claims decide whether it is built.
    """

    BEGIN = 'begin'
    WAIT = 'wait'  # for the end of another job of its instance
    AGAIN = 'again'  # an older message of the same job is held, and is obsolete now
    RETURN = 'return'  # another worker had it and disconnected
    LEAVE = 'leave'  # the worker stops: the message is returned at the end


class InflightJobs:
    """May be used from any thread; it makes no calls."""

    def __init__(self) -> None:
        # By instance, the job in progress first.
        self._chains: dict[str, collections.deque[Task]] = {}
        self._idle = threading.Condition()
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, list(self._chains.values())))

    def take(self, task: Task) -> tuple[Verdict, Delivery | None]:
        """Return the action for a new task, and for AGAIN the message that is obsolete.

        The same job is delivered again after a connection was lost; the last delivery counts.
        """
        with self._idle:
            if self._is_closed:
                return Verdict.LEAVE, None
            chain = self._chains.get(task.uuid)
            for other in chain or ():
                if other.job.uuid == task.job.uuid and not other.ended:
                    older, other.delivery = other.delivery, task.delivery
                    return Verdict.AGAIN, older
            if task.delivery.redelivered:
                return Verdict.RETURN, None
            if chain is None:
                self._chains[task.uuid] = collections.deque([task])
                return Verdict.BEGIN, None
            task.taken = True  # it holds no resources before its turn
            chain.append(task)
            return Verdict.WAIT, None

    def finish(self, task: Task) -> Task | None:
        """Remove a task that has ended; returns the task that waited for its end."""
        with self._idle:
            chain = self._chains[task.uuid]
            chain.popleft()
            if chain:
                chain[0].taken = False
                return chain[0]
            del self._chains[task.uuid]
            if not self._chains:
                self._idle.notify_all()
            return None

    def count(self) -> tuple[int, bool]:
        """Return the number of jobs, and whether the node holds the resources of all of them."""
        with self._idle:
            tasks = [task for chain in self._chains.values() for task in chain]
            return len(tasks), all(task.taken for task in tasks)

    def close(self) -> None:
        """Accept no more tasks; waiting ones are returned at the end."""
        with self._idle:
            self._is_closed = True
            for chain in self._chains.values():
                while len(chain) > 1:
                    chain.pop()

    def wait(self, timeout_s: float) -> bool:
        """Wait until no task is left. Returns whether that is so."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._chains, timeout_s)


@dataclasses.dataclass(frozen=True, slots=True)
class SendOn:
    """Another message replaces this one, which is then acknowledged."""

    queue: str
    message: QueueJob | QueueResult


@dataclasses.dataclass(frozen=True, slots=True)
class PutBack:
    """The message is returned for another worker."""


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """The message is acknowledged without an answer."""


Ending = SendOn | PutBack | Drop


RETRY_S = 2.0  # seconds before a call to a broker without an answer is repeated


class MessageCompletion:
    """For the worker of one node; ``max_redeliveries`` is how often one message may be
    put back."""

    def __init__(
        self,
        broker: Broker,
        node_api: NodeApi,
        threads: JobThreads,
        max_redeliveries: int,
        figures: WorkerFigures,
    ):
        self._broker, self._node_api, self._threads = broker, node_api, threads
        self._max_redeliveries, self._figures = max_redeliveries, figures
        self._problems = Problems(LOG)

    def close(self, consumer: Consumer, task: Task, ending: Ending) -> None:
        """Complete a message; waits while the broker is unavailable.

        The message may be redelivered in the meantime; the new delivery counts then.
        """
        self.answered(self._close, consumer, task, ending)

    def answered(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return the answer of the broker; repeats the call until it answers."""
        while True:
            try:
                answer = self._threads.call(call, *args)
            except errors.BrokerUnavailable as error:
                self._problems.begin('broker', '%s; trying until it does', error)
                self._threads.pause(RETRY_S)
            else:
                self._problems.end('broker', 'The broker of jobs answers again')
                return answer

    def forget(self, consumer: Consumer, delivery: Delivery) -> None:
        """Acknowledge a message; if the broker does not get that, it redelivers it, and it is
        found done."""
        try:
            consumer.ack(delivery)
        except errors.BrokerUnavailable as error:
            LOG.debug('A message of queue %s will come again: %s', delivery.queue, error)

    def _close(self, consumer: Consumer, task: Task, ending: Ending) -> None:
        delivery = task.delivery
        if isinstance(ending, PutBack):
            if delivery.tries < self._max_redeliveries:
                consumer.put_back(delivery)
                return
            if task.job.kind != DELETE:
                consumer.put_back(delivery, FALLBACK)
                return
            # No other host can do it.
            why = f'it was put back {delivery.tries} times'
            where = self._node_api.host, self._node_api.nodename
            result = messages.result(task.job, FAILED, delivery.tries, why, *where)
            ending = SendOn(RESULTS, result)
        if isinstance(ending, Drop):
            self._figures.dropped += 1
        else:
            body, queue = messages.to_bytes(ending.message), ending.queue
            exists = self._broker.publish(queue, body, delivery.tries, expires=falls_back(queue))
            if not exists and queue != RESULTS:
                self._broker.publish(FALLBACK, body, delivery.tries)
            if isinstance(ending.message, QueueResult):
                self._figures.done += ending.message.outcome == DONE
                self._figures.failed += ending.message.outcome == FAILED
            else:
                self._figures.passed += 1
        self.forget(consumer, delivery)

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
"""The worker of a compute node: takes and does jobs from the queues that the node satisfies.

::

    delivery -> begun on the node -> queues that no longer fit are left -> window opened by one
             -> claimed -> built -> confirmed -> result -> acknowledged -> queues that fit again

    work: the steps of each kind of job     inflight: current jobs, their threads and messages
    subscriptions: queues and window
"""

import contextlib
import dataclasses
import logging
import math
import random
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import Broker, Consumer, Delivery, of_host
from nova_sched.extensions.queues.drivers import Driver
from nova_sched.extensions.queues.node import NodeApi, NodeClaims
from nova_sched.extensions.queues.node.inflight import (
    InflightJobs,
    JobThreads,
    MessageCompletion,
    Task,
    Verdict,
    WorkerFigures,
)
from nova_sched.extensions.queues.node.subscriptions import SHUN_S, CatalogueView, SubscriptionSync
from nova_sched.extensions.queues.node.work import Ending, JobSteps, PutBack
from nova_sched.logs import MinuteCounts, Problems, first_line
from nova_sched.measures.catalogue import NODE_JOBS
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

# Counts of WorkerFigures that are shown as metrics.
JOB_EVENTS = 'taken done failed passed dropped put_backs redelivered refused'.split()

# seconds after which the catalogue is read again, in case a change event was lost
CATALOGUE_S = 60.0
SPREAD_S = 2.0  # seconds over which all workers spread their reads of it after a change event
RETRY_S = 2.0  # seconds before a call that failed or had no answer is repeated


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The configuration of a worker.

    ``evaluate_s`` returns the seconds after which the node is evaluated again without a change.
    """

    slots: int = 2  # jobs at the same time
    max_redeliveries: int = 3
    own_priority: int = 10  # of the node's own queue
    evaluate_s: Callable[[], float] = lambda: 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerDependencies:
    """The dependencies of a worker.

    ``read_catalogue`` returns the CatalogueView, the same object if nothing has changed; it may
    raise anything. ``read`` returns the Request of a RequestSpec for an instance,
    or raises Invalid. ``settled`` is called once, after the instances of the last process are
    settled. No report of the node may be sent before that. It would lack an instance that was
    confirmed just before the last process ended, and the scheduler would release its claim.
    """

    node_api: NodeApi
    claims: NodeClaims
    broker: Broker
    driver: Driver
    read_catalogue: Callable[[], CatalogueView]
    read: Callable[[Any, str], Request]
    settled: Callable[[], None] = lambda: None


class Worker:
    """The worker of one node. ``clock`` gives monotonic seconds; ``chance`` spreads the calls of
    many."""

    def __init__(
        self,
        needs: WorkerDependencies,
        settings: WorkerSettings,
        threads: JobThreads,
        clock: Callable[[], float],
        chance: random.Random,
    ):
        self.figures = WorkerFigures()
        self._node_api, self._broker = needs.node_api, needs.broker
        self._driver, self._settled = needs.driver, needs.settled
        self._read_catalogue = needs.read_catalogue
        self._settings, self._threads, self._clock, self._chance = settings, threads, clock, chance
        self._work = JobSteps(
            needs.node_api,
            needs.claims,
            needs.driver,
            needs.read,
            self._takes,
            self._took,
            threads,
        )
        self._own = of_host(needs.node_api.host)
        self._inflight = InflightJobs()
        self._minute = MinuteCounts(lambda: dataclasses.asdict(self.figures), clock())
        self._problems = Problems(LOG)
        self._completion = MessageCompletion(
            needs.broker, needs.node_api, threads, settings.max_redeliveries, self.figures
        )
        self._consumer: Consumer | None = None
        # once the instances of the last process are settled
        self._subscriptions: SubscriptionSync | None = None
        self._is_woken = self._is_retrying = self._is_draining = False
        self._catalogue_due_s = self._evaluate_due_s = -math.inf

    # From start to end.

    def start(self) -> None:
        """Settle the instances of the last process, then subscribe; returns without waiting."""
        self._threads.start(self._begin)

    def withdraw(self) -> None:
        """Leave all queues; current jobs continue."""
        self._is_draining = True
        self._inflight.close()
        if self._subscriptions is not None:
            self._subscriptions.close()
            self._subscriptions.evaluate()

    def drain(self, grace_s: float) -> bool:
        """Withdraw, wait at most ``grace_s`` (real time) for the end of the current jobs, and
        stop.

        Return whether all jobs have ended; the rest are returned to their queues.
        """
        self.withdraw()
        has_ended = self._inflight.wait(grace_s)
        if not has_ended:
            LOG.warning(
                '%d jobs have not ended within %g s: given back', len(self._inflight), grace_s
            )
        self.stop()
        return has_ended

    def stop(self) -> None:
        """Stop at once: return all held messages, whatever the state of their jobs."""
        self._is_draining = True
        self._threads.stop()
        self._driver.close()
        if self._consumer is not None:
            with contextlib.suppress(errors.BrokerUnavailable):
                self._consumer.stop()

    def hear(self) -> None:
        """Handle a change of the catalogue, or of its facts about this host. From any thread."""
        self._threads.later(self._chance.uniform(0, SPREAD_S), self._refresh)

    def _begin(self) -> None:
        for uuid in sorted(self._node_api.hidden()):
            try:
                self._work.recover(uuid)
            except errors.SchedError as error:
                LOG.error(
                    'Instance %s, whose build was cut off, keeps its resources: %s', uuid, error
                )
        self._settled()
        consumer = self._completion.answered(self._connect)
        self._subscriptions = SubscriptionSync(
            consumer,
            self._node_api,
            self._inflight,
            self._settings.slots,
            self._settings.own_priority,
            self.figures,
            self._clock,
        )
        self._node_api.watch(self._changed)
        self._tick()

    def _connect(self) -> Consumer:
        self._broker.declare([self._own])
        self._consumer = self._broker.consumer(self._deliver, self._node_api.host)
        return self._consumer

    # Periodic work, and change events.

    def _tick(self) -> None:
        """Do the work that is due, and schedule the next call."""
        subscriptions = self._subscriptions
        if self._is_draining or subscriptions is None:
            return
        if self._clock() >= self._catalogue_due_s:
            self._learn()
        if self._clock() >= self._evaluate_due_s:
            subscriptions.stale = True
            self._evaluate_due_s = self._clock() + self._settings.evaluate_s()
        self._evaluate()
        new = self._minute.take(self._clock())
        for event in JOB_EVENTS:
            NODE_JOBS.add(event, by=new[event] if new else 0)
        if new and any(count for name, count in new.items() if name != 'evaluations'):
            counts = ', '.join(f'{count} {name.replace("_", " ")}' for name, count in new.items())
            LOG.info('Subscribed to %d queues; in the last minute: %s', len(subscriptions), counts)
        due_s = min(self._catalogue_due_s, self._evaluate_due_s)
        self._threads.later(max(0.0, due_s - self._clock()), self._tick)

    def _learn(self) -> None:
        subscriptions = self._subscriptions
        try:
            view = self._read_catalogue()
        except Exception as error:  # noqa: BLE001, a bus raises its own errors
            self._problems.begin(
                'catalogue',
                'The catalogue of queues cannot be read: %s',
                f'{type(error).__name__}: {first_line(error)}',
            )
            self._catalogue_due_s = self._clock() + RETRY_S
            return
        self._problems.end('catalogue', 'The catalogue of queues can be read again')
        self._catalogue_due_s = self._clock() + CATALOGUE_S
        if subscriptions is not None and view is not subscriptions.view:
            subscriptions.view = view
            subscriptions.stale = True

    def _refresh(self) -> None:
        self._threads.call(self._learn)
        self._evaluate()

    def _changed(self) -> None:
        """Handle a possible change of the node's instances."""
        if self._subscriptions is not None:
            self._subscriptions.stale = True
        if not self._is_woken:
            self._is_woken = True
            self._threads.start(self._awake)

    def _awake(self) -> None:
        self._is_woken = False
        self._evaluate()

    def _evaluate(self) -> None:
        subscriptions = self._subscriptions
        if subscriptions is None:
            return
        subscriptions.evaluate()
        if subscriptions.stale and not self._is_retrying:
            self._is_retrying = True
            self._threads.later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        self._changed()

    # Jobs.

    def _deliver(self, delivery: Delivery) -> None:
        """Handle a new message. Called by the broker, which must not wait."""
        try:
            task = Task(messages.read_job(delivery.body), delivery)
        except errors.Invalid as error:
            self._threads.start(self._throw_away, delivery, error)
            return
        verdict, older = self._inflight.take(task)
        if verdict is Verdict.BEGIN:
            self._threads.start(self._perform, task)
        elif verdict is Verdict.RETURN:
            self._threads.start(self._give_back, task)
        elif older is not None:
            self._threads.start(self._forget, older)

    def _throw_away(self, delivery: Delivery, error: errors.Invalid) -> None:
        """Acknowledge a message that is invalid, and that no worker could process later."""
        self.figures.refused += 1
        LOG.error(
            'A message of queue %s cannot be read, and is dropped: %s', delivery.queue, error
        )
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        self._completion.forget(self._need(), delivery)

    def _give_back(self, task: Task) -> None:
        """Put back a job that a worker had before it disconnected.

        That increases its ``tries``, before the job could end this process, too.
        """
        self.figures.redelivered += 1
        self._completion.close(self._need(), task, PutBack())

    def _perform(self, task: Task) -> None:
        self.figures.taken += 1
        ending: Ending = PutBack()
        try:
            ending = self._work.run(task)
        except Exception:
            LOG.exception('Job %s met an unexpected error: put back', task.job.uuid)
        task.ended = True
        if isinstance(ending, PutBack):
            self.figures.put_backs += 1
            self._threads.call(self._leave, task.delivery.queue)
        self._completion.close(self._need(), task, ending)
        waiting = self._inflight.finish(task)
        self._threads.call(self._evaluate)
        if waiting is not None:
            self._threads.start(self._perform, waiting)

    def _takes(self, request: Request) -> bool:
        return self._subscriptions is None or self._subscriptions.takes(request)

    def _took(self, task: Task) -> None:
        task.taken = True
        self._threads.call(self._evaluate)

    def _leave(self, queue: str) -> None:
        """Avoid the queue of a job before the job is put back."""
        if self._subscriptions is not None and queue != self._own:
            self._subscriptions.shun(queue)
            self._evaluate()
            self._threads.later(SHUN_S, self._changed)

    def _need(self) -> Consumer:
        """Return the consumer of all held messages."""
        assert self._consumer is not None
        return self._consumer

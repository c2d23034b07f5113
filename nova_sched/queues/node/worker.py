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
"""The worker of a compute node: takes jobs from the queues that the node can satisfy, and does
them.

::

    delivery -> begun on the node -> queues that do not fit any more are left -> window opened for one more
             -> claimed -> built -> confirmed -> result -> acknowledged -> queues that fit again

    work: the courses of jobs     hands: the jobs in hand     following: queues and window
"""

import contextlib
import dataclasses
import logging
import math
import random
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.queues import wire
from nova_sched.queues.broker import Broker, Consumer, Delivery, of_host
from nova_sched.queues.drivers import Driver
from nova_sched.queues.node.closing import Closing
from nova_sched.queues.node.figures import Figures, Minute
from nova_sched.queues.node.following import SHUN_S, Appetite, Following, View
from nova_sched.queues.node.hands import Hands, Task, Verdict
from nova_sched.queues.node.site import Claims, Site
from nova_sched.queues.node.steps import BROKER, CLAIMS, Call, Runner, Steps
from nova_sched.queues.node.troubles import Troubles, line
from nova_sched.queues.node.work import Ending, PutBack, Work
from nova_sched.state.request import Request

LOG = logging.getLogger(__name__)

CATALOGUE_S = (
    60.0  # seconds after which the catalogue is asked for again, should news of it be lost
)
SPREAD_S = (
    2.0  # within which the workers of a cloud ask for it after news, which they hear all at once
)
RETRY_S = (
    2.0  # seconds before what the broker did not answer, or could not be found out, is tried again
)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a worker is told by the configuration.

    ``evaluate_s`` gives the seconds after which the node is looked at again though nobody told of
    a change.
    """

    slots: int = 2  # jobs at the same time
    max_redeliveries: int = 3
    own_priority: int = 10  # of the node's own queue
    evaluate_s: Callable[[], float] = lambda: 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """Who a worker works with.

    ``look`` asks for the catalogue and gives the View of it, the same object if nothing has
    changed; it may raise anything. ``read`` makes the Request of a RequestSpec for an instance, or
    raises Invalid. ``settled`` is called once what the last process has left is settled: before
    that no report of the node may be made, for it would lack an instance that was confirmed just
    before that end, and so have its claim released.
    """

    site: Site
    claims: Claims
    broker: Broker
    driver: Driver
    look: Callable[[], View]
    read: Callable[[Any, str], Request]
    settled: Callable[[], None] = lambda: None


class Worker:
    """Of one node. ``clock`` gives seconds that never go back; ``chance`` spreads the calls of
    many."""

    def __init__(
        self,
        around: Surroundings,
        settings: Settings,
        runner: Runner,
        clock: Callable[[], float],
        chance: random.Random,
    ):
        self.figures = Figures()
        self._site, self._broker = around.site, around.broker
        self._driver, self._look, self._settled = around.driver, around.look, around.settled
        self._settings, self._runner, self._clock, self._chance = settings, runner, clock, chance
        self._work = Work(
            around.site, around.claims, around.driver, around.read, self._takes, self._took
        )
        self._own = of_host(around.site.host)
        self._hands = Hands()
        self._minute = Minute(self.figures, clock())
        self._troubles = Troubles(LOG)
        self._closing = Closing(
            around.broker, around.site, settings.max_redeliveries, self.figures
        )
        self._consumer: Consumer | None = None
        self._following: Following | None = None  # once the past is settled
        self._is_woken = self._is_retrying = self._is_draining = False
        self._catalogue_due_s = self._evaluate_due_s = -math.inf

    # From start to end.

    def start(self) -> None:
        """Settle what the last process has left, then subscribe; does not wait for that."""
        self._runner.start(self._begin())

    def withdraw(self) -> None:
        """Leave all queues; what is in hand goes on."""
        self._is_draining = True
        self._hands.close()
        if self._following is not None:
            self._following.close()
            self._following.evaluate()

    def drain(self, grace_s: float) -> bool:
        """Withdraw, wait at most so long for the end of what is in hand, and stop. Waits in real
        time.

        Returns whether all jobs have ended; the others are given back.
        """
        self.withdraw()
        has_ended = self._hands.wait(grace_s)
        if not has_ended:
            LOG.warning(
                '%d jobs have not ended within %g s: given back', len(self._hands), grace_s
            )
        self.stop()
        return has_ended

    def stop(self) -> None:
        """End at once: what is in hand is given back, whatever has become of it."""
        self._is_draining = True
        self._runner.stop()
        self._driver.close()
        if self._consumer is not None:
            with contextlib.suppress(errors.BrokerUnavailable):
                self._consumer.stop()

    def hear(self) -> None:
        """The catalogue, or what it says of this host, has changed. From any thread."""
        self._runner.later(
            self._chance.uniform(0, SPREAD_S), lambda: self._runner.start(self._refresh())
        )

    def _begin(self) -> Steps:
        for uuid in sorted(self._site.hidden()):
            try:
                yield from self._work.recover(uuid)
            except errors.SchedError as error:
                LOG.error('Instance %s, whose build was cut off, keeps its room: %s', uuid, error)
        self._settled()
        consumer = yield from self._closing.answered(self._connect)
        appetite = Appetite(self._settings.slots, self._settings.own_priority)
        self._following = Following(
            consumer, self._site, self._hands, appetite, self.figures, self._clock
        )
        self._site.watch(self._changed)
        yield Call(CLAIMS, self._tick)

    def _connect(self) -> Consumer:
        self._broker.declare([self._own])
        self._consumer = self._broker.consumer(self._deliver, self._site.host)
        return self._consumer

    # What is due from time to time, and what others tell of.

    def _tick(self) -> None:
        """Do what is due, and have this called again."""
        following = self._following
        if self._is_draining or following is None:
            return
        if self._clock() >= self._catalogue_due_s:
            self._learn()
        if self._clock() >= self._evaluate_due_s:
            following.stale = True
            self._evaluate_due_s = self._clock() + self._settings.evaluate_s()
        self._evaluate()
        self._minute.tell(len(following), self._clock())
        due_s = min(self._catalogue_due_s, self._evaluate_due_s)
        self._runner.later(max(0.0, due_s - self._clock()), self._tick)

    def _learn(self) -> None:
        following = self._following
        try:
            view = self._look()
        except Exception as error:  # noqa: BLE001, a bus has errors of its own
            self._troubles.complain(
                'catalogue', 'The catalogue of queues cannot be had: %s', line(error)
            )
            self._catalogue_due_s = self._clock() + RETRY_S
            return
        self._troubles.relieve('catalogue', 'The catalogue of queues is here again')
        self._catalogue_due_s = self._clock() + CATALOGUE_S
        if following is not None and view is not following.view:
            following.view = view
            following.stale = True

    def _refresh(self) -> Steps:
        yield Call(CLAIMS, self._learn)
        yield Call(BROKER, self._evaluate)

    def _changed(self) -> None:
        """The node may hold something else than before."""
        if self._following is not None:
            self._following.stale = True
        if not self._is_woken:
            self._is_woken = True
            self._runner.start(self._awake())

    def _awake(self) -> Steps:
        self._is_woken = False
        yield Call(BROKER, self._evaluate)

    def _evaluate(self) -> None:
        following = self._following
        if following is None:
            return
        following.evaluate()
        if following.stale and not self._is_retrying:
            self._is_retrying = True
            self._runner.later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        self._changed()

    # Jobs.

    def _deliver(self, delivery: Delivery) -> None:
        """A message has come. Called by the broker, which must not wait."""
        try:
            task = Task(wire.read_job(delivery.body), delivery)
        except errors.Invalid as error:
            self._runner.start(self._throw_away(delivery, error))
            return
        verdict, older = self._hands.take(task)
        if verdict is Verdict.BEGIN:
            self._runner.start(self._perform(task))
        elif verdict is Verdict.RETURN:
            self._runner.start(self._give_back(task))
        elif older is not None:
            self._runner.start(self._forget(older))

    def _throw_away(self, delivery: Delivery, error: errors.Invalid) -> Steps:
        """It makes no sense now and will make none later: nobody shall have it again."""
        self.figures.refused += 1
        LOG.error('A message of queue %s is thrown away: %s', delivery.queue, error)
        yield from self._forget(delivery)

    def _forget(self, delivery: Delivery) -> Steps:
        yield Call(BROKER, lambda: self._closing.forget(self._need(), delivery))

    def _give_back(self, task: Task) -> Steps:
        """Somebody had the job and went: that is counted, before it can end this process, too."""
        self.figures.redelivered += 1
        yield from self._closing.close(self._need(), task, PutBack())

    def _perform(self, task: Task) -> Steps:
        self.figures.taken += 1
        ending: Ending = PutBack()
        try:
            ending = yield from self._work.course(task)
        except Exception:
            LOG.exception('Job %s has met an error that nobody expected: put back', task.job.uuid)
        task.ended = True
        if isinstance(ending, PutBack):
            self.figures.put_backs += 1
            yield Call(BROKER, lambda: self._leave(task.delivery.queue))
        yield from self._closing.close(self._need(), task, ending)
        following = self._hands.let_go(task)
        yield Call(BROKER, self._evaluate)
        if following is not None:
            self._runner.start(self._perform(following))

    def _takes(self, request: Request) -> bool:
        return self._following is None or self._following.takes(request)

    def _took(self, task: Task) -> None:
        task.taken = True
        self._evaluate()

    def _leave(self, queue: str) -> None:
        """Keep off the queue of a job that is put back, before it is."""
        if self._following is not None and queue != self._own:
            self._following.shun(queue)
            self._evaluate()
            self._runner.later(SHUN_S, self._changed)

    def _need(self) -> Consumer:
        """The consumer, by which all that is in hand has come."""
        assert self._consumer is not None
        return self._consumer

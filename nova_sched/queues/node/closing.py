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
"""Completes the messages of jobs: sends another message, puts them back, or only acknowledges
them."""

import logging
from collections.abc import Callable
from typing import Any

from nova_sched import errors
from nova_sched.objects.job import DELETE, DONE, FAILED, QueueResult
from nova_sched.queues import wire
from nova_sched.queues.broker import FALLBACK, RESULTS, Broker, Consumer, Delivery, falls_back
from nova_sched.queues.node.figures import Figures
from nova_sched.queues.node.hands import Task
from nova_sched.queues.node.site import Site
from nova_sched.queues.node.steps import BROKER, Call, Pause, Steps
from nova_sched.queues.node.troubles import Troubles
from nova_sched.queues.node.work import Drop, Ending, PutBack, Send

LOG = logging.getLogger(__name__)

RETRY_S = 2.0  # seconds before a call to a broker without an answer is repeated


class Closing:
    """For the worker of one node; ``max_redeliveries`` is how often one message may be
    put back."""

    def __init__(self, broker: Broker, site: Site, max_redeliveries: int, figures: Figures):
        self._broker, self._site, self._figures = broker, site, figures
        self._max_redeliveries = max_redeliveries
        self._troubles = Troubles(LOG)

    def close(self, consumer: Consumer, task: Task, ending: Ending) -> Steps:
        """Complete a message; waits while the broker is unavailable.

        The message may be redelivered in the meantime; the new delivery counts then.
        """
        yield from self.answered(lambda: self._close(consumer, task, ending))

    def answered(self, call: Callable[[], Any]) -> Steps:
        """Returns the answer of the broker; repeats the call until it answers."""
        while True:
            try:
                answer = yield Call(BROKER, call)
            except errors.BrokerUnavailable as error:
                self._troubles.complain('broker', '%s; trying until it does', error)
                yield Pause(RETRY_S)
            else:
                self._troubles.relieve('broker', 'The broker of jobs answers again')
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
            ending = self._given_up(task)  # no other host can do it
        if isinstance(ending, Drop):
            self._figures.dropped += 1
        else:
            self._send(ending, delivery.tries)
        self.forget(consumer, delivery)

    def _send(self, ending: Send, tries: int) -> None:
        body, queue = wire.to_bytes(ending.message), ending.queue
        is_there = self._broker.publish(queue, body, tries, expires=falls_back(queue))
        if not is_there and queue != RESULTS:
            self._broker.publish(FALLBACK, body, tries)
        if isinstance(ending.message, QueueResult):
            self._figures.done += ending.message.outcome == DONE
            self._figures.failed += ending.message.outcome == FAILED
        else:
            self._figures.passed += 1

    def _given_up(self, task: Task) -> Send:
        site, tries = self._site, task.delivery.tries
        result = QueueResult(
            job=task.job,
            outcome=FAILED,
            host=site.host,
            nodename=site.nodename,
            tries=tries,
            why=f'it was put back {tries} times',
            claim=None,
        )
        return Send(RESULTS, result)

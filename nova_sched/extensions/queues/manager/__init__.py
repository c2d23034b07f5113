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
"""A queue manager reads the results of jobs, and the jobs that no worker has taken.

::

    results  -> endings   settle a job once: job table, quota, answer to the caller
    fallback -> fallback  the scheduler chooses the host, or gives the reason of the refusal
    upkeep                periodic: lost messages, cancelled creates, old entries
    register              the catalogue: from the flavors in the database to queues and processes

A message is acknowledged after all its effects are in the database.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable

from nova_sched import errors
from nova_sched.extensions.queues.brokers import Broker, Delivery
from nova_sched.extensions.queues.messages import AWAY

LOG = logging.getLogger(__name__)

WINDOW = 64  # messages that wait here behind the current one
FIRST_S, MAX_PAUSE_S = 0.2, 30.0  # between attempts while a service is unavailable


class QueueReader:
    """One consumer with a thread that calls ``take`` for each delivery, in order.

    While the database, a scheduler or the broker is unavailable, the delivery is kept and tried
    again. An invalid message is logged, counted and acknowledged.
    """

    def __init__(self, broker: Broker, name: str, take: Callable[[Delivery], None]):
        self.taken = self.spoilt = 0
        self._name, self._handle = name, take
        self._waiting: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._leaving = threading.Event()
        self._consumer = broker.consumer(self._waiting.put, f'manager of {name}')
        self._thread = threading.Thread(target=self._run, name=f'nova-sched-{name}', daemon=True)

    def start(self) -> None:
        """Raise BrokerUnavailable."""
        self._consumer.window(WINDOW)
        self._consumer.follow({self._name: 0})
        self._thread.start()

    def stop(self) -> None:
        """Finish the current message, unless a required service is unavailable; return
        the rest."""
        self._leaving.set()
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.stop()

    def _run(self) -> None:
        while (delivery := self._waiting.get()) is not None and not self._leaving.is_set():
            if self.take(delivery):
                # Without the acknowledgement it is redelivered, and is done already.
                with contextlib.suppress(errors.BrokerUnavailable):
                    self._consumer.ack(delivery)

    def take(self, delivery: Delivery) -> bool:
        """Process a delivery; returns whether it may be acknowledged."""
        pause_s = FIRST_S
        while not self._leaving.is_set():
            try:
                self._handle(delivery)
            except AWAY as away:
                LOG.warning('A message of queue %s waits: %s', self._name, away)
                self._leaving.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                continue
            except errors.Invalid as error:
                self.spoilt += 1
                LOG.error(
                    'A message of queue %s cannot be read, and is dropped: %s', self._name, error
                )
            except Exception:
                self.spoilt += 1
                LOG.exception('A message of queue %s is dropped: unexpected error', self._name)
            else:
                self.taken += 1
            return True
        return False

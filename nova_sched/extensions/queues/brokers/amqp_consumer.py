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
"""A consumer on RabbitMQ: one thread with one connection, which it opens again after each loss."""

import collections
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Protocol

import amqp
from amqp.exceptions import AMQPNotImplementedError

from nova_sched import errors
from nova_sched.extensions.queues import brokers
from nova_sched.extensions.queues.brokers.amqp_session import DeliveryTag, Session
from nova_sched.rpc import rabbit

LOG = logging.getLogger(__name__)

MISSING_S = 3.0  # between checks for queues that do not exist


class Resend(Protocol):
    """AmqpBroker.send: returns whether the queue exists; raises BrokerUnavailable."""

    def __call__(
        self,
        queue: str,
        body: bytes,
        tries: int = 0,
        expires: bool = False,
        reason: str | None = None,
        sent_ms: int | None = None,
    ) -> bool: ...


class AmqpConsumer(brokers.Consumer, rabbit.BusUser[Session]):
    """``connect`` opens a connection or raises BrokerUnavailable, as this constructor does.

    The consumer's thread does all work on the connection; other threads pass calls to it.
    ``whole``: see amqp_session. It is turned off permanently when RabbitMQ does not support it.
    """

    def __init__(
        self,
        connect: Callable[[], amqp.Connection],
        send: Resend,
        deliver: Callable[[brokers.Delivery], None],
        name: str,
        whole: bool,
    ):
        self._send = send
        self._deliver = deliver
        self._name = name
        self._whole = whole
        self._wanted: dict[str, int] = {}
        self._window = 1
        self._inflight: set[DeliveryTag] = set()
        self._retry_at_s = 0.0
        self._orders: collections.deque[tuple[Callable[[], None], futures.Future[None]]] = (
            collections.deque()
        )
        self._stopping = False
        self._over = threading.Event()
        self._bus: rabbit.BusThread[Session] = rabbit.BusThread(self, connect, f'Consumer {name}')
        try:
            self._bus.open()
        except BaseException:
            self._bus.close()
            raise
        self._bus.start()

    @property
    def _session(self) -> Session | None:
        return self._bus.session

    # Called by other threads.

    def window(self, count: int) -> None:
        if count < 1:
            raise ValueError(f'a window of {count}')
        self._order(lambda: self._set_window(count))

    def follow(self, wanted: Mapping[str, int | None]) -> None:
        changes = dict(wanted)
        self._order(lambda: self._follow(changes)).result()

    def ack(self, delivery: brokers.Delivery) -> None:
        if self._end(delivery):
            self._order(lambda: self._settle(delivery.tag, done=True))

    def put_back(self, delivery: brokers.Delivery, queue: str | None = None) -> None:
        if self._end(delivery):
            self._send_again(delivery, queue or delivery.queue, delivery.tries + 1)

    def stop(self) -> None:
        self._order(self._stop)
        if not self._bus.is_current():
            self._over.wait()

    def _order(self, work: Callable[[], None]) -> 'futures.Future[None]':
        """Run a call in the consumer's thread, at once if this is that thread. Returns a future of
        its end.

        After the thread has ended there is no session, so any thread may run a late call.
        """
        done: futures.Future[None] = futures.Future()
        self._orders.append((work, done))
        if self._bus.is_current() or self._over.is_set():
            self._obey()
        else:
            self._bus.rouse()
        return done

    def _end(self, delivery: brokers.Delivery) -> bool:
        """Whether the delivery was held until now, on the current connection."""
        try:
            self._inflight.remove(delivery.tag)
        except KeyError:
            return False
        return True

    def _send_again(
        self, delivery: brokers.Delivery, queue: str, tries: int, sent_ms: int | None = None
    ) -> None:
        """Send a copy and acknowledge the delivery; if that fails, return it to RabbitMQ
        unchanged."""
        expires = delivery.tag.expires and queue == delivery.queue
        try:
            sent = self._send(queue, delivery.body, tries, expires, sent_ms=sent_ms) or self._send(
                brokers.FALLBACK, delivery.body, tries, reason=brokers.DROPPED
            )
        except errors.BrokerUnavailable as error:
            LOG.warning('Consumer %s could not put a message back: %s', self._name, error)
            sent = False
        self._order(lambda: self._settle(delivery.tag, done=sent))

    # Called by the consumer's thread.

    def open(self, connection: amqp.Connection) -> Session:
        session = Session(connection, self._window, self._whole)
        session.follow(self._wanted)
        return session

    def lost(self, session: Session | None, error: Exception) -> None:
        """RabbitMQ delivers the held messages again."""
        if self._whole and isinstance(error, AMQPNotImplementedError):
            LOG.warning(
                'Some queues are quorum queues: several jobs may arrive at once, '
                'and are put back then. %s',
                error,
            )
            self._whole = False
        self._inflight.clear()

    def is_over(self) -> bool:
        return self._stopping

    def ended(self) -> None:
        self._over.set()
        self._obey()

    def due_s(self) -> float:
        session = self._session
        if session is None:
            return math.inf
        if session.arrived or session.excess:  # read while waiting for an answer
            return -math.inf
        return self._retry_at_s if session.missing else math.inf

    def work(self) -> None:
        session = self._session
        if session is not None and session.missing and time.monotonic() >= self._retry_at_s:
            self._retry_at_s = time.monotonic() + MISSING_S
            session.retry()
        self._obey()
        self._hand_over()

    def _obey(self) -> None:
        while True:
            try:
                work, done = self._orders.popleft()
            except IndexError:
                return
            try:
                work()
            except rabbit.ERRORS as error:
                self._bus.lose(error)
            finally:
                done.set_result(None)

    def _hand_over(self) -> None:
        """Pass new messages to the worker, and return those above the window."""
        while (session := self._session) is not None and not self._stopping:
            if session.excess:
                delivery = session.excess.pop()
                self._send_again(delivery, delivery.queue, delivery.tries, delivery.tag.sent_ms)
            elif session.arrived:
                delivery = session.arrived.popleft()
                self._inflight.add(delivery.tag)
                self._call(delivery)
            else:
                session.reopen()
                return

    def _call(self, delivery: brokers.Delivery) -> None:
        try:
            self._deliver(delivery)
        except Exception:  # an error in ``deliver`` must not end the connection
            LOG.exception('Consumer %s failed on a message of %s', self._name, delivery.queue)

    # Calls that other threads pass on.

    def _set_window(self, count: int) -> None:
        self._window = count
        if self._session is not None:
            self._session.window(count)

    def _follow(self, changes: Mapping[str, int | None]) -> None:
        for queue, priority in changes.items():
            if priority is None:
                self._wanted.pop(queue, None)
            else:
                self._wanted[queue] = priority
        if self._session is not None:
            self._session.follow(changes)

    def _settle(self, tag: DeliveryTag, done: bool) -> None:
        """Acknowledge or reject; does nothing if the connection of the delivery was lost."""
        if self._session is not None and self._session.holds(tag):
            if done:
                self._session.ack(tag)
            else:
                self._session.reject(tag)

    def _stop(self) -> None:
        self._stopping = True
